"""The clock as chronyc or timedatectl describes it.

An answer has the time of a test in it, and so is made in the test.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest

from .shipped import Ran, Shipped, hold


def tracking(
    offset: str = "0.000012",
    leap: str = "Normal",
    age: float = 60.0,
    interval: float = 64.2,
    dispersion: float = 0.002,
    server: str = "C0000201",
) -> str:
    return (
        f"{server},192.0.2.1,3,{time.time() - age:.9f},{offset},-0.0001,0.0002,"
        f"-11.2,0.001,0.03,0.01,{dispersion},{interval},{leap}"
    )


def heard(age: float) -> str:
    """What timesyncd says of its last answer."""
    at = datetime.fromtimestamp(time.time() - age, UTC)
    return f"{{ Leap=0, DestinationTimestamp={at:%a %Y-%m-%d %H:%M:%S} UTC, PacketCount=9 }}"


def chrony(shipped: Shipped, text: str, code: int = 0, **more: object) -> Ran:
    tool = shipped.tool("chronyc", f"cat <<'END'\n{text}\nEND\nexit {code}")
    return shipped.run("clock", CHRONYC=tool, WANTS=shipped.root / "wants", **more)


CHRONY: dict[str, Callable[[], str]] = {
    "kept": tracking,
    "nearly a second": partial(tracking, "-0.9"),
    "a leap second ahead": partial(tracking, leap="Insert second"),
    "a server whose name looks like 506": partial(tracking, server="506000201"),
    "behind": partial(tracking, "1.5"),
    "ahead": partial(tracking, "-150.0"),
    "unsynchronised": partial(tracking, leap="Not synchronised"),
    "heard within the hour": partial(tracking, age=3000.0),
    "no server for more than an hour": partial(tracking, age=4000.0),
    "heard in the future": partial(tracking, age=-4000.0),
    "polls far apart": partial(tracking, age=6000.0, interval=2100.0),
    "three polls missed": partial(tracking, age=8000.0, interval=2100.0),
    # CroatianMeteorNetwork/RMS, issue 624; with Windows' servers and "maxdistance" it stays large.
    "a large dispersion, as after a start": partial(tracking, dispersion=47.988433838),
}


def test_chrony(shipped: Shipped) -> None:
    rows = ((name, chrony(shipped.anew(), answer())) for name, answer in CHRONY.items())
    hold(shipped, "clock-chrony", rows)


@pytest.mark.parametrize("unit", ["chrony.service", "chronyd.service"])
def test_a_dead_chrony_is_restarted(shipped: Shipped, unit: str) -> None:
    shipped.tree({f"wants/{unit}": f"-> /usr/lib/systemd/system/{unit}"})
    ran = chrony(shipped, "506 Cannot talk to daemon", code=1)
    assert ran.diagnosis["command"] == "restart-unit"
    assert ran.diagnosis["details"]["units"] == [unit]


@pytest.mark.parametrize(("says", "need"), [("yes", "Ok"), ("no", "live-repair")])
def test_a_chrony_that_a_person_has_disabled_is_not_started(
    shipped: Shipped, says: str, need: str
) -> None:
    """As with PTP (openshift-docs, pull request 36867); its unit would also stop other daemons."""
    tool = shipped.tool("timedatectl", f'case "$1" in show) echo {says};; esac')
    shipped.tree({"wants": None})
    none = shipped.root / "none"
    ran = chrony(shipped, "506 Cannot talk to daemon", 1, TIMEDATECTL=tool, NTPQ=none)
    assert (ran.need, ran.diagnosis.get("command") == "restart-unit") == (need, False)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("501 Not authorised", 1, id="not allowed to ask"),
        pytest.param(tracking(), 1, id="an answer, and yet a failure"),
        pytest.param(tracking() + ",more", 0, id="another form"),
        pytest.param(tracking("soon"), 0, id="no number"),
    ],
)
def test_an_answer_of_chrony_that_is_none(shipped: Shipped, text: str, code: int) -> None:
    assert chrony(shipped, text, code).complaint.startswith("clock: ValueError: ")


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        pytest.param(partial(heard, 100.0), [], id="heard lately"),
        pytest.param(partial(heard, 4000.0), ["no-server"], id="not heard for more than an hour"),
        pytest.param(lambda: "", [], id="timesyncd does not run"),
        pytest.param(lambda: "{ Leap=0 }", [], id="another form"),
    ],
)
def test_timesyncd_says_when_it_heard_its_server(
    shipped: Shipped, answer: Callable[[], str], faults: list[str]
) -> None:
    says = answer()
    tool = shipped.tool("timedatectl", f'case "$1" in show) echo yes;; *) echo "{says}";; esac')
    ran = shipped.run("clock", CHRONYC=shipped.root / "none", TIMEDATECTL=tool)
    assert ran.faults == [{"by": "timesyncd", "fault": fault} for fault in faults]


@pytest.mark.parametrize(
    ("pause", "age", "faults"),
    [
        pytest.param("34min 8s", 4000.0, [], id="within three pauses"),
        pytest.param("34min 8s", 6200.0, ["no-server"], id="three pauses missed"),
        pytest.param("4h", 7200.0, [], id="a pause of hours"),
        pytest.param("1d 30min", 260000.0, [], id="a pause of more than a day"),
        pytest.param("4h", 43300.0, ["no-server"], id="three pauses of hours missed"),
        pytest.param("32s", 3500.0, [], id="a short pause: an hour all the same"),
        pytest.param("infinity", 4000.0, ["no-server"], id="no number"),
        pytest.param("9 fortnights", 4000.0, ["no-server"], id="an unknown unit"),
    ],
)
@pytest.mark.parametrize("told", ["message", "refused", "silent"])
def test_timesyncd_may_pause_for_longer_than_an_hour(
    shipped: Shipped, pause: str, age: float, faults: list[str], told: str
) -> None:
    says = {"message": heard(age), "refused": "{ Leap=0, Ignored=yes }", "silent": ""}[told]
    script = f'case "$*" in *Poll*) echo "{pause}";; show\\ *) echo yes;; *) echo "{says}";; esac'
    tool = shipped.tool("timedatectl", script)
    folder = shipped.tree({"timesync/other": ""}) / "timesync"
    if told == "refused":
        (folder / "synchronized").touch()
        os.utime(folder / "synchronized", (time.time() - age,) * 2)
    os.utime(folder, (time.time() - age,) * 2)
    constants = {"CHRONYC": shipped.root / "none", "TIMEDATECTL": tool}
    ran = shipped.run("clock", **constants, SYNCHRONIZED=folder / "synchronized")
    assert ran.faults == [{"by": "timesyncd", "fault": fault} for fault in faults]


RV = "leap=00, rootdisp=142.974, offset=-18.414"
PEERS = """     remote           refid      st t when poll reach   delay   offset  jitter
==============================================================================
 0.pool.ntp.org  .POOL.          16 p    -   64    0    0.000    0.000   0.000
 127.127.1.0     .LOCL.          10 l    4   64  377    0.000    0.000   0.000
