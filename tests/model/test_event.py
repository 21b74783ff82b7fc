"""Events are values: the sentence of each kind."""

from collections.abc import Mapping

import pytest

from nodeagent.model.action import Action, Drain
from nodeagent.model.event import Detail, Event
from nodeagent.model.event_kinds import SENTENCES
from nodeagent.model.units import Ms

AT = Ms(1_795_000_000_000)
TAG = "maintd:repairready:01a1"
WHO: Mapping[str, Detail] = {"who": "ada", "request": "pause the cluster"}
SERIES: Mapping[str, Detail] = {"series": "series/1", "day": "2026-11-22", "machines": ("n1", "n2")}
ENTRY: Mapping[str, Detail] = {
    "index": "3",
    "address": "10.0.0.9",
    "type": "r640",
    "operation": "dead",
}
MANY: Mapping[str, Detail] = {"agents": ("n1", "n2"), "count": "12", "more": "10"}
ROWS: list[tuple[str, Mapping[str, Detail], str]] = [
    ("noted", {"need": "evacuate", "said": "sdb"}, "evacuate: sdb"),
    ("recovered", {"status": "pending"}, "rebuilt from Ganeti: it is pending"),
    ("known-again", {"need": "evacuate", "said": "sdb"}, "evacuate: sdb"),
    ("begun", {"need": "evacuate"}, "evacuate"),
    ("completed", {"tag": TAG}, f"{TAG} is set"),
    ("completed", {"why": "by hand"}, "by hand"),
    ("failed", {"why": "job 7 (drain n1) failed"}, "job 7 (drain n1) failed"),
    ("failed", {"status": "failed"}, "it is failed"),
    ("canceled", {"why": "canceled by ada"}, "canceled by ada"),
    ("superseded", {"heir": "another"}, "superseded by another"),
    ("forgotten", {"left": "uuid-n1"}, "its node has left the cluster"),
    ("forgotten", {"tag": TAG}, f"{TAG} was removed"),
    ("forgotten", {"tag": TAG, "well": "yes"}, f"{TAG} was removed, and it is no longer observed"),
    ("forgotten", {"unseen": "yes"}, "it is no longer observed"),
    ("paused", {"place": "node n2", "who": "ada", "why": "disks"}, "node n2 paused by ada: disks"),
    (
        "paused",
        {"place": "group east", "who": "bob", "until": "2026-11-18T11:06:40Z"},
        "group east paused by bob until 2026-11-18T11:06:40Z",
    ),
    ("resumed", {"place": "the cluster"}, "the cluster resumed"),
    ("returning", {"who": "ada", "state": "in service"}, "ada: to be left in service"),
    ("returned", {"state": "in service"}, "it is in service"),
    ("return-over", {"state": "offline"}, "it is offline"),
    ("halted", {"why": "job 7 failed: no"}, "balancing: job 7 failed: no"),
    (
        "released",
        {"tag": "maintd:balancefailed:7"},
        "balancing: maintd:balancefailed:7 was removed",
    ),
    ("storm-tripped", {"why": "3 of 6 nodes are unhealthy"}, "3 of 6 nodes are unhealthy"),
    (
        "storm-reset",
        {"why": "3 of 6 nodes are unhealthy"},
        "it had tripped: 3 of 6 nodes are unhealthy",
    ),
    ("wish-granted", WHO, "ada asked to pause the cluster"),
    (
        "wish-granted",
        {**WHO, "command": "pause"},
        "ada asked to pause the cluster, by gnt-maint pause",
    ),
    ("wish-refused", {**WHO, "why": "no"}, "ada asked to pause the cluster: no"),
    (
        "wish-refused",
        {**WHO, "command": "pause", "why": "no"},
        "ada asked to pause the cluster, by gnt-maint pause: no",
    ),
    ("wish-refused", {"why": "no"}, "no"),
    (
        "answers-refused",
        {"answers": "30 answers", "user": "db", "why": "no"},
        "maintd refused 30 answers of user db to offers; the last: no",
    ),
    ("occurrence-planned", SERIES, "series/1 of 2026-11-22: n1, n2"),
    ("occurrence-over", SERIES, "series/1 of 2026-11-22: n1, n2"),
    *(
        (f"entry-{word}", {**ENTRY, "why": "so"}, "queue entry 3: 10.0.0.9 (r640) dead: so")
        for word in ("queued", "processing", "put-off", "succeeded", "failed", "deleted")
    ),
    ("entry-queued", ENTRY, "queue entry 3: 10.0.0.9 (r640) dead"),
    ("offered", {"owner": "db", "instances": ("i1", "i2")}, "owner db: i1, i2"),
    ("accepted", {"owner": "db", "who": "ada"}, "owner db by ada"),
    ("declined", {"owner": "db", "who": "ada", "why": "no"}, "owner db by ada: no"),
    ("rescinded", {"owner": "db"}, "owner db"),
    ("suspected-dead", {"why": "it hangs"}, "maintd starts to fence it: it hangs"),
    ("fenced", {"proven": "yes"}, "it is offline, and its power is proven off"),
    ("fenced", {"person": "yes"}, "it is offline, and its power is said to be cut"),
    ("revived", {}, "its agent answers again after its power was off and on"),
    ("came-back", {"state": "in service"}, "it is in service"),
    (
        "came-back",
        {"answers": "yes", "state": "in service"},
        "it answers again: it is in service",
    ),
    ("instances-restarted", {"instances": ("a", "b")}, "they run elsewhere: a, b"),
    ("instances-down", {"instances": ("a",)}, "they stay down: a; gnt-maint why says why"),
    ("fencing-failed", {"stage": "powering off", "why": "it is on"}, "powering off: it is on"),
    ("fencing-braked", {"why": "fence-limit"}, "fence-limit"),
    ("drill-started", {}, "maintd powers it off and on"),
    ("drill-passed", {}, "its power was proven off, and its agent answers again"),
    ("drill-failed", {"why": "it is still on"}, "it is still on"),
    ("agent-silent", {"why": "timed out"}, "its agent does not answer: timed out"),
    (
        "agent-silent",
        MANY,
        "12 agents do not answer: n1, n2 and 10 more; run gnt-maint nodes",
    ),
    (
        "agent-distrusted",
        {"why": "signature"},
        "its agent's answer is not to be trusted: signature",
    ),
    (
        "agent-distrusted",
        MANY,
        "12 agents are distrusted: n1, n2 and 10 more; run gnt-maint nodes",
    ),
    ("agent-back", {"alone": "yes"}, "its agent answers again"),
    ("agent-back", MANY, "12 agents answer again: n1, n2 and 10 more"),
    (
        "ledger-taken",
        {"whose": "n2", "saved": "2026-11-28T10:00:00Z"},
        "maintd goes on with the ledger in Ganeti's configuration, which the maintd of n2 saved at"
        " 2026-11-28T10:00:00Z",
    ),
    (
        "rule-missing",
        {},
        "Ganeti's configuration had no ledger: maintd goes on with that of this node, and writes"
        " it there",
    ),
    (
        "rule-removed",
        {},
        "somebody has removed the job filter rule that keeps the ledger: maintd writes it again;"
        " do not delete it, gnt-maint ledger tells what it is",
    ),
    (
        "rule-changed",
        {},
        "somebody has changed the job filter rule that keeps the ledger: maintd writes its own"
        " ledger there again; gnt-maint ledger tells what it is",
    ),
    (
        "job-unknown",
        {},
        "Ganeti does not know job 77, the newest one of the ledger: it was restored, or has lost"
        " its queue; check the plans, then run gnt-maint resume --ledger",
    ),
    (
        "requests-dropped",
        {"count": "2", "requests": ("pause the cluster", "retry")},
        "2 requests were kept on this node only, and are not in force: pause the cluster; retry:"
        " ask for them again if they still hold",
    ),
    ("held", {"why": "settling for 60 s more"}, "settling for 60 s more"),
]
ACTIONS: list[tuple[str, Action, Mapping[str, Detail], str]] = [
    ("promised", Drain("n1"), {}, "drain n1"),
    ("submitted", Drain("n1"), {}, "drain n1"),
    ("job-done", Drain("n1"), {}, "drain n1"),
    ("job-failed", Drain("n1"), {"why": "no"}, "drain n1: no"),
    ("job-failed", Drain("n1"), {}, "drain n1"),
    ("job-later", Drain("n1"), {"why": "no"}, "drain n1: no"),
    ("job-later", Drain("n1"), {"asks": "yes"}, "drain n1: it asks to be tried again later"),
    ("job-lost", Drain("n1"), {}, "drain n1: the job is no longer in Ganeti's queue"),
    ("dropped", Drain("n1"), {"why": "no"}, "drain n1: no"),
    ("dropped", Drain("n1"), {"after": "5"}, "drain n1: the job it follows did not succeed"),
    ("dropped", Drain("n1"), {"unawaited": "yes"}, "drain n1: maintd no longer waits for it"),
]


@pytest.mark.parametrize(("kind", "details", "sentence"), ROWS)
def test_its_sentence(kind: str, details: Mapping[str, Detail], sentence: str) -> None:
    assert str(Event(AT, kind, job="77", details=details)) == sentence


@pytest.mark.parametrize(("kind", "action", "details", "sentence"), ACTIONS)
def test_the_sentence_of_a_step(
    kind: str, action: Action, details: Mapping[str, Detail], sentence: str
) -> None:
    assert str(Event(AT, kind, job="77", action=action, details=details)) == sentence


def test_each_kind_has_a_row() -> None:
    assert {row[0] for row in ROWS} | {row[0] for row in ACTIONS} == set(SENTENCES)
