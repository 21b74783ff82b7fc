"""Readings of nodes' power, and which of their levels have proved to work. Pure.

A level of power control counts only if it has said ON for this node while the node's agent
answered, within the last days and through the same devices with the same options: a level of
another machine, or a missing outlet, would say OFF. One that says OFF while the agent answers does
not count until it says ON again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nodeagent.maintd.planning.outcomes import how_ended
from nodeagent.model.action import Power, PowerCommand
from nodeagent.model.evidence import Level, PowerReading
from nodeagent.model.fencing import Deaf
from nodeagent.model.ledger import Intent, Ledger, Outcome
from nodeagent.model.purpose import OfFencing
from nodeagent.model.reason import FencingKind, Held, Reason, because
from nodeagent.model.snapshot import Node, Observed
from nodeagent.model.units import Ms

PROVEN_WITHIN = Ms(7 * 86_400_000)
DAILY = Ms(86_400_000)
AGAIN = Ms(300_000)  # between two readings of a node that does not answer
UNAVAILABLE = 3  # Ganeti's status: there is no power control
_LEVELS, _AGENTS, _NAME, _WHY = 9, 9, 64, 200


def remember(ledger: Ledger, observed: Observed, now: Ms) -> Ledger:
    """Record the readings that have ended, and the failed ones."""
    asked = [intent for intent in ledger.intents if is_reading(intent)]
    nodes = observed.snapshot.by_uuid
    power, deaf = list(ledger.power), {deaf_node.node: deaf_node for deaf_node in ledger.deaf}
    for intent in asked:
        assert isinstance(intent.purpose, OfFencing)
        node = nodes.get(intent.purpose.fenced)
        if node is None:
            continue
        answer = outcome(intent, observed, power, node, now)
        if answer is None:
            continue
        if isinstance(answer, PowerReading):
            power = _with(power, answer)
            deaf.pop(node.uuid, None)
        if intent.id in observed.absent:
            continue  # Ganeti has not tried: this tells nothing of the power control
        if isinstance(answer, Deaf) or answer.powered is None:
            failure = (
                answer if isinstance(answer, Deaf) else Deaf(node.uuid, Ms(now + AGAIN), answer.why)
            )
            first = deaf[node.uuid].since if node.uuid in deaf else now
            deaf[node.uuid] = replace(failure, since=first)
    power = [reading for reading in power if reading.node in nodes and _lasts(reading, power, now)]
    kept = tuple(deaf_node for deaf_node in deaf.values() if deaf_node.node in nodes)
    if (tuple(power), kept) == (ledger.power, ledger.deaf):
        return ledger
    return replace(ledger, power=tuple(power), deaf=kept)


def is_reading(intent: Intent) -> bool:
    """Tell whether an intent asks for the power of a node."""
    action = intent.action
    return (
        isinstance(action, Power)
        and action.command is PowerCommand.STATUS
        and isinstance(intent.purpose, OfFencing)
    )


def outcome(
    intent: Intent, observed: Observed, power: Sequence[PowerReading], node: Node, now: Ms
) -> PowerReading | Deaf | None:
    """The reading by an intent, or why it failed; None while it is not over.

    It counts from when it was planned: nothing that happened later is in it.
    """
    absent = observed.absent.get(intent.id)
    end = how_ended(intent, observed, now)
    if absent is not None:
        return Deaf(node.uuid, Ms(now + AGAIN), absent)
    if end is None:
        return None
    if end.outcome is not Outcome.SUCCESS:
        never = end.code == UNAVAILABLE
        return Deaf(node.uuid, Ms(now + (DAILY if never else AGAIN)), end.why, never=never)
    alive = node.name in observed.diagnoses
    reading = read(end.said, node.uuid, intent.promised, alive=alive)
    return counted(reading, power, now)


def read(answer: str, node: str, at: Ms, *, alive: bool) -> PowerReading:
    """Read a power control's answer; anything unclear proves nothing."""
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("powered"), bool):
        return PowerReading(node, at, None, why="the power control's answer is unclear")
    powered = document["powered"]
    if "levels" not in document:  # a program of the site's own
        level = Level(1, (), "on" if powered else "off", counts=True)
        return PowerReading(node, at, powered, 1, (level,), alive)
    rows, number = document["levels"], document.get("level")
    levels = tuple(_level(row) for row in rows[:_LEVELS]) if isinstance(rows, list) else ()
    word = "on" if powered else "off"
    known = any(level.level == number and level.said == word for level in levels)
    if type(number) is not int or not known:
        why = "the power control's answer contradicts itself"
        return PowerReading(node, at, None, levels=levels, alive=alive, why=why)
    return PowerReading(node, at, powered, number, levels, alive)


def _level(row: Any) -> Level:
    match row:
        case {"level": int(number), "agents": [*agents], "said": str(said), "counts": bool(counts)}:
            names = tuple(str(agent)[:_NAME] for agent in agents[:_AGENTS])
            word = said if said in ("on", "off", "mixed") else "nothing"
            mark = str(row.get("fingerprint") or "")[:_NAME]
            return Level(number, names, word, counts, str(row.get("why") or "")[:_WHY], mark)
        case _:
            return Level(0, (), "nothing", counts=False)


