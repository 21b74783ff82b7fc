"""Settings in Ganeti's tags, `maintd:<key>:<value>`; the nearest wins. Pure.

Everyone who may write tags can set them, and they belong to the cluster; files give the defaults. A
tag that is unreadable, or has no meaning on its object, stops new work there, and says so.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from nodeagent.errors import ConfigError
from nodeagent.maintd.planning.holds import OF_SCOPE
from nodeagent.model.action import Scope
from nodeagent.model.instance_tags import of_maintd
from nodeagent.model.ledger import Policy
from nodeagent.model.purpose import is_number
from nodeagent.model.reason import Held, Kind, Reason, because, first_of
from nodeagent.model.setting import settings_of
from nodeagent.model.snapshot import Group, Node, Snapshot
from nodeagent.section import Section

# Tags of incidents and holds, and those of other parts, are not settings.
NO_SETTINGS = frozenset(
    {
        "repairready",
        "repairfailed",
        "repairing",
        "canceled",
        "hold",
        "pause",
        "balancefailed",
        "brake",
        "owner",
        "queue",
        "store",
        "fenced",
        "priority",
        "stopped",
    }
)
_SCOPE = {setting.key: setting.scope for setting in settings_of(Policy)}
_MAY_BE_ON = {
    Scope.CLUSTER: {Scope.CLUSTER, Scope.GROUP, Scope.NODE},
    Scope.GROUP: {Scope.GROUP, Scope.NODE},
    Scope.NODE: {Scope.NODE},
}
"""By the object of a tag, the scopes of settings that it may have."""
# Words of people's tags that are no settings: one misspelt would otherwise stop nothing.
_WORDS = {"pause": ("yes", "no"), "stopped": ("yes",)}
_FLAGS = {"yes": True, "no": False}
_PREFIX = "maintd:"


def policy_of(section: Section, default: Policy) -> Policy:
    """Read a policy from a table of settings, or raise ConfigError with the key."""
    return section.read(
        Policy,
        default,
        procedures=default.procedures,
        constraints=default.constraints,
        announcing=default.announcing,
        notify=default.notify,
    )


def with_tags(policy: Policy, snapshot: Snapshot, node: Node | None = None) -> Policy:
    """The policy for a node, or for the whole cluster; unreadable tags are left out."""
    for tags, scope in _from_far_to_near(snapshot, node):
        try:
            policy = _over(policy, tags, scope)
        except ConfigError:
            continue  # `faults` shows it, and admission blocks
    return policy


def nearer(policy: Policy, thing: Group | Node) -> Policy:
    """The policy with an object's own tags; unchanged where they are wrong."""
    try:
        return _over(policy, thing.tags, Scope.NODE if isinstance(thing, Node) else Scope.GROUP)
    except ConfigError:
        return policy


def _from_far_to_near(
    snapshot: Snapshot, node: Node | None
) -> Iterable[tuple[frozenset[str], Scope]]:
    yield snapshot.tags, Scope.CLUSTER
    if node is not None:
        if (group := snapshot.groups.get(node.group)) is not None:
            yield group.tags, Scope.GROUP
        yield node.tags, Scope.NODE


def _over(policy: Policy, tags: frozenset[str], scope: Scope) -> Policy:
    values: dict[str, Any] = {}
    for tag in sorted(tags):
        if not tag.startswith(_PREFIX):
            continue
        key, _, text = tag.removeprefix(_PREFIX).partition(":")
        if key in NO_SETTINGS:
            continue
        if key in values:
            raise ConfigError(f"tag {tag}: {key!r} is set by another tag too")
        values[key] = int(text) if is_number(text) else _FLAGS.get(text, text)
    if not values:
        return policy
    section = Section("tag maintd", values)
    changed = policy_of(section, policy)
    section.done()
    if wrong := sorted(key for key in values if _SCOPE[key] not in _MAY_BE_ON[scope]):
        where = "the cluster or a group" if _SCOPE[wrong[0]] is Scope.GROUP else "the cluster"
        raise ConfigError(f"{wrong[0]!r} can only be set on {where}")
    return changed


def faults(snapshot: Snapshot) -> Mapping[str, Reason]:
    """Every fault of the tags that concern a node, by node name."""
    whole = _reasons(snapshot.tags, Scope.CLUSTER, "")
    groups = {g.uuid: _reasons(g.tags, Scope.GROUP, g.name) for g in snapshot.groups.values()}
    reasons: dict[str, Reason] = {}
    for name, node in snapshot.nodes.items():
        own = _reasons(node.tags, Scope.NODE, name) if node.tags else ()
        if why := (*own, *groups.get(node.group, ()), *whole):
            reasons[name] = because(Kind.WRONG_TAGS, name, wrong=why)
    return reasons


def wrong_tags(snapshot: Snapshot) -> tuple[Held, ...]:
    """Each tag that stops new work, even if there is no work, and how to remove it."""
    then = "until then no new work starts"
    held = [Held(why) for why in _reasons(snapshot.tags, Scope.CLUSTER, "", then)]
    for group in snapshot.groups.values():
        held += [Held(why) for why in _reasons(group.tags, Scope.GROUP, group.name, then)]
    for name, node in snapshot.nodes.items():
        held += [Held(why, name) for why in _reasons(node.tags, Scope.NODE, name, then)]
    return first_of(held, Kind.MORE_WRONG_TAGS)


def _reasons(tags: frozenset[str], scope: Scope, name: str, then: str = "") -> tuple[Reason, ...]:
    """The fault of each wrong tag of one object, and the command that removes the tag."""
    ours = of_maintd(tags)
    of, command = OF_SCOPE[scope]
    return tuple(
        because(Kind.WRONG_TAG, name, of, fault=why, command=command, tag=tag, then=then)
        for tag in ours
        if (why := _fault(tag, ours, scope))
    )


def _fault(tag: str, tags: list[str], scope: Scope) -> str:
    """The fault of a tag by itself, or together with the others of its object."""
    if not tag.startswith(_PREFIX):
        return f"it must begin with {_PREFIX}, in small letters"
    key, _, text = tag.removeprefix(_PREFIX).partition(":")
    if text not in _WORDS.get(key, (text,)):
        return f"{key} is {text!r}; it must be {' or '.join(_WORDS[key])}"
    twins = [t for t in tags if t < tag and t.startswith(f"{_PREFIX}{key}:")]
    try:
        _over(Policy(), frozenset({tag, *twins}), scope)
    except ConfigError as error:
        return str(error)
    return ""


def described(policy: Policy) -> Mapping[str, object]:
    """The policy by the names of its settings, for people and JSON."""
    own_tables = ("procedures", "constraints", "announcing", "notify")
    names = [name for name in policy.__slots__ if name not in own_tables]
    return {name.replace("_", "-"): getattr(policy, name) for name in names}
