"""Addresses of machines: one form of each, and none that is no machine's."""

from dataclasses import replace

import pytest

from nodeagent.errors import MessageError
from nodeagent.maintd.planning.names import address_of
from nodeagent.model.snapshot import Snapshot
from nodeagent.model.wish import AddEntry
from tests.maintd.queue.mender import Mender, policy
from tests.maintd.queue.reports import M2, kinds, made, node, round_of, told

NOBODYS = ["127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"]


@pytest.mark.parametrize("text", [*NOBODYS, "::ffff:127.0.0.1"])
def test_what_is_no_machines_address_is_repaired_by_nobody(text: str) -> None:
    done = round_of(replace(M2, address=text))
    assert (made(done), kinds(done)) == ([], {"address": 1})
    assert f"'{text}' is not an address of a machine" in told(done)["S2"]
    ours = replace(node(1), address="127.0.0.1")
    assert address_of("127.0.0.1", Snapshot("c", {}), {ours.address}) == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("::ffff:10.0.0.2", "10.0.0.2"), ("2001:DB8:0::1", "2001:db8::1"), ("n2", "10.0.0.2")],
)
def test_an_address_has_one_form(text: str, wanted: str) -> None:
    """Else a node would be taken for a machine outside of the cluster, and not be drained."""
    done = round_of(replace(M2, address=text), observed=None)
    assert [one.address for one in done.ledger.queue.entries] == [wanted]


@pytest.mark.parametrize("text", ["fe80::1%eth0", "fe80::1%\x1b[31m", "10.0.0.2/32", "010.0.0.2"])
def test_what_is_no_address_is_none(text: str) -> None:
    with pytest.raises(MessageError, match="is neither an address nor a node"):
        address_of(text, Snapshot("c", {}), ())


def test_an_operator_may_name_no_such_address_either() -> None:
    rig = Mender(policy())
    assert rig.ask(AddEntry("unreachable", "r640", "127.1.1.1")) == (
        "'127.1.1.1' is not an address of a machine"
    )
    rig.add(AddEntry("unreachable", "r640", "::ffff:127.0.0.3"))
    assert rig.entry.address == "127.0.0.3"
