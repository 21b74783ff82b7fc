"""Network links on fixture trees of /sys/class/net."""

import json

import pytest

from .shipped import CALL, OK, Files, Ran, Shipped, files

PORT: Files = files("carrier=1 duplex=full speed=10000 device")
NODE: Files = {
    "lo/carrier": "1\n",
    "bond0/bonding/slaves": "eth1 eth0\n",
    "bond0/bonding/ad_partner_mac": "52:54:00:00:00:01\n",
    "bond0/carrier": "1\n",
    **{f"eth0/{name}": text for name, text in PORT.items()},
    **{f"eth1/{name}": text for name, text in PORT.items()},
    "eth0/bonding_slave/mii_status": "up\n",
    "eth1/bonding_slave/mii_status": "up\n",
    **{f"eth2/{name}": text for name, text in PORT.items()},
    "eth2/brport/state": "3\n",
    "tap0/carrier": "0\n",
    "tap0/brport/state": "0\n",
    "eth3/carrier": "0\n",
    "eth3/device": "",
}
ADDRESSES = [
    {},
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
    {"ifname": "tap0", "addr_info": []},
    {"ifname": "eth3", "addr_info": [{"local": "192.0.2.7"}, {"local": "fe80::1"}]},
]


def look(shipped: Shipped, changes: Files, **constants: object) -> Ran:
    shipped.tree({**NODE, **changes}, under="sys/class/net")
    ip = shipped.tool("ip", f"cat <<'END'\n{json.dumps(ADDRESSES)}\nEND")
    ganeti = {"SSCONF": shipped.root / "ganeti", "TOOLS": ("/nonexistent", str(ip))}
    lldp = {"LLDPCTL": ("/nonexistent",), "STATE": shipped.root / "var/links.json"}
    return shipped.run("links", SYS=shipped.root / "sys", **(ganeti | lldp | constants))


def unused_bond(name: str) -> Files:
    """The bond that the kernel's module makes: down, so that its carrier cannot be read."""
    slaves = {f"{name}/bonding/slaves": "\n", f"{name}/bonding/mode": "balance-rr 0\n"}
    return slaves | {f"{name}/bonding/ad_partner_mac": "\n"}


def switched(**ports: str) -> Files:
    """Ports of this machine in Open vSwitch, with their carriers."""
    files: dict[str, str | None] = {}
    for port, carrier in ports.items():
        files |= {f"{port}/{name}": text for name, text in PORT.items()}
        files |= {f"{port}/carrier": f"{carrier}\n", f"{port}/upper_ovs-system": ""}
    return files


