"""gnt-maint balance where somebody looks on: how far it is, and Ctrl-C."""

from pathlib import Path

import pytest

from tests.cli.maint.balanced import FULL, NODE
from tests.cli.terminal import Typed, in_a_terminal


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Sixty nodes, a quarter of which have all of 600 instances: seconds of work."""
    file = tmp_path / "large"
    nodes = "".join(NODE.format(f"n{n:02}", 9000 + n, 400_000 - 7 * n) for n in range(60))
    instances = "".join(
        f"i{n}|{64 + n % 37}|{100 + n % 91}|1|running|Y|n{n % 15:02}|n{(n * 7 + 1) % 15:02}|drbd|\n"
        for n in range(600)
        if n % 15 != (n * 7 + 1) % 15
    )
    file.write_text(f"{FULL}{nodes}\n{instances}\n")
    return file


def test_a_line_tells_how_long_it_looks_yet(large: Path) -> None:
    code, said = in_a_terminal("balance", "-t", str(large), "--time", "1s")
    assert code == 0
    assert "looking for a better balance, 0 of 1 s" in said
    assert "final score" in said


def test_ctrl_c_takes_what_is_found_so_far(large: Path) -> None:
    code, said = in_a_terminal(
        "balance",
        "-t",
        str(large),
        "--time",
        "10m",
        typed=Typed(b"looking for a better balance, 0 of"),
    )
    assert code == 0
    assert "final score" in said
    assert "JOB SET" in said
    assert "s; more time may find more" in said
