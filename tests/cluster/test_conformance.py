"""What the Protocol promises, asked of every backend alike: simulated, and real if there is one."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from nodeagent.cluster.backend import Accepted, NotTaken, Submission
from nodeagent.cluster.ganeti.jobqueue import NO_POWER_CONTROL
from nodeagent.model.action import (
    Action,
    Drain,
    MovePrimary,
    MoveSecondary,
    Power,
    PowerCommand,
    Restore,
    Retag,
    RunCommand,
    Scope,
    SetOffline,
)
from nodeagent.model.ganeti import doubt
from nodeagent.model.ledger import Outcome, Removal
from tests import needs
from tests.cluster.places import Place, Real, Simulated

Reason = Callable[[], str]
SOON = 30.0  # seconds within which a question is answered, whatever nodes are dead


pytest_plugins = ["tests.real.lab"]
MARKS = [pytest.mark.real, pytest.mark.timeout(400)]
REAL = pytest.param("real", marks=MARKS)


@pytest.fixture(scope="module")
def visited() -> Iterator[list[Real]]:
    """The real places that were used; they are left as they were found."""
    places: list[Real] = []
    yield places
    for place in places[:1]:
        place.leave()


@pytest.fixture(params=["simulated", REAL])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "simulated":
        yield Simulated()
        return
    cluster = request.getfixturevalue("lab_luxi")
    visited = request.getfixturevalue("visited")
    real = Real(cluster)
    visited.append(real)
    real.restore()
    yield real


@pytest.fixture
def reason() -> Reason:
    """A new reason at each call, of the form that intents have."""
    return lambda: f"{uuid4()}:1.1"


def tag(place: Place, *tags: str, remove: tuple[str, ...] = (), node: int = 1) -> Retag:
    return Retag(Scope.NODE, place.nodes[node], tags, remove)


def tags(place: Place, node: int = 1) -> frozenset[str]:
    return place.cluster.snapshot().nodes[place.nodes[node]].tags


def sides(place: Place) -> tuple[str, str | None]:
    instance = place.cluster.snapshot().instances[place.mirrored]
    return instance.primary, instance.secondary


def test_the_snapshot_is_the_configuration(place: Place, reason: Reason) -> None:
    for scope, name in (
        (Scope.CLUSTER, ""),
        (Scope.GROUP, "default"),
        (Scope.INSTANCE, place.mirrored),
        (Scope.NODE, place.nodes[1]),
    ):
        assert not place.do(Retag(scope, name, (f"a:{scope.value}",)), reason()).why
    seen = place.cluster.snapshot()
    assert seen.cluster
    assert "a:cluster" in seen.tags
    assert set(seen.nodes) == set(place.nodes)
    assert seen.master == place.nodes[0] == place.cluster.master()
    for name, node in seen.nodes.items():
        assert node.name == name
        assert (node.drained, node.offline, node.vm_capable) == (False, False, True)
        assert node.address.count(".") == 3
        assert seen.groups[node.group].name == "default"
    assert seen.nodes[seen.master].candidate
    assert len({node.uuid for node in seen.nodes.values()}) == 3
    assert "a:node" in seen.nodes[place.nodes[1]].tags
    (group,) = seen.groups.values()
    assert "a:nodegroup" in group.tags
    mirrored, local = seen.instances[place.mirrored], seen.instances[place.local]
    assert (mirrored.primary, mirrored.secondary) == place.nodes[1:]
    assert (mirrored.template, mirrored.running, mirrored.shared) == ("drbd", True, False)
    assert "a:instance" in mirrored.tags
    assert (local.primary, local.secondary, local.template) == (place.nodes[1], None, "plain")
    for instance in (mirrored, local):
        assert instance.memory >= 128
        assert instance.disk >= 64


@pytest.mark.story
def test_the_version_is_told_and_was_tried(place: Place) -> None:
    said = place.cluster.snapshot().ganeti
    assert said.startswith(os.environ.get("GANETI_WANTED", "3."))
    assert not doubt(said)


def test_a_job_is_known_until_it_succeeds_and_its_effect_is_seen(
    place: Place, reason: Reason
) -> None:
    job = place.submit(tag(place, "done"), reason())
    outcomes = {place.result(job).outcome}
    assert outcomes <= {Outcome.RUNNING, Outcome.SUCCESS}
    assert place.end(job).outcome is Outcome.SUCCESS
    assert "done" in tags(place), "a job that is over has had its effect"


def test_every_effect_is_seen_at_once(place: Place, reason: Reason) -> None:
    for n in range(10):
        assert not place.do(tag(place, f"at-once:{n}"), reason()).why
        assert f"at-once:{n}" in tags(place)


def test_a_job_that_fails_says_why(place: Place, reason: Reason) -> None:
    result = place.do(tag(place, remove=("absent",)), reason())
    assert result.outcome is Outcome.ERROR
    assert "absent" in result.why
    assert "\n" not in result.why


def test_a_batch_is_submitted_in_its_order(place: Place, reason: Reason) -> None:
    order = Submission(RunCommand(place.nodes[1], "fix", "{}"), reason())
    jobs = [Submission(tag(place, f"t{n}"), reason()) for n in range(4)]
    answers = place.cluster.submit([*jobs[:2], order, *jobs[2:]])
    kinds = [type(answer) for answer in answers]
    assert kinds == [Accepted, Accepted, NotTaken, Accepted, Accepted]
    numbers = [answer.job for answer in answers if isinstance(answer, Accepted)]
    assert sorted(numbers, key=int) == numbers
    for number, submission in zip(numbers, jobs, strict=True):
        assert place.end(number).outcome is Outcome.SUCCESS
        assert place.cluster.find([submission.reason]) == {submission.reason: number}
    assert not place.cluster.find([order.reason])
    assert place.cluster.submit([]) == []


def test_a_job_waits_for_the_one_before(place: Place, reason: Reason) -> None:
    with place.busy(place.nodes[2]):
        first = place.submit(tag(place, "first", node=2), reason())
        second = place.submit(tag(place, "second"), reason(), after=first)
        place.pause()
        assert place.result(second).outcome is Outcome.RUNNING
        assert "second" not in tags(place)
    assert place.end(second).outcome is Outcome.SUCCESS
    assert place.result(first).outcome is Outcome.SUCCESS
    assert "second" in tags(place)


def test_a_job_fails_with_the_one_before(place: Place, reason: Reason) -> None:
    first = place.submit(tag(place, remove=("absent",)), reason())
    second = place.submit(tag(place, "never"), reason(), after=first)
    third = place.submit(tag(place, "never"), reason(), after=second)
    for job in (second, third):
        result = place.end(job)
        assert result.outcome is Outcome.LATER, "it has not failed itself, and never began"
        assert f"Dependency job {first if job == second else second}" in result.why
    late = place.do(tag(place, "never"), reason(), after=first)
    assert late.outcome in (Outcome.LATER, Outcome.ERROR)
    assert "never" not in tags(place)


@pytest.mark.parametrize("after", ["99999999", "x", "-1", ""])
def test_a_job_that_waits_for_none_has_no_effect(place: Place, reason: Reason, after: str) -> None:
    (answer,) = place.cluster.submit([Submission(tag(place, "never"), reason(), after)])
    if isinstance(answer, Accepted):
        assert place.end(answer.job).outcome is Outcome.ERROR
    assert "never" not in tags(place)


def test_jobs_are_found_by_their_reasons(place: Place, reason: Reason) -> None:
    one, two, absent = reason(), reason(), reason()
    jobs = [place.submit(tag(place, "t"), text) for text in (one, two, two)]
    asked = [absent, two, one]
    assert place.cluster.find(asked) == {one: jobs[0], two: jobs[1]}
    for job in jobs:
        place.end(job)
    assert place.cluster.find(asked) == {one: jobs[0], two: jobs[1]}
    assert place.cluster.find([]) == {}
    assert place.cluster.find([one[:-1]]) == {}, "a part of a reason is another reason"


def test_nobody_knows_an_unknown_job(place: Place, reason: Reason) -> None:
    known = place.submit(tag(place, "t"), reason())
    place.end(known)
    asked = [known, "99999999", "none", ""]
    results = place.cluster.results(asked)
    assert [results[job].outcome for job in asked] == [Outcome.SUCCESS, *[Outcome.LOST] * 3]
    assert place.cluster.results([]) == {}


def test_an_archived_job_is_still_known(place: Place, reason: Reason) -> None:
    text, bad = reason(), reason()
    action = tag(place, "t")
    job = place.submit(action, text)
    failed = place.submit(tag(place, remove=("absent",)), bad)
    for number in (job, failed):
        place.end(number)
        place.archive(number)
    assert place.result(job).outcome is Outcome.SUCCESS
    assert place.result(failed).outcome is Outcome.ERROR
    assert place.result(failed).why
    assert place.cluster.find([text, bad]) == {text: job, bad: failed}
    found = {trail.job: trail for trail in place.cluster.trails()}
    assert (found[job].reason, found[job].action) == (text, action)
    late = place.do(tag(place, "late"), reason(), after=job)
    assert late.outcome is Outcome.SUCCESS


def test_the_trails_tell_what_was_ordered(place: Place, reason: Reason) -> None:
    _, second, third = place.nodes
    actions: list[Action] = [
        Drain(second),
        SetOffline(second),
        Restore(second),
        Restore(second, drained=True),
        MovePrimary("none", second, live=True),
        MovePrimary("none", second, live=True, target=third, fallback=False),
        MovePrimary("none", second, live=False, unchecked=True),
        MoveSecondary("none", second, third),
        Retag(Scope.CLUSTER, "", ("none",), ("absent",)),
        Retag(Scope.INSTANCE, "none", ("a", "b")),
        tag(place, remove=("absent", "gone")),
    ]
    reasons = [reason() for _ in actions]
    batch = [Submission(*pair) for pair in zip(actions, reasons, strict=True)]
    with place.busy(second) as busy:
        jobs = place.taken(place.cluster.submit(batch))
        for waits in jobs[:4]:
            place.cancel(waits)
        ours = [trail for trail in place.cluster.trails() if trail.reason in reasons]
        assert [trail.job for trail in ours] == jobs
        assert [trail.reason for trail in ours] == reasons
        assert [trail.action for trail in ours] == actions
        assert ours[0].result.outcome is Outcome.ERROR
        assert "cancel" in ours[0].result.why
        times = [trail.at for trail in ours]
        assert times == sorted(times)
    for job in jobs:
        place.end(job)
    found = {trail.job: trail.result.outcome for trail in place.cluster.trails()}
    assert busy not in found
    assert [found[job] for job in jobs] == [Outcome.ERROR] * len(jobs)


def test_what_was_taken_off_is_told_and_by_which_job(place: Place, reason: Reason) -> None:
    assert not place.do(tag(place, "mine", "other"), reason()).why
    first = place.submit(tag(place, remove=("mine",)), reason())
    refused = place.submit(tag(place, remove=("mine",)), reason())
    for job in (first, refused):
        place.end(job)
    theirs = place.untag(place.nodes[1], "other")
    found = [r for r in place.cluster.removals() if int(r.job) >= int(first)]
    told = [
        Removal(job, Scope.NODE, place.nodes[1], frozenset(what))
        for job, what in ((first, ["mine"]), (theirs, ["other"]))
    ]
    assert found == told


def test_what_somebody_else_moves_is_known(place: Place, reason: Reason) -> None:
    """Ours are not among them, whatever they move."""
    _, second, third = place.nodes
    ours = MovePrimary(place.local, second, live=True, target=third)
    with place.busy(second):
        theirs = place.migrate(place.mirrored.partition(".")[0])  # as a person types it
        (job,) = place.taken(place.cluster.submit([Submission(ours, reason())]))
        found = place.cluster.busy()
        assert (found.get(place.mirrored), found.get(place.local)) == (theirs, None)
        place.cancel(theirs)
        assert place.mirrored not in place.cluster.busy()
    place.end(job)


def test_unfinished_jobs_are_counted_by_status(place: Place, reason: Reason) -> None:
    with place.busy(place.nodes[2]):
        waits = place.submit(tag(place, "first", node=2), reason())
        place.pause()
        found = place.cluster.unfinished()
        assert found.keys() == {"canceling", "queued", "running", "waiting"}
        assert found["running"] >= 1
        assert found["waiting"] >= 1
    place.end(waits)


def test_a_paused_watcher_says_until_when(place: Place) -> None:
    assert place.cluster.watcher_paused() == 0
    until = place.pause_watcher(3600)
    try:
        told = place.cluster.watcher_paused()
        assert abs(told - until * 1000) < 60_000
    finally:
        place.pause_watcher(0)
    assert place.cluster.watcher_paused() == 0


def test_a_canceled_job_is_one_that_failed(place: Place, reason: Reason) -> None:
    with place.busy(place.nodes[1]):
        job = place.submit(tag(place, "never"), reason())
        dependent = place.submit(tag(place, "never", node=2), reason(), after=job)
        place.cancel(job)
        for number in (job, dependent):
            assert place.end(number).outcome is Outcome.ERROR
    assert "cancel" in place.result(job).why
    assert "never" not in tags(place) | tags(place, 2)


def test_only_what_has_not_begun_is_canceled(place: Place, reason: Reason) -> None:
    done = place.submit(tag(place, "done"), reason())
    assert place.end(done).outcome is Outcome.SUCCESS
    with place.busy(place.nodes[1]):
        job = place.submit(tag(place, "never"), reason())
        assert place.cluster.cancel(job)
        assert place.end(job).outcome is Outcome.ERROR
    assert not any(map(place.cluster.cancel, (done, job, "99999999")))
    assert tags(place) & {"done", "never"} == {"done"}


def test_tags_are_compared_and_swapped(place: Place, reason: Reason) -> None:
    assert not place.do(tag(place, "old", "kept"), reason()).why
    swap = tag(place, "new", "newer", remove=("old",))
    assert not place.do(swap, reason()).why
    assert {"new", "newer", "kept"} <= tags(place)
    again = place.do(replace(swap, add=("second",)), reason())
    assert again.outcome is Outcome.ERROR
    both = place.do(tag(place, "second", remove=("new", "old")), reason())
    assert both.outcome is Outcome.ERROR
    assert {"new", "newer", "kept"} <= tags(place)
    assert not {"old", "second"} & tags(place)
    assert not place.do(tag(place, "new"), reason()).why, "what is there may be put there"


@pytest.mark.parametrize(
    ("word", "good"), [("+*/:@-._", True), ("x" * 128, True), ("x" * 129, False), ("a b", False)]
)
def test_a_tag_is_set_or_is_not(place: Place, reason: Reason, word: str, good: bool) -> None:
    (answer,) = place.cluster.submit([Submission(tag(place, word), reason())])
    done = isinstance(answer, Accepted) and place.end(answer.job).outcome is Outcome.SUCCESS
    assert done is (word in tags(place)) is good


def test_no_tags_at_all_are_no_job(place: Place, reason: Reason) -> None:
    (answer,) = place.cluster.submit([Submission(tag(place), reason())])
    assert isinstance(answer, NotTaken)


def test_a_drained_queue_takes_nothing(place: Place, reason: Reason) -> None:
    reasons = [reason(), reason()]
    place.drain_queue(drained=True)
    try:
        answers = place.cluster.submit([Submission(tag(place, "never"), r) for r in reasons])
    finally:
        place.drain_queue(drained=False)
    for answer in answers:
        assert isinstance(answer, NotTaken)
        assert answer.why
    assert not place.cluster.find(reasons)


def test_jobs_on_one_node_wait_for_each_other(place: Place, reason: Reason) -> None:
    with place.busy(place.nodes[1]):
        waits = place.submit(tag(place, "waits"), reason())
        passes = place.submit(tag(place, "passes", node=2), reason())
        assert place.end(passes).outcome is Outcome.SUCCESS
        place.pause()
        assert place.result(waits).outcome is Outcome.RUNNING
    assert place.end(waits).outcome is Outcome.SUCCESS


def test_a_drain_that_may_promote_waits_for_all_nodes(place: Place, reason: Reason) -> None:
    with place.busy(place.nodes[1]):
        drain = place.submit(Drain(place.nodes[2], promote=True), reason())
        place.pause()
        assert place.result(drain).outcome is Outcome.RUNNING
        waits = place.submit(tag(place, "overtakes", node=0), reason())
        assert place.end(waits).outcome is Outcome.SUCCESS
        assert place.result(drain).outcome is Outcome.RUNNING
    assert place.end(drain).outcome is Outcome.SUCCESS


def test_a_drain_that_promotes_nobody_waits_for_its_own_node(place: Place, reason: Reason) -> None:
    with place.busy(place.nodes[1]):
        assert not place.do(Drain(place.nodes[2]), reason()).why


def test_a_node_is_drained_then_offline(place: Place, reason: Reason) -> None:
    name = place.nodes[1]
    assert not place.do(Drain(name), reason()).why
    node = place.cluster.snapshot().nodes[name]
    assert (node.drained, node.offline, node.candidate) == (True, False, False)
    assert not place.do(Drain(name), reason()).why, "drained already"
    assert sides(place)[0] == name
    assert not place.do(SetOffline(name), reason()).why, "Ganeti does not mind the instances"
    node = place.cluster.snapshot().nodes[name]
    assert (node.drained, node.offline, node.candidate) == (False, True, False)


@pytest.mark.parametrize("out", [Drain, SetOffline])
def test_a_node_is_put_back_in_service(
    place: Place, reason: Reason, out: Callable[[str], Action]
) -> None:
    name = place.nodes[1]
    before = place.cluster.snapshot().nodes[name]
    assert not place.do(out(name), reason()).why
    assert not place.cluster.snapshot().nodes[name].in_service
    for _ in range(2):  # the second time there is nothing to do
        assert not place.do(Restore(name), reason()).why
        assert place.cluster.snapshot().nodes[name] == before


def test_who_changed_a_nodes_role_is_told_and_whether_it_was_so_before(
    place: Place, reason: Reason
) -> None:
    name = place.nodes[1]
    first = place.submit(tag(place, "before"), reason())
    jobs = []
    for action in (Drain(name), Drain(name), SetOffline(name)):
        jobs.append(place.submit(action, reason()))
        assert not place.end(jobs[-1]).why
    by_hand = place.undrain(name)
    told = [r for r in place.cluster.roles(first) if int(r.job) >= int(first)]
    assert all(r.is_of(name) and not r.is_of(place.nodes[2]) for r in told)
    assert [(r.job, r.ours, r.changed) for r in told] == [
        (jobs[0], True, True),
        (jobs[1], True, False),
        (jobs[2], True, True),
        (by_hand, False, True),
    ]
    assert [r.job for r in place.cluster.roles(jobs[2])] == [jobs[2], by_hand]


def test_an_offline_node_is_put_back_to_being_drained(place: Place, reason: Reason) -> None:
    name = place.nodes[1]
    assert not place.do(SetOffline(name), reason()).why
    for _ in range(2):
        assert not place.do(Restore(name, drained=True), reason()).why
        node = place.cluster.snapshot().nodes[name]
        assert (node.drained, node.offline, node.candidate) == (True, False, False)


@pytest.mark.parametrize("action", [Drain, SetOffline])
def test_the_master_stays(place: Place, reason: Reason, action: Callable[[str], Action]) -> None:
    result = place.do(action(place.nodes[0]), reason())
    assert result.outcome is Outcome.ERROR
    assert "master" in result.why
    assert place.cluster.snapshot().nodes[place.nodes[0]].in_service


@pytest.mark.parametrize("live", [True, False])
def test_an_instance_moves_to_its_mirror(place: Place, reason: Reason, live: bool) -> None:
    here, there = sides(place)
    move = MovePrimary(place.mirrored, here, live=live, target=there)
    assert not place.do(move, reason()).why
    assert sides(place) == (there, here)
    again = place.do(move, reason())
    assert again.outcome is Outcome.ERROR, "its target is what guards a move"
    assert sides(place) == (there, here)
    assert not place.do(replace(move, target=None), reason()).why
    assert sides(place) == (here, there), "without one it comes back"


def test_an_instance_gets_another_mirror(place: Place, reason: Reason) -> None:
    here, there = sides(place)
    assert there is not None
    move = MoveSecondary(place.mirrored, there, place.nodes[0])
    assert not place.do(move, reason()).why
    assert sides(place) == (here, place.nodes[0])
    for target in (here, place.nodes[0]):
        assert place.do(replace(move, target=target), reason()).outcome is Outcome.ERROR
    assert not place.do(replace(move, target=there), reason()).why, "its node is no guard"
    assert sides(place) == (here, there)


def test_what_cannot_move_does_not(place: Place, reason: Reason) -> None:
    here, there = place.nodes[1:]
    for action in (
        MovePrimary(place.local, here, live=True),
        MovePrimary(place.local, here, live=False),
        MovePrimary("none.example", here, live=True),
        MovePrimary(place.mirrored, here, live=True, target=place.nodes[0]),
        MoveSecondary(place.local, here, there),
        MoveSecondary(place.mirrored, there, "none.example"),
        Drain("none.example"),
        Retag(Scope.INSTANCE, "none.example", ("t",)),
        Retag(Scope.GROUP, "none", ("t",)),
    ):
        (answer,) = place.cluster.submit([Submission(action, reason())])
        if isinstance(answer, Accepted):
            result = place.end(answer.job)
            assert result.outcome is Outcome.ERROR, action
            assert result.why
    assert sides(place) == (here, there)


def test_what_does_not_run_is_not_migrated(place: Place, reason: Reason) -> None:
    place.run(place.mirrored, running=False)
    here, there = sides(place)
    assert not place.cluster.snapshot().instances[place.mirrored].running
    move = MovePrimary(place.mirrored, here, live=True, target=there, fallback=False)
    assert place.do(move, reason()).outcome is Outcome.ERROR
    assert not place.do(replace(move, fallback=True), reason()).why
    assert sides(place) == (there, here)


def test_a_migration_ignores_that_hypervisor_versions_differ(place: Place, reason: Reason) -> None:
    """As hail's do; a failover starts anew, and knows no such thing."""
    here, there = sides(place)
    live = MovePrimary(place.mirrored, here, live=True, target=there)
    job = place.submit(live, reason())
    assert not place.end(job).why
    assert place.told(job)["ignore_hvversions"] is True
    assert there is not None
    job = place.submit(MovePrimary(place.mirrored, there, live=False, target=here), reason())
    assert not place.end(job).why
    assert "ignore_hvversions" not in place.told(job)


