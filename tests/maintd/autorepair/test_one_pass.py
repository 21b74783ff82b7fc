"""Passes of `gnt-maint repair` in the safe mode, on a cluster that has time and locks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from nodeagent.autorepair.jobs import instance_of
from nodeagent.autorepair.tags import PREFIX
from nodeagent.cluster.backend import NotTaken
from nodeagent.maintd.autorepair.one_pass import Pass, Seen, one_pass, why_stopped
from nodeagent.model.action import Guarded, Move, MovePrimary, MoveSecondary, Reinstall, move_of
from nodeagent.model.fencing import FENCED_TAG
from nodeagent.model.ledger import PAUSE_TAG, STORM_TAG, Intent, Ledger, Trail
from nodeagent.model.purpose import OfIncident, OfRepair
from nodeagent.model.reason import FencingKind, Kind, Reason, because
from nodeagent.model.snapshot import Capacity, Instance, Node, Observed
from nodeagent.model.units import Ms
from tests.cluster.by_hand import ByHand
from tests.maintd.decided import details, within
from tests.maintd.rig import Between

START = 1_700_000_000.0


def nodes(count: int = 5) -> list[Node]:
    return [Node(f"n{n}", f"u{n}", "", "g", candidate=True) for n in range(1, count + 1)]


def instance(name: str, primary: str, secondary: str | None = None, **other: object) -> Instance:
    template = "drbd" if secondary else "sharedfile"
    made = Instance(name, primary, secondary, template, memory=1024, disk=4096)
    return replace(made, **other)  # type: ignore[arg-type]


@dataclass
class Site:
    """A cluster and its clock; `allowed` stands on the cluster itself."""

    instances: Iterable[Instance]
    allowed: str = "reinstall"
    count: int = 5
    most: int = 1000
    time: float = START
    cluster: ByHand = field(init=False)

    def __post_init__(self) -> None:
        fleet = nodes(self.count)
        self.cluster = ByHand.of(lambda: self.time, fleet, self.instances, master="n1")
        if self.allowed:
            self.cluster.world.tags = frozenset({PREFIX + self.allowed})
        self.cluster.forgets_after = 1e9

    def go(self, seconds: float = 400.0, *, dry: bool = False) -> Pass:
        """A pass, and then time."""
        done = one_pass(self.cluster, lambda: Ms(int(self.time * 1000)), dry=dry, most=self.most)
        self.time += seconds
        return done

    def change(self, node: str, **flags: bool) -> None:
        self.cluster.put(replace(self.cluster.nodes[node], **flags))  # type: ignore[arg-type]
        if "offline" in flags:  # a person takes a node offline when its machine is off
            (self.cluster.power_off if flags["offline"] else self.cluster.power_on)(node)

    def tag(self, name: str, tag: str) -> None:
        it = self.cluster.instances[name]
        self.cluster.put(replace(it, tags=it.tags | {PREFIX + tag}))

    def tags(self, name: str) -> list[str]:
        return sorted(tag.removeprefix(PREFIX) for tag in self.cluster.instances[name].tags)

    def moves(self) -> list[Move]:
        """What was done to instances, in order."""
        return [j.action.then for j in self.cluster.jobs.values() if isinstance(j.action, Guarded)]

    def place(self, name: str) -> tuple[str, str | None]:
        it = self.cluster.instances[name]
        return it.primary, it.secondary


# Each kind of repair.


def repaired(done: Pass) -> list[str]:
    return [instance_of(intent.action) for intent, _ in done.plan.jobs]


def held(done: Pass) -> dict[str, Reason]:
    return dict(done.plan.blocked)


def test_a_mirrored_instance_is_failed_over_and_mirrored_anew_in_one_repair() -> None:
    site = Site([instance("i", "n2", "n3")])
    site.change("n2", offline=True)
    site.go()
    (begun,) = site.tags("i")
    assert begun.startswith("pending:failover:")
    assert site.place("i") == ("n3", "n2")
    site.go()
    site.go()
    assert [type(move) for move in site.moves()] == [MovePrimary, MoveSecondary]
    assert not any(getattr(move, "live", False) for move in site.moves())
    (ended,) = site.tags("i")
    _, kind, identity, _, ending, jobs = ended.split(":")
    assert (kind, identity, ending) == ("failover", begun.split(":")[2], "success")
    moved = [j.number for j in site.cluster.jobs.values() if isinstance(j.action, Guarded)]
    assert jobs == "+".join(moved)
    assert site.place("i")[0] == "n3"
    assert site.place("i")[1] not in ("n2", "n3")
    reasons = {job.reason.split(":")[1] for job in site.cluster.jobs.values()}
    assert reasons == {identity}


def test_a_job_of_an_incident_is_left_alone_and_one_of_a_repair_stops_nothing() -> None:
    """The daemon's jobs go on even if it has stopped itself."""
    site = Site([instance("i", "n2", "n3")])
    for purpose, kinds in ((OfIncident("1"), [Kind.OUR_JOB]), (OfRepair("r"), [])):
        job = Intent("1", purpose, "n2", MovePrimary("x", "n2", live=True, target="n3"), "7")
        seen = Seen(Ledger(intents=(job,)), Observed(site.cluster.snapshot(), {}))
        whys = why_stopped(seen, site.cluster.instances["i"])
        assert [why.kind for why in whys] == kinds


