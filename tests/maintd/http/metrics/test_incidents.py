"""Metrics of the outcome: what is counted of incidents and requests, and that it is shown."""

from dataclasses import replace
from pathlib import Path

from nodeagent.maintd.deciding.requests import ROWS
from nodeagent.maintd.http.metrics.incidents import of_open_incidents
from nodeagent.maintd.http.view import View
from nodeagent.maintd.ledger.tally import BOUNDS, Tally, Times
from nodeagent.model.incident import UNKNOWN, Incident, Status
from nodeagent.model.ledger import Decision, Ledger
from nodeagent.model.units import Ms
from nodeagent.model.wish import Done, ResetStorm
from tests.maintd.http.metrics.samples import samples
from tests.maintd.rig import QUICK, Rig, fleet, mirrored
from tests.maintd.served import Served
from tests.maintd.world import EVACUATE, NOW, REPAIR, incident, ledger, need, seen, six

NOTED, PENDING = incident(), incident(status=Status.PENDING)
COMPLETED, FAILED = incident(status=Status.COMPLETED), incident(status=Status.FAILED)
CANCELED = incident(status=Status.CANCELED)
MENDED = incident(diagnosis=REPAIR, status=Status.COMPLETED)
GONE = replace(COMPLETED, node="uuid-gone")
# An incident before and after a round: how it ended, and the need whose repair has ended.
ENDS: list[tuple[Incident | None, Incident | None, str, str]] = [
    (None, NOTED, "", ""),
    (NOTED, PENDING, "", ""),
    (PENDING, COMPLETED, "completed", ""),
    (None, COMPLETED, "completed", ""),
    (COMPLETED, COMPLETED, "", ""),
    (COMPLETED, None, "", "evacuate"),
    (GONE, None, "", ""),
    (replace(PENDING, diagnosis=REPAIR, id=MENDED.id), MENDED, "completed", "live-repair"),
    (MENDED, None, "", ""),
    (PENDING, FAILED, "failed", ""),
    (FAILED, None, "", "evacuate"),
    (replace(FAILED, diagnosis=UNKNOWN), None, "", ""),
    (PENDING, CANCELED, "canceled", ""),
    (PENDING, replace(CANCELED, heir="another"), "superseded", ""),
    (CANCELED, None, "", ""),
    (incident(diagnosis=need("live-repair")), None, "passed", "live-repair"),  # by a person
    (NOTED, None, "passed", ""),
]


def test_how_an_incident_ends_is_counted_once() -> None:
    for before, after, ended, repaired in ENDS:
        tally = Tally()
        then = Decision(ledger(*filter(None, [after])), (), {}, (), {})
        tally.take(ledger(*filter(None, [before])), then, seen(six()), Ms(NOW + 90_000))
        row = (before, after)
        assert +tally.ended == ({ended: 1} if ended else {}), row
        times = {need: one.seconds for need, one in tally.repaired.items() if one.count}
        assert times == ({repaired: 90.0} if repaired else {}), row
        evacuated = ended == "completed" and after is COMPLETED
        assert (tally.evacuated.count, tally.evacuated.seconds) == (evacuated, 90 * evacuated), row


def test_a_histogram_counts_what_took_up_to_each_bound() -> None:
    times = Times().plus(60).plus(61).plus(10**9)
    assert times.upto == (1, *[2] * (len(BOUNDS) - 1))
    assert (times.count, times.seconds) == (3, 10**9 + 121)


def test_what_was_counted_is_shown(tmp_path: Path) -> None:
    served = Served(Rig(fleet(), mirrored(("n3", "n4")), QUICK), tmp_path)
    served.tick()
    first = {k: v for k, v in samples(served).items() if k[0] == "gnt_maint_requests_total"}
    assert set(first.values()) == {0}, "each is there from the start, so the first one counts"
    assert len(first) == 2 * len(ROWS)
    served.rig.agents.says["n3"] = EVACUATE
    while not (served.rig.ledger.incidents and served.rig.status("n3") is Status.COMPLETED):
        served.tick()
    served.rig.wish(ResetStorm())
    served.rig.wish(Done("nobody"))
    served.tick(times=2)
    found = samples(served)
    served.close()
    assert {k[1:] for k in first if found[k]} == {("refused", "done"), ("refused", "reset-storm")}
    assert found["gnt_maint_incidents_ended_total", "completed"] == 1
    assert found["gnt_maint_evacuation_seconds_count",] == 1
    assert found["gnt_maint_repair_seconds_count", "evacuate"] == 0, "nobody has repaired it"


def test_open_incidents_by_node_are_bounded_at_10_000_nodes() -> None:
    broken = [
        replace(incident(f"n{number}", status=status), noted_at=NOW - number)
        for number in range(10_000)
        for status in (Status.FAILED, Status.COMPLETED, Status.CANCELED)
    ]
    (family,) = of_open_incidents(View(NOW, Ledger(incidents=tuple(broken)), seen(six())))
    found = [(one.labels["node"], one.labels["status"]) for one in family.samples]
    assert len(set(found)) == len(found) == 200
    assert {status for _, status in found} == {"failed", "completed"}
    assert ("n9999", "failed") in found, "the oldest"
