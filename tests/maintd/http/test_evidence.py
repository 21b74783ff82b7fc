"""The evidence as rows for people: each source, what it says, and what it proves."""

from dataclasses import replace

from nodeagent.maintd.http.dead_nodes import evidence_views
from nodeagent.maintd.http.status import evidence_json
from nodeagent.model.evidence import Contact, Evidence, Level, Mirror, PowerReading
from nodeagent.model.evidence import Testimony as Told
from nodeagent.model.fencing import Life
from nodeagent.model.reason import FencingKind, because
from nodeagent.model.units import Ms
from tests.maintd.world import NOW, seen, six

CONNECTED = Mirror("web1", "Connected", "UpToDate")
LOST = Mirror("web1", "WFConnection", "UpToDate")
SILENT = Contact.SILENT, Contact.SILENT
EVIDENCE = Evidence(
    "n1",
    Ms(NOW - 600_000),
    Contact.SILENT,
    "timed out",
    noded=False,
    noded_at=Ms(NOW - 60_000),
    witnesses=(
        Told("n2", Ms(NOW - 5_000), *SILENT, (CONNECTED, LOST)),
        Told("n3", Ms(NOW - 5_000), *SILENT, (LOST,)),
        Told("n4", Ms(NOW - 5_000), *SILENT, None, "no mond"),
        Told("n5", Ms(NOW - 61_000), Contact.ANSWERS, Contact.REFUSED, ()),
    ),
    asked=("n6",),
    power=PowerReading("uuid-n1", NOW, True, 1, (Level(1, ("fence_ipmilan",), "on", True),)),
    last=Ms(NOW - 600_000),
    said="Ok",
)


def test_every_source_has_its_row() -> None:
    observed = replace(seen(six(web1=("n1", "n2"))), evidence={"n1": EVIDENCE})
    shown = evidence_views(observed, NOW)["n1"]
    assert shown.judgement.life is Life.ISOLATED
    assert shown.judgement.connected == ("web1",)
    assert [(row.source, row.text, row.proves) for row in shown.rows] == [
        ("its agent", "nothing: timed out", "nothing"),
        ("its noded", "does not answer Ganeti", "nothing"),
        (
            "witness n2",
            "noded: nothing; agent: nothing; 1 of 2 DRBD disks connected",
            "its kernel lives",
        ),
        ("witness n3", "noded: nothing; agent: nothing; none of 1 DRBD disks connected", "nothing"),
        (
            "witness n4",
            "noded: nothing; agent: nothing; its DRBD disks are unread: no mond",
            "nothing",
        ),
        ("witness n5", "noded: answers; agent: refused", "nothing: too old"),
        ("witness n6", "has not answered", "nothing"),
        ("power control", "on, says level 1", "it has power"),
        ("itself", "answered last: Ok", "nothing"),
    ]
    assert "web1" not in str(evidence_json(shown)), "any reader may see it"


def test_a_master_that_suspects_itself_says_so_of_each_node() -> None:
    silent = frozenset({"n1", "n2", "n3", "n4"})
    observed = replace(seen(six(), unanswered=silent), evidence={"n1": EVIDENCE})
    judgement = evidence_views(observed, NOW)["n1"].judgement
    assert judgement.life is Life.UNKNOWN
    assert judgement.reason == because(FencingKind.SUSPECTS_ITSELF, reached=2, nodes=6)
