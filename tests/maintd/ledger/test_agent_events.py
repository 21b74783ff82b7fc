"""Agents that fall silent or are distrusted, and answer again, in the history."""

from collections.abc import Mapping

from nodeagent.maintd.ledger.agent_events import QUIET, AgentStates, hear
from nodeagent.model.event import Event
from nodeagent.protocol.look import Distrusted, Look, Seen, Silent
from nodeagent.protocol.messages import Report
from tests.maintd.rig import Rig, fleet
from tests.maintd.world import NOW, OK

ROUND = 10_000
REPORT = Report(
    "c", "u", "n1", "e", 1, NOW, OK.text, NOW, NOW, {}, firm=True, master="n1", tls="", software=""
)
SEEN = Seen(REPORT, OK)
SILENT, FORGED = Silent("no complete answer within 3 s"), Distrusted("signature")


def after(*rounds: Mapping[str, Look]) -> list[list[Event]]:
    """The events of each of these rounds, one after the other."""
    heard, found = AgentStates(), []
    for number, looks in enumerate(rounds):
        heard = hear(heard, looks, NOW + number * ROUND)
        found.append(list(heard.events))
    return found


def test_a_silence_that_lasts_and_its_end_are_told_once() -> None:
    rounds = after(*[{"n1": look} for look in (SEEN, SILENT, SILENT, SILENT, SEEN, SEEN)])
    assert [[(e.kind, e.node) for e in events] for events in rounds] == [
        [],
        [],
        [("agent-silent", "n1")],
        [],
        [("agent-back", "n1")],
        [],
    ]
    assert rounds[2][0].details == {"why": "no complete answer within 3 s"}


def test_one_who_is_distrusted_after_a_silence_is_told_again() -> None:
    rounds = after(*[{"n1": look} for look in (SILENT, SILENT, FORGED, FORGED)])
    assert [e.kind for events in rounds for e in events] == ["agent-silent", "agent-distrusted"]


def test_who_comes_and_goes_is_told_of_now_and_then() -> None:
    looks = [{"n1": look} for look in (SILENT, SILENT, SEEN, SEEN) * 90]
    found = [event for events in after(*looks) for event in events]
    assert len(found) <= 2 * (1 + len(looks) * ROUND // QUIET)


def test_a_thousand_at_once_are_one_event() -> None:
    silent = dict.fromkeys((f"n{i:04}" for i in range(1000)), SILENT)
    (*_, first, back) = after(silent, silent, dict.fromkeys(silent, SEEN))
    assert [(e.kind, e.node) for e in (*first, *back)] == [("agent-silent", ""), ("agent-back", "")]
    some = {"agents": tuple(f"n{i:04}" for i in range(10)), "count": "1000", "more": "990"}
    assert first[0].details == back[0].details == some


def test_who_is_not_asked_any_more_is_forgotten() -> None:
    rounds = after({"n1": SILENT}, {"n1": SILENT}, {}, {"n1": SEEN})
    assert [e.kind for events in rounds for e in events] == ["agent-silent"]


def test_the_history_has_it_also_while_the_vote_is_undecided() -> None:
    rig = Rig(fleet())
    rig.agents.says |= dict.fromkeys(("n2", "n3", "n4", "n5"))
    done = [rig.tick() for _ in range(3)]
    assert done[-1].idle
    assert [len(one.heard) for one in done] == [0, 1, 0]
    rig.agents.says.clear()
    rig.tick()
    kinds = [event.kind for event in rig.store.history(limit=10)]
    assert kinds == ["agent-silent", "agent-back"]
