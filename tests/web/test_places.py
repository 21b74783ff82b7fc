"""Who makes room, who reads too slowly, and how much is kept for readers."""

from dataclasses import dataclass, field

import pytest

from nodeagent.web.places import SECONDS, Places, Readers, network_of
from nodeagent.web.refusal import Limits

LIMITS = Limits(unsent=1000, unsent_per_peer=400, pace=100)


@dataclass(eq=False)
class One:
    """A connection that is told how much it has taken."""

    answer: bytes = b""
    network: str = "192.0.2.1"
    taken: int = 0
    peer: str = ""
    since: float = 9.5
    complete: bool = False
    refused: bool = False
    only_looks: bool = False
    gone: list[bool] = field(default_factory=list)

    def abort(self) -> None:
        self.gone.append(True)


def watched(rate: int, lump: int, seconds: int = 120) -> float | None:
    """When a reader is too slow that takes `rate` bytes a second, a lump at a time."""
    readers, one = Readers(LIMITS), One(taken=10_000)
    readers.add(one, 0.0)
    for quarter in range(1, 4 * seconds):
        now = quarter / 4
        one.taken = 10_000 + int(rate * now) // lump * lump
        if readers.too_slow(now):
            return now
    return None


def test_a_reader_that_takes_nothing_is_too_slow_after_five_seconds() -> None:
    assert watched(0, 1) == SECONDS, "what it took at first does not count"


def test_a_reader_below_the_pace_falls_behind_until_it_is_too_slow() -> None:
    assert watched(50, 1) == 2 * SECONDS
    assert watched(90, 1) is not None


def test_a_steady_reader_stays_though_it_takes_a_lump_at_a_time() -> None:
    assert watched(110, 1) is None
    assert watched(110, 400) is None, "nothing for 3.6 seconds, then all of it"


def test_a_reader_may_not_save_up_what_it_took_early() -> None:
    readers, one = Readers(LIMITS), One()
    readers.add(one, 0.0)
    one.taken = 10**6
    slow = [quarter / 4 for quarter in range(1, 40) if readers.too_slow(quarter / 4)]
    assert slow[0] == 0.25 + SECONDS


def test_the_time_in_which_nobody_could_be_served_is_no_reader_s_fault() -> None:
    readers, one = Readers(LIMITS), One()
    readers.add(one, 0.0)
    assert not readers.too_slow(60.0), "the machine was suspended"


def test_the_slowest_goes_first_and_a_quick_one_only_in_a_hurry() -> None:
    readers, now = Readers(LIMITS), 10.0
    slow, slower, quick, stranger = One(taken=900), One(taken=800), One(taken=10**8), One()
    for one in (slow, slower, quick):
        readers.add(one, 0.0)
    assert readers.slowest([slow, slower, quick, stranger], now, hurry=False) is slower
    young = One(taken=700)
    readers.add(young, now - 1)
    assert readers.slowest([slower, young], now, hurry=False) is slower, "what it took in its time"
    assert readers.slowest([quick, slow], now, hurry=False) is slow
    assert readers.slowest([quick, stranger], now, hurry=False) is None
    assert readers.slowest([quick, stranger], now, hurry=True) is quick
    assert readers.slowest([stranger], now, hurry=True) is None


def test_one_answer_is_kept_once_for_all_its_readers() -> None:
    readers, shared = Readers(LIMITS), bytes(400)
    assert sum(readers.add(One(shared), 0.0) for _ in range(100)) == 0
    assert readers.add(One(bytes(1)), 0.0) == 100, "more than one peer may have is kept"


def test_what_is_kept_for_one_peer_is_bounded() -> None:
    readers = Readers(LIMITS)
    crowd = [One(bytes(200), taken=n) for n in range(3)]
    other = One(bytes(400), "192.0.2.2")
    assert [readers.add(one, 0.0) for one in (*crowd, other)] == [0, 0, 1, 0]
    assert [one.gone for one in crowd] == [[True], [], []]
    assert not other.gone


def test_what_is_kept_in_all_is_bounded_and_the_slowest_go() -> None:
    readers = Readers(LIMITS)
    many = [One(bytes(300), f"192.0.2.{n}", taken=n) for n in range(6)]
    assert [readers.add(one, 0.0) for one in many] == [0, 0, 0, 1, 1, 1]
    assert [bool(one.gone) for one in many] == [True, True, True, False, False, False]


