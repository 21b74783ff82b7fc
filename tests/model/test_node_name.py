"""Which of Ganeti's nodes this machine is."""

import pytest

from nodeagent.model.node_name import own_names


@pytest.mark.parametrize(
    ("host", "nodes", "found"),
    [
        ("node1", ["node1", "node2"], ["node1"]),
        ("node1", ["node1.example.com", "node2.example.com"], ["node1.example.com"]),
        ("web", ["web", "web.rack1"], ["web"]),
        ("node1.a", ["node1.a.org", "node1.b.org"], ["node1.a.org"]),
        ("node1.example.com", ["node1", "node2"], ["node1"]),
        ("Node1", ["node1.example.com"], ["node1.example.com"]),
        ("node1", ["NODE1.example.com"], ["NODE1.example.com"]),
        ("node1", ["node1.a.org", "node1.b.org"], ["node1.a.org", "node1.b.org"]),
        ("node1", ["node10.example.com"], []),
        ("node9", ["node1"], []),
    ],
)
def test_by_its_host_name(host: str, nodes: list[str], found: list[str]) -> None:
    assert own_names(host, nodes) == found