def test_nothing_moves_to_a_drained_node(place: Place, reason: Reason) -> None:
    here, there = sides(place)
    assert there is not None
    assert not place.do(Drain(there), reason()).why
    move = MovePrimary(place.mirrored, here, live=True, target=there)
    for action in (move, replace(move, live=False)):
        result = place.do(action, reason())
        assert result.outcome is Outcome.ERROR
        assert "drained" in result.why
    assert not place.do(MoveSecondary(place.mirrored, there, place.nodes[0]), reason()).why
    back = place.do(MoveSecondary(place.mirrored, place.nodes[0], there), reason())
    assert back.outcome is Outcome.ERROR


def test_capacity_is_what_nodes_have_free(place: Place, reason: Reason) -> None:
    free = place.cluster.capacity([*place.nodes, "none.example"])
    assert set(free) == set(place.nodes)
    assert all(c.memory > 0 and c.disk > 0 for c in free.values())
    assert place.cluster.capacity([]) == {}
    assert not place.do(SetOffline(place.nodes[2]), reason()).why
    assert set(place.cluster.capacity(place.nodes)) == set(place.nodes[:2])
    assert place.cluster.answering(place.nodes) == set(place.nodes[:2])


def test_a_dead_node_delays_nothing(place: Place, reason: Reason) -> None:
    """And what Ganeti can do with what is on it."""
    name, there = place.nodes[1:]
    place.power(name, on=False)
    began = time.monotonic()
    assert set(place.cluster.capacity(place.nodes)) == {place.nodes[0], there}
    assert time.monotonic() - began < SOON
    assert place.cluster.answering([*place.nodes, "none.example"]) == {place.nodes[0], there}
    began = time.monotonic()
    assert set(place.cluster.snapshot().nodes) == set(place.nodes)
    assert place.cluster.master() == place.nodes[0]
    assert time.monotonic() - began < 5
    failover = MovePrimary(place.mirrored, name, live=False, target=there)
    for action in (failover, replace(failover, live=True)):
        result = place.do(action, reason())
        assert result.outcome is Outcome.ERROR, "nobody has shut it down, as far as is known"
    assert sides(place) == (name, there)
    assert not place.do(tag(place, "t"), reason()).why, "the configuration is with the master"
    assert not place.do(Drain(name), reason()).why
    assert not place.do(SetOffline(name), reason()).why
    drain = place.do(Drain(name), reason())
    assert drain.outcome is Outcome.ERROR, "a node that does not answer does not come back"
    assert not place.do(failover, reason()).why
    assert sides(place) == (there, name)
    mirror = MoveSecondary(place.mirrored, name, place.nodes[0])
    assert not place.do(mirror, reason()).why
    assert sides(place) == (there, place.nodes[0])