def counted(reading: PowerReading, before: Sequence[PowerReading], now: Ms) -> PowerReading:
    """The reading, in which a level counts only if we have seen that it works.

    OFF by a level that does not count is no answer.
    """
    levels = tuple(
        replace(x, counts=x.counts and _is_proven(x, reading, before, now)) for x in reading.levels
    )
    reading = replace(reading, levels=levels)
    level = next((x for x in levels if x.level == reading.level), None)
    if reading.powered is None or (level is not None and level.counts):
        return reading
    why = (
        f"level {reading.level} says {'on' if reading.powered else 'off'}, and does not count: with"
        " these options it has not said on in the last days while the node was alive"
    )
    if reading.alive and reading.powered is False:
        why = f"level {reading.level} says off, and the node answers: is it that of another node?"
    return replace(reading, powered=reading.powered or None, why=why)


def _is_proven(
    level: Level, reading: PowerReading, before: Sequence[PowerReading], now: Ms
) -> bool:
    if reading.alive and level.said == "off":
        return False
    at = last_on(reading.node, level, (*before, reading))
    return at is not None and 0 <= now - at <= PROVEN_WITHIN


def last_on(node: str, level: Level, power: Sequence[PowerReading]) -> Ms | None:
    """When this level last said ON for the node (its UUID) while that was alive."""
    times = (x.at for x in power if x.node == node and _identity(level) in _levels(x, "on"))
    return max(times, default=None)


def _with(power: Sequence[PowerReading], new: PowerReading) -> list[PowerReading]:
    """The readings with a newer one, without what it makes useless or wrong."""
    proves, wrong = _levels(new, "on"), _levels(new, "off")
    kept = list[PowerReading]()
    for reading in power:
        if reading.node == new.node:
            reading = replace(
                reading, levels=tuple(x for x in reading.levels if _identity(x) not in wrong)
            )
        if reading.node != new.node or _levels(reading, "on") - proves:
            kept.append(reading)
    return [*kept, new]


def _levels(reading: PowerReading, word: str) -> set[tuple[int, tuple[str, ...], str]]:
    """The levels of which this reading tells something: none unless the node was alive."""
    return {_identity(x) for x in reading.levels if x.said == word} if reading.alive else set()


def _identity(level: Level) -> tuple[int, tuple[str, ...], str]:
    return level.level, level.agents, level.fingerprint


def _lasts(reading: PowerReading, power: Sequence[PowerReading], now: Ms) -> bool:
    return now - reading.at <= PROVEN_WITHIN or reading is newest(power).get(reading.node)


def newest(power: Sequence[PowerReading]) -> Mapping[str, PowerReading]:
    """The newest reading of each node, by UUID."""
    return {reading.node: reading for reading in power}  # in the order of their ends


def why_unproven(node: Node, ledger: Ledger, gone: Mapping[str, Ms]) -> Reason | None:
    """Why its power control would prove nothing: no level of it answers and counts.

    Or it says off, and last said on before another node was gone: it may be the power of that one.
    `gone` has the other nodes that are silent or fenced, by name, and since when.
    """
    power = newest(ledger.power).get(node.uuid)
    deaf = ledger.deaf_of(node.uuid)
    if power is None or (deaf is not None and deaf.since >= power.at):
        return because(FencingKind.POWER_UNKNOWN, node.name, why=deaf.why if deaf else "")
    counting = [x for x in power.levels if x.counts and x.said in ("on", "off")]
    if not counting:
        return because(FencingKind.POWER_UNPROVEN, node.name)
    if power.powered is not False:
        return None
    level = next((x for x in counting if x.level == power.level), counting[0])
    on = last_on(node.uuid, level, ledger.power) or 0
    if later := tuple(sorted(name for name, at in gone.items() if at >= on)):
        return because(FencingKind.OFF_SINCE_ANOTHER, node.name, nodes=later)
    return None


def faults(ledger: Ledger, observed: Observed) -> Iterator[Held]:
    """Tell of power control that does not work before it is needed."""
    readings, deaf = newest(ledger.power), {deaf_node.node: deaf_node for deaf_node in ledger.deaf}
    for name, node in observed.snapshot.nodes.items():
        if not node.controlled or name not in observed.diagnoses:
            continue
        power = readings.get(node.uuid)
        if (deaf_node := deaf.get(node.uuid)) is not None:
            yield Held(because(FencingKind.CONTROL_FAILS, name, why=deaf_node.why), name)
        elif power is not None and power.alive:
            bad = next((x for x in power.levels if x.said != "on" or not x.counts), None)
            if bad is not None:
                level, word, why = bad.level, bad.said, bad.why
                reason = because(FencingKind.LEVEL_FAILS, name, level=level, said=word, why=why)
                yield Held(reason, name)


def with_power(ledger: Ledger, observed: Observed) -> Observed:
    """The observation in which the evidence about nodes has their power."""
    if not observed.evidence:
        return observed
    readings, deaf = newest(ledger.power), {deaf_node.node: deaf_node for deaf_node in ledger.deaf}
    new_evidence = {}
    for name, evidence in observed.evidence.items():
        node = observed.snapshot.nodes.get(name)
        uuid = node.uuid if node is not None else ""
        power = readings.get(uuid)
        if uuid in deaf and (power is None or deaf[uuid].since >= power.at):
            power = PowerReading(uuid, deaf[uuid].since, None, why=deaf[uuid].why)
        new_evidence[name] = replace(evidence, power=power)
    return replace(observed, evidence=new_evidence)
