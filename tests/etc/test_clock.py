"""The clock as chronyc or timedatectl describes it.

An answer has the time of a test in it, and so is made in the test.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest

from .shipped import CALL, Ran, Shipped


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


def chrony(shipped: Shipped, text: str, code: int = 0) -> Ran:
    tool = shipped.tool("chronyc", f"cat <<'END'\n{text}\nEND\nexit {code}")
    return shipped.run("clock", CHRONYC=tool, UNITS=shipped.root)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        pytest.param(tracking, None, id="kept"),
        pytest.param(partial(tracking, "-0.9"), None, id="nearly a second"),
        pytest.param(partial(tracking, leap="Insert second"), None, id="a leap second ahead"),
        pytest.param(
            partial(tracking, server="506000201"), None, id="a server whose name looks like 506"
        ),
        pytest.param(partial(tracking, "1.5"), "far-off", id="behind"),
        pytest.param(partial(tracking, "-150.0"), "far-off", id="ahead"),
        pytest.param(
            partial(tracking, leap="Not synchronised"), "unsynchronised", id="unsynchronised"
        ),
        pytest.param(partial(tracking, age=3000.0), None, id="heard within the hour"),
        pytest.param(
            partial(tracking, age=4000.0), "no-server", id="no server for more than an hour"
        ),
        pytest.param(partial(tracking, age=-4000.0), "no-server", id="heard in the future"),
        pytest.param(partial(tracking, age=6000.0, interval=2100.0), None, id="polls far apart"),
        pytest.param(
            partial(tracking, age=8000.0, interval=2100.0), "no-server", id="three polls missed"
        ),
        pytest.param(
            partial(tracking, dispersion=1.5), "no-server", id="a dispersion of over a second"
        ),
    ],
)
def test_chrony(shipped: Shipped, answer: Callable[[], str], fault: str | None) -> None:
    ran = chrony(shipped, answer())
    assert ran.diagnosis.get("command") == (CALL if fault else None)
    assert ran.faults == ([{"by": "chrony", "fault": fault}] if fault else [])


@pytest.mark.parametrize("unit", ["chrony.service", "chronyd.service"])
def test_a_dead_chrony_is_restarted(shipped: Shipped, unit: str) -> None:
    shipped.tree({unit: ""})
    ran = chrony(shipped, "506 Cannot talk to daemon", code=1)
    assert ran.diagnosis["command"] == "restart-unit"
    assert ran.diagnosis["details"]["units"] == [unit]


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


def ntpd(shipped: Shipped, text: str) -> Ran:
    none = shipped.root / "none"
    tool = shipped.tool("ntpq", f"cat <<'END'\n{text}\nEND")
    units = shipped.tree({"ntpsec.service": ""})
    return shipped.run("clock", CHRONYC=none, TIMEDATECTL=none, NTPQ=tool, UNITS=units)


@pytest.mark.parametrize(
    ("values", "when", "fault"),
    [
        pytest.param(RV, "936", None, id="kept"),
        pytest.param(RV, "62m", "no-server", id="no server for more than an hour"),
        pytest.param(RV, "2d", "no-server", id="cut off for two days"),
        pytest.param(RV, "-", "no-server", id="never heard one"),
        pytest.param(RV.replace("142.9", "2610.9"), "4", "no-server", id="a large dispersion"),
        pytest.param(RV.replace("=00", "=11"), "4", "unsynchronised", id="unsynchronised"),
        pytest.param(RV.replace("-18.4", "1800.4"), "4", "far-off", id="far off"),
    ],
)
def test_ntpd(shipped: Shipped, values: str, when: str, fault: str | None) -> None:
    ran = ntpd(shipped, f"{values}\n{PEERS.replace('WHEN', when)}")
    assert ran.diagnosis.get("command") == (CALL if fault else None)
    assert ran.faults == ([{"by": "ntpd", "fault": fault}] if fault else [])


TITLE = "     remote           refid      st t when poll reach   delay   offset  jitter"
LOCAL = "*127.127.1.0     .LOCL.          10 l   10   64  377    0.000    0.000   0.000"
POOL = " 0.pool.ntp.org  .POOL.          16 p    -   64    0    0.000    0.000   0.000"


def server(when: str, poll: str) -> str:
    return f"*192.0.2.1       .GPS.            1 u {when} {poll}  377    0.300    0.020   0.010"


@pytest.mark.parametrize(
    ("peers", "fault"),
    [
        pytest.param([server("65m", "4096")], None, id="polled each 4096 seconds"),
        pytest.param([server("65m", "68m")], None, id="the same in minutes"),
        pytest.param([server("12h", "36h")], None, id="polled each 36 hours"),
        pytest.param([server("3h", "4096")], None, id="two polls missed"),
        pytest.param([server("4h", "4096")], "no-server", id="three polls missed"),
        pytest.param([server("65m", "64")], "no-server", id="more than an hour, and many polls"),
        pytest.param([server("65m", "often")], "no-server", id="no number as poll"),
        pytest.param(
            [server("65m", "64"), server("65m", "4096")], None, id="each by its own polls"
        ),
        pytest.param([LOCAL], None, id="the local clock alone: a person's choice"),
        pytest.param([LOCAL, server("-", "64")], "no-server", id="the local clock, no server"),
        pytest.param([LOCAL, POOL], "no-server", id="the local clock, a pool that nobody is of"),
        pytest.param([], "no-server", id="no source at all"),
    ],
)
def test_the_sources_of_ntpd(shipped: Shipped, peers: list[str], fault: str | None) -> None:
    ran = ntpd(shipped, "\n".join([RV, TITLE, "=" * 78, *peers]))
    assert ran.faults == ([{"by": "ntpd", "fault": fault}] if fault else [])


def test_a_dead_ntpd_is_restarted(shipped: Shipped) -> None:
    ran = ntpd(shipped, "")
    assert ran.diagnosis["command"] == "restart-unit"
    assert ran.diagnosis["details"]["units"] == ["ntpsec.service"]
    assert ntpd(shipped, "nonsense").complaint.startswith("clock: ValueError: ntpq answers")


def test_nobody_to_ask(shipped: Shipped) -> None:
    none = shipped.root / "none"
    assert shipped.run("clock", CHRONYC=none, TIMEDATECTL=none).code == 69
    for script in ("exit 1", "echo yes; exit 1", "echo perhaps"):
        mute = shipped.tool("timedatectl", script)
        ran = shipped.run("clock", CHRONYC=none, TIMEDATECTL=mute)
        assert (ran.code, ran.complaint.startswith("clock: neither")) == (69, True)