def test_the_power_of_one_node_is_asked_for(place: Place, reason: Reason) -> None:
    name = controlled(place, reason)
    result = place.do(Power(name, PowerCommand.STATUS), reason())
    assert result.outcome is Outcome.SUCCESS
    assert json.loads(result.said)["powered"] is True
    assert result.code == 0


def test_an_online_node_is_powered_off_and_on_and_only_that_node(
    place: Place, reason: Reason
) -> None:
    """Ganeti itself would want the node offline first, and then nothing would be proven."""
    name = controlled(place, reason)
    others = set(place.nodes) - {name}
    off = place.do(Power(name, PowerCommand.OFF), reason())
    assert (off.outcome, off.said) == (Outcome.SUCCESS, "")
    assert set(place.cluster.capacity(place.nodes)) == others
    said = place.do(Power(name, PowerCommand.STATUS), reason())
    assert json.loads(said.said)["powered"] is False
    assert not place.do(SetOffline(name, promote=True, unpowered=True), reason()).why
    back = place.do(Restore(name), reason())
    assert back.outcome is Outcome.ERROR, "it has no power, as far as is known"
    assert "turned on" in back.why
    drained = place.do(Restore(name, drained=True), reason())
    assert drained.outcome is Outcome.ERROR, "to drain it asks the node, not what is known"
    assert "report its version" in drained.why
    assert not place.do(Power(name, PowerCommand.ON), reason()).why


