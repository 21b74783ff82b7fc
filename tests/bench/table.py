"""What a bench has measured: rows, printed and kept in build/bench.json."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
OUT = Path(__file__).parents[2] / "build" / "bench.json"


def run(rows: Callable[..., list[Row]], what: str | None) -> None:
    """Measure, print the table, and put the rows in place of those of the same names.

    A goal that is not met is shown, and fails nothing: machines are noisy.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--quick", action="store_true", help="ask less, for CI")
    found = rows(quick=parser.parse_args().quick)
    OUT.parent.mkdir(exist_ok=True)
    before = json.loads(OUT.read_text()) if OUT.exists() else []
    names = {one["name"] for one in found}
    kept = [one for one in before if one["name"] not in names]
    OUT.write_text(json.dumps(kept + found, indent=1) + "\n")
    print(table(found))


def row(
    name: str,
    ours: float | None,
    peer: float | None,
    *,
    goal: str | None = None,
    met: bool | None = None,
) -> dict[str, Any]:
    """One line of the table; `met` is None where there is no goal or no peer."""
    ratio = ours / peer if ours is not None and peer else None
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows, aligned."""
    head = ("", "ours", "peer", "ratio", "goal", "met")
    lines = [head] + [
        (
            str(row["name"]),
            _number(row["ours"]),
            _number(row["peer"]),
            _number(row["ratio"]),
            str(row["goal"] or ""),
            {True: "yes", False: "NO", None: ""}[row["met"]],
        )
        for row in rows
    ]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in (0, 4) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _number(value: object) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
