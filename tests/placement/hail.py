"""The real hail, asked and understood."""

import importlib.util
import json
import random
import subprocess
from pathlib import Path
from typing import Any

from nodeagent.placement.allocate.candidates import Terms
from nodeagent.placement.allocate.iallocator import answer
from nodeagent.placement.allocate.request import read_request
from tests import needs
from tests.htools import beside
from tests.placement.hbal import DATA

real = beside("hail")
FILES = sorted(DATA.glob("hail*.json"))
_DEDICATED = DATA.parent / "gen_dedicated.py"
Asked = dict[str, Any]


def hail(folder: Path, asked: Asked, options: list[str]) -> Asked:
    """What it answers."""
    file = folder / "request.json"
    file.write_text(json.dumps(asked))
    words = [needs.HAIL, *options, str(file)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    found: Asked = json.loads(ran.stdout)
    return found


def ours(asked: Asked, options: list[str], *, as_hail: bool = True) -> Asked:
    """What we answer, by its ways or by our own."""
    only = [word.partition("=")[2] for word in options if word.startswith("--restrict")]
    terms = Terms(
        ignore_soft="--ignore-soft-errors" in options,
        capacity="--no-capacity-checks" not in options,
        only=frozenset(only[0].split(",")) if only else None,
    )
    return answer(read_request(asked), terms, hail=as_hail)


def same(one: Asked, other: Asked, seed: int = -1) -> None:
    """Equal, but for what hail prints of its own memory where no group is left."""
    assert _plain(one) == _plain(other), f"seed {seed}"


def _plain(told: Asked) -> Asked:
    if len(told["result"]) != 3 or not isinstance(told["result"][1], list):
        return told
    moved, failed, jobs = told["result"]
    short = [[name, why.partition("no groups for evacuation: ")[0]] for name, why in failed]
    return {**told, "result": [moved, short, jobs]}


def mistaken(asked: Asked, options: list[str]) -> bool:
    """Whether hail takes another instance for the new one when it asks for redundancy.

    It numbers the new one by how many the named group has, which may be another's number.
    """
    name = asked["request"].get("group_name")
    if name is None or "--no-capacity-checks" in options:
        return False
    uuid = next(u for u, g in asked["nodegroups"].items() if name in (u, g["name"]))
    inside = [
        number
        for number, instance in enumerate(asked["instances"].values())
        if asked["nodes"][instance["nodes"][0]]["group"] == uuid
    ]
    first = len(inside)
    many = len(asked["request"].get("instances", [0]))
    return any(number >= first for number in inside) or (
        many > 1 and first != len(asked["instances"])
    )


def generator() -> Any:
    """The generator of requests on exclusive storage that lies beside the checkout."""
    needs.require("shared/htools")
    spec = importlib.util.spec_from_file_location("gen_dedicated", _DEDICATED)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dedicated(seed: int) -> Asked:
    """A request on exclusive storage, the generator's and a little more."""
    rng = random.Random(seed)
    asked: Asked = generator().generate(
        rng.choice((1, 2, 3, 6, 12, 25)),
        seed,
        rng.choice(("full", "half", "quarter", "mix")),
        multi=rng.choice((0, 0, 3, 8)),
        drbd=rng.random() < 0.5,
        groups=rng.choice((1, 1, 2, 3)),
        levels=rng.choice((3, 4, 5)),
        fill=rng.choice((0.3, 0.55, 0.9)),
    )
    _mirror_some(rng, asked)
    if rng.random() < 0.2:
        rng.choice(list(asked["nodes"].values()))["drained"] = True
    if rng.random() < 0.2:
        asked["request"]["group_name"] = rng.choice(("group1", "uuid-group-1"))
    return asked


def _mirror_some(rng: random.Random, asked: Asked) -> None:
    """So that nodes are acquainted with each other."""
    nodes = asked["nodes"]
    for instance in asked["instances"].values():
        name = rng.choice(list(nodes))
        (primary,) = instance["nodes"]
        other = nodes[name]
        fits = other["free_disk"] > instance["disk_space_total"]
        near = name != primary and other["group"] == nodes[primary]["group"]
        if fits and near and rng.random() < 0.4:
            instance["nodes"].append(name)
            instance["disk_template"] = "drbd"
            other["free_disk"] -= instance["disk_space_total"]
            other["free_spindles"] -= instance["disks"][0]["spindles"]
