"""What the years came to, as a table to print, as one in the docs, and as a picture. Pure."""

from collections.abc import Mapping, Sequence
from math import log10
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER, DOCUMENT = DOCS / "repair-queue", DOCS / "repair-queue-year.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
HEADS = {
    "faults": "faults",
    "started": "repairs started",
    "wrong": "wrongly",
    "repairing": "most in repair at once",
    "rack": "of one rack",
    "hurt": "healthy ones",
    "lost": "most lost at once",
    "hours": "hours to repair",
    "left": "left to people",
    "harmed": "broken by repair",
}
WIDTH, ROW, LEFT, TOP = 920, 26, 320, 64
# Key, name, and the least that is shown on a scale of factors; without any the scale is of steps.
PANELS = (
    ("wrong", "repairs of healthy machines", 1.0),
    ("hours", "hours until a fault is mended", 0),
)
BLUE, GREY, DARK = "#2f6db5", "#e4e4e4", "#333"


def by_row(found: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The years of each row, in their order."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for one in found:
        rows.setdefault(one["row"], []).append(one)
    return rows


def cells(years: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many years, and of each column the median, and the least and the most."""
    said = [str(len(years))]
    for key in HEADS:
        values = sorted(year[key] for year in years)
        digits = 1 if key == "hours" else 0
        middle, least, most = (
            f"{value:,.{digits}f}" for value in (median(values), values[0], values[-1])
        )
        said.append(middle if least == most else f"{middle} ({least} to {most})")
    return said


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows, aligned."""
    lines = [["", "years", *HEADS.values()]]
    lines += [[name, *cells(years)] for name, years in by_row(found).items()]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def document(text: str, found: Sequence[Mapping[str, Any]]) -> str:
    """The document with the table in its place."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    lines = ["| | years | " + " | ".join(HEADS.values()) + " |", "|---" * (len(HEADS) + 2) + "|"]
    lines += [f"| {name} | {' | '.join(cells(years))} |" for name, years in by_row(found).items()]
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


def picture(found: Sequence[Mapping[str, Any]]) -> str:
    """A dot for each year, and a line at the median."""
    rows = by_row(found)
    height = TOP + ROW * len(rows) + 40
    title = "A year with 10,000 machines: what each guard is for"
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(12, 24, title, size=15),
    ]
    for number, name in enumerate(rows):
        svg.append(_text(LEFT - 12, TOP + ROW * (number + 0.5) + 4, name, anchor="end"))
    wide = (WIDTH - LEFT - 20) / len(PANELS)
    for place, (key, name, least) in enumerate(PANELS):
        svg += _panel(rows, key, name, least, LEFT + place * wide, wide - 40)
    return "\n".join([*svg, "</svg>", ""])


def _panel(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    key: str,
    name: str,
    least: float,
    left: float,
    wide: float,
) -> list[str]:
    most = max(max(year[key] for year in years) for years in rows.values())
    marks = [least]
    while marks[-1] < most:
        marks.append(marks[-1] * 10 if least else marks[-1] + 0.5)
    bottom = TOP + ROW * len(rows)

    def x(value: float) -> float:
        if not least:
            return left + wide * value / max(marks[-1], 0.5)
        return left + wide * log10(max(value, least) / least) / max(1, len(marks) - 1)

    svg = [_text(left, TOP - 14, name)]
    for mark in marks:
        svg.append(_line(x(mark), TOP, x(mark), bottom, GREY))
        svg.append(_text(x(mark), bottom + 18, f"{mark:,g}", anchor="middle"))
    for number, years in enumerate(rows.values()):
        y = TOP + ROW * (number + 0.5)
        middle = x(median(year[key] for year in years))
        svg.append(_line(middle, y - 8, middle, y + 8, DARK, 2))
        svg += [
            f'<circle cx="{x(year[key]):.1f}" cy="{y:.1f}" r="4" fill="{BLUE}" opacity="0.6"/>'
            for year in years
        ]
    return svg


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float = 1) -> str:
    at = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {at} stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 13) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{DARK}" '
        f'font-size="{size}">{escape(words)}</text>'
    )
