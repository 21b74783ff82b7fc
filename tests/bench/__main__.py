"""`make bench`: measure ours and its peers in turn, print a table, write build/bench.json."""

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

from tests.bench import serve

OUT = Path(__file__).parents[2] / "build" / "bench.json"


def main() -> None:
    """Run all that can be measured here. A goal that is not met is shown, and fails nothing:
    machines are noisy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests, for CI")
    quick = parser.parse_args().quick
    rows = serve.rows(quick=quick)
    if importlib.util.find_spec("tests.bench.command"):
        rows += importlib.import_module("tests.bench.command").rows()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


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


if __name__ == "__main__":
    main()
