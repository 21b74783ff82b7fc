"""Network links on fixture trees of /sys/class/net."""

import json

import pytest

from .shipped import CALL, OK, Files, Ran, Shipped

PORT: Files = {
    "carrier": "1\n",
    "duplex": "full\n",
    "speed": "10000\n",
    "device": "",
}
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
    return shipped.run("links", SYS=shipped.root / "sys", **(ganeti | constants))


@pytest.mark.parametrize(
    ("changes", "need", "faults"),
    [
        pytest.param({}, "Ok", [], id="all up; a tap and an unused port do not count"),
        pytest.param(
            {"eth1/carrier": "0\n"},
            "live-repair",
            [{"interface": "eth1", "bond": "bond0", "fault": "down"}],
            id="one cable of a bond",
        ),
        pytest.param(
            {"eth1/bonding_slave/mii_status": "going back\n"},
            "live-repair",
            [{"interface": "eth1", "bond": "bond0", "fault": "down"}],
            id="the bond thinks otherwise",
        ),
        pytest.param(
            {"eth0/speed": "100\n"},
            "live-repair",
            [{"interface": "eth0", "bond": "bond0", "fault": "slow"}],
            id="slower than its peer",
        ),
        pytest.param(
            {"eth0/duplex": "half\n"},
            "live-repair",
            [{"interface": "eth0", "bond": "bond0", "fault": "slow"}],
            id="half duplex",
        ),
        pytest.param({"eth0/speed": "-1\n"}, "Ok", [], id="a speed nobody knows"),
        pytest.param(
            {"bond0/bonding/ad_partner_mac": "00:00:00:00:00:00\n"},
            "live-repair",
            [{"interface": "bond0", "fault": "no-lacp-partner"}],
            id="the switch does not speak LACP",
        ),
        pytest.param(
            {
                "eth0/carrier": "0\n",
                "eth1/carrier": "0\n",
                "bond0/carrier": "0\n",
                "bond0/upper_br0": "",
                "br0/brif/bond0": "",
                "br0/brif/tap1": "",
                "tap1/carrier": "1\n",
            },
            "evacuate",
            [
                {"interface": "bond0", "fault": "cut"},
                {"interface": "eth0", "bond": "bond0", "fault": "down"},
                {"interface": "eth1", "bond": "bond0", "fault": "down"},
            ],
            id="the whole bond",
        ),
        pytest.param(
            {"eth2/carrier": "0\n"},
            "evacuate",
            [{"interface": "eth2", "fault": "cut"}],
            id="a physical bridge port",
        ),
        pytest.param(
            {"bond0/bonding/slaves": "\n", "bond0/carrier": "0\n"},
            "live-repair",
            [{"interface": "bond0", "fault": "cut-unused"}],
            id="a bond without slaves that nothing uses",
        ),
        pytest.param(
            {
                "bond0/bonding/slaves": "\n",
                "bond0/carrier": "0\n",
                "bond0/upper_vlan7": "",
                "vlan7/upper_br0": "",
                "br0/brif/vlan7": "",
                "br0/brif/tap1": "",
                "tap1/carrier": "1\n",
            },
            "evacuate",
            [{"interface": "bond0", "fault": "cut"}],
            id="a bond without slaves below a VLAN, a bridge and an instance",
        ),
        pytest.param(
            {
                "eth2/carrier": "0\n",
                "eth2/upper_br0": "",
                "br0/brif/eth2": "",
                "br0/brif/tap1": "",
                "tap1/carrier": "0\n",
            },
            "live-repair",
            [{"interface": "eth2", "fault": "cut-unused"}],
            id="a bridge without address and running instance",
        ),
        pytest.param(
            {
                "eth0/carrier": "0\n",
                "eth1/carrier": "0\n",
                "bond0/carrier": "0\n",
                "bond0/upper_ovs-system": "",
                "tap1/upper_ovs-system": "",
                "tap1/carrier": "1\n",
            },
            "evacuate",
            [
                {"interface": "bond0", "fault": "cut"},
                {"interface": "eth0", "bond": "bond0", "fault": "down"},
                {"interface": "eth1", "bond": "bond0", "fault": "down"},
            ],
            id="the whole bond below Open vSwitch and an instance",
        ),
        pytest.param(
            {
                "bond0/bonding/slaves": "\n",
                "bond0/carrier": "0\n",
                "bond0/upper_macvtap0": "",
                "macvtap0/macvtap/tap9": "",
                "macvtap0/carrier": "1\n",
            },
            "evacuate",
            [{"interface": "bond0", "fault": "cut"}],
            id="a bond without slaves below an instance's macvtap",
        ),
        pytest.param(
            {
                "bond0/bonding/slaves": "\n",
                "bond0/carrier": "0\n",
                "bond0/upper_ovs-system": "",
                "vlan7/upper_ovs-system": "",
                "vlan7/lower_eth5": "",
                "vlan7/carrier": "1\n",
            },
            "live-repair",
            [{"interface": "bond0", "fault": "cut-unused"}],
            id="below Open vSwitch without an instance",
        ),
        pytest.param(
            {
                "bond0/bonding/mode": "active-backup 1\n",
                "eth0/speed": "1000\n",
                "bond0/bonding/ad_partner_mac": "\n",
            },
            "Ok",
            [],
            id="a slower backup",
        ),
        pytest.param(
            {"bond0/bonding/mode": "active-backup 1\n", "eth0/duplex": "half\n"},
            "live-repair",
            [{"interface": "eth0", "bond": "bond0", "fault": "slow"}],
            id="a backup at half duplex",
        ),
        pytest.param(
            {"bond0/bonding/mode": "802.3ad 4\n", "eth0/speed": "1000\n"},
            "live-repair",
            [{"interface": "eth0", "bond": "bond0", "fault": "slow"}],
            id="slower than its peer in an aggregate",
        ),
    ],
)
def test_faults(shipped: Shipped, changes: Files, need: str, faults: list[dict[str, str]]) -> None:
    ran = look(shipped, changes)
    assert ran.need == need
    assert ran.diagnosis.get("command") == (CALL if need == "live-repair" else None)
    assert ran.faults == faults


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


