"""Racks that have failed, whoever reports it, and however long."""

from dataclasses import replace

from nodeagent.maintd.queue.guards import Admitted
from nodeagent.model.ledger import Ledger
from nodeagent.model.queue import FailedDomain
from nodeagent.model.reason import Kind, because
from nodeagent.model.sick import Sick
from nodeagent.store.codec import decode, encode
from tests.maintd.queue.reports import (
    CKE,
    as_incident,
    both,
    entry,
    kinds,
    made,
    queue,
    rack,
    round_of,
    world,
)

LIMITS = replace(CKE, maximum_repair_queue_entries=10, domain_failure_machines=3)
THERE = (entry(1, domain="rack 7", who="sabakan"), entry(5, domain="rack 8"))


def failed(*, on: bool = True) -> Ledger:
    """Rack 7 has lost its power; of one of its machines there was an entry already."""
    done = round_of(*rack(1, 2, 3), limits=LIMITS, entries=THERE)
    assert list(done.shut) == [0]
    (domain,) = done.ledger.queue.failed
    assert domain == FailedDomain("rack 7", ("sabakan",), 3)
    kept = decode(Ledger, encode(done.ledger))  # as after a restart
    return replace(kept, queue=replace(kept.queue, auto_repair=on))


def after(ledger: Ledger, *reports: Sick, why: str = "", asked: bool = True) -> Admitted:
    observed = world(*reports, why=why)
    if not asked:
        observed = replace(observed, sick={})
    return round_of(limits=LIMITS, ledger=ledger, observed=observed)


def test_a_domain_that_failed_is_left_alone_while_its_source_says_nothing() -> None:
    """sabakan stands in that rack as well."""
    done = after(failed(), why="timed out")
    assert list(done.shut) == [0]
    assert done.shut[0] == because(Kind.DOMAIN_FAILED, machines=3, domain="rack 7")
    assert after(done.ledger, why="timed out").ledger == done.ledger
    well = after(done.ledger, *rack(1, 2))
    assert (dict(well.shut), well.ledger.queue.failed) == ({}, ())


def test_disabling_automatic_repair_in_a_storm_begins_nothing_in_it() -> None:
    """Then sabakan is not even asked."""
    done = after(failed(on=False), asked=False)
    assert list(done.shut) == [0]
    again = replace(done.ledger, queue=replace(done.ledger.queue, auto_repair=True))
    assert list(after(again, why="it has not answered yet").shut) == [0]
    assert after(again, *rack(1)).shut == {}


def test_a_domain_whose_source_is_none_any_more_is_forgotten() -> None:
    done = after(failed(), asked=False)
    assert (done.shut, done.ledger.queue.failed) == ({}, ())
    off = round_of(limits=CKE, ledger=failed(), observed=world(why="timed out"))
    assert (off.shut, off.ledger.queue.failed) == ({}, ()), "nobody wants that any more"


def test_of_a_silent_source_the_most_that_was_said_counts() -> None:
    other = replace(rack(1)[0], source="b")
    three = [replace(one, source="b") for one in rack(1, 2, 3, 4)]
    observed = replace(world(), sick={"sabakan": "timed out", "b": (other,)})
    done = round_of(limits=LIMITS, ledger=failed(), observed=observed)
    assert [one.machines for one in done.ledger.queue.failed] == [3]
    observed = replace(world(), sick={"sabakan": "timed out", "b": tuple(three)})
    done = round_of(limits=LIMITS, ledger=failed(), observed=observed)
    assert done.ledger.queue.failed == (FailedDomain("rack 7", ("b", "sabakan"), 4),)
    assert kinds(done)["domain-failure"] == 3


def test_a_rack_of_which_two_sources_report_each_a_part_has_failed_as_well() -> None:
    reports = both(rack(1, 2, 3), [as_incident(one) for one in rack(1, 2)])
    done = round_of(limits=LIMITS, observed=replace(world(), sick=reports))
    assert (made(done), kinds(done)) == ([], {"domain-failure": 3})
    busy = entry(1, domain="group g", who="incidents")
    done = round_of(limits=LIMITS, entries=(busy,), observed=replace(world(), sick=reports))
    assert list(done.shut) == [0], "in whichever domain it was known when it was made"


def test_a_failed_domain_is_forgotten_though_nothing_else_is_remembered() -> None:
    ledger = Ledger(queue=queue(failed=(FailedDomain("rack 7", ("gone",), 3),)))
    done = round_of(limits=LIMITS, ledger=ledger, observed=replace(world(), sick={}))
    assert done.ledger.queue.failed == ()