def test_ganeti_powers_its_master_off_for_nobody(place: Place, reason: Reason) -> None:
    controlled(place, reason)
    for command in (PowerCommand.OFF, PowerCommand.CYCLE):
        result = place.do(Power(place.nodes[0], command), reason())
        assert result.outcome is Outcome.ERROR
        assert "master" in result.why


def controlled(place: Place, reason: Reason) -> str:
    """A node with power control; where there is none, and Ganeti says so, nothing can be tested."""
    name = place.nodes[2]
    (answer,) = place.cluster.submit([Submission(Power(name, PowerCommand.STATUS), reason())])
    if isinstance(answer, NotTaken):
        needs.lacking("power-control", answer.why)
    result = place.end(answer.job)
    if result.code == NO_POWER_CONTROL:
        needs.lacking("power-control", "it has no oob_program")
    return name


def test_a_node_without_power_control_is_said_to_have_none(place: Place, reason: Reason) -> None:
    (answer,) = place.cluster.submit(
        [Submission(Power(place.nodes[1], PowerCommand.STATUS), reason())]
    )
    if isinstance(answer, NotTaken):
        assert "power control" in answer.why
        return
    result = place.end(answer.job)
    if result.outcome is Outcome.SUCCESS:
        needs.lacking("no-power-control", "it has an oob_program")
    assert result.code == NO_POWER_CONTROL
    assert "no power control" in result.why