GUEST = files("tap1/upper_ovs-system tap1/carrier=1")
DOWN: Files = files("eth0/carrier=0 eth1/carrier=0 bond0/carrier=0")
EMPTY: Files = {"bond0/bonding/slaves": "\n", "bond0/carrier": "0\n"}
BACKUP: Files = {"bond0/bonding/mode": "active-backup 1\n"}
INSTANCE: Files = files("br0/brif/tap1 tap1/carrier=1")
BOTH_CUT = ["bond0 cut", "eth0 down", "eth1 down"]
ROWS: dict[str, dict[str, tuple[Files, list[str]]]] = {
    "Ok": {
        "all up; a tap and an unused port do not count": ({}, []),
        "a speed nobody knows": ({"eth0/speed": "-1\n"}, []),
        "a speed nobody knows, of an older kernel": ({"eth0/speed": "4294967295\n"}, []),
        "the bond that the kernel's module makes": (unused_bond("bond1"), []),
        "ports of Open vSwitch": ({**switched(eth5="1", eth6="1"), **GUEST}, []),
        "a slower backup": (
            {**BACKUP, "eth0/speed": "1000\n", "bond0/bonding/ad_partner_mac": "\n"},
            [],
        ),
    },
    "live-repair": {
        "one cable of a bond": ({"eth1/carrier": "0\n"}, ["eth1 down"]),
        "the bond thinks otherwise": (
            {"eth1/bonding_slave/mii_status": "going back\n"},
            ["eth1 down"],
        ),
        "slower than its peer": ({"eth0/speed": "100\n"}, ["eth0 slow"]),
        "half duplex": ({"eth0/duplex": "half\n"}, ["eth0 slow"]),
        "the switch does not speak LACP": (
            {"bond0/bonding/ad_partner_mac": "00:00:00:00:00:00\n"},
            ["bond0 no-lacp-partner"],
        ),
        "ports of Open vSwitch that nothing uses": (
            switched(eth8="0", eth9="0"),
            ["eth8 cut-unused", "eth9 cut-unused"],
        ),
        "a bond without slaves that nothing uses": (EMPTY, ["bond0 cut-unused"]),
        "a bridge without address and running instance": (
            files("eth2/carrier=0 eth2/upper_br0 br0/brif/eth2 br0/brif/tap1 tap1/carrier=0"),
            ["eth2 cut-unused"],
        ),
        "below Open vSwitch without an instance": (
            {
                **EMPTY,
                **files(
                    "bond0/upper_ovs-system vlan7/upper_ovs-system vlan7/lower_eth5 vlan7/carrier=1"
                ),
            },
            ["bond0 cut-unused"],
        ),
        "a backup at half duplex": ({**BACKUP, "eth0/duplex": "half\n"}, ["eth0 slow"]),
        "slower than its peer in an aggregate": (
            {"bond0/bonding/mode": "802.3ad 4\n", "eth0/speed": "1000\n"},
            ["eth0 slow"],
        ),
    },
    "evacuate": {
        "a bond that lost its slaves and is down": (
            {**unused_bond("bond1"), **INSTANCE, "bond1/upper_br0": "", "br0/brif/bond1": ""},
            ["bond1 cut"],
        ),
        "all ports of Open vSwitch below an instance": (
            {**switched(eth8="0", eth9="0"), **GUEST},
            ["eth8 cut", "eth9 cut"],
        ),
        "the whole bond": (
            {**DOWN, **INSTANCE, "bond0/upper_br0": "", "br0/brif/bond0": ""},
            BOTH_CUT,
        ),
        "a physical bridge port": ({"eth2/carrier": "0\n"}, ["eth2 cut"]),
        "a bond without slaves below a VLAN, a bridge and an instance": (
            {
                **EMPTY,
                **INSTANCE,
                "bond0/upper_vlan7": "",
                "vlan7/upper_br0": "",
                "br0/brif/vlan7": "",
            },
            ["bond0 cut"],
        ),
        "the whole bond below Open vSwitch and an instance": (
            {**DOWN, **files("bond0/upper_ovs-system tap1/upper_ovs-system tap1/carrier=1")},
            BOTH_CUT,
        ),
        "a bond without slaves below an instance's macvtap": (
            {**EMPTY, **files("bond0/upper_macvtap0 macvtap0/macvtap/tap9 macvtap0/carrier=1")},
            ["bond0 cut"],
        ),
    },
}


def told(words: list[str]) -> list[dict[str, str]]:
    """Faults written as "interface fault"; eth0 and eth1 are in bond0, eth5 and eth6 in team0."""
    faults = []
    for interface, fault in map(str.split, words):
        row = {"interface": interface, "fault": fault}
        if interface in ("eth0", "eth1"):
            row["bond"] = "bond0"
        if interface in ("eth5", "eth6"):
            row["team"] = "team0"
        faults.append(row)
    return faults


@pytest.mark.parametrize("need", ROWS)
def test_faults(shipped: Shipped, need: str) -> None:
    for name, (changes, faults) in ROWS[need].items():
        ran = look(shipped.anew(), changes)
        assert ran.need == need, name
        assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None), name
        assert ran.faults == told(faults), name


@pytest.mark.parametrize("which", ["primary", "secondary"])
def test_the_holder_of_a_node_address_counts(shipped: Shipped, which: str) -> None:
    shipped.tree({f"ssconf_node_{which}_ips": "n1 192.0.2.6\nn2 192.0.2.7\n"}, under="ganeti")
    ran = look(shipped, {})
    assert ran.need == "evacuate"
    assert ran.faults == [{"interface": "eth3", "fault": "cut"}]


UP: Files = {"eth3/carrier": "1\n"}
PRIMARY = "n1.example.com 192.0.2.6\nn2.example.com 192.0.2.7\n"


@pytest.mark.parametrize(
    ("secondary", "absent"),
    [
        pytest.param("n2.example.com 198.51.100.7\n", ["198.51.100.7"], id="its card has gone"),
        pytest.param("n2.example.com 192.0.2.7\n", [], id="it has none of its own"),
        pytest.param(
            "n2.example.com FE80:0::1\n", [], id="the same address, written in another way"
        ),
        pytest.param("n1.example.com 198.51.100.7\n", [], id="another node's"),
        pytest.param("n2.example.org 198.51.100.7\n", [], id="two nodes with our name"),
    ],
)
def test_an_address_of_this_node_on_no_interface(
    shipped: Shipped, secondary: str, absent: list[str]
) -> None:
    lists: Files = {"ssconf_node_primary_ips": PRIMARY, "ssconf_node_secondary_ips": secondary}
    shipped.tree(lists, under="ganeti")
    ran = look(shipped, UP, NODE="n2")
    assert ran.need == ("evacuate" if absent else "Ok")
    assert ran.faults == [{"address": address, "fault": "absent"} for address in absent]


