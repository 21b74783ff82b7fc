"""What one user may ask for, and what one node may fill the journal with, in a minute."""

from nodeagent.maintd.engine.limits import LINES, Chatter, Rations
from nodeagent.model.units import Ms

MINUTE = 60.0


def test_a_node_that_says_something_else_each_round_cannot_fill_the_journal() -> None:
    clock = [0.0]
    chatter = Chatter(lambda: clock[0])
    told = 0
    for _ in range(3 * LINES):
        clock[0] += 0.1
        told += chatter.take("n2")
        assert chatter.take(""), "what is about no node is always told"
        assert chatter.over() == []
    assert told == LINES
    for _ in range(LINES):
        assert chatter.take("n3")
    clock[0] = 60.1
    assert chatter.over() == [("n2", 2 * LINES)]
    assert chatter.take("n2")


def test_twenty_requests_of_a_user_in_any_minute() -> None:
    clock = [0.0]
    rations = Rations(lambda: clock[0])
    for second in range(20):
        clock[0] = float(second)
        assert rations.wait("ada") == 0
    assert rations.wait("ada") == MINUTE - 19
    assert rations.wait("bob") == 0
    clock[0] = MINUTE
    assert rations.wait("ada") == 0, "what is a minute old"
    assert rations.wait("ada") == 1, "one came back, not twenty"


def test_what_is_noted_of_users_is_bounded() -> None:
    rations = Rations(lambda: 0.0)
    for n in range(5000):
        for _ in range(25):
            rations.wait(f"u{n}")
        rations.refused(f"u{n}", "no")
    assert (len(rations._asked), len(rations._refused)) == (4096, 4096)
    assert max(map(len, rations._asked.values())) == 20
    assert rations.wait("u4999") > 0
    assert rations.wait("u0") == 0, "who asked longest ago is forgotten"


def test_refusals_of_a_user_are_one_event_a_minute() -> None:
    clock = [5.0]
    rations = Rations(lambda: clock[0])
    for user, why in (("ada", "no offer"), ("ada", "too many\n"), ("bob", "no")):
        rations.refused(user, why)
        clock[0] += 1
    clock[0] = 5 + MINUTE - 0.1
    assert rations.due(Ms(7)) == ()
    clock[0] = 5 + MINUTE
    (event,) = rations.due(Ms(7))
    assert (event.at, event.kind) == (7, "answers-refused")
    assert event.details == {"answers": "2 answers", "user": "ada", "why": '"too many\\n"'}
    clock[0] += 2
    (event,) = rations.due(Ms(8))
    assert (event.details["answers"], event.details["user"]) == ("1 answer", "bob")
    assert rations.due(Ms(9)) == ()
