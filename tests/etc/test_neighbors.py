"""What LLDP hears at the other end of a faulty link, on recorded answers of lldpd."""

import json
from typing import Any

import pytest

from . import recordings
from .shipped import OK, Files, Ran, Shipped
from .test_links import PORT, look


def verbose(answer: str) -> str:
    """Turn lldpctl's `json`, in which names are keys and a list of one is none, into its `json0`.

    Only the members that the command reads are turned.
    """
    said = json.loads(answer)["lldp"]["interface"]
    rows = []
    for name, told in (pair for row in listed(said) for pair in row.items()):
        [(system, chassis)] = told["chassis"].items()
        port = {"id": [told["port"]["id"]], "descr": [{"value": told["port"]["descr"]}]}
        named = {"id": [chassis["id"]], "name": [{"value": system}]}
        rows.append({"name": name, "chassis": [named], "port": [port]})
    return json.dumps({"lldp": [{"interface": rows}]})


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


NOTHING = recordings.read("lldpctl-nothing.json0")
REFUSED = recordings.read("lldpctl-refused")
SEVERAL = recordings.read("lldpctl-several.json0")
TELEPHONE = recordings.read("lldpctl-telephone.json0")
ON_ETH1 = TELEPHONE.replace('"eno1"', '"eth1"')
TOLD = "GXP1630_ec:74:d7:2f:7e:a2 ec:74:d7:2f:7e:a2 (eth0)"


def ask(shipped: Shipped, answer: str, changes: Files | None = None, **constants: object) -> Ran:
    """Run with an lldpd that answers so, on a healthy node with these changes."""
    script = f"[ \"$*\" = '-f json0' ] || exit 64\ncat <<'END'\n{answer}\nEND"
    ends = int(answer == REFUSED)
    tool = shipped.tool("lldpctl", f"{script}\nexit {ends}")
    return look(shipped, changes or {}, **{"LLDPCTL": (str(tool),), **constants})


def down(port: str) -> Files:
    return {f"{port}/carrier": "0\n"}


# The answer while all is well, the slave that goes down then, and its neighbor.
NEIGHBORS = {
    "a switch": (verbose(recordings.read("lldpctl-cisco-6500")), "eth0", "c6500-vxlan Gi3/36"),
    "one interface, a VLAN": (
        verbose(recordings.read("lldpctl-juniper-vlan")),
        "eno1",
        "router ge-1/0/1",
    ),
    "a port that is a MAC address": (
        verbose(recordings.read("lldpctl-host")),
        "ens1",
        "my-pc fe:34:45:00:21:01 (eth10)",
    ),
    "a chassis that is an IP address": (TELEPHONE, "eno1", TOLD),
    "two on one port, one without a name": (
        SEVERAL,
        "eth0",
        "02:00:00:00:00:03 02:00:00:00:00:09, leaf01 Ethernet1/1",
    ),
    "a port that is a number": (SEVERAL, "eth1", "leaf02 518 (ge-0/0/1)"),
    "another port": (TELEPHONE, "eth1", ""),
    "nothing heard": (NOTHING, "eth1", ""),
    "lldpd may not be asked, or does not run": (REFUSED, "eth1", ""),
    "no answer": ("", "eth1", ""),
}


def test_the_neighbor_of_a_slave_that_went_down(shipped: Shipped) -> None:
    for name, (answer, port, neighbor) in NEIGHBORS.items():
        world = shipped.anew()
        world.tree({f"{port}/{key}": text for key, text in PORT.items()}, under="sys/class/net")
        slaves = {"bond0/bonding/slaves": " ".join({"eth0", "eth1", port})}
        assert ask(world, answer, slaves).diagnosis == OK, name
        row = {"interface": port, "bond": "bond0", "fault": "down"}
        row |= {"neighbor": neighbor} if neighbor else {}
        ran = ask(world, NOTHING, {**slaves, **down(port)})  # lldpd forgets it with the carrier
        assert (ran.need, ran.faults) == ("live-repair", [row]), name


