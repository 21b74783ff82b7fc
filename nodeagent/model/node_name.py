"""This machine among Ganeti's nodes, by its host name. Pure."""

from collections.abc import Collection

from nodeagent.errors import ConfigError
from nodeagent.model.short_name import means, plain


def own_name(host: str, nodes: Collection[str], setting: str) -> str:
    """Return the node that this host is; DNS is not asked. ConfigError names the `setting`."""
    same = own_names(host, nodes)
    if len(same) != 1:
        raise ConfigError(
            f"host {host!r} is {'more than one' if same else 'none'} of the cluster's nodes;"
            f" set {setting} to the name that Ganeti has for it"
        )
    return same[0]


def own_names(host: str, nodes: Collection[str]) -> list[str]:
    """Return the nodes that this host may be: one, unless its name is ambiguous or unknown.

    The exact name comes first. Else one of the two names continues the other by a domain. Names
    are compared without regard to case, as in DNS.
    """
    exact = [node for node in nodes if plain(node) == plain(host)]
    return exact or [node for node in nodes if means(host, node) or means(node, host)]