*192.0.2.1       192.0.2.9        2 u  WHEN 1024  377   31.234    3.353   3.096
+192.0.2.2       192.0.2.9        2 u    - 1024    0    0.000    0.000   0.000"""


def ntpd(shipped: Shipped, text: str, *, enabled: bool = True) -> Ran:
    none = shipped.root / "none"
    tool = shipped.tool("ntpq", f"cat <<'END'\n{text}\nEND")
    unit = {"units/ntpsec.service": ""} | ({"wants/ntpsec.service": ""} if enabled else {})
    places = {"UNITS": shipped.tree(unit) / "units", "WANTS": shipped.root / "wants"}
    return shipped.run("clock", CHRONYC=none, TIMEDATECTL=none, NTPQ=tool, **places)


NTPD = {
    "kept": (RV, "936"),
    "no server for more than an hour": (RV, "62m"),
    "cut off for two days": (RV, "2d"),
    "never heard one": (RV, "-"),
    "a large dispersion": (RV.replace("142.9", "2610.9"), "4"),
    "unsynchronised": (RV.replace("=00", "=11"), "4"),
    "far off": (RV.replace("-18.4", "1800.4"), "4"),
}


def test_ntpd(shipped: Shipped) -> None:
    rows = (
        (name, ntpd(shipped.anew(), f"{values}\n{PEERS.replace('WHEN', when)}"))
        for name, (values, when) in NTPD.items()
    )
    hold(shipped, "clock-ntpd", rows)


TITLE = "     remote           refid      st t when poll reach   delay   offset  jitter"
LOCAL = "*127.127.1.0     .LOCL.          10 l   10   64  377    0.000    0.000   0.000"
POOL = " 0.pool.ntp.org  .POOL.          16 p    -   64    0    0.000    0.000   0.000"


def server(when: str, poll: str) -> str:
    return f"*192.0.2.1       .GPS.            1 u {when} {poll}  377    0.300    0.020   0.010"


SOURCES = {
    "polled each 4096 seconds": [server("65m", "4096")],
    "the same in minutes": [server("65m", "68m")],
    "polled each 36 hours": [server("12h", "36h")],
    "two polls missed": [server("3h", "4096")],
    "three polls missed": [server("4h", "4096")],
    "more than an hour, and many polls": [server("65m", "64")],
    "no number as poll": [server("65m", "often")],
    "each by its own polls": [server("65m", "64"), server("65m", "4096")],
    "the local clock alone: a person's choice": [LOCAL],
    "the local clock, no server": [LOCAL, server("-", "64")],
    "the local clock, a pool that nobody is of": [LOCAL, POOL],
    "no source at all": [],
}


def test_the_sources_of_ntpd(shipped: Shipped) -> None:
    rows = (
        (name, ntpd(shipped.anew(), "\n".join([RV, TITLE, "=" * 78, *peers])))
        for name, peers in SOURCES.items()
    )
    hold(shipped, "clock-sources", rows)


def test_a_dead_ntpd_is_restarted(shipped: Shipped) -> None:
    ran = ntpd(shipped, "")
    assert ran.diagnosis["command"] == "restart-unit"
    assert ran.diagnosis["details"]["units"] == ["ntpsec.service"]
    assert ntpd(shipped, "nonsense").complaint.startswith("clock: ValueError: ntpq answers")


@pytest.mark.parametrize("folder", ["etc", "run"])
def test_what_a_person_has_masked_is_not_started(shipped: Shipped, folder: str) -> None:
    """`systemctl mask` leaves the link of `enable`; a start of the unit fails."""
    shipped.tree({"wants/chrony.service": "-> /usr/lib/systemd/system/chrony.service"})
    shipped.tree({f"{folder}/chrony.service": "-> /dev/null"})
    masks = (str(shipped.root / "etc"), str(shipped.root / "run"))
    none = shipped.root / "none"
    unreachable = "506 Cannot talk to daemon"
    assert chrony(shipped, unreachable, 1, MASKS=masks, TIMEDATECTL=none, NTPQ=none).code == 69
    assert (
        chrony(shipped, unreachable, 1, MASKS=(str(none),)).diagnosis["command"] == "restart-unit"
    )


def test_a_disabled_ntpd_is_not_started(shipped: Shipped) -> None:
    assert ntpd(shipped, "", enabled=False).code == 69


def test_nobody_to_ask(shipped: Shipped) -> None:
    none = shipped.root / "none"
    assert shipped.run("clock", CHRONYC=none, TIMEDATECTL=none).code == 69
    for script in ("exit 1", "echo yes; exit 1", "echo perhaps"):
        mute = shipped.tool("timedatectl", script)
        ran = shipped.run("clock", CHRONYC=none, TIMEDATECTL=mute)
        assert (ran.code, ran.complaint.startswith("clock: neither")) == (69, True)
