"""The house plan's table of imports, held against the source itself.

Two walls: between packages (`MAY_IMPORT`), and between the rooms of maintd, placement and
cli/maint (`ROOMS`, `FLOORS`). A module whose docstring says "Pure." imports only modules that say
it, and nothing of `NOT_PURE`.
"""

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "nodeagent"
LOW = {"errors", "model", "protocol"}
NODE = LOW | {
    "web",
    "faults",
    "drop_ins",
    "settings",
    "folder",
    "service",
    "ssconf",
    "clocks",
    "agent",
}
MASTER = LOW | {
    "background",
    "web",
    "secret",
    "faults",
    "section",
    "drop_ins",
    "service",
    "ssconf",
    "clocks",
    "store",
    "cluster",
    "placement",
    "autorepair",
    "maintd",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "background": set(),
    "model": {"errors"},
    "clocks": {"model"},
    "protocol": LOW,
    "faults": {"errors"},
    "section": {"faults", "model"},
    "folder": LOW,
    "secret": {"errors"},
    "ssconf": {"errors"},
    "drop_ins": {"errors", "faults", "folder"},
    "settings": {"faults", "model", "section", "drop_ins"},
    "service": {"clocks", "errors", "model"},
    "web": LOW | {"clocks"},
    "placement": {"errors", "model"},
    "autorepair": {"errors", "model"},
    "cluster": LOW | {"ssconf", "clocks"},
    "store": LOW | {"clocks"},
    "agent": NODE,
    "power": {"errors", "faults", "model", "section", "folder", "drop_ins", "secret", "ssconf"},
    "maintd": MASTER,
    "cli": MASTER | {"folder", "settings"},
}
# maintd's rooms, lowest first: the packages and the rooms that each may import besides itself and
# LOW. "All above" in the house plan means every room of a line before.
PLANNERS = {
    "notices",
    "owners",
    "incidents",
    "outage",
    "balancing",
    "autorepair",
    "windows",
    "queue",
    "rolls",
    "fencing",
    "succession",
}
PURE_ROOMS = PLANNERS | {"planning", "ledger", "deciding"}
ROOMS: dict[str, set[str]] = {
    "planning": {"nodeagent.placement", "nodeagent.autorepair", "nodeagent.section"},
    "outage": {"planning"},
    "owners": {"planning"},
    "notices": {
        *("planning", "owners", "windows"),
        *("nodeagent.background", "nodeagent.section", "nodeagent.web", "nodeagent.secret"),
    },
    "incidents": {"planning", "outage"},
    "balancing": {"planning", "nodeagent.background", "nodeagent.placement", "nodeagent.cluster"},
    "autorepair": {"planning", "outage", "nodeagent.autorepair", "nodeagent.cluster"},
    "windows": {"planning", "outage", "owners", "nodeagent.placement"},
    "queue": {
        *("planning", "outage", "windows", "notices"),
        *("nodeagent.background", "nodeagent.section", "nodeagent.web", "nodeagent.secret"),
    },
    "rolls": {"planning", "outage"},
    "fencing": {"planning", "outage", "nodeagent.placement"},
    "succession": {"planning", "fencing"},
    "ledger": {"planning", "windows"},
    "deciding": PLANNERS - {"succession"} | {"planning", "ledger"},
    "engine": PURE_ROOMS - {"incidents", "succession", "rolls", "windows", "autorepair", "outage"}
    | {"nodeagent.cluster", "nodeagent.store", "nodeagent.web", "nodeagent.placement"}
    | {"nodeagent.background"}
    | {"nodeagent.service", "nodeagent.faults", "nodeagent.section", "nodeagent.drop_ins"},
    "http": PURE_ROOMS - {"incidents", "succession"}
    | {"engine", "nodeagent.web", "nodeagent.store", "nodeagent.autorepair"}
    | {"nodeagent.secret", "nodeagent.faults"},
}
# The other two houses with rooms: what each room may import of its own house.
FLOORS: dict[str, dict[str, set[str]]] = {
    "placement": {
        "cluster": set(),
        "layout": {"cluster"},
        "balance": {"layout", "cluster"},
        "allocate": {"layout", "cluster"},
        "evacuate": {"layout", "cluster"},
        "headroom": {"layout", "cluster", "allocate", "evacuate"},
    },
    "cli/maint": {
        "console": set(),
        "balancing": {"console"},
    },
}
# What root runs on a node loads nothing of the master's.
VERBS = ("nodeagent", "check_config", "commands", "diagnose", "report", "terminal", "usage")
COMMAND_LINES = {
    **{f"cli/{verb}.py": NODE | {"cli"} for verb in VERBS},
    "cli/maintd.py": MASTER | {"cli"},
    "cli/maintd_run.py": MASTER | {"cli"},
    "cli/iallocator.py": {"errors", "model", "placement", "cli"},
    "cli/departures.py": {"clocks", "errors", "model", "placement"},
    "cli/maintd_check.py": MASTER | {"cli", "power"},
    "cli/oob.py": {"errors", "faults", "power", "cli"},
    "cli/gnt_maint.py": MASTER | {"cli"},
    # A standby's root helper.
    "cli/succeed.py": MASTER | {"cli", "folder", "power"},
}
# Run as scripts in processes of their own, so they import nothing of ours.
ALONE = {"agent/supervisor.py", "web/selfsigned.py", "protocol/signature.py"}
BACKENDS = "nodeagent.cluster.ganeti"
MAY_NAME_BACKENDS = {
    "cli/maintd_parts.py",
    "cli/maintd_run.py",
    "cli/succeed.py",
    "cli/gnt_maint.py",
    "cli/maint/repair.py",
    "cli/maint/explain.py",
    "cli/maint/ledger.py",
    "cli/maint/harep_run.py",
    "cli/maint/console/arguments.py",
    "cli/maint/console/cluster_source.py",
}
NOT_PURE = {
    "asyncio",
    "http",
    "logging",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "zoneinfo",
}
# All that decides says that it is pure; these rooms' modules that act are named here.
PURE_PLACES = (
    *("model/", "protocol/", "placement/", "autorepair/"),
    *(f"maintd/{room}/" for room in ("planning", "incidents", "ledger", "windows", "queue")),
    "maintd/outage/",
    *(f"maintd/{room}/" for room in ("owners", "balancing", "autorepair", "notices", "fencing")),
    "maintd/succession/",
    *(
        "maintd/copies/",
        "maintd/deciding/decide.py",
        "maintd/deciding/requests.py",
        "maintd/deciding/drill.py",
    ),
)
ACTING = {
    "protocol/signature.py",
    "maintd/notices/firing.py",
    "maintd/notices/outbox.py",
    "maintd/notices/settings.py",
    "maintd/notices/sinks/alertmanager.py",
    "maintd/notices/sinks/http.py",
    "maintd/notices/sinks/smtp.py",
    "maintd/notices/sinks/webhook.py",
    "maintd/queue/inventory.py",
    "maintd/balancing/search_thread.py",
    "maintd/balancing/headroom_thread.py",
    "maintd/balancing/inputs.py",
    "maintd/autorepair/one_pass.py",
    "maintd/engine/withdrawals.py",
    "maintd/engine/timezones.py",
}
# What datetime makes of a given time is pure.
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
FILES = sorted(ROOT.rglob("*.py"))