@pytest.mark.parametrize("node", ["n3", "n1"], ids=["not in the list", "has no address of it"])
def test_who_may_be_another_node_has_lost_nothing(shipped: Shipped, node: str) -> None:
    shipped.tree({"ssconf_node_primary_ips": PRIMARY}, under="ganeti")
    assert look(shipped, UP, NODE=node).diagnosis == OK


def test_one_port_of_open_vswitch_may_be_of_a_bond(shipped: Shipped) -> None:
    ran = look(shipped, {**switched(eth5="1", eth6="0"), **GUEST})
    assert (ran.need, ran.diagnosis["command"]) == ("live-repair", CALL)
    assert ran.faults == [{"interface": "eth6", "switch": "ovs-system", "fault": "down"}]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [({"info_kind": "openvswitch"}, "cut"), ({"info_kind": "dummy"}, "cut-unused")],
)
def test_an_address_on_a_bridge_of_open_vswitch_is_use(
    shipped: Shipped, kind: dict[str, str], fault: str
) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    bridge = {"ifname": "br9", "linkinfo": kind, "addr_info": [{"local": "192.0.2.9"}, {}]}
    ip = shipped.tool("other-ip", f"echo '{json.dumps([*ADDRESSES, bridge])}'")
    ran = look(shipped, switched(eth5="0"), TOOLS=(str(ip),))
    assert ran.faults == [{"interface": "eth5", "fault": fault}]


def test_without_ip_nobody_knows_who_holds_an_address(shipped: Shipped) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    ran = look(shipped, {}, TOOLS=(str(shipped.root / "none"),))
    assert "none" in ran.complaint
    ran = look(shipped, {"eth1/carrier": "0\n"}, TOOLS=(str(shipped.root / "none"),))
    assert ran.faults == [{"interface": "eth1", "bond": "bond0", "fault": "down"}]
    assert "none" in ran.diagnosis["details"]["not_asked"][0]


def test_changes_of_carrier_and_of_the_active_slave_stay_out(shipped: Shipped) -> None:
    first = look(shipped, files("eth1/carrier=0 eth1/carrier_changes=4"))
    moved = files("eth1/carrier=0 eth1/carrier_changes=9 bond0/bonding/active_slave=eth0")
    assert look(shipped, moved).stdout == first.stdout


@pytest.mark.parametrize(
    ("mode", "faults"),
    [
        pytest.param("balance-rr 0", ["slow"], id="each packet on the next: the slowest decides"),
        pytest.param("balance-xor 2", ["slow"], id="balance-xor"),
        pytest.param("802.3ad 4", ["slow"], id="802.3ad"),
        pytest.param("active-backup 1", [], id="active-backup"),
        pytest.param("balance-tlb 5", [], id="balance-tlb: each by its own speed"),
        pytest.param("balance-alb 6", [], id="balance-alb: each by its own speed"),
    ],
)
def test_slaves_of_unlike_speed(shipped: Shipped, mode: str, faults: list[str]) -> None:
    unlike: Files = {"bond0/bonding/mode": f"{mode}\n", "eth0/speed": "1000\n"}
    ran = look(shipped, unlike)
    assert [(fault["interface"], fault["fault"]) for fault in ran.faults] == [
        ("eth0", fault) for fault in faults
    ]
    half = look(shipped, {**unlike, "eth1/duplex": "half\n"})
    assert ("eth1", "slow") in [(fault["interface"], fault["fault"]) for fault in half.faults]


LACP: Files = {
    "bond0/bonding/mode": "802.3ad 4\n",
    **files(
        "bond0/bonding/ad_aggregator=1 eth0/bonding_slave/ad_aggregator_id=1 "
        "eth1/bonding_slave/ad_aggregator_id=1"
    ),
}
APART: Files = {**LACP, "eth1/bonding_slave/ad_aggregator_id": "2\n"}
HEARS = "61\n"