def test_an_ignored_interface(shipped: Shipped) -> None:
    assert look(shipped, {"eth2/carrier": "0\n"}, IGNORED=("eth2",)).diagnosis == OK


def test_a_machine_without_bonds_and_bridges(shipped: Shipped) -> None:
    shipped.tree({"class/net/eth0/carrier": "0\n"}, under="sys")
    nothing = shipped.root / "nothing"
    ran = shipped.run("links", SYS=shipped.root / "sys", SSCONF=nothing, TOOLS=("/nonexistent",))
    assert ran.diagnosis == OK


def test_without_ip_nobody_knows_who_holds_an_address(shipped: Shipped) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    ran = look(shipped, {}, TOOLS=(str(shipped.root / "none"),))
    assert "none" in ran.complaint
    ran = look(shipped, {"eth1/carrier": "0\n"}, TOOLS=(str(shipped.root / "none"),))
    assert ran.faults == [{"interface": "eth1", "bond": "bond0", "fault": "down"}]
    assert "none" in ran.diagnosis["details"]["not_asked"][0]


def test_changes_of_carrier_and_of_the_active_slave_stay_out(shipped: Shipped) -> None:
    first = look(shipped, {"eth1/carrier": "0\n", "eth1/carrier_changes": "4\n"})
    moved = {
        "eth1/carrier": "0\n",
        "eth1/carrier_changes": "9\n",
        "bond0/bonding/active_slave": "eth0\n",
    }
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
    "bond0/bonding/ad_aggregator": "1\n",
    "eth0/bonding_slave/ad_aggregator_id": "1\n",
    "eth1/bonding_slave/ad_aggregator_id": "1\n",
}
APART: Files = {**LACP, "eth1/bonding_slave/ad_aggregator_id": "2\n"}
HEARS = "61\n"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param(LACP, None, id="both in the active aggregator"),
        pytest.param(APART, "not-aggregated", id="one in another aggregator"),
        pytest.param({**APART, "eth1/carrier": "0\n"}, "down", id="and down"),
        pytest.param({**APART, "eth1/speed": "1000\n"}, "slow", id="and slower, which is why"),
        pytest.param(
            {**APART, "eth1/bonding_slave/ad_aggregator_id": "N/A\n"}, None, id="in none, not known"
        ),
        pytest.param({**APART, "bond0/bonding/ad_aggregator": None}, None, id="no active one"),
        pytest.param(
            {
                **APART,
                "bond0/bonding/ad_select": "stable 0\n",
                "eth1/bonding_slave/ad_actor_oper_port_state": HEARS,
            },
            "not-aggregated",
            id="no failover between aggregators is set up",
        ),
        pytest.param(
            {
                **APART,
                "bond0/bonding/ad_select": "bandwidth 1\n",
                "eth1/bonding_slave/ad_actor_oper_port_state": HEARS,
            },
            None,
            id="a second switch stands by",
        ),
        pytest.param(
            {
                **APART,
                "bond0/bonding/ad_select": "count 2\n",
                "eth1/bonding_slave/ad_actor_oper_port_state": "125\n",
            },
            "not-aggregated",
            id="a second switch is to stand by, and does not speak LACP",
        ),
    ],
)
def test_a_slave_outside_the_active_aggregator(
    shipped: Shipped, changes: Files, fault: str | None
) -> None:
    present: Files = {name: text for name, text in changes.items() if text is not None}
    ran = look(shipped, present)
    assert ran.need == ("live-repair" if fault else "Ok")
    expected = {"interface": "eth1", "bond": "bond0", "fault": fault}
    assert ran.faults == ([expected] if fault else [])


