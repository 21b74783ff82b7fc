"""A balance of a cluster that is here."""

from typing import Any

from simulation.cluster import SimulatedCluster


class Here:
    """A simulated cluster in the place of the one at a LUXI socket."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def close(self) -> None:
        """It goes on."""
