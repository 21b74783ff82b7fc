"""This machine among Ganeti's nodes, by its host name. Pure."""

from collections.abc import Collection

from nodeagent.model.short_name import means, plain


def own_names(host: str, nodes: Collection[str]) -> list[str]:
    """Return the nodes that this host may be: one, unless its name is ambiguous or unknown.

    The exact name comes first. Else one of the two names continues the other by a domain. Names
    are compared without regard to case, as in DNS.
    """
    exact = [node for node in nodes if plain(node) == plain(host)]
    return exact or [node for node in nodes if means(host, node) or means(node, host)]
