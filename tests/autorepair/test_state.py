"""What the tags tell of an instance's repairs, as it was designed."""

import pytest

from nodeagent.autorepair.state import Clear, Failed, Pending, Unclear, state_of
from nodeagent.autorepair.tags import PREFIX


def told(*tags: str) -> str:
    """In short: the state, what counts, what goes with it and what waits."""

    def short(records: object) -> str:
        assert isinstance(records, tuple)
        return " ".join(record.tag.removeprefix(PREFIX) for record in records)

    match state_of(frozenset(PREFIX + tag for tag in tags)):
        case Clear(ended, stale):
            return f"clear: {short(ended)} | {short(stale)}"
        case Pending(record, stale, later, ended):
            return f"pending: {short((record,))} | {short((*stale, *ended))} | {short(later)}"
        case Failed(record):
            return f"failed: {short((record,))}"
        case Unclear(why):
            return f"unclear: {why}"


OLD, NEW = "pending:failover:a:1:", "pending:failover:b:2:"
DONE, NOT = "result:failover:a:1:success:7", "result:reinstall:a:1:enoperm:"
LATER = "result:failover:b:2:success:8"
BROKEN = "result:failover:a:1:failure:7"


@pytest.mark.parametrize(
    ("tags", "state"),
    [
        ((), "clear:  | "),
        (("failover", "suspend", "nonsense"), "clear:  | "),
        ((DONE,), f"clear: {DONE} | "),
        ((NOT,), f"clear: {NOT} | "),
        ((DONE, "result:failover:b:2:enoperm:"), f"clear: {DONE} result:failover:b:2:enoperm: | "),
        ((OLD,), f"pending: {OLD} |  | "),
        # A result settles its repair, and what is left of it is to go.
        ((OLD, DONE), f"clear: {DONE} | {OLD}"),
        ((OLD, NOT), f"clear: {NOT} | {OLD}"),
        ((OLD, DONE, NEW), f"pending: {NEW} | {OLD} {DONE} | "),
        ((DONE, NEW), f"pending: {NEW} | {DONE} | "),
        # Older pending, and a newer repair that has ended: what ended first matters to nobody.
        ((OLD, LATER), f"pending: {OLD} | {LATER} | "),
        # In the order in which they were asked for; one that was begun goes before all.
        ((NEW, OLD), f"pending: {OLD} |  | {NEW}"),
        ((OLD, "pending:failover:b:2:9"), f"pending: pending:failover:b:2:9 |  | {OLD}"),
        # Two copies of one tag, as a change by harep leaves them for a moment.
        ((OLD, "pending:failover:a:1:7"), f"pending: pending:failover:a:1:7 | {OLD} | "),
        # A failure stands above everything.
        ((BROKEN,), f"failed: {BROKEN}"),
        ((OLD, BROKEN), f"failed: {BROKEN}"),
        ((BROKEN, NEW), f"failed: {BROKEN}"),
        ((BROKEN, "result:failover:b:2:failure:8"), f"failed: {BROKEN}"),
        ((DONE, "result:failover:b:2:failure:8"), "failed: result:failover:b:2:failure:8"),
    ],
)
def test_what_the_tags_say(tags: tuple[str, ...], state: str) -> None:
    assert told(*tags) == state


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (("pending:failover:a:1:7", "pending:failover:b:2:8"), "two repairs have started"),
        (("pending:failover:a:1:7", "pending:failover:a:1:8"), "contradict each other"),
        (("pending:failover:a:1:7", "pending:migrate:a:1:7+8"), "contradict each other"),
        (("pending:failover:a:1:7", "pending:failover:a:2:7+8"), "contradict each other"),
        (("pending:failover:a:1",), "it has 3 fields, not 4: type, id, time, jobs"),
        (("pending:Failover:a:1:",), "'Failover' is not a type of repair"),
        (("pending:failover:a:0x10:",), "'0x10' is not a time in unix seconds"),
        (("result:failover:a:1:failed:7",), "'failed' is not a result"),
        (("result:failover:a:1:success:7+",), "'7+' is not a list of jobs"),
        (("pending:failover::1:",), "its id is empty"),
        (("pending:failover:ä:1:",), "letters that Ganeti garbles"),
        ((DONE, "pending"), "it has 0 fields"),
    ],
)
def test_what_only_a_person_can_make_sense_of(tags: tuple[str, ...], words: str) -> None:
    assert told(*tags).startswith("unclear: ")
    assert words in told(*tags)
