"""What a bench has measured: rows, printed and kept in build/bench.json."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
OUT = Path(__file__).parents[2] / "build" / "bench.json"


def keep(found: list[Row]) -> None:
    """Put the rows in place of those of the same names."""
    OUT.parent.mkdir(exist_ok=True)
    before = json.loads(OUT.read_text()) if OUT.exists() else []
    names = {one["name"] for one in found}
    kept = [one for one in before if one["name"] not in names]
    OUT.write_text(json.dumps(kept + found, indent=1) + "\n")


def row(
    name: str,
    ours: float | None,
    peer: float | None = None,
    *,
    most: float | None = None,
    times: float | None = None,
    goal: str = "",
    met: bool | None = None,
) -> Row:
    """One line of the table; `met` is None where there is no goal, or no peer that it needs.

    A goal is `most` of ours, or so many `times` the peer's; or it is in words, with its answer.
    """
    if most is not None:
        goal, met = f"<= {_number(most)}", None if ours is None else ours <= most
    if times is not None:
        goal = f"<= {times:.3g} of the peer's"
        met = ours <= times * peer if ours is not None and peer else None
    ratio = ours / peer if ours is not None and peer else None
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met}


def table(rows: Iterable[Row]) -> str:
    """The rows, aligned."""
    lines = [("", "ours", "peer", "ratio", "goal", "met")] + [
        (
            str(row["name"]),
            _number(row["ours"]),
            _number(row["peer"]),
            _number(row["ratio"]),
            str(row["goal"]),
            {True: "yes", False: "NO", None: ""}[row["met"]],
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
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
