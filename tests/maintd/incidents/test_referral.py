"""Incidents that are left to the repair queue: one of the two works on the node, never both."""

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.maintd.incidents.referral import give_up, reason_of, referral_of, report
from nodeagent.model.action import Scope
from nodeagent.model.constraints import Constraints
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Ledger, Policy
from nodeagent.model.queue import Entry, EntryStatus, Procedures, Queue, Referral, RepairStep
from nodeagent.model.reason import Detail, Kind, because
from nodeagent.model.sick import Sick as Reported
from nodeagent.model.snapshot import Group, Node, Snapshot
from nodeagent.model.stage import FULL
from nodeagent.model.units import Ms, Seconds
from nodeagent.model.wish import Cancel, Done, Evacuate, Pause, Resume
from tests.maintd.decided import kinds
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.rig import ask
from tests.maintd.world import EVACUATE, OK, need

REFERRAL = Referral("r640", "unreachable", (Need.EVACUATE,))


def referring(*referrals: Referral, **members: Any) -> Policy:
    """A policy by which evacuations are left to the queue, where there is room for five."""
    found = policy(RepairStep("try-1", need_drain=True, watch_seconds=Seconds(60)), **members)
    return replace(
        found,
        procedures=replace(found.procedures, incidents=referrals or (REFERRAL,)),
        constraints=Constraints(maximum_repair_queue_entries=5),
    )


class Sick(Mender):
    """n3 says that it is to be evacuated, until a repair has healed it."""

    def __init__(self, policy: Policy | None = None, **members: Any) -> None:
        super().__init__(policy or referring(), **members)
        self.agents.says["n3"] = EVACUATE

    def tick(self, seconds: float = 10.0) -> Any:
        if self.healed:
            self.agents.says["n3"] = OK
        return super().tick(seconds)

    def left_to_queue(self) -> tuple[Detail, ...]:
        """As what the incident of n3 is left to the queue, and what has become of the entry."""
        said = self.details(Kind.LEFT_TO_QUEUE)
        assert said["it"] == "n3"
        return said["operation"], said["type"], said["how"]

    def ticks(self, times: int) -> None:
        for _ in range(times):
            self.tick()


def test_an_incident_becomes_an_entry_and_is_not_worked_on_itself() -> None:
    rig = Sick()
    rig.tick()
    assert (rig.entry.address, rig.entry.who) == ("127.0.0.3", "incidents")
    assert (rig.entry.machine_type, rig.entry.operation) == ("r640", "unreachable")
    assert rig.entry.domain == "group default"
    assert rig.status("n3") is Status.NOTED
    assert rig.left_to_queue() == ("unreachable", "r640", "entry 0 is being worked on")
    seen = set[Status]()
    for _ in range(60):
        rig.tick()
        seen |= {incident.status for incident in rig.ledger.incidents}
    assert rig.entry.status is EntryStatus.SUCCEEDED
    assert seen == {Status.NOTED}, "nothing was begun for it"
    assert rig.ledger.incidents == (), "what is over is forgotten"
    assert rig.commands() == ["try-1"]
    assert rig.ledger.queue.next == 1
    assert rig.node().in_service
    drains = [job for job in rig.jobs() if job.startswith("Drain")]
    assert len(drains) == 1


def test_no_live_repair_is_left_to_the_queue_where_a_person_works() -> None:
    """Not even one without a repair command, for which a person is called otherwise."""
    rig = Sick(referring(Referral("r640", "unreachable", (Need.LIVE_REPAIR,))))
    rig.agents.says["n3"] = OK
    rig.tick()
    assert ask(rig, Evacuate("n3", "new disks")) == ""
    rig.agents.says["n3"] = need("live-repair")
    rig.ticks(20)
    assert (Kind.EVACUATED_BY_PERSON, "n3") in kinds(rig.tick().decision.held)
    assert rig.ledger.queue.entries == ()
    assert ask(rig, Done("n3")) == ""
    rig.ticks(20)
    assert rig.commands() == ["try-1"]


def test_an_entry_that_waits_for_a_person_begins_once_they_are_done() -> None:
    """`done` waits neither for its incident nor for a healthy node: these wait for the entry."""
    rig = Sick()
    rig.agents.says["n3"] = OK
    rig.tick()
    assert ask(rig, Evacuate("n3", "new disks")) == ""
    rig.ticks(15)
    rig.agents.says["n3"] = EVACUATE
    rig.ticks(20)
    assert (rig.entry.status, rig.commands()) == (EntryStatus.QUEUED, [])
    assert ask(rig, Done("n3")) == ""
    rig.ticks(200)
    assert rig.commands() == ["try-1"]
    assert rig.node().in_service


def test_what_holds_an_incident_holds_its_entry_back() -> None:
    rig = Sick(replace(referring(), settle=Ms(60_000)))
    rig.wish(Pause(Scope.NODE, "n3"))
    rig.ticks(10)
    assert rig.ledger.queue.entries == ()
    assert (Kind.PAUSED, "n3") in rig.whys()
    assert rig.ask(Resume(Scope.NODE, "n3")) == ""
    rig.ticks(2)
    assert len(rig.ledger.queue.entries) == 1
    rig = Sick(replace(referring(), settle=60_000))
    rig.ticks(3)
    assert rig.ledger.queue.entries == ()
    assert (Kind.SETTLING, "n3") in rig.whys()
    rig.agents.says["n3"] = None
    rig.ticks(20)
    assert rig.ledger.queue.entries == (), "who is silent says nothing"


