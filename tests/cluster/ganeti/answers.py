"""Answers of Ganeti, as LUXI gives them."""

from typing import Any

# As the real luxid 3.0.2 gives them.
NODE = ["n1", "u1", "10.0.0.1", "g1", False, False, True, True, ["a:b"], 1, False, 1, ""]


DRBD = ["i1", "n1", ["n2"], "drbd", 128, 384, "up", [], False, 1, True, 1, [None], False, "kvm"]


PLAIN = ["i2", "n1", [], "plain", 128, 256, "down", ["t"], False, 2, False, 3, [1, 2], True, "lxc"]


GROUP = ["g1", "default", [], "preferred", {"vcpu-ratio": 4}]


INFO = {"name": "c", "master": "n1", "tags": ["x"], "ipolicy": {"std": {}}, "more": 1}


def answer(*rows: list[Any]) -> dict[str, Any]:
    return {"fields": [], "data": [[[0, value] for value in row] for row in rows]}


def put(row: list[Any], index: int, value: object) -> list[Any]:
    return [*row[:index], value, *row[index + 1 :]]
