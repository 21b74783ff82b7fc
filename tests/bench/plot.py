"""Curves as SVG: a few lines with their names beside them, axes linear or logarithmic."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 150, 60, 52
RED, BLUE, GREEN, PURPLE = "#b3403a", "#2f6db5", "#2e8b57", "#8a5aa8"


@dataclass(frozen=True)
class Line:
    """Points, joined by a line or not; `reckoned` ones come after the measured, on a dashed line.

    The name stands beside the last one, `shift` pixels from it.
    """

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    reckoned: Sequence[tuple[float, float]] = ()
    dots: bool = True
    joined: bool = True
    shift: tuple[float, float] = (8, 4)


@dataclass(frozen=True)
class Axis:
    """What is along it, whether equal steps are equal factors, and values to mark, if not all."""

    name: str
    least: float
    most: float
    log: bool = False
    marks: tuple[float, ...] = ()

    def part(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        if self.log:
            return log10(value / self.least) / log10(self.most / self.least)
        return (value - self.least) / (self.most - self.least)

    def ticks(self) -> list[float]:
        """The marks, or round values."""
        if self.marks:
            return list(self.marks)
        if self.log:
            first, last = floor(log10(self.least)), floor(log10(self.most) + 1e-9)
            powers = [10.0**n for n in range(first, last + 1)]
            return [value for value in powers if value >= self.least * 0.999]
        raw = (self.most - self.least) / 5
        size = 10.0 ** floor(log10(raw))
        step = next(size * n for n in (1, 2, 5, 10) if size * n >= raw)
        return [n * step for n in range(int(self.least / step), int(self.most / step) + 1)]


def draw(title: str, across: Axis, up: Axis, lines: Sequence[Line]) -> str:
    """The picture."""
    found = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 24, title, size=15),
        *_grid(across, up),
    ]
    clip = f'<clipPath id="inside"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
    found.append(clip + f'height="{HEIGHT - TOP - BOTTOM}"/></clipPath>')
    for line in lines:
        found += _line(line, across, up)
    return "\n".join([*found, "</svg>", ""])


def _grid(across: Axis, up: Axis) -> list[str]:
    found = []
    for value in across.ticks():
        x = _x(across, value)
        found.append(_stroke([(x, TOP), (x, HEIGHT - BOTTOM)], "#e4e4e4"))
        found.append(_text(x, HEIGHT - BOTTOM + 18, _number(value), anchor="middle"))
    for value in up.ticks():
        y = _y(up, value)
        found.append(_stroke([(LEFT, y), (WIDTH - RIGHT, y)], "#e4e4e4"))
        found.append(_text(LEFT - 8, y + 4, _number(value), anchor="end"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    found.append(_text(middle, HEIGHT - 12, across.name, anchor="middle"))
    found.append(_text(LEFT - 8, TOP - 10, up.name, anchor="start"))
    return found


def _line(line: Line, across: Axis, up: Axis) -> list[str]:
    colour = line.colour
    points = [(_x(across, x), _y(up, y)) for x, y in line.points]
    found = [_stroke(points, colour, 2, inside=True)] if line.joined else []
    if line.reckoned:
        more = [points[-1], *((_x(across, x), _y(up, y)) for x, y in line.reckoned)]
        found.append(_stroke(more, colour, 2, dashed=True))
        points += more[1:]
    if line.dots:
        found += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    x, y = points[-1]
    found.append(_text(x + line.shift[0], y + line.shift[1], line.name, colour=colour))
    return found


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _x(across: Axis, value: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * across.part(value)


def _y(up: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up.part(value)


def _stroke(
    points: Sequence[tuple[float, float]],
    colour: str,
    width: float = 1,
    *,
    dashed: bool = False,
    inside: bool = False,
) -> str:
    dash = ' stroke-dasharray="5 5"' if dashed else ""
    dash += ' clip-path="url(#inside)"' if inside else ""
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = "#333", size: int = 13
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{escape(words)}</text>'
    )
