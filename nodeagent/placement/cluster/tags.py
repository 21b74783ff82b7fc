"""The meaning cluster tags give to tags of nodes and instances (hbal(1), TAGS). Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

EXCLUSION = "htools:iextags:"
LOCATION = "htools:nlocation:"
DESIRED = "htools:desiredlocation:"
MIGRATION = "htools:migration:"
ALLOWED = "htools:allowmigration:"


@dataclass(frozen=True, slots=True)
class TagRules:
    """The meaning of tags. The first four are prefixes of tags.

    Of instances: two with the same `exclusion` tag should not share a node; `desired` ones name the
    locations they should be at. Of nodes: `location` tags are their failure domains; the receiving
    node must know all of a node's `migration` tags. `allowed` are pairs: a node with the second tag
    can do what the first asks for.
    """

    exclusion: tuple[str, ...] = ()
    desired: tuple[str, ...] = ()
    location: tuple[str, ...] = ()
    migration: tuple[str, ...] = ()
    allowed: tuple[tuple[str, str], ...] = ()

    def excluding(self, tags: Iterable[str]) -> tuple[str, ...]:
        """Return an instance's exclusion tags, in their order."""
        return _beginning(tags, self.exclusion)

    def wanted(self, tags: Iterable[str]) -> frozenset[str]:
        """Return the locations an instance should be at."""
        return frozenset(_beginning(tags, self.desired))

    def places(self, tags: Iterable[str]) -> frozenset[str]:
        return frozenset(_beginning(tags, self.location))

    def sends(self, tags: Iterable[str]) -> frozenset[str]:
        return frozenset(_beginning(tags, self.migration))

    def receives(self, tags: Iterable[str]) -> frozenset[str]:
        own = self.sends(tags)
        return own | {source for source, target in self.allowed if target in own}


def rules_of(cluster_tags: Sequence[str], prefixes: Iterable[str] = ()) -> TagRules:
    """Read the cluster's tags; `prefixes` are more exclusion tags, without their colon."""

    def after(beginning: str) -> list[str]:
        return [tag.removeprefix(beginning) for tag in cluster_tags if tag.startswith(beginning)]

    return TagRules(
        exclusion=(*(f"{p}:" for p in prefixes), *filter(None, after(EXCLUSION))),
        desired=tuple(filter(None, after(DESIRED))),
        location=tuple(f"{rest}:" for rest in after(LOCATION)),
        migration=tuple(f"{rest}:" for rest in after(MIGRATION)),
        allowed=tuple(pair for rest in after(ALLOWED) if (pair := _pair(rest))),
    )


def _pair(rest: str) -> tuple[str, str] | None:
    source, parted, target = rest.partition("::")
    return (source, target) if parted and "::" not in target else None


def _beginning(tags: Iterable[str], beginnings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(tag for tag in tags if tag.startswith(beginnings)) if beginnings else ()