@dataclass
class Source:
    """What the rules ask of a file. It is read once: a tree kept would cost more than all rules.

    Calls have their line, and tell whether they stand in what is marked `measures`. Imports have
    their line. `splatted` are the lines of calls with a tuple written out and unpacked.
    """

    pure: bool = False
    imported: list[tuple[str, int]] = field(default_factory=list)
    calls: list[tuple[str, int, bool]] = field(default_factory=list)
    clocks: set[str] = field(default_factory=set)
    splatted: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> "Source":
        tree = ast.parse(text)
        source = cls("Pure." in (ast.get_docstring(tree) or ""))
        parts = [node for one in tree.body if isinstance(one, ast.Assign) for node in ast.walk(one)]
        all_measures = any(dotted(node).endswith("mark.measures") for node in parts)
        for part in tree.body:
            marks = [dotted(mark) for mark in getattr(part, "decorator_list", [])]
            measures = all_measures or "pytest.mark.measures" in marks
            for node in ast.walk(part):
                source._note(node, measures=measures)
        return source

    def _note(self, node: ast.AST, *, measures: bool) -> None:
        match node:
            case ast.Call(func=func, args=args, lineno=line):
                self.calls.append((dotted(func), line, measures))
                self.splatted += [arg.lineno for arg in args if _is_splatted(arg)]
            case ast.Attribute():
                self.clocks |= {dotted(node)} & CLOCKS
            case ast.Import(names=names, lineno=line):
                self.imported += [(alias.name, line) for alias in names]
            case ast.ImportFrom(names=names, level=level, lineno=line):
                module = "." * level + (node.module or "")
                self.imported += [(name, line) for name in (module, *_within(module, names))]


