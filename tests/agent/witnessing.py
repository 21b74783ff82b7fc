"""What a witness is asked about."""

from tests.agent.place import NODE, Place

DEAD = "node2.example"


def with_others(place: Place) -> Place:
    """Other nodes of the cluster; one has a secondary address."""
    place.ssconf(
        "node_primary_ips",
        f"{NODE} 127.0.0.1\n{DEAD} 127.0.0.2\n"
        + "".join(f"more{i} 127.0.1.{i}\n" for i in range(100)),
    )
    place.ssconf("node_secondary_ips", f"{DEAD} 127.0.3.2\nmore1 127.0.1.1\n")
    return place