def canceled(rig: Sick, how: str) -> None:
    incident = rig.incident("n3")
    if how == "wish":
        assert rig.ask(Cancel(incident.id)) == ""
    else:
        tags = rig.node().tags | {f"maintd:canceled:{incident.id}"}
        rig.cluster.put(replace(rig.node(), tags=tags))


@pytest.mark.parametrize(("how", "after"), [("wish", 3), ("tag", 1)])
def test_who_cancels_an_incident_cancels_its_entry(how: str, after: int) -> None:
    rig = Sick()
    rig.ticks(after)
    assert (rig.entry.status is EntryStatus.QUEUED) is (after == 1)
    canceled(rig, how)
    rig.ticks(20)
    assert rig.ledger.queue.entries == ()
    assert rig.commands() == []
    assert rig.node().in_service
    assert rig.status("n3") is Status.CANCELED
    assert any(job.startswith("Drain") for job in rig.jobs()) is (after == 3)


def entries_left(*incidents: Incident, **members: Any) -> int:
    one = Entry(0, NODE.address, "t", "o", **{"who": "incidents", "queued_at": 5, **members})
    ledger = give_up(Ledger(queue=Queue((one,)), incidents=incidents), SEEN)
    return sum(not entry.deleted for entry in ledger.queue.entries)


def test_which_cancels_give_up_an_entry() -> None:
    gone = Incident("i", "u3", "n3", EVACUATE, Ms(0), Status.CANCELED, changed_at=Ms(5))
    assert entries_left(gone) == 0
    assert entries_left(replace(gone, changed_at=Ms(4))) == 1, "it was made of another since"
    assert entries_left(gone, replace(gone, id="j", changed_at=Ms(4))) == 0
    assert entries_left(gone, replace(gone, id="j", status=Status.NOTED)) == 1, "as is that"
    assert entries_left(replace(gone, node="u4", name="n4")) == 1
    assert entries_left(gone, status=EntryStatus.FAILED) == 1, "somebody is to see it"
    assert entries_left(gone, who="root") == 1


NODE = Node("n3", "u3", "10.0.0.3", "g1")
SEEN = Snapshot("c", {"n3": NODE}, {}, {"g1": Group("g1", "rack-1")})


FITS: list[tuple[Referral, bool]] = [
    (Referral("t", "o", (Need.LIVE_REPAIR,)), True),
    (Referral("t", "o", (Need.EVACUATE,)), False),
    (Referral("t", "o", (Need.EVACUATE, Need.LIVE_REPAIR)), True),
    (Referral("t", "o", (Need.LIVE_REPAIR,), ("mend",)), True),
    (Referral("t", "o", (Need.LIVE_REPAIR,), ("other",)), False),
    (Referral("t", "o", (Need.LIVE_REPAIR,), (), ("rack-1", "rack-2")), True),
    (Referral("t", "o", (Need.LIVE_REPAIR,), (), ("g1",)), False),
]


def test_which_incidents_fit() -> None:
    for referral, fits in FITS:
        said = Diagnosis(Need.LIVE_REPAIR, "mend", '{"command":"mend","status":"live-repair"}')
        incident = Incident("i", "u3", "n3", said, Ms(0))
        whole = Policy(stage=FULL, procedures=Procedures(incidents=(referral,)))
        assert referral_of(incident, SEEN, whole) == (referral if fits else None), (referral, fits)
        assert referral_of(replace(incident, status=Status.PENDING), SEEN, whole) is None, (
            referral,
            fits,
        )
        assert referral_of(replace(incident, diagnosis=UNKNOWN), SEEN, whole) is None, (
            referral,
            fits,
        )
        assert referral_of(replace(incident, name="n4"), SEEN, whole) is None, (referral, fits)
        two = replace(
            whole, procedures=Procedures(incidents=(referral, replace(referral, operation="b")))
        )
        assert referral_of(incident, SEEN, two) == (referral if fits else None), "the first counts"


def test_the_guards_are_told_what_they_go_by() -> None:
    incident = Incident("i", "u3", "n3", EVACUATE, Ms(7))
    given = Referral("t", "o", (Need.EVACUATE,), priority=5)
    assert report(incident, given, SEEN) == Reported(
        "incidents",
        "10.0.0.3",
        "t",
        "o",
        "",
        "evacuate",
        "group rack-1",
        5,
        Ms(7),
        "incident i on n3",
    )


def test_what_has_become_of_the_newest_entry_is_told() -> None:
    elsewhere = Entry(2, "10.0.0.4", "t", "o")
    for status, why in (
        (EntryStatus.QUEUED, "is queued"),
        (EntryStatus.PROCESSING, "is being worked on"),
        (
            EntryStatus.SUCCEEDED,
            "has succeeded, but the node still reports the fault: delete it for another",
        ),
        (EntryStatus.FAILED, "has failed: delete it for another"),
    ):
        old = Entry(0, NODE.address, "t", "o", status=EntryStatus.FAILED)
        queue = Queue((old, Entry(1, NODE.address, "t", "o", status=status), elsewhere))
        left = {"operation": "o", "type": "t", "how": f"entry 1 {why}"}
        wanted = because(Kind.LEFT_TO_QUEUE, NODE.name, **left)
        assert reason_of(Referral("t", "o", ()), NODE, queue) == wanted
