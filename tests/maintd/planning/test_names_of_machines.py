"""Addresses of machines: one form of each, and none that is no machine's."""

from dataclasses import replace

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.names import address_of, node_at
from nodeagent.model.snapshot import Snapshot
from tests.maintd.queue.reports import M2, kinds, made, node, round_of, told

WORLD = Snapshot("c", {"n1": node(1), "n2": node(2)})
NOBODYS = ("127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255")
# Else a node would be taken for a machine outside of the cluster, and not be drained.
FORMS = (("::ffff:10.0.0.2", "10.0.0.2"), ("2001:DB8:0::1", "2001:db8::1"), ("n2", "10.0.0.2"))
NO_ADDRESSES = ("fe80::1%eth0", "fe80::1%\x1b[31m", "10.0.0.2/32", "010.0.0.2", "n3")


def address(text: str, known: tuple[str, ...] = ()) -> str:
    try:
        return address_of(text, WORLD, known)
    except MessageError as error:
        return str(error)


def test_the_address_of_a_machine() -> None:
    for text in (*NOBODYS, "::ffff:127.0.0.1", "127.1.1.1"):
        assert address(text) == f"'{text}' is not an address of a machine", text
    for text, form in FORMS:
        assert address(text) == form, text
    for text in NO_ADDRESSES:
        assert "is neither an address nor a node" in address(text), text
    assert address("::ffff:127.0.0.3", ("127.0.0.3",)) == "127.0.0.3", "it is a node's"


def test_the_node_at_an_address_or_of_a_name() -> None:
    assert [node_at(text, WORLD) for text in ("10.0.0.2", "n2")] == [WORLD.nodes["n2"]] * 2
    assert node_at("10.0.0.9", WORLD) is None


def test_a_report_about_the_master_s_loopback_becomes_no_entry() -> None:
    done = round_of(replace(M2, address="127.0.0.1"))
    assert (made(done), kinds(done)) == ([], {"address": 1})
    assert "'127.0.0.1' is not an address of a machine" in told(done)["S2"]
    one_form = round_of(replace(M2, address="::ffff:10.0.0.2"))
    assert [entry.address for entry in one_form.ledger.queue.entries] == ["10.0.0.2"]