def dotted(node: ast.AST) -> str:
    """A name as it is written, `time.sleep`; without its beginning where that is no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join((node.id if isinstance(node, ast.Name) else "", *parts))


def _within(module: str, names: list[ast.alias]) -> list[str]:
    return [f"{module}.{alias.name}" for alias in names]


def _is_splatted(arg: ast.expr) -> bool:
    match arg:
        case ast.Starred(value=ast.Tuple(elts=parts)):
            return not any(isinstance(part, ast.Starred) for part in parts)
        case _:
            return False


@cache
def read(path: Path) -> Source:
    return Source.of(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    """The modules that a module imports, and those it takes of packages, all in full."""
    names = {name for name, _ in read(path).imported}
    assert not any(name.startswith(".") for name in names), f"{path}: write imports in full"
    return {name for name in names if not name.startswith("nodeagent.") or _is_module(name)}


def is_pure(path: Path) -> bool:
    return read(path).pure


def clocks(source: Source) -> list[str]:
    return [f"a pure module may not ask {name}" for name in sorted(source.clocks)]


@cache
def module_at(name: str) -> Path | None:
    """The file of one of our modules, or None: a name that a module defines, a package."""
    path = ROOT.parent / (name.replace(".", "/") + ".py")
    return path if path.is_file() else None


@cache
def _is_module(name: str) -> bool:
    return module_at(name) is not None or (ROOT.parent / name.replace(".", "/")).is_dir()


def callers(name: str) -> set[str]:
    """The modules that call what is written so, or of which that is the end."""
    return {
        str(path.relative_to(ROOT))
        for path in FILES
        if any(f".{call}".endswith(f".{name}") for call, _, _ in read(path).calls)
    }


def between_packages(here: str, names: set[str]) -> list[str]:
    part = here.partition("/")[0].removesuffix(".py")
    allowed = COMMAND_LINES.get(here, MAY_IMPORT.get(part, set()) | {part})
    said = []
    for name in names:
        first, _, rest = name.partition(".")
        if first == "nodeagent" and rest and rest.partition(".")[0] not in allowed:
            said.append(f"{here} may not import {name}")
        if first == "nodeagent" and here in ALONE:
            said.append(f"{here} runs alone and may not import {name}")
        if name.startswith(BACKENDS) and part != "cluster" and here not in MAY_NAME_BACKENDS:
            said.append(f"{here} may not name the backend {name}")
        if first in ("simulation", "tests"):
            said.append(f"{here} is for production and may not import {name}")
    return said


def between_rooms(here: str, names: set[str]) -> list[str]:
    """What a room of maintd may import, of maintd and of the other packages."""
    if not here.startswith("maintd/") or here == "maintd/__init__.py":
        return []
    room = here.split("/")[1].removesuffix(".py")
    if room not in ROOMS:
        return [f"{here} is in no room of ROOMS: {room}"]
    allowed = ROOMS[room] | {room} | {f"nodeagent.{low}" for low in LOW}
    said = []
    for name in names:
        words = name.split(".")
        if words[0] != "nodeagent" or len(words) < 2 or name == "nodeagent.maintd":
            continue
        of = words[2] if words[1] == "maintd" else f"nodeagent.{words[1]}"
        if of not in allowed:
            said.append(f"{here} may not import {name}: {room} is below, or beside it")
    return said


def between_floors(
    here: str, names: set[str], floors: Mapping[str, set[str]], house: str
) -> list[str]:
    """What a room of another house may import of its own house; its ground floor takes all."""
    if not here.startswith(f"{house}/"):
        return []
    room, inside, _ = here.removeprefix(f"{house}/").partition("/")
    if not inside:
        return []
    package = f"nodeagent.{house.replace('/', '.')}."
    ours = (name.removeprefix(package).split(".")[0] for name in names if name.startswith(package))
    return [
        f"{here} may not import {package}{other}"
        for other in sorted(set(ours))
        if other not in floors[room] | {room}
    ]


def impure(here: str, names: set[str]) -> list[str]:
    """What a pure module may not import: what acts or asks, and modules that are not pure."""
    said = []
    for name in names:
        if name.partition(".")[0] in NOT_PURE and not name.startswith("urllib.parse"):
            said.append(f"{here} is pure and may not import {name}")
        path = module_at(name)
        if path is not None and not is_pure(path):
            said.append(f"{here} is pure and may not import {name}, which does not say so")
    return said


def faults(here: str, names: set[str], *, pure: bool = False) -> list[str]:
    said = between_packages(here, names) + between_rooms(here, names)
    for house, floors in FLOORS.items():
        said += between_floors(here, names, floors, house)
    return said + (impure(here, names) if pure else [])


def test_layers() -> None:
    found: list[str] = []
    for path in FILES:
        found += faults(str(path.relative_to(ROOT)), imports(path), pure=is_pure(path))
    assert not found


def test_what_decides_says_that_it_is_pure_and_asks_no_clock() -> None:
    found: list[str] = []
    for path in FILES:
        here = str(path.relative_to(ROOT))
        is_room = here.startswith(PURE_PLACES) and path.name != "__init__.py"
        if is_room and is_pure(path) == (here in ACTING):
            found.append(f'{here}: its docstring says "Pure.", or ACTING does')
        if is_pure(path):
            found += [f"{here}: {fault}" for fault in clocks(read(path))]
    assert not found


TESTS = ROOT.parent / "tests"
# Not of the quick suite; and who may look at the clock there: what waits for others, or fuzzes for
# so long, beside the marked measurements and the real clusters' time.
SLOW_PLACES = ("bench/", "real/", "year/", "power/")
MAY_ASK_THE_TIME = {
    *("patience.py", "cluster/places.py"),
    *("cluster/test_conformance.py", "fuzz/fuzzer.py"),
    *("fuzz/nasty.py", "maintd/http/page/browser.py", "maintd/lives/coordinator.py"),
}
_TIME = {"sleep", "monotonic", "perf_counter", "process_time", "thread_time"}


def asks_the_time(source: Source) -> list[int]:
    """The lines of a test file that sleep or read the clock, but for what is marked `measures`."""
    asking = _TIME | {f"time.{name}" for name in _TIME}
    return [line for name, line, measures in source.calls if name in asking and not measures]


def test_time_is_virtual_in_the_quick_suite() -> None:
    """Wait with tests/patience.py, step a clock, or mark what measures."""
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        here = str(path.relative_to(TESTS))
        if not here.startswith(SLOW_PLACES) and here not in MAY_ASK_THE_TIME:
            found[here] = asks_the_time(read(path))
    assert not {here: lines for here, lines in found.items() if lines}


def test_the_rule_about_time_can_fail() -> None:
    text = "def test_x():\n    time.sleep(1)\n    assert process_time() < 1\n"
    assert asks_the_time(Source.of(text)) == [2, 3]
    assert asks_the_time(Source.of(f"@pytest.mark.measures\n{text}")) == []
    assert asks_the_time(Source.of(f"pytestmark = pytest.mark.measures\n{text}")) == []


def test_no_module_imports_itself_round_about() -> None:
    """No circle of imports, in all of the project, whatever hides it."""
    ways = {path: {m for n in imports(path) if (m := module_at(n))} for path in FILES}
    done: set[Path] = set()

    def walk(path: Path, trail: tuple[Path, ...]) -> None:
        assert path not in trail, [str(p.relative_to(ROOT)) for p in (*trail, path)]
        if path not in done:
            for other in ways.get(path, ()):
                walk(other, (*trail, path))
            done.add(path)

    for path in FILES:
        walk(path, ())


def test_the_rule_about_clocks_can_fail() -> None:
    assert clocks(Source.of("from datetime import datetime\ndatetime.now()\n"))


@pytest.mark.parametrize(
    ("here", "name"),
    [
        ("agent/runner.py", "nodeagent.maintd.deciding.decide"),
        ("maintd/engine/round.py", "nodeagent.agent.orders"),
        ("model/incident.py", "nodeagent.protocol.canonical"),
        ("agent/supervisor.py", "nodeagent.errors"),
        ("maintd/engine/round.py", "simulation.cluster"),
        ("cli/nodeagent.py", "nodeagent.cluster.backend"),
        ("cli/oob.py", "nodeagent.maintd.deciding.decide"),
        ("power/control.py", "nodeagent.agent.command"),
        # Between rooms.
        ("maintd/planning/resources.py", "nodeagent.maintd.incidents.lifecycle"),
        ("maintd/incidents/steps.py", "nodeagent.maintd.ledger.history"),
        ("maintd/queue/plan.py", "nodeagent.maintd.incidents.steps"),
        ("maintd/windows/plan.py", "nodeagent.maintd.engine.round"),
        ("maintd/deciding/recover.py", "nodeagent.store.sqlite"),
        ("maintd/engine/round.py", "nodeagent.maintd.http.status"),
        ("maintd/deciding/decide.py", "nodeagent.cluster.backend"),
        ("maintd/newcomer/plan.py", "nodeagent.errors"),
        ("placement/layout/score.py", "nodeagent.placement.balance.search"),
        ("placement/balance/search.py", "nodeagent.placement.allocate.dedicated"),
        ("cli/maint/console/client.py", "nodeagent.cli.maint.balancing.report"),
    ],
)
def test_the_rule_can_fail(here: str, name: str) -> None:
    assert faults(here, {name})


@pytest.mark.parametrize(
    ("here", "name"),
    [
        ("maintd/deciding/decide.py", "time"),
        ("maintd/windows/recurrence.py", "zoneinfo"),
        ("placement/layout/score.py", "subprocess"),
        ("protocol/messages.py", "socket"),
    ],
)
def test_the_rule_about_pure_modules_can_fail(here: str, name: str) -> None:
    assert not faults(here, {name})
    assert faults(here, {name}, pure=True)


def test_modules_are_named_by_a_noun_or_verb_of_the_field() -> None:
    nothing_said = {
        "utils",
        "util",
        "helpers",
        "helper",
        "common",
        "base",
        "manager",
        "mixin",
        "misc",
    }
    assert not [path for path in FILES if path.stem in nothing_said]


def test_only_a_diagnosed_fault_is_an_incident() -> None:
    """A window or an entry of the queue asks for an `Evacuation`, and poses as no incident."""
    assert callers("Incident") == {"maintd/incidents/lifecycle.py", "maintd/deciding/recover.py"}


def test_the_rooms_of_maintd_form_few_floors() -> None:
    """Each floor imports only what is below it; few arrows, so that a reader can follow them."""
    below: dict[str, set[str]] = {}
    for path in (ROOT / "maintd").rglob("*.py"):
        room = path.relative_to(ROOT / "maintd").parts[0]
        named = {
            name.split(".")[2] for name in imports(path) if name.startswith("nodeagent.maintd.")
        }
        below[room] = below.get(room, set()) | named - {room}
    floors: list[set[str]] = []
    while left := below.keys() - set().union(*floors):
        floor = {room for room in left if not below[room] & left}
        assert floor, f"these rooms import each other: {sorted(left)}"
        floors.append(floor)
    assert len(floors) <= 10
    assert sum(map(len, below.values())) < 60


LINES, MODULES = 600, 20  # of a module; of a room of maintd or placement


def test_no_call_unpacks_a_tuple_that_it_writes() -> None:
    """Which argument is which?"""
    for path in (*FILES, *TESTS.rglob("*.py")):
        assert not read(path).splatted, path


def test_the_rule_about_unpacked_tuples_can_fail() -> None:
    assert Source.of("f(*(a, b), c=1)\ng(*a)\nh(*(*a, b))").splatted == [1]


def test_modules_and_rooms_stay_small() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in FILES
        if (lines := len(path.read_text().splitlines())) > LINES
    }
    assert not long
    inside = (path.relative_to(ROOT) for path in FILES if path.name != "__init__.py")
    rooms = Counter(path.parent for path in inside if path.parts[0] in ("maintd", "placement"))
    assert not [str(room) for room, many in rooms.items() if many > MODULES]


PROMISES = {"maintd/planning/resources.py", "maintd/planning/intents.py"}


def test_only_who_has_taken_a_node_makes_an_intent_there() -> None:
    """`Ledger.promise` is called by `Taken.promise`, and for intents that need no claim."""
    assert callers("ledger.promise") == PROMISES


def test_only_the_room_gives_nodes_away() -> None:
    ours = {here for here in callers("Taken") if here.startswith("maintd/")}
    assert ours == {"maintd/planning/resources.py"}


def test_no_test_imports_a_test() -> None:
    """Others' helpers stand in a module of their own: else a test cannot be moved or deleted."""
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for name, line in read(path).imported
        if name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")
    ]
    assert found == []


def test_every_line_is_formatted_alike() -> None:
    """No line is saved by what the formatter would undo."""
    places = [ROOT, TESTS, ROOT.parent / "simulation"]
    marks = tuple(f"# fmt: {word}" for word in ("skip", "off"))
    found = [
        f"{path.relative_to(ROOT.parent)}"
        for place in places
        for path in sorted(place.rglob("*.py"))
        if any(mark in path.read_text() for mark in marks)
    ]
    assert found == []
