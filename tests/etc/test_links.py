"""Network links, and who holds an address; links alone: trees/links.txt."""

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


def switched(**ports: str) -> Files:
    """Ports of this machine in Open vSwitch, with their carriers."""
    files: dict[str, str | None] = {}
    for port, carrier in ports.items():
        files |= {f"{port}/{name}": text for name, text in PORT.items()}
        files |= {f"{port}/carrier": f"{carrier}\n", f"{port}/upper_ovs-system": ""}
    return files


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


def test_an_answer_of_ip_that_is_no_list_is_doubt(shipped: Shipped) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    ip = shipped.tool("other-ip", "echo null")
    assert "ip answers 'null', exit 0" in look(shipped, {}, TOOLS=(str(ip),)).complaint


def test_an_interface_that_sysfs_does_not_have_is_doubt(shipped: Shipped) -> None:
    """As one that was removed meanwhile, or where /sys shows another network namespace."""
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.9\n"}, under="ganeti")
    shown = [*ADDRESSES, {"ifname": "br9", "addr_info": [{"local": "192.0.2.9"}]}]
    ip = shipped.tool("other-ip", f"echo '{json.dumps(shown)}'")
    assert "br9 is not in" in look(shipped, {}, TOOLS=(str(ip),)).complaint
    assert look(shipped, {}, TOOLS=(str(ip),), IGNORED=("br9",)).diagnosis == OK
    ran = look(shipped, {"eth1/carrier": "0\n"}, TOOLS=(str(ip),))
    assert ran.faults == [{"interface": "eth1", "bond": "bond0", "fault": "down"}]
    assert len(ran.diagnosis["details"]["not_asked"]) == 1


def test_changes_of_carrier_and_of_the_active_slave_stay_out(shipped: Shipped) -> None:
    first = look(shipped, files("eth1/carrier=0 eth1/carrier_changes=4"))
    moved = files("eth1/carrier=0 eth1/carrier_changes=9 bond0/bonding/active_slave=eth0")
    assert look(shipped, moved).stdout == first.stdout


def test_a_slave_that_never_joined_is_missed_where_each_bond_has_two(shipped: Shipped) -> None:
    alone: Files = {"bond0/bonding/slaves": "eth0\n"}
    assert look(shipped, alone).faults == []
    ran = look(shipped, alone, SLAVES=2)
    assert ran.faults == [{"interface": "bond0", "fault": "few-slaves"}]
    assert ran.diagnosis["command"] == CALL
    assert look(shipped, alone, SLAVES=2, IGNORED=("bond0",)).faults == []
    assert look(shipped, {"bond0/bonding/slaves": "eth0 eth1\n"}, SLAVES=2).faults == []


def team(name: str, **ports: str) -> Files:
    """Two ports of a team, with their carriers."""
    files: dict[str, str | None] = {f"{name}/carrier": "1\n" if "1" in ports.values() else "0\n"}
    for port, carrier in ports.items():
        files |= {f"{port}/{key}": text for key, text in PORT.items()}
        files |= {f"{port}/carrier": f"{carrier}\n", f"{port}/upper_{name}/ifindex": "9\n"}
    return files


def test_ip_knows_a_team_by_any_name(shipped: Shipped) -> None:
    shipped.tree({"ssconf_node_primary_ips": "n1 192.0.2.6\n"}, under="ganeti")
    kind = {"master": "uplink", "linkinfo": {"info_slave_kind": "team"}}
    other = {"ifname": "eth3", "master": "br0", "linkinfo": {"info_slave_kind": "bridge"}}
    ports = ({"ifname": name} | kind for name in ("eth5", "eth6"))
    shown = json.dumps([*ADDRESSES, other, *ports])
    ip = shipped.tool("other-ip", f"echo \"$*\" > {shipped.root}/asked; echo '{shown}'")
    ran = look(shipped, team("uplink", eth5="1", eth6="0"), TOOLS=(str(ip),))
    assert ran.faults == [{"interface": "eth6", "team": "uplink", "fault": "down"}]
    assert (shipped.root / "asked").read_text() == "-json -details address\n"