def test_a_bond_has_the_neighbors_of_its_slaves(shipped: Shipped) -> None:
    alone: Files = {"bond0/bonding/ad_partner_mac": "00:00:00:00:00:00\n"}
    ran = ask(shipped, SEVERAL, alone)
    [fault] = ran.faults
    assert (fault["fault"], fault["interface"]) == ("no-lacp-partner", "bond0")
    neighbor = "eth0 02:00:00:00:00:03 02:00:00:00:00:09, leaf01 Ethernet1/1"
    assert fault["neighbor"] == f"{neighbor}, eth1 leaf02 518 (ge-0/0/1)"
    assert ask(shipped, ON_ETH1, alone) == ran


def test_frames_of_a_stranger_do_not_change_a_fault(shipped: Shipped) -> None:
    slow: Files = {"eth1/speed": "100\n"}
    assert "neighbor" not in ask(shipped, NOTHING, slow).faults[0]
    first = ask(shipped, ON_ETH1, slow)
    assert first.faults[0]["neighbor"] == TOLD
    for answer in (SEVERAL, NOTHING, REFUSED):
        assert ask(shipped, answer, slow) == first
    ask(shipped, SEVERAL)
    assert ask(shipped, NOTHING, down("eth1")).faults[0]["neighbor"] == "leaf02 518 (ge-0/0/1)"


def test_a_healthy_port_without_a_word_for_a_day_is_forgotten(shipped: Shipped) -> None:
    shipped.tree({"var/links.json": json.dumps({"eth1": [0, "leaf01 Ethernet1/1"]})})
    assert ask(shipped, NOTHING, down("eth1")).faults[0]["neighbor"] == "leaf01 Ethernet1/1"
    ask(shipped, NOTHING)
    assert "neighbor" not in ask(shipped, NOTHING, down("eth1")).faults[0]


def said(value: object, port: object = "x") -> str:
    chassis = {"name": [{"value": value}]}
    row = {"name": "eth1", "chassis": [chassis], "port": [{"id": [{"value": port}]}]}
    return json.dumps({"lldp": [{"interface": [row] * 9}]}, ensure_ascii=False)


# Answers, and what is told of them; anybody on the wire writes the names.
ODD = {
    "long": (said("x" * 999, "y" * 999), f"{'x' * 40} {'y' * 40}"),
    "control characters, escaped": (said("leaf\x1b[31m\x00\u202e\n"), "leaf?[31m??? x"),
    "control characters as they are": (said("leaf@").replace("@", "\x01"), "leaf? x"),
    "letters of other alphabets": (said("Ä\U0001f600"), "?? x"),
    "no text": (said(7, [{}]), " "),
    "no object": ('["lldp"]', ""),
    "no list": ('{"lldp": [{"interface": 7}]}', ""),
    "cut off": ('{"lldp": [{"interf', ""),
    "deep": ("[" * 20_000, ""),
    "an interface that is not here": (said("leaf01").replace("eth1", "../../eth1"), ""),
}


def test_an_odd_answer_costs_no_verdict(shipped: Shipped) -> None:
    for name, (answer, told) in ODD.items():
        world = shipped.anew()
        assert ask(world, answer).diagnosis == OK, name
        assert ask(world, NOTHING, down("eth1")).faults[0].get("neighbor", "") == told, name


@pytest.mark.parametrize("kept", ["{", "[]", '{"eth1": 7}', '{"eth1": ["x", "y"]}', "[1e999]"])
def test_a_damaged_memory_is_written_again(shipped: Shipped, kept: str) -> None:
    shipped.tree({"var/links.json": kept})
    assert "neighbor" not in ask(shipped, NOTHING, down("eth1")).faults[0]
    assert ask(shipped, ON_ETH1).diagnosis == OK
    assert ask(shipped, NOTHING, down("eth1")).faults[0]["neighbor"] == TOLD
