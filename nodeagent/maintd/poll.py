"""Asking every agent at once, each with its own deadline and its own salt."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodeagent.errors import Unavailable
from nodeagent.model.diagnosis import Diagnosis
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.look import Distrusted, Expected, Look, Seen, Silent, judge_answer
from nodeagent.web.client import fetch, untrusting_tls

AT_ONCE = 256  # more connects at once overrun listeners' backlogs


@dataclass(frozen=True, slots=True)
class PollSettings:
    """`oldest` is how old, in ms, a diagnosis may be to be acted upon."""

    port: int = 1817
    seconds: float = 5.0
    tls: bool = True
    oldest: int = 600_000


async def poll(
    snapshot: Snapshot, key: Key, settings: PollSettings, now: Callable[[], int]
) -> dict[str, Look]:
    """Look at every node that is not offline. Takes about one deadline, whatever they do."""
    gate = asyncio.Semaphore(AT_ONCE)
    nodes = [node for node in snapshot.nodes.values() if not node.offline]
    looks = await asyncio.gather(
        *(_look(node, snapshot.cluster, key, settings, now, gate) for node in nodes)
    )
    return {node.name: look for node, look in zip(nodes, looks, strict=True)}


async def _look(
    node: Node,
    cluster: str,
    key: Key,
    settings: PollSettings,
    now: Callable[[], int],
    gate: asyncio.Semaphore,
) -> Look:
    salt = secrets.token_hex(16)
    target = f"/1/report/node/diagnose?salt={salt}"
    tls = untrusting_tls() if settings.tls else None
    async with gate:
        try:
            answer = await fetch(
                node.address, settings.port, target, seconds=settings.seconds, tls=tls
            )
        except Unavailable as error:
            return Silent(str(error))
    expected = Expected(cluster, node.name, node.uuid, salt, answer.certificate)
    return judge_answer(answer.status, answer.body, key, expected, now())


def understand(
    looks: Mapping[str, Look], now: int, oldest: int
) -> tuple[dict[str, Diagnosis], dict[str, str]]:
    """Sort looks into diagnoses one may act on and doubts. Pure.

    What rests on a command that cannot be believed now is a doubt: it neither opens nor
    closes anything. What rests on others is not hidden by it.
    """
    diagnoses: dict[str, Diagnosis] = {}
    doubts: dict[str, str] = {}
    for name, look in looks.items():
        match look:
            case Silent(why):
                doubts[name] = f"silent: {why}"
            case Distrusted(why):
                doubts[name] = f"distrusted: {why}"
            case Seen(report, None):
                doubts[name] = f"stands by no diagnosis yet ({_unusable(report.unusable)})"
            case Seen(report, diagnosis) if not report.firm:
                doubts[name] = _unusable(report.unusable)
            case Seen(report, diagnosis) if now - (report.checked or 0) > oldest:
                age = (now - (report.checked or 0)) // 1000
                doubts[name] = f"its diagnosis is {age} s old"
            case Seen(_, diagnosis):
                assert diagnosis is not None
                diagnoses[name] = diagnosis
    return diagnoses, doubts


def _unusable(commands: Mapping[str, str]) -> str:
    each = "; ".join(f"{name}: {why}" for name, why in sorted(commands.items()))
    return f"unusable: {each}" if each else "nothing has been confirmed"
