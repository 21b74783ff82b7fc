"""What a review of the maintenance windows found: each a way in which they went wrong once."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from time import process_time
from typing import Any

import pytest

from nodeagent.errors import Unavailable
from nodeagent.maintd.http import calendar
from nodeagent.maintd.http import ical as ics
from nodeagent.maintd.http import series as almanac
from nodeagent.maintd.http.page import weeks
from nodeagent.maintd.http.status import View
from nodeagent.maintd.owners import notify as announce
from nodeagent.maintd.owners import offers, webhook
from nodeagent.maintd.owners.webhook import Letter, Webhook, Webhooks
from nodeagent.maintd.planning.evacuation_time import Leads
from nodeagent.maintd.windows import occurrences as recur
from nodeagent.maintd.windows import schedule as windows
from nodeagent.maintd.windows import series
from nodeagent.maintd.windows import timing as due
from nodeagent.maintd.windows.schedule import Names
from nodeagent.maintd.windows.timezones import read_zone
from nodeagent.model.action import Action, Drain, MovePrimary, Restore, Retag, Scope, SetOffline
from nodeagent.model.ledger import Intent, Ledger, Outcome, Policy, Result
from nodeagent.model.offer import Announcing, Answer, AnswerOffers, Offer, Reply, Told
from nodeagent.model.series import Member, Series, Weekly
from nodeagent.model.snapshot import Node, Observed, Snapshot
from nodeagent.model.window import (
    Consent,
    Machine,
    Mode,
    Pace,
    Schedule,
    Scheduled,
    Standing,
    Unavailability,
    Weight,
    Window,
)
from nodeagent.model.wish import (
    AddSeries,
    BringUp,
    EditSeries,
    Pause,
    Resume,
    SetSchedule,
    TakeDown,
)
from nodeagent.protocol.canonical import canonical
from nodeagent.protocol.messages import MOST_STDIN
from tests.maintd.owned import instance
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.world import NOW

HOUR, DAY = 3600, 86_400
REQUIRED = Consent(Weight.REQUIRED)
N3 = Machine("n3")


def rig(policy: Policy = QUICK) -> Rig:
    return Rig(fleet(), mirrored(("n3", "n4"), ("n5", "n3")), policy)


def owned() -> Rig:
    return Rig(fleet(), [instance("i1", "db")])


def when(one: Rig, ahead: float, lasting: float = HOUR) -> Unavailability:
    return Unavailability(round((one.time + ahead) * 1e9), round(lasting * 1e9))


def wish(one: Rig, ahead: float = 0, *machines: Machine, consent: Consent | None = None) -> str:
    there = Schedule((Window(machines, when(one, ahead)),) if machines else ())
    return one.wish(SetSchedule(there, (), (consent,) if machines else ()))


def plan(one: Rig, ahead: float = 0, *machines: Machine) -> None:
    wish(one, ahead, *machines)
    one.tick()


def until_calm(one: Rig, seconds: float = 60.0) -> None:
    calm = 0
    while calm < 3:
        one.tick(seconds)
        calm = 0 if one.ledger.intents else calm + 1


def node(one: Rig, name: str = "n3") -> Node:
    return one.cluster.nodes[name]


def jobs(one: Rig, kind: str) -> int:
    return sum(job.startswith(kind) for job in one.jobs())


# Pauses.


@pytest.mark.parametrize("pauses_again", [False, True])
def test_a_pause_taken_back_while_its_tag_is_being_set_leaves_none(pauses_again: bool) -> None:
    one = rig()
    one.cluster.takes = lambda action: 100 if isinstance(action, Retag) else 1
    one.wish(Pause(Scope.CLUSTER, ""))
    one.tick()
    one.wish(Resume(Scope.CLUSTER, ""))
    one.tick()
    one.crash()
    if pauses_again:
        one.wish(Pause(Scope.CLUSTER, ""))
    until_calm(one)
    assert (one.cluster.snapshot().tags == {"maintd:pause:yes"}) is pauses_again
    assert one.ledger.resumed == ()


# Going up.


def test_a_move_that_fails_after_the_cancel_does_not_keep_the_node_drained() -> None:
    one = rig()
    one.cluster.takes = lambda action: 300 if isinstance(action, MovePrimary) else 1
    one.cluster.fails = lambda action: isinstance(action, MovePrimary)
    plan(one, 0, N3)
    for _ in range(3):
        one.tick()
    assert jobs(one, "MovePrimary") == 1
    plan(one)
    until_calm(one)
    assert node(one).in_service
    assert one.ledger.scheduled == ()


def test_who_is_planned_anew_while_being_put_back_is_drained_again() -> None:
    one = rig()
    plan(one, 0, N3)
    until_calm(one)
    assert node(one).drained
    one.cluster.takes = lambda action: 100 if isinstance(action, Restore) else 1
    plan(one)
    plan(one, 60, N3)
    assert one.ledger.scheduled[0].mode is Mode.DRAINING
    until_calm(one)
    assert jobs(one, "Restore") == 1
    assert node(one).drained, "it was we who put it back"
    plan(one)
    until_calm(one)
    assert node(one).in_service


@pytest.mark.parametrize("was_down", [False, True])
def test_what_was_never_down_and_is_offline_somebody_else_has_taken_there(was_down: bool) -> None:
    one = rig()
    plan(one, 0, N3)
    if was_down:
        one.wish(TakeDown((N3,)))
    until_calm(one)
    if was_down:
        one.wish(BringUp((N3,)))
    else:
        one.cluster.put(replace(node(one), offline=True, drained=False))
        wish(one)
    until_calm(one)
    assert node(one).offline is not was_down
    assert jobs(one, "Restore") == was_down
    assert one.ledger.scheduled == ()


def until_promised(one: Rig, kind: type[Action]) -> None:
    while not any(isinstance(i.action, kind) for i in one.ledger.intents):
        one.tick()


@pytest.mark.parametrize("fate", ["refuses", "fails", "unreached"])
@pytest.mark.parametrize("what", [Drain, SetOffline])
def test_what_our_own_job_has_not_done_to_a_node_is_somebody_elses(
    what: type[Drain] | type[SetOffline], fate: str
) -> None:
    one = rig()
    setattr(one.cluster, fate, lambda action: isinstance(action, what))
    wish(one, 0, N3)
    if what is SetOffline:
        one.wish(TakeDown((N3,)))
    until_promised(one, what)
    one.cluster.put(replace(node(one), drained=what is Drain, offline=what is SetOffline))
    until_calm(one)
    one.wish(SetSchedule(Schedule()) if what is Drain else BringUp((N3,)))
    until_calm(one)
    assert (node(one).drained, node(one).offline) == (what is Drain, what is SetOffline)
    assert jobs(one, "Restore") == 0
    assert one.ledger.scheduled == ()


def test_a_drain_is_ours_at_the_second_try_too() -> None:
    one = rig()
    one.cluster.refuses = lambda action: isinstance(action, Drain)
    wish(one, 0, N3)
    until_promised(one, Drain)
    one.tick()
    assert one.ledger.scheduled[0].found is None
    one.cluster.refuses = lambda _: False
    one.tick(70)
    until_calm(one)
    assert node(one).drained
    plan(one)
    until_calm(one)
    assert node(one).in_service


def test_who_is_taken_offline_by_hand_while_it_is_emptied_stays_so() -> None:
    one = rig()
    one.cluster.takes = lambda action: 300 if isinstance(action, MovePrimary) else 1
    wish(one, 0, N3)
    one.wish(TakeDown((N3,)))
    until_promised(one, MovePrimary)
    one.cluster.put(replace(node(one), drained=False, offline=True))
    until_calm(one)
    one.wish(BringUp((N3,)))
    until_calm(one)
    assert node(one).offline
    assert jobs(one, "Restore") == jobs(one, "SetOffline") == 0


# Clocks.


def test_a_clock_that_was_ahead_makes_no_wait_longer() -> None:
    one = rig()
    one.cluster.fails = lambda action: isinstance(action, Drain)
    one.wish(SetSchedule(Schedule((Window((N3,), when(one, 0, 90 * DAY)),))))
    one.skew = 30 * DAY
    for _ in range(4):
        one.tick()
    assert one.ledger.scheduled[0].not_before > one.now()
    one.skew = 0
    one.cluster.fails = lambda _: False
    one.tick()
    assert one.ledger.scheduled[0].since <= one.now()
    one.tick(70)
    until_calm(one)
    assert node(one).drained


def asked(told: Told = Told(), **more: Any) -> Offer:
    about = Unavailability(NOW * 10**6)
    return replace(Offer("o", "db", "uuid-n3", ("i1",), about, NOW, NOW, told=told), **more)


@pytest.mark.parametrize(("tries", "most"), [(1, 60_000), (2, 120_000), (4, 480_000)])
def test_a_clock_that_was_ahead_keeps_no_owner_from_being_told(tries: int, most: int) -> None:
    late = asked(Told("", tries=tries, after=NOW + 10**10, why="no route"))
    (after,) = announce.rewind(Ledger(offers=(late,)), NOW).offers
    assert after.told == replace(late.told, after=NOW + most)
    right = Ledger(offers=(after,))
    assert announce.rewind(right, NOW) is right


def test_moves_that_have_waited_for_days_do_not_begin_windows_weeks_before() -> None:
    waited = [Pace(disk, 100, 3 * DAY * 1000) for disk in (False, True)] * 4
    one = rig()
    assert Leads(one.cluster.snapshot(), waited).of(node(one)) < 1000 * HOUR
    slow = [Pace(True, 100, 10_000)] * 4  # a third of the usual
    usual = Leads(one.cluster.snapshot(), ()).of(node(one))
    assert Leads(one.cluster.snapshot(), slow).of(node(one)) > usual


def test_the_journal_is_told_once_of_what_is_overdue() -> None:
    one = rig()
    plan(one, 600, N3)
    one.time += DAY
    told = [{h.reason for h in one.tick(600).decision.held if "overdue" in h.reason} for _ in "ab"]
    assert told[0] == told[1] != set()


# Jobs that nobody can find.


def test_another_interval_lets_go_of_a_lost_job() -> None:
    first, other = (Schedule((Window((N3,), Unavailability(n * 10**9)),)) for n in (1, 2))
    lost = Intent("1", "", "n3", Drain("n3"), "7", window="uuid-n3")
    there = Scheduled(N3, Mode.DRAINING, 0, "uuid-n3", Standing.SERVING)
    before = Ledger(intents=(lost,), schedule=first, scheduled=(there,))
    world = Snapshot("c", {"n3": Node("n3", "uuid-n3", "")})
    observed = Observed(world, {}, results={"1": Result(Outcome.LOST)})
    for schedule, kept in ((first, (lost,)), (other, ())):
        after = windows.grant(before, SetSchedule(schedule), observed, NOW)
        assert not isinstance(after, str)
        assert after.intents == kept


# Owners, and what they were asked.


def test_who_is_to_accept_is_asked_before_its_machine_goes_down_in_the_same_round() -> None:
    one = owned()
    wish(one, 0, N3, consent=REQUIRED)
    down = one.wish(TakeDown((N3,)))
    done = one.tick()
    assert "owner db has not answered" in done.decision.refused[down]
    assert one.ledger.scheduled[0].mode is Mode.DRAINING


def accepted() -> Rig:
    one = owned()
    wish(one, DAY, N3, consent=REQUIRED)
    one.tick()
    one.wish(AnswerOffers((one.ledger.offers[0].id,), Reply.ACCEPT, 10**9))
    one.tick()
    assert one.ledger.offers[0].accepted
    return one


def test_what_was_accepted_of_one_interval_does_not_count_for_the_next_in_the_same_round() -> None:
    one = accepted()
    old = one.ledger.offers[0].id
    wish(one, 2 * DAY, N3)
    down, late = one.wish(TakeDown((N3,))), one.wish(AnswerOffers((old,), Reply.ACCEPT, 0))
    refused = one.tick().decision.refused
    assert "owner db has not answered" in refused[down]
    assert f"there is no offer {old}" in refused[late]


def test_what_has_come_since_the_owner_accepted_is_not_taken_down() -> None:
    one = accepted()
    one.cluster.put(instance("i9", "db", "n3", "n4"))
    down = one.wish(TakeDown((N3,)))
    assert "but not for i9" in one.tick().decision.refused[down]


def test_an_owner_of_very_much_is_told_again_too() -> None:
    names = tuple(f"instance-{n}.example.org" for n in range(2000))
    said = Answer(Reply.DECLINE, "eve", NOW, names, NOW, "later")
    one = Scheduled(N3, Mode.DRAINING, 0, "uuid-n3")
    world = Snapshot("c", {"n3": Node("n3", "uuid-n3", "")})
    ledger = Ledger(offers=(asked(instances=names, answer=said),), scheduled=(one,))
    book = offers.Book(ledger, world, NOW)
    found = announce.fitting([offers.question_json(ledger.offers[0], book)])
    assert len(canonical({"offers": found})) <= MOST_STDIN
    assert found[0]["answer"]["reason"] == "later"
    assert found[0]["instances"]
    assert len(found[0]["instances"]) + found[0]["more"] == 2000
    few = asked(instances=names[:3], answer=said)
    (short,) = announce.fitting([offers.question_json(few, book)])
    assert (short["instances"], short["answer"]["about"]) == (list(names[:3]), [])


def test_who_could_not_be_told_stays_told_of() -> None:
    world = Snapshot("c", {"n3": Node("n3", "uuid-n3", "")}, master="n3")
    ledger = Ledger(offers=(asked(Told("", done=True, tries=5, why="no route")),))
    by = Announcing("tell-owners")
    (held,) = announce.announce(ledger, Observed(world, {}), by, NOW).held
    assert held.reason.endswith("by tell-owners: no route, 5 times: tell it yourself")
    over = replace(ledger, offers=(replace(ledger.offers[0], open=False),))
    assert announce.announce(over, Observed(world, {}), by, NOW).held == []


def test_the_hour_of_a_webhook_begins_with_the_first_try(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, work = [0.0], list[Any]()
    hooks = Webhooks(
        [Webhook("*", "http://127.0.0.1:1/")], lambda: NOW, lambda: clock[0], work.append
    )
    hooks.tell([Letter("a", "db", b"{}")])
    clock[0] += webhook.GIVE_UP + 1  # others were before it
    (line,) = hooks._lines
    monkeypatch.setattr(line, "_post", lambda _: (_ for _ in ()).throw(Unavailable("no")))
    line._send(line._due["a"])
    assert (hooks.waiting, hooks.counts["given-up"]) == (1, 0)
    clock[0] += webhook.GIVE_UP
    line._send(line._due["a"])
    assert (hooks.waiting, hooks.counts["given-up"]) == (0, 1)


def test_many_offers_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = accepted()
    ledger, world = one.ledger, one.cluster.snapshot()

    def never(*_: object) -> list[Offer]:
        raise AssertionError("all of them for each machine")

    monkeypatch.setattr(offers, "about", never)
    monkeypatch.setattr("nodeagent.maintd.engine.round.question_json", never)
    assert due.closed(ledger, world, NOW) == {}
    assert offers.offer_json(ledger.offers[0], offers.Book(ledger, world, NOW))["holds"] is None
    other = owned()
    wish(other, DAY, N3)
    other.tick()  # and where there is no webhook, no letter is written
    assert other.ledger.offers[0].open


# Machines by their names.


def test_a_name_that_is_another_s_too_by_now_keeps_nobody_from_the_schedule() -> None:
    one = Rig([*fleet(2), Node("n3.a.org", "uuid-a", "127.0.1.1")])
    plan(one, DAY, N3)
    one.cluster.put(Node("n3.b.org", "uuid-b", "127.0.1.2"))
    both = wish(one, DAY, N3, Machine("n2"))
    done = one.tick()
    assert both not in done.decision.refused
    assert "machine n3: several nodes are called so" in [h.reason for h in done.decision.held]
    plan(one)
    again = wish(one, DAY, N3)
    assert "several nodes" in one.tick().decision.refused[again]


# Series.

SUNDAY = date(2026, 11, 22).toordinal()
RULE = Weekly((6,), 120, "Europe/Zurich", 2 * HOUR, SUNDAY)
ZONE = read_zone("Europe/Zurich", NOW)
assert ZONE is not None
ZONES = {"Europe/Zurich": ZONE}


def world_of(names: Sequence[str]) -> Snapshot:
    return Snapshot("c", {n: Node(n, f"uuid-{n}", f"at-{n}") for n in names})


def of(names: Sequence[str], number: int = 1, rule: Weekly = RULE, **more: Any) -> Series:
    return Series(
        number, f"u{number}", "root", rule, tuple(Member(Machine(n), **more) for n in names)
    )


def edited(one: Series, **more: Any) -> Series | str:
    observed = Observed(world_of(["n3"]), {}, zones=ZONES)
    after = series.grant(Ledger(series=(one,)), EditSeries(1, **more), ("w", "root"), observed, NOW)
    return after if isinstance(after, str) else after.series[0]


def test_a_series_that_is_to_begin_in_spring_does_so_at_another_time_too() -> None:
    spring = date(2027, 3, 7).toordinal()
    changed = edited(of(["n3"], rule=replace(RULE, first=spring)), minute=180)
    assert not isinstance(changed, str)
    assert changed.rule.first == spring
    for first in (SUNDAY - 70, SUNDAY):
        begun = edited(of(["n3"], rule=replace(RULE, first=first)), weekdays=(5, 6))
        assert not isinstance(begun, str)
        assert begun.rule.first == SUNDAY - 1, "its next may be earlier"


def test_skipped_days_are_forgotten_after_a_year_and_no_more_than_a_thousand() -> None:
    old, late = SUNDAY - 7 * 53, SUNDAY - 7 * 51
    rule = replace(RULE, first=SUNDAY - 7 * 60, skipped=(old, late))
    gone = of(["n3"], rule=rule, day=SUNDAY - 7, placed=True)
    observed = Observed(world_of(["n3"]), {}, zones=ZONES)
    after = recur.advance(Ledger(series=(gone,)), observed, Policy(window_ahead=0), NOW).ledger
    assert after.series[0].rule.skipped == (late,)
    most = replace(RULE, skipped=tuple(SUNDAY + 7 * n for n in range(series.MOST_SKIPPED)))
    why = edited(of(["n3"], rule=most), skip=(SUNDAY + 7 * series.MOST_SKIPPED,))
    assert why == "of a series 1000 days are skipped at most"


def test_what_a_clock_that_was_ahead_has_dealt_with_is_yet_to_come() -> None:
    one = rig()
    one.wish(AddSeries((N3,), (6,), 120, "Europe/Zurich", 2 * HOUR))
    one.tick()
    one.skew = 400 * DAY
    one.tick()
    one.skew = 0
    assert one.ledger.schedule.windows[0].unavailability.start_ms > one.now() + 399 * DAY * 1000
    plan(one)  # somebody sees that, and cancels it
    one.tick(DAY)
    begins = [w.unavailability.start_ms - one.now() for w in one.ledger.schedule.windows]
    assert len(begins) == 1
    assert begins[0] < 8 * DAY * 1000


def test_series_of_all_machines_are_planned_in_a_moment() -> None:
    names = [f"n{n}" for n in range(3000)]
    many = tuple(of(names[n * 1000 : n * 1000 + 1000], n + 1) for n in range(3))
    observed = Observed(world_of(names), {}, zones=ZONES)
    began = process_time()
    done = recur.advance(Ledger(series=many), observed, Policy(window_ahead=8 * DAY * 1000), NOW)
    took = process_time() - began
    assert [len(window.machines) for window in done.ledger.schedule.windows] == [1000] * 3
    assert took < 1.0


def view(ledger: Ledger, world: Snapshot) -> View:
    return View(NOW, ledger, Observed(world, {}, zones=ZONES))


def test_calendars_look_at_the_nodes_once_however_many_series_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = list[Snapshot]()

    def names(snapshot: Snapshot) -> Names:
        looked.append(snapshot)
        return Names(snapshot)

    for module in (ics, almanac, calendar):
        monkeypatch.setattr(module, "Names", names)
    there = view(Ledger(series=tuple(of(["n3"], n) for n in range(9))), world_of(["n3"]))
    ics.calendar(there)
    assert len(looked) <= 2
    looked.clear()
    assert len(calendar.calendar(there)["series"]) == 9
    assert len(looked) <= 2


def exported(one: Series, window: Window) -> bytes:
    there = Scheduled(N3, Mode.DOWN, 0, "uuid-n3")
    ledger = Ledger(series=(one,), schedule=Schedule((window,)), scheduled=(there,))
    return ics.calendar(view(ledger, world_of(["n3"])))


def test_what_is_down_for_a_day_that_the_rule_has_no_more_is_an_event_of_its_own() -> None:
    window = Window((N3,), Unavailability(NOW * 10**6, 10**12))
    assert b"RECURRENCE-ID" in exported(of(["n3"], day=SUNDAY, placed=True), window)
    assert b"RECURRENCE-ID" not in exported(of(["n3"], day=SUNDAY - 1, placed=True), window)


@pytest.mark.parametrize(("duration", "ends"), [(0, 0), (10**8, 0), (10**9, 1)])
def test_an_event_does_not_end_when_it_begins(duration: int, ends: int) -> None:
    window = Window((N3,), Unavailability(NOW * 10**6, duration))
    text = exported(of(["n6"]), window)
    assert text.count(b"DTEND") == ends
    assert b"without an end" not in text


def test_a_window_of_thousands_is_not_told_whole_on_each_day_of_the_page() -> None:
    machines = [
        {"node": f"n{n}", "overdue": 0, "mode": "draining", "begun": False} for n in range(25)
    ]
    row = {"start": NOW / 1000, "duration": None, "series": None, "machines": machines}
    days = weeks.weeks({"windows": [row], "series": []}, NOW / 1000)
    (title,) = {entry.title.partition(":")[0] for day in days[2] for entry in day.entries}
    assert title.startswith("n0, n1, ")
    assert title.endswith("n19 and 5 more")
