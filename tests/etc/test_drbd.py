"""DRBD: the text of 8.4's /proc/drbd, and the JSON of 9's drbdsetup."""

import json
from typing import Any

import pytest

from .shipped import Ran, Shipped, hold

HEAD = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: 0000\n\n"
MOVING = "    ns:{0} nr:0 dw:{0} dr:7 al:3 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0\n"
SYNCING = (
    "\t[=>..................] sync'ed: {0}.7% (9/10)M\n\tfinish: 0:0{0}:11 speed: 9 (9) K/sec\n"
)


def eight(shipped: Shipped, *lines: str, moving: int = 1) -> Ran:
    rows = (f"{number:2}: {line}\n{MOVING.format(moving)}" for number, line in enumerate(lines))
    shipped.tree({"proc/drbd": HEAD + "".join(rows)})
    return shipped.run("drbd", PROC=shipped.root / "proc")


EIGHT = (
    "cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----",
    "cs:Connected ro:Secondary/Primary ds:UpToDate/Diskless C r-----",
    "cs:Unconfigured",
    "cs:WFConnection ro:Primary/Unknown ds:UpToDate/DUnknown C r-----",
    "cs:WFConnection ro:Secondary/Unknown ds:Inconsistent/DUnknown C r-----",
    "cs:NetworkFailure ro:Secondary/Unknown ds:Inconsistent/DUnknown C r-----",
    "cs:SyncTarget ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----",
    "cs:PausedSyncT ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----",
    "cs:WFBitMapT ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----",
    "cs:SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----",
    "cs:VerifyS ro:Primary/Secondary ds:UpToDate/UpToDate C r-----",
    "cs:Behind ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----",
    "cs:ProtocolError ro:Secondary/Unknown ds:Inconsistent/DUnknown C r-----",
    "cs:Connected ro:Secondary/Primary ds:Outdated/UpToDate C r-----",
    "cs:Connected ro:Primary/Secondary ds:Attaching/UpToDate C r-----",
    "cs:Connected ro:Primary/Secondary ds:Negotiating/UpToDate C r-----",
    "cs:WFConnection ro:Primary/Unknown ds:Consistent/DUnknown C s-----",
    "cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----",
    "cs:Connected ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----",
    "cs:StandAlone ro:Secondary/Unknown ds:Diskless/DUnknown   r-----",
    "cs:Connected ro:Primary/Secondary ds:Diskless/UpToDate C r-----",
    "cs:Connected ro:Primary/Secondary ds:Failed/UpToDate C r-----",
    "cs:WFConnection ro:Secondary/Unknown ds:Diskless/DUnknown C r-----",
    "cs:StandAlone ro:Primary/Unknown ds:Diskless/DUnknown   r-----",
)


def test_one_disk_of_8(shipped: Shipped) -> None:
    hold(shipped, "drbd", ((line, eight(shipped, line)) for line in EIGHT))


def test_progress_and_traffic_of_8_stay_out(shipped: Shipped) -> None:
    gone = "cs:SyncSource ro:Primary/Secondary ds:Diskless/Inconsistent C r-----\n"
    first = eight(shipped, gone + SYNCING.format(1), moving=1)
    assert eight(shipped, gone + SYNCING.format(8), moving=999).stdout == first.stdout


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("no version\n", id="no version"),
        pytest.param(HEAD + " 0: cs:\n", id="cut off"),
        pytest.param(HEAD + " 0: cs:Connected ro:Primary\n", id="no disk states"),
        pytest.param(HEAD + " 0: \x1b[31m\n", id="control characters"),
    ],
)
def test_what_8_never_prints_is_not_ok(shipped: Shipped, text: str) -> None:
    shipped.tree({"proc/drbd": text})
    ran = shipped.run("drbd", PROC=shipped.root / "proc")
    assert ran.complaint.startswith("drbd: ValueError: ")


def resource(disk: str = "UpToDate", **connections: tuple[str, str]) -> dict[str, Any]:
    return {
        "name": "instance1",
        "role": "Primary",
        "devices": [
            {"volume": 0, "minor": 5, "disk-state": disk, "client": False, "read": 7},
            {"volume": 1, "minor": 6, "disk-state": "UpToDate", "client": False, "read": 7},
        ],
        "connections": [
            {
                "name": name,
                "connection-state": state,
                "peer_devices": [
                    {"volume": 1, "replication-state": calm},
                    {"volume": 0, "replication-state": replication, "percent-in-sync": 12.5},
                ],
            }
            for name, (state, replication) in connections.items()
            for calm in ["Established" if state == "Connected" else "Off"]
        ],
    }


def nine(shipped: Shipped, answer: object, code: int = 0) -> Ran:
    shipped.tree({"proc/drbd": "version: 9.2.8 (api:2/proto:86-122)\nTransports (api:19): tcp\n"})
    text = answer if isinstance(answer, str) else json.dumps(answer)
    tool = shipped.tool("drbdsetup", f"cat <<'END'\n{text}\nEND\nexit {code}")
    return shipped.run("drbd", PROC=shipped.root / "proc", TOOLS=("/nonexistent", str(tool)))


