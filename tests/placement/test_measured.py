"""What docs/placement.md shows is what was measured."""

import json

from tests.bench.growth import FOLDER, pictures

WORDS = (FOLDER.parent / "placement.md").read_text()


def test_pictures_are_drawn_from_it() -> None:
    drawn = pictures()
    assert drawn
    for name, picture in drawn.items():
        assert (FOLDER / name).read_text() == picture, "python -m tests.bench.growth"
        assert f"(placement/{name})" in WORDS


def test_the_table_has_it() -> None:
    for row in json.loads((FOLDER / "growth.json").read_text()):
        (line,) = [
            line
            for line in WORDS.splitlines()
            if line.startswith(f"| {row['nodes']:,}, {row['instances']:,} |")
        ]
        best = row["best"]
        assert f"**{best['score']:.3f}**, {best['moves']:,} |" in line
        if "exact" in row:
            assert f"{row['exact']['score']:.3f}, {row['exact']['moves']:,} |" in line
