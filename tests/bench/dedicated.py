"""Allocation on exclusive and other storage, beside hail: whole processes, from file to answer.

    python -m tests.bench.dedicated [--quick]

The goal for mirrored instances on 5,000 nodes is a hundredth of hail's processor time. Small
requests have one of their own, as Ganeti waits for each: 100 ms; of the processor, since what else
the machine does is no affair of theirs.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import needs
from tests.bench.table import row, run
from tests.placement.hail import generator
from tests.placement.hbal import DATA

TOP = Path(__file__).resolve().parents[2]
OURS = [
    sys.executable,
    "-IS",
    "-c",
    f"import sys; sys.path.insert(0, {str(TOP)!r})\n"
    "from nodeagent.cli.iallocator import main; main()",
]
DRBD = ("drbd",)
SMALL = DATA / "hail-alloc-drbd.json"


def rows(*, quick: bool = False) -> list[dict[str, Any]]:
    """Measure everything that the material beside the checkout lets us."""
    if needs.absent("shared/htools"):
        print("bench: no ../shared/htools, so no requests to an allocator", file=sys.stderr)
        return []
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for nodes in (300, 1000) if quick else (300, 1000, 5000):
            found.append(_compared(Path(folder), nodes, drbd=True))
        found.append(_compared(Path(folder), 1000 if quick else 5000, drbd=False))
        for nodes, instances, templates in ((40, 400, ("drbd", "rbd", "plain")), (200, 4000, DRBD)):
            if not (quick and instances > 400):
                found.append(_scored(Path(folder), nodes, instances, templates))
    small = [_run(OURS, SMALL)[1:] for _ in range(20)]
    wall, spent = min(one[0] for one in small), min(one[1] for one in small)
    found.append(row("iallocator, small request, wall s", wall, None))
    what = "iallocator, small request, CPU s"
    found.append(row(what, spent, None, goal="<= 0.1", met=spent <= 0.1))
    return found


def _compared(folder: Path, nodes: int, *, drbd: bool) -> dict[str, Any]:
    asked = generator().generate(nodes, 1, "quarter", drbd=drbd)
    ours, theirs = _both(folder, asked)
    what = f"iallocator, {'drbd' if drbd else 'plain'}, {nodes:,} exclusive nodes, CPU s"
    if not (drbd and nodes == 5000):
        return row(what, ours, theirs)
    met = ours * 100 <= theirs if theirs else None
    return row(what, ours, theirs, goal="<= 1/100", met=met)


def _scored(folder: Path, nodes: int, instances: int, templates: tuple[str, ...]) -> dict[str, Any]:
    """A new mirrored instance where the score decides."""
    ours, theirs = _both(folder, _ordinary(nodes, instances, templates))
    kinds = " and ".join(templates)
    what = f"iallocator, {nodes} ordinary nodes, {instances:,} instances of {kinds}, CPU s"
    return row(what, ours, theirs)


def _both(folder: Path, asked: dict[str, Any]) -> tuple[float, float | None]:
    """Our best processor time of three, and hail's; their answers must be equal."""
    file = folder / "request.json"
    file.write_text(json.dumps(asked))
    answers, ours = set(), float("inf")
    for _ in range(3):
        answer, _, spent = _run(OURS, file)
        answers.add(answer)
        ours = min(ours, spent)
    theirs = None
    if not needs.absent("hail"):
        answer, _, theirs = _run([needs.HAIL], file)
        answers.add(answer)
    assert len(answers) == 1, answers
    return ours, theirs


def _ordinary(nodes: int, instances: int, templates: tuple[str, ...]) -> dict[str, Any]:
    """Nodes that are a third full; the instances lie anywhere."""
    rng = random.Random(1)
    names = [f"node{n:04d}" for n in range(nodes)]
    used = {name: [0, 0] for name in names}
    placed = {}
    for number in range(instances):
        template, memory = rng.choice(templates), rng.choice((1024, 2048, 4096))
        at = rng.sample(names, 2)[: 2 if template == "drbd" else 1]
        placed[f"inst{number:05d}"] = _instance(template, memory) | {"nodes": at}
        used[at[0]][0] += memory
        for name in at:
            used[name][1] += 10368
    least, most = (
        {
            "memory-size": a,
            "cpu-count": b,
            "disk-size": c,
            "disk-count": d,
            "nic-count": 8,
            "spindle-use": e,
        }
        for a, b, c, d, e in ((128, 1, 256, 1, 1), (32768, 8, 1048576, 16, 12))
    )
    policy = {
        "std": least,
        "minmax": [{"min": least, "max": most}],
        "disk-templates": ["drbd", "plain", "rbd"],
        "vcpu-ratio": 4.0,
        "spindle-ratio": 32.0,
    }
    group = {"name": "g", "alloc_policy": "preferred", "networks": [], "tags": []}
    new = {"type": "allocate", "name": "new", "required_nodes": 2}
    return {
        "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"],
        "nodegroups": {"uuid": group | {"ipolicy": policy}},
        "nodes": {
            name: {
                "group": "uuid",
                "tags": [],
                "offline": False,
                "drained": False,
                "vm_capable": True,
                "ndparams": {"exclusive_storage": False, "spindle_count": 4},
                "total_memory": 131072,
                "reserved_memory": 1024,
                "free_memory": 130048 - memory,
                "total_disk": 2_000_000,
                "free_disk": 2_000_000 - disk,
                "total_spindles": 4,
                "free_spindles": 0,
                "total_cpus": 64,
                "reserved_cpus": 1,
            }
            for name, (memory, disk) in used.items()
        },
        "instances": placed,
        "request": _instance("drbd", 2048) | new,
    }


def _instance(template: str, memory: int) -> dict[str, Any]:
    return {
        "tags": [],
        "memory": memory,
        "vcpus": 2,
        "spindle_use": 1,
        "disk_template": template,
        "disks": [{"mode": "rw", "size": 10240}],
        "disk_space_total": 10368,
        "nics": [],
    }


def _run(command: list[str], file: Path) -> tuple[str, float, float]:
    """What it answers, and the wall and processor seconds of the whole process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, wall, spent


if __name__ == "__main__":
    run(rows, __doc__)