ESTABLISHED = ("Connected", "Established")
NINE = {
    "connected": resource(n2=ESTABLISHED),
    "the peer is down": resource(n2=("Connecting", "Off")),
    "syncing": resource("Inconsistent", n2=("Connected", "SyncTarget")),
    "syncing from another peer": resource(
        "Inconsistent", n2=ESTABLISHED, n3=("Connected", "SyncTarget")
    ),
    "not syncing": resource("Inconsistent", n2=ESTABLISHED),
    "the disk has failed": resource("Diskless", n2=ESTABLISHED),
    "standing alone": resource(n2=("StandAlone", "Off"), n3=ESTABLISHED),
    "a secondary without disk and peers carries nothing": resource(
        "Diskless", n2=("StandAlone", "Off")
    )
    | {"role": "Secondary"},
}


def test_one_resource_of_9(shipped: Shipped) -> None:
    hold(shipped, "drbd-9", ((name, nine(shipped, [answer])) for name, answer in NINE.items()))


@pytest.mark.parametrize(
    ("answer", "code"), [("", 0), ("[", 0), ({"error": 1}, 0), ([{"name": "x"}], 0), ([], 20)]
)
def test_an_answer_of_9_that_is_none(shipped: Shipped, answer: object, code: int) -> None:
    assert nine(shipped, answer, code).complaint.startswith("drbd: ")


# DRBD's drbd_strings.c, 8.4 and 9.
AWAY = "Disconnecting Unconnected Timeout BrokenPipe NetworkFailure ProtocolError TearDown".split()
SYNCS = "StartingSyncS StartingSyncT WFBitMapS WFBitMapT WFSyncUUID SyncSource SyncTarget".split()
SYNCS += ["PausedSyncS", "PausedSyncT", "Ahead", "Behind"]
CALM = ["VerifyS", "VerifyT"]
WHOLE = "UpToDate Consistent Outdated Attaching Negotiating DUnknown".split()


BROKEN = ["Failed", "Diskless"]


@pytest.mark.parametrize("disk", [*WHOLE, "Inconsistent", *BROKEN])
def test_each_state_of_8_has_a_verdict(shipped: Shipped, disk: str) -> None:
    links = [*AWAY, "WFConnection", "WFReportParams", *SYNCS, "Connected", *CALM]
    rest = f"ro:Primary/Secondary ds:{disk}/UpToDate C r-----"
    ran = eight(shipped, *(f"cs:{link} {rest}" for link in links))
    stuck = [links.index(link) for link in ("Connected", *CALM)] if disk == "Inconsistent" else []
    told = range(len(links)) if disk in BROKEN else stuck
    assert ran.need == ("evacuate" if disk in BROKEN else "live-repair" if stuck else "Ok")
    expected = [{"disk": f"minor {number}", "fault": disk} for number in told]
    assert ran.faults == sorted(expected, key=lambda fault: fault["disk"])


@pytest.mark.parametrize("disk", [*WHOLE, "Detaching", "Inconsistent", *BROKEN])
def test_each_state_of_9_has_a_verdict(shipped: Shipped, disk: str) -> None:
    links = {link: (link, "Off") for link in (*AWAY, "Connecting")}
    links |= {link: ("Connected", link) for link in (*SYNCS, "Established", *CALM)}
    ran = nine(shipped, [resource(disk, n2=pair) | {"name": link} for link, pair in links.items()])
    stuck = ["Established", *CALM] if disk == "Inconsistent" else []
    assert ran.need == ("evacuate" if disk in BROKEN else "live-repair" if stuck else "Ok")
    told = sorted(links if disk in BROKEN else stuck)
    assert ran.faults == [{"disk": f"{link}/0", "fault": disk} for link in told]


def test_a_state_of_unknown_name_is_not_ok(shipped: Shipped) -> None:
    odd = "cs:Connected ro:Primary/Secondary ds:Melting/UpToDate C r-----"
    why = "minor 0 has a state of unknown name: 'Melting'"
    assert eight(shipped, odd).complaint == f"drbd: ValueError: /proc/drbd: {why}"
    ran = eight(shipped, odd, "cs:Connected ro:Primary/Secondary ds:Failed/UpToDate C r-----")
    assert (ran.need, ran.diagnosis["details"]["not_asked"]) == ("evacuate", [f"/proc/drbd: {why}"])
    assert "'Waving'" in nine(shipped, [resource(n2=("Connected", "Waving"))]).complaint


def test_a_volume_of_unknown_state_hides_no_other_volume(shipped: Shipped) -> None:
    answer = resource("Melting", n2=("Connected", "Established"))
    answer["devices"][1]["disk-state"] = "Failed"
    ran = nine(shipped, [answer])
    assert ran.faults == [{"disk": "instance1/1", "fault": "Failed"}]
    why = "drbdsetup: instance1/0 has a state of unknown name: 'Melting'"
    assert ran.diagnosis["details"]["not_asked"] == [why]
    del answer["devices"][0]["disk-state"]
    ran = nine(shipped, [answer])
    assert (ran.need, len(ran.diagnosis["details"]["not_asked"])) == ("evacuate", 1)


@pytest.mark.parametrize("word", [True, "no", "", None, 0, False])
def test_only_a_true_client_of_9_has_no_disk_by_intent(shipped: Shipped, word: object) -> None:
    answer = resource("Diskless", n2=("Connected", "Established"))
    answer["devices"][0]["client"] = word
    assert nine(shipped, [answer]).need == ("Ok" if word is True else "evacuate")
