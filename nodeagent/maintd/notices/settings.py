"""Reader of `[[notify]]` in `maintd.toml`; every complaint names its key."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from nodeagent.maintd.notices.delivery import Target
from nodeagent.maintd.notices.sinks import alertmanager, command, smtp, webhook
from nodeagent.model.notice import Occasion, Severity, Sink
from nodeagent.model.units import Ms
from nodeagent.section import NAME, Section, each_once

Reader: TypeAlias = Callable[[Section, Sink], tuple[Sink, Target | None]]
# The kinds of sinks, each with the reader of its own keys.
KINDS: Mapping[str, Reader] = {
    "webhook": webhook.read,
    "alertmanager": alertmanager.read,
    "smtp": smtp.read,
    "command": command.read,
}
MOST = 20  # sinks
_EVENTS = [occasion.value for occasion in Occasion if occasion is not Occasion.TEST]


def sinks_of(root: Section) -> tuple[tuple[Sink, ...], tuple[Target, ...]]:
    """Read the sinks, and the targets of those without an agent's command."""
    tables = root.tables("notify")
    if len(tables) > MOST:
        why = f"there are {len(tables)} tables, and may be {MOST}"
        root.complain(f"{root.where('notify')}: {why}", "notify")
    read = [_sink(section) for section in tables]
    each_once(tables, "name", [[sink.name] for sink, _ in read])
    targets = tuple(target for _, sink_targets in read for target in sink_targets)
    return tuple(sink for sink, _ in read), targets


def _sink(section: Section) -> tuple[Sink, list[Target]]:
    name = section.text("name", "", NAME.pattern, "a name: letters, digits, - and _")
    kind = section.text("kind", "", "|".join(KINDS), ", ".join(KINDS))
    section.require({"name": name, "kind": kind})
    default = Sink(name, kind)
    levels = [level.value for level in Severity]
    severity = section.text("min-severity", "info", "|".join(levels), ", ".join(levels))
    interval = section.duration("interval", default.interval / 1000, 1, 86400)
    give_up = section.duration("give-up", default.give_up / 1000, 60, 30 * 86400)
    sink = Sink(
        name=name,
        kind=kind,
        events=section.words("events", "|".join(_EVENTS), f"a list of these: {', '.join(_EVENTS)}"),
        severity=Severity(severity),
        interval=Ms(round(interval * 1000)),
        give_up=Ms(round(give_up * 1000)),
    )
    targets: list[Target] = []
    # A table of an unknown kind may have the keys of every kind, and needs none of them.
    for read in [KINDS[kind]] if kind else KINDS.values():
        sink, target = read(section, sink)
        targets += [target] if target is not None else []
    section.done()
    return sink, targets