@pytest.mark.story
def test_the_rule_of_the_ledger_is_read_as_it_was_written(place: Place, reason: Reason) -> None:
    cluster = place.cluster
    assert cluster.ledger_rule() is None
    assert cluster.ledger_rule_uuid() == cluster.ledger_rule_uuid()
    for text in ("1:abc", f"1:{'!#$%&()*+-;<=>?@^_`{|}~' * 8000}", ""):
        cluster.write_ledger_rule(text)
        assert cluster.ledger_rule() == text
    assert not place.do(tag(place, "beside-the-rule"), reason()).why, "it holds no job"
    cluster.remove_ledger_rule()
    assert cluster.ledger_rule() is None
    cluster.remove_ledger_rule()


@pytest.mark.parametrize("wanted", [False, True])
def test_a_node_that_returns_is_a_candidate_again_if_asked_for(
    place: Place, reason: Reason, *, wanted: bool
) -> None:
    """Also where there are as many candidates as there are to be: then there is one more."""
    name = place.nodes[1]
    assert not place.do(Drain(name), reason()).why
    place.want_candidates(2)
    try:
        for _ in range(2):  # the second time there is nothing to do
            assert not place.do(Restore(name, candidate=wanted), reason()).why
            node = place.cluster.snapshot().nodes[name]
            assert (node.in_service, node.candidate) == (True, wanted)
    finally:
        place.want_candidates(10)