def test_an_answer_that_is_too_large_by_itself_is_sent() -> None:
    readers, large = Readers(LIMITS), One(bytes(5000))
    assert readers.add(large, 0.0) == 0
    assert not large.gone


def test_an_ipv6_peer_is_its_network_of_64_bits() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert [network_of(one) for one in ("192.0.2.1", "uid:0", "")] == ["192.0.2.1", "uid:0", ""]


def idle(network: str = "a", since: float = 8.0) -> One:
    return One(network=network, since=since)


def fresh(network: str = "a") -> One:
    return One(network=network)


def refused() -> One:
    return One(network="a", complete=True, refused=True)


def asking(network: str = "a", *, only_looks: bool = True) -> One:
    return One(network=network, complete=True, only_looks=only_looks)


def reading(taken: int) -> One:
    return One(b"answer", "a", taken, complete=True, only_looks=True)


SLOW, QUICK = 1000, 10**7  # bytes taken in 10 seconds
NEWCOMER = 3


@pytest.mark.parametrize(
    ("crowd", "newcomer", "victim"),
    [
        pytest.param([idle(), refused(), reading(SLOW)], fresh("b"), 1, id="refused"),
        pytest.param([fresh(), reading(SLOW), idle()], fresh("b"), 2, id="idle for a second"),
        pytest.param([fresh(), idle(since=9.0), reading(SLOW)], fresh("b"), 2, id="slow reader"),
        pytest.param([reading(QUICK), fresh(), asking()], fresh("b"), 1, id="no request yet"),
        pytest.param(
            [fresh("c"), fresh(), fresh()], fresh("a"), 1, id="the only one of its network stays"
        ),
        pytest.param([fresh("c"), fresh(), fresh()], fresh("b"), 0, id="but not for another such"),
        pytest.param([asking(), reading(QUICK), asking()], fresh("b"), 1, id="quick reader"),
        pytest.param([asking(), asking(), asking("c")], fresh("b"), 1, id="newest of the most"),
        pytest.param(
            [asking(), asking(only_looks=False), asking("c")], fresh("b"), 0, id="no change"
        ),
        pytest.param([asking(), asking("c"), asking("d")], fresh("b"), NEWCOMER, id="newcomer"),
    ],
)
def test_of_all_connections_the_first_in_this_order_makes_room(
    crowd: list[One], newcomer: One, victim: int
) -> None:
    places: Places[One] = Places(Limits(connections=3, per_peer=3))
    for connection in crowd:
        places.add(connection, 0.0)
        if connection.answer:
            places.begin_reading(connection, 0.0)
    places.add(newcomer, 10.0)
    every = [*crowd, newcomer]
    assert [n for n, connection in enumerate(every) if connection.gone] == [victim]
    assert places.shed == 1


def test_a_network_beyond_its_share_makes_room_itself() -> None:
    places: Places[One] = Places(Limits(connections=9, per_peer=2))
    others, own = [idle("b")], [fresh(), asking()]
    for connection in (*others, *own):
        places.add(connection, 10.0)
    assert places.shed == 0
    places.add(fresh(), 10.0)
    assert [bool(connection.gone) for connection in (*others, *own)] == [False, True, False]


def test_peers_that_come_first_make_room_only_among_themselves() -> None:
    places: Places[One] = Places(Limits(connections=2), lambda peer: peer == "node")
    node, stranger = One(peer="node", since=0.0), One(network="b", complete=True)
    for connection in (node, stranger):
        places.add(connection, 10.0)
    places.add(One(peer="node"), 10.0)
    assert (node.gone, stranger.gone) == ([], [True])
    places.remove(stranger)
    places.add(One(peer="node"), 10.0)
    assert node.gone == [True], "there are only such"


def test_who_has_left_has_no_place() -> None:
    places: Places[One] = Places(Limits(connections=9, per_peer=1))
    first = fresh()
    places.add(first, 0.0)
    places.remove(first)
    assert (len(places), places.open) == (0, [])
    places.add(fresh(), 0.0)
    assert places.shed == 0
    places.remove(first)
    places.add(fresh(), 0.0)
    assert places.shed == 1, "it left once"


def test_a_slow_reader_is_dropped_and_counted() -> None:
    places: Places[One] = Places(LIMITS)
    slow = One(bytes(10), complete=True)
    places.add(slow, 0.0)
    places.begin_reading(slow, 0.0)
    for quarter in range(1, 30):
        places.drop_slow_readers(quarter / 4)
        if slow.gone:
            places.remove(slow)
    assert (slow.gone, places.shed) == ([True], 1)
