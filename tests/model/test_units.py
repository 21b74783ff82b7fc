"""Milliseconds, seconds and nanoseconds are told apart, by mypy alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent.model.units import Ms, Nanoseconds, Seconds, in_ms, in_ns, in_seconds
from tests import needs

TOP = Path(__file__).parent.parent.parent
WRONG = {
    "rewind(Ledger(), seconds)": 'has incompatible type "Seconds"; expected "Ms"',
    "rewind(Ledger(), 7)": 'has incompatible type "int"; expected "Ms"',
    "rewind(Ledger(), now + seconds)": 'has incompatible type "int"; expected "Ms"',
    "rewind(Ledger(), now - limits.cool_down_seconds)": 'type "int"; expected "Ms"',
    "start(rule, zone, 1) + now == in_ms(now)": 'has incompatible type "Ms"; expected "Seconds"',
    "coming(rule, zone, now)": 'has incompatible type "Ms"; expected "Seconds"',
    "Unavailability(now)": 'has incompatible type "Ms"; expected "Nanoseconds"',
    "RunCommand('n1', 'fix', '', seconds=now)": 'has incompatible type "Ms"; expected "Seconds"',
}
RIGHT = (
    "rewind(Ledger(), now + 5)",
    "rewind(Ledger(), now - in_ms(seconds) + now)",
    "coming(rule, zone, in_seconds(now) + limits.cool_down_seconds)",
    "Unavailability(in_ns(seconds), in_ns(seconds) + in_ns(seconds))",
)
HEAD = """
from nodeagent.maintd.windows.plan import rewind
from nodeagent.maintd.windows.recurrence import coming, start
from nodeagent.model.action import RunCommand
from nodeagent.model.constraints import Constraints
from nodeagent.model.ledger import Ledger
from nodeagent.model.series import Weekly
from nodeagent.model.units import Ms, Seconds, in_ms, in_ns, in_seconds
from nodeagent.model.window import Unavailability
from nodeagent.model.zone import Zone

def use(now: Ms, seconds: Seconds, limits: Constraints, rule: Weekly, zone: Zone) -> None:
"""


def test_mypy_refuses_one_unit_for_another(tmp_path: Path) -> None:
    needs.module("mypy")
    lines = (*WRONG, *RIGHT)
    (tmp_path / "units_mixed.py").write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    mypy = [sys.executable, "-m", "mypy", "--no-error-summary", str(tmp_path / "units_mixed.py")]
    said = subprocess.run(mypy, cwd=TOP, capture_output=True, text=True, check=False)
    told = said.stdout.splitlines()
    first = HEAD.count("\n") + 1
    found = {lines[int(line.split(":")[1]) - first]: line for line in told if ": error: " in line}
    assert found.keys() == WRONG.keys(), said
    assert not [line for line, why in WRONG.items() if why not in found[line]], found


def test_at_run_time_they_are_plain_numbers() -> None:
    assert {Ms, Seconds, Nanoseconds} == {int}
    assert (in_seconds(Ms(1999)), in_ms(Seconds(2)), in_ns(Seconds(2))) == (1, 2000, 2 * 10**9)


TIMES = {"now", "at", "ago", "issued", "expires", "began", "started", "ended", "seconds"}


def bare(source: str) -> list[int]:
    """The lines with a time, a field or an argument, that is any whole number."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as unit) if name in TIMES:
                found += [(node.lineno, unit)]
            case ast.AnnAssign(target=ast.Name(id=name), annotation=unit) if name in TIMES:
                found += [(node.lineno, unit)]
    bare_ones = {"int", "int | None", "Callable[[], int]"}
    return [line for line, unit in found if ast.unparse(unit) in bare_ones]


def test_every_time_says_its_unit() -> None:
    """A float is of a clock in seconds."""
    found = {path: bare(path.read_text()) for path in TOP.glob("nodeagent/**/*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("kind", ["int", "int | None", "Callable[[], int]"])
def test_a_bare_number_is_found(kind: str) -> None:
    assert bare(f"def f(now: {kind}) -> None: ...") == [1]
    assert bare(f"@dataclass\nclass Order:\n    issued: {kind} = 0") == [3]
    assert bare("def f(now: Ms, clock: Callable[[], Ms], many: int) -> None: ...") == []
