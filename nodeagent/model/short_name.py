"""Names of nodes and instances as people type them. Pure.

Ganeti reads them alike (MatchNameComponent): capitals do not count, and a name may lack its domain,
or some of it. We also take the dot at the end that a name of DNS may have.
"""

from collections.abc import Iterable
from functools import lru_cache


def plain(typed: str) -> str:
    """Return the form in which two names that are typed differently are equal."""
    return typed.casefold().removesuffix(".")


@lru_cache(maxsize=16_384)
def forms(name: str) -> tuple[str, ...]:
    """Return all that means this name, in its plain form: the whole name is the last."""
    labels = plain(name).split(".")
    return tuple(".".join(labels[: count + 1]) for count in range(len(labels)))


def means(typed: str, name: str) -> bool:
    """Tell whether a name may be meant."""
    return plain(typed) in forms(name) and plain(typed) != ""


def meant(typed: str, names: Iterable[str]) -> list[str]:
    """Return the names that may be meant: more than one only if it is short for each of them."""
    wanted = plain(typed)
    may_be = [name for name in dict.fromkeys(names) if wanted and wanted in forms(name)]
    whole = [name for name in may_be if plain(name) == wanted]
    return [typed] if typed in whole else whole or may_be
