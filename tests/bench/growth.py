"""How the time to balance grows with the cluster, and how the score falls with the moves.

    python -m tests.bench.growth [--measure]

Draws docs/placement/*.svg from the *.json beside them; with --measure, measures these anew first
(an hour: hbal is one of those measured).
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.placement import Ran, cluster, hbal, ours
from tests.bench.plot import BLUE, GREEN, PURPLE, RED, Axis, Line, draw

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "placement"
# Nodes, instances, and the processor seconds that `best` is given.
SIZES = (
    (10, 80, 1.5),
    (20, 200, 2),
    (40, 400, 3),
    (80, 1000, 5),
    (200, 4000, 8.5),
    (500, 10_000, 50),
    (1000, 20_000, 200),
)
HBAL_WHOLE, HBAL_STEP, EXACT = 40, 200, 500  # nodes up to which each is measured
CURVE = (200, 4000)
LIMITS, LIMITED_SECONDS = (100, 300, 500, 700, 900, 1100), 40  # at most so many moves
EVERY = 10  # moves, of the curve's points


def measure() -> None:
    """Everything, into the files."""
    growth: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for nodes, instances, seconds in SIZES:
            file = cluster(Path(name), nodes, instances)
            ran = {"best": ours(file, "best", seconds)}
            if nodes <= EXACT:
                ran["exact"] = ours(file, "exact")
            found = {"nodes": nodes, "instances": instances}
            if (nodes, instances) == CURVE:
                limited = [
                    (n, round(ours(file, "best", LIMITED_SECONDS, n).final, 4)) for n in LIMITS
                ]
                curve = {way: _thinned(one.scores) for way, one in ran.items()}
                _write("curve", curve | {"limited": limited})
            if nodes <= HBAL_STEP:
                ran["hbal"] = hbal(file, *([] if nodes <= HBAL_WHOLE else ["-l", "1"]))
            growth.append(found | {way: _told(one) for way, one in ran.items()})
            _write("growth", growth)


def pictures() -> dict[str, str]:
    """By file name, drawn from what was measured."""
    return {"growth.svg": _growth(_read("growth")), "curve.svg": _curve(_read("curve"))}


def _growth(rows: list[dict[str, Any]]) -> str:
    whole = [(r["nodes"], r["hbal"]["seconds"]) for r in rows if r["nodes"] <= HBAL_WHOLE]
    reckoned = [
        (r["nodes"], r["hbal"]["seconds"] * r["exact"]["moves"])
        for r in rows
        if HBAL_WHOLE < r["nodes"] <= HBAL_STEP
    ]
    lines = [Line("hbal (-- reckoned)", RED, whole, reckoned)]
    for way, colour in (("exact", BLUE), ("best", GREEN)):
        points = [(r["nodes"], r[way]["seconds"]) for r in rows if way in r]
        lines.append(Line(way, colour, points))
    return draw(
        "Processor seconds to balance a cluster, from the file to the last move",
        Axis("nodes", 8, 1250, log=True, marks=tuple(r["nodes"] for r in rows)),
        Axis("seconds", 0.1, 1e6, log=True),
        lines,
    )


def _curve(scores: dict[str, list[list[float]]]) -> str:
    limited = _points(scores["limited"])
    lines = [
        Line("exact", BLUE, _points(scores["exact"]), dots=False, shift=(-36, 18)),
        Line("best", GREEN, _points(scores["best"]), dots=False),
        Line("best of at most so many", PURPLE, limited, joined=False, shift=(-170, 14)),
    ]
    most = max(n for line in lines for n, _ in line.points)
    return draw(
        f"The score after so many moves: {CURVE[0]} nodes, {CURVE[1]:,} instances",
        Axis("moves", 0, most * 1.02),
        Axis("score", 4, 60, log=True, marks=(4, 5, 7, 10, 15, 20, 30, 40, 50)),
        lines,
    )


def _points(pairs: list[list[float]]) -> list[tuple[float, float]]:
    return [(n, score) for n, score in pairs]


def _thinned(scores: list[float]) -> list[tuple[int, float]]:
    points = [(n, round(score, 4)) for n, score in enumerate(scores)]
    return [point for point in points if point[0] % EVERY == 0 or point is points[-1]]


def _told(ran: Ran) -> dict[str, float]:
    return {
        "seconds": round(ran.seconds, 3),
        "memory": round(ran.memory),
        "moves": len(ran.moves),
        "score": round(ran.final, 8),
    }


def _read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def _write(name: str, values: object) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(values) + "\n")


def main() -> None:
    """Measure, if asked, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="take an hour to measure anew")
    if parser.parse_args().measure:
        measure()
    for name, picture in pictures().items():
        (FOLDER / name).write_text(picture)


if __name__ == "__main__":
    main()