def stands_by(select: str, state: str = HEARS) -> Files:
    """eth1 is in another aggregator, with this policy and what its switch says."""
    heard = {"eth1/bonding_slave/ad_actor_oper_port_state": state}
    return {**APART, "bond0/bonding/ad_select": f"{select}\n", **heard}


AGGREGATORS: dict[str, tuple[Files, str]] = {
    "both in the active one": (LACP, ""),
    "both in the active one, and send": (
        {**LACP, "eth1/bonding_slave/ad_actor_oper_port_state": HEARS},
        "",
    ),
    "in the active one, held back by its switch": (
        {**LACP, "eth1/bonding_slave/ad_actor_oper_port_state": "13\n"},
        "not-aggregated",
    ),
    "in the active one, its state not known": (
        {**LACP, "eth1/bonding_slave/ad_actor_oper_port_state": "N/A\n"},
        "",
    ),
    "one in another": (APART, "not-aggregated"),
    "and down": ({**APART, "eth1/carrier": "0\n"}, "down"),
    "and slower, which is why": ({**APART, "eth1/speed": "1000\n"}, "slow"),
    "in none, not known": ({**APART, "eth1/bonding_slave/ad_aggregator_id": "N/A\n"}, ""),
    "no active one": ({**APART, "bond0/bonding/ad_aggregator": None}, ""),
    "no failover between aggregators is set up": (stands_by("stable 0"), "not-aggregated"),
    "a second switch stands by": (stands_by("bandwidth 1"), ""),
    "one is to stand by, and does not speak LACP": (
        stands_by("count 2", "125\n"),
        "not-aggregated",
    ),
}


def test_a_slave_outside_the_active_aggregator(shipped: Shipped) -> None:
    for name, (changes, fault) in AGGREGATORS.items():
        present = {name: text for name, text in changes.items() if text is not None}
        ran = look(shipped.anew(), present)
        assert ran.need == ("live-repair" if fault else "Ok"), name
        assert ran.faults == (told([f"eth1 {fault}"]) if fault else []), name


def team(name: str, **ports: str) -> Files:
    """Two ports of a team, with their carriers."""
    files: dict[str, str | None] = {f"{name}/carrier": "1\n" if "1" in ports.values() else "0\n"}
    for port, carrier in ports.items():
        files |= {f"{port}/{key}": text for key, text in PORT.items()}
        files |= {f"{port}/carrier": f"{carrier}\n", f"{port}/upper_{name}/ifindex": "9\n"}
    return files


TEAMS: dict[str, tuple[Files, str, list[str]]] = {
    "all up": (team("team0", eth5="1", eth6="1"), "Ok", []),
    "one port down": (team("team0", eth5="1", eth6="0"), "live-repair", ["eth6 down"]),
    "one port at half duplex": (
        {**team("team0", eth5="1", eth6="1"), "eth5/duplex": "half\n"},
        "live-repair",
        ["eth5 slow"],
    ),
    "unlike speeds, as runners may have it": (
        {**team("team0", eth5="1", eth6="1"), "eth5/speed": "1000\n"},
        "Ok",
        [],
    ),
    "the whole team below an instance": (
        {
            **team("team0", eth5="0", eth6="0"),
            **INSTANCE,
            "team0/upper_br0": "",
            "br0/brif/team0": "",
        },
        "evacuate",
        ["eth5 down", "eth6 down", "team0 cut"],
    ),
    "a team that nothing uses": (
        team("team0", eth5="0", eth6="0"),
        "live-repair",
        ["eth5 down", "eth6 down", "team0 cut-unused"],
    ),
    "ports of Open vSwitch are no team": (team("ovs-system", eth5="1", eth6="1"), "Ok", []),
}


def test_a_team(shipped: Shipped) -> None:
    for name, (changes, need, faults) in TEAMS.items():
        ran = look(shipped.anew(), changes)
        assert (ran.need, ran.faults) == (need, told(faults)), name


def test_ip_knows_a_team_by_any_name(shipped: Shipped) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    kind = {"master": "uplink", "linkinfo": {"info_slave_kind": "team"}}
    shown = json.dumps([*ADDRESSES, *({"ifname": name} | kind for name in ("eth5", "eth6"))])
    ip = shipped.tool("other-ip", f"echo \"$*\" > {shipped.root}/asked; echo '{shown}'")
    ran = look(shipped, team("uplink", eth5="1", eth6="0"), TOOLS=(str(ip),))
    assert ran.faults == [{"interface": "eth6", "team": "uplink", "fault": "down"}]
    assert (shipped.root / "asked").read_text() == "-json -details address\n"
