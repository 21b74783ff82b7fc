"""What only RAPI does, against the real one: rights, certificates, what it cannot submit."""

import subprocess
from pathlib import Path

import pytest

from nodeagent.cluster.backend import Accepted, NotTaken, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.cluster.ganeti.luxi import Luxi
from nodeagent.cluster.ganeti.rapi import RapiCluster
from nodeagent.errors import Unavailable
from nodeagent.model.action import Drain, Retag, Scope
from nodeagent.model.ledger import Outcome
from nodeagent.web.deadline import Unsent
from tests.real.lab import MASTER, rapi, socket_path, wait

pytest_plugins = ["tests.real.lab"]
pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

REASON = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:"


def tag(name: str, *, after: str | None = None) -> Submission:
    return Submission(Retag(Scope.NODE, MASTER, add=(name,)), REASON + name, after)


def test_both_doors_show_the_same_cluster(lab_luxi: GanetiCluster, lab_rapi: RapiCluster) -> None:
    assert lab_rapi.snapshot() == lab_luxi.snapshot()
    assert lab_rapi.master() == lab_luxi.master() == MASTER


def test_jobs_of_each_door_are_found_through_the_other(
    lab_luxi: GanetiCluster, lab_rapi: RapiCluster
) -> None:
    (first,) = lab_luxi.submit([tag("by-luxi")])
    (second,) = lab_rapi.submit([tag("by-rapi")])
    assert isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    wait(lab_luxi, [first.job, second.job])
    expected = {REASON + "by-luxi": first.job, REASON + "by-rapi": second.job}
    assert lab_luxi.find(expected) == lab_rapi.find(expected) == expected
    assert lab_rapi.trails() == lab_luxi.trails()


def test_a_user_without_write_is_refused_and_told_so(lab: None) -> None:
    reader = RapiCluster(rapi("labreader", "labreadonly"))
    with pytest.raises(Unavailable, match="RAPI answered 403: Forbidden"):
        reader.snapshot()
    assert reader.submit([tag("x")]) == [NotTaken("RAPI answered 403: Forbidden")]
    assert reader.master() == MASTER, "what everybody may read"


def test_a_wrong_password_is_refused(lab: None) -> None:
    with pytest.raises(Unavailable, match="401: Unauthorized"):
        RapiCluster(rapi("labadmin", "wrong")).master()


def test_another_certificate_is_not_spoken_to(lab: None, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=ganeti.example.com", "-keyout", "/dev/null"]
    subprocess.run([*command, "-out", str(other)], check=True, capture_output=True)
    stranger = RapiCluster(rapi(certificate=str(other)))
    with pytest.raises(Unsent, match="certificate is not the one expected"):
        stranger.master()
    (answer,) = stranger.submit([tag("x")])
    assert isinstance(answer, NotTaken)


def test_nobody_at_the_port_means_not_taken(lab: None) -> None:
    answers = RapiCluster(rapi(port=5081)).submit([tag("x"), tag("y")])
    assert [type(answer) for answer in answers] == [NotTaken, NotTaken]


def test_replacing_a_tag_is_refused_and_the_rest_of_the_batch_goes_on(
    lab_rapi: RapiCluster,
) -> None:
    both = Submission(Retag(Scope.NODE, MASTER, add=("a",), remove=("b",)), REASON + "both")
    refused, taken = lab_rapi.submit([both, tag("goes-on")])
    assert isinstance(refused, NotTaken)
    assert "in one job" in refused.why
    assert isinstance(taken, Accepted)


def test_a_tag_job_can_wait_for_another(lab_rapi: RapiCluster) -> None:
    (first,) = lab_rapi.submit([Submission(Drain(MASTER), REASON + "never")])
    assert isinstance(first, Accepted)
    (second,) = lab_rapi.submit([tag("never-set", after=first.job)])
    assert isinstance(second, Accepted)
    results = wait(lab_rapi, [first.job, second.job])
    assert results[second.job].outcome is Outcome.LATER, "it never began"
    assert "Dependency job" in results[second.job].why
    assert "never-set" not in lab_rapi.snapshot().nodes[MASTER].tags


def test_a_drained_queue_takes_nothing(lab_rapi: RapiCluster) -> None:
    luxi = Luxi(socket_path())
    luxi.ask("SetDrainFlag", [True])
    try:
        (answer,) = lab_rapi.submit([tag("drained")])
    finally:
        luxi.ask("SetDrainFlag", [False])
    assert isinstance(answer, NotTaken)
    assert "drained" in answer.why


def test_every_letter_that_a_tag_may_have_arrives(lab_rapi: RapiCluster) -> None:
    odd = "maintd:x_.+*/:@-1"
    (done,) = lab_rapi.submit([tag(odd)])
    assert isinstance(done, Accepted)
    assert wait(lab_rapi, [done.job])[done.job].outcome is Outcome.SUCCESS
    (undone,) = lab_rapi.submit([Submission(Retag(Scope.NODE, MASTER, remove=(odd,)), REASON)])
    assert isinstance(undone, Accepted)
    assert wait(lab_rapi, [undone.job])[undone.job].outcome is Outcome.SUCCESS
