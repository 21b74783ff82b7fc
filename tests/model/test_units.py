"""Times say their unit; `units_mixed.py` has what mypy refuses."""

import ast
import re
from pathlib import Path

import pytest

from nodeagent.model.units import Ms, Nanoseconds, Seconds, in_ms, in_ns, in_seconds

TOP = Path(__file__).parent.parent.parent


def test_at_run_time_they_are_plain_numbers() -> None:
    assert {Ms, Seconds, Nanoseconds} == {int}
    assert (in_seconds(Ms(1999)), in_ms(Seconds(2)), in_ns(Seconds(2))) == (1, 2000, 2 * 10**9)


TIMES = {"now", "at", "ago", "issued", "expires", "began", "started", "ended", "seconds"}


MAY_BE_BARE = re.compile(rf"\b(?:{'|'.join(TIMES)}): (?:int\b|Callable\b)")  # as it is formatted


def bare(source: str) -> list[int]:
    """The lines with a time, a field or an argument, that is any whole number."""
    if not MAY_BE_BARE.search(source):
        return []
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