def test_without_a_partner_the_bond_alone_is_told(shipped: Shipped) -> None:
    ran = look(shipped, {**APART, "bond0/bonding/ad_partner_mac": "00:00:00:00:00:00\n"})
    assert ran.faults == [{"interface": "bond0", "fault": "no-lacp-partner"}]


def team(name: str, **ports: str) -> Files:
    """Two ports of a team, with their carriers."""
    files: dict[str, str | None] = {f"{name}/carrier": "1\n" if "1" in ports.values() else "0\n"}
    for port, carrier in ports.items():
        files |= {f"{port}/{key}": text for key, text in PORT.items()}
        files |= {f"{port}/carrier": f"{carrier}\n", f"{port}/upper_{name}/ifindex": "9\n"}
    return files


@pytest.mark.parametrize(
    ("changes", "need", "faults"),
    [
        pytest.param(team("team0", eth5="1", eth6="1"), "Ok", [], id="all up"),
        pytest.param(
            team("team0", eth5="1", eth6="0"),
            "live-repair",
            [{"interface": "eth6", "team": "team0", "fault": "down"}],
            id="one port down",
        ),
        pytest.param(
            {**team("team0", eth5="1", eth6="1"), "eth5/duplex": "half\n"},
            "live-repair",
            [{"interface": "eth5", "team": "team0", "fault": "slow"}],
            id="one port at half duplex",
        ),
        pytest.param(
            {**team("team0", eth5="1", eth6="1"), "eth5/speed": "1000\n"},
            "Ok",
            [],
            id="unlike speeds, as runners may have it",
        ),
        pytest.param(
            {
                **team("team0", eth5="0", eth6="0"),
                "team0/upper_br0": "",
                "br0/brif/team0": "",
                "br0/brif/tap1": "",
                "tap1/carrier": "1\n",
            },
            "evacuate",
            [
                {"interface": "eth5", "team": "team0", "fault": "down"},
                {"interface": "eth6", "team": "team0", "fault": "down"},
                {"interface": "team0", "fault": "cut"},
            ],
            id="the whole team below an instance",
        ),
        pytest.param(
            team("team0", eth5="0", eth6="0"),
            "live-repair",
            [
                {"interface": "eth5", "team": "team0", "fault": "down"},
                {"interface": "eth6", "team": "team0", "fault": "down"},
                {"interface": "team0", "fault": "cut-unused"},
            ],
            id="a team that nothing uses",
        ),
        pytest.param(team("ovs-system", eth5="1", eth6="0"), "Ok", [], id="ports of Open vSwitch"),
    ],
)
def test_a_team(shipped: Shipped, changes: Files, need: str, faults: list[dict[str, str]]) -> None:
    ran = look(shipped, changes)
    assert ran.need == need
    assert ran.faults == faults


def test_ip_knows_a_team_by_any_name(shipped: Shipped) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    kind = {"master": "uplink", "linkinfo": {"info_slave_kind": "team"}}
    shown = json.dumps([*ADDRESSES, *({"ifname": name} | kind for name in ("eth5", "eth6"))])
    ip = shipped.tool("other-ip", f"echo \"$*\" > {shipped.root}/asked; echo '{shown}'")
    ran = look(shipped, team("uplink", eth5="1", eth6="0"), TOOLS=(str(ip),))
    assert ran.faults == [{"interface": "eth6", "team": "uplink", "fault": "down"}]
    assert (shipped.root / "asked").read_text() == "-json -details address\n"