@pytest.mark.parametrize(
    "tag",
    [
        PAUSE_TAG,
        "maintd:repairfailed:6f3b1d5e-0002-4000-8000-000000000001",
        "maintd:repairing:6f3b1d5e-0002-4000-8000-000000000001",
        f"{PAUSE_TAG} everywhere",
        f"{STORM_TAG} everywhere",
    ],
)
def test_what_maintd_has_left_in_tags_is_heeded(tag: str) -> None:
    site = Site([instance("i", "n2")])
    site.change("n2", offline=True)
    if tag.endswith(" everywhere"):
        site.cluster.world.tags |= {tag.removesuffix(" everywhere")}
    else:
        site.cluster.tag("n2", tag)
    ((name, why),) = held(site.go()).items()
    assert name == "i"
    assert str(details([why], Kind.TAGGED)["tag"]).startswith("maintd:")
    assert site.moves() == []


@pytest.mark.parametrize("secondary", [None, "n3"])
def test_the_instances_of_a_fenced_node_are_left_to_maintd(secondary: str | None) -> None:
    site = Site([instance("i", "n2", secondary)])
    site.cluster.tag("n2", f"{FENCED_TAG}1700000000")
    site.change("n2", offline=True)
    ((name, why),) = held(site.go()).items()
    assert name == "i"
    assert (FencingKind.KEEPS_INSTANCES, "n2") in within(why)
    assert site.moves() == []


class BackInBetween(Between):
    """Somebody puts n2 back while the nodes are asked for their room."""

    def capacity(self, nodes: Collection[str]) -> Mapping[str, Capacity]:
        found = self.cluster.capacity(nodes)
        self.cluster.undrain("n2")
        return found


def test_nothing_is_done_about_a_node_that_is_back_when_all_is_decided() -> None:
    site = Site([instance("i", "n2")])
    site.change("n2", offline=True)
    between = BackInBetween(site.cluster)
    done = one_pass(between, lambda: Ms(int(site.time * 1000)), dry=False)
    (answer,) = done.answers.values()
    assert isinstance(answer, NotTaken)
    site.go()
    assert site.moves() == []


# Room.


def test_where_there_is_no_room_a_repair_waits_for_it() -> None:
    site = Site([instance("i", "n2", "n3"), instance("j", "n2", "n3")])
    site.cluster.world.sizes["n3"] = Capacity(1500, 10**6)
    site.change("n2", offline=True)
    done = site.go(3600)
    assert [move.instance for move in site.moves()] == ["i"]
    small = because(Kind.TOO_SMALL, "n3", free=476, wanted=1024, what="memory")
    assert details([held(done)["j"]], Kind.MIRROR_REFUSES) == {"it": "j", "why": small}
    assert site.go().plan.counts == {"Pending repair": 1, "Needs repair": 1}
    site.cluster.world.sizes["n3"] = Capacity(10**6, 10**6)
    for _ in range(3):
        site.go()
    assert site.place("j")[0] == "n3"


def test_no_more_are_repaired_at_once_than_may_be_whoever_has_begun_them() -> None:
    """A rack that is marked offline by mistake is not failed over as a whole."""
    site = Site([instance(f"i{n}", "n2") for n in range(8)], most=3)
    site.cluster.takes = lambda a: 1000.0 if move_of(a) else 1.0
    site.change("n2", offline=True)
    done = site.go()
    assert [move.instance for move in site.moves()] == ["i0", "i1", "i2"]
    left = held(done)
    assert list(left) == ["i3", "i4", "i5", "i6", "i7"]
    why = because(Kind.AT_ONCE, most=3)
    assert {details([one], Kind.STEP_WAITS)["why"] for one in left.values()} == {why}
    assert done.plan.counts == {"Pending repair": 3, "Needs repair": 5}
    site.go()  # the three are under way still
    assert len(site.moves()) == 3
    site.time += 4000
    site.go()
    assert [move.instance for move in site.moves()[3:]] == ["i3", "i4", "i5"]


# The unexpected.


def test_what_a_job_has_done_while_we_looked_is_not_done_again() -> None:
    """Reading the queue takes minutes where it is long: the cluster is looked at after it."""
    site = Site([instance("s", "n2")])
    site.change("n2", offline=True)
    site.cluster.takes = lambda _: 100.0
    site.go(1)

    class Slow(ByHand):
        def trails(self) -> Sequence[Trail]:
            site.time += 200
            return super().trails()

    site.cluster.__class__ = Slow
    site.go()
    assert len(site.moves()) == 1
    assert ":success:" in site.tags("s")[0]


def test_a_dry_run_only_tells() -> None:
    site = Site([instance("i", "n2", "n3")])
    site.tag("i", f"suspend:{int(START) - 5}")
    site.change("n2", offline=True)
    done = site.go(dry=True)
    assert not site.cluster.jobs
    assert (repaired(done), len(list(done.expired)), done.answers) == (["i"], 1, {})


def test_an_installation_that_waits_is_canceled_when_a_node_with_the_data_is_back() -> None:
    site = Site([instance("i", "n2", "n3")])
    for node in ("n2", "n3"):
        site.change(node, offline=True)
    site.cluster.pauses = lambda action: isinstance(move_of(action), Reinstall)
    site.go(10)  # its tag
    assert repaired(site.go(10)) == ["i"]
    assert site.go(10).withdrawn == [], "nobody has its data"
    site.change("n3", offline=False, drained=True)
    for dry, in_time in ((True, None), (False, True)):
        ((_, name, why, tried),) = site.go(10, dry=dry).withdrawn
        assert (name, tried) == ("i", in_time)
        assert why == "node n3, which has the data of i, is no longer offline"
    assert site.go().withdrawn == []
