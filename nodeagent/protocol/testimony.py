"""The words of a witness about another node and its own DRBD disks, without their seal. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.evidence import Contact, Mirror, Testimony
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import COUNT, MIRRORS, NAME, WHY, cut

_WORD = 64  # characters of a word of DRBD's


@dataclass(frozen=True, slots=True)
class Words:
    """The findings of a witness: the two ports of the other node, and its own DRBD disks.

    `mirrors` is None if it could not read them, and `why` says so.
    """

    noded: Contact
    agent: Contact
    mirrors: tuple[Mirror, ...] | None = None
    why: str = ""

    def body(self) -> dict[str, Any]:
        return {
            "noded": self.noded.value,
            "agent": self.agent.value,
            "mirrors": None if self.mirrors is None else [_row(mirror) for mirror in self.mirrors],
            "why": self.why,
        }

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Words":
        """Read the members, or raise MessageError naming the wrong one."""
        why = document.get("why")
        if not isinstance(why, str):
            raise MessageError("testimony.why is not a text")
        return cls(
            _contact(document, "noded"),
            _contact(document, "agent"),
            _mirrors(document.get("mirrors")),
            cut(why, WHY),
        )

    def of(self, witness: str, at: Ms) -> Testimony:
        """Return the testimony of a witness that was asked at this time (unix ms)."""
        return Testimony(witness, at, self.noded, self.agent, self.mirrors, self.why)


def _row(mirror: Mirror) -> list[str | int | None]:
    return [mirror.instance, mirror.connection, mirror.disk, mirror.ago]


def _contact(document: dict[str, Any], name: str) -> Contact:
    try:
        return Contact(document.get(name))
    except ValueError:
        raise MessageError(f"testimony.{name} is not a known word") from None


def _mirrors(value: Any) -> tuple[Mirror, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MIRRORS:
        raise MessageError(f"testimony.mirrors is not a list of at most {MIRRORS} disks")
    return tuple(map(_mirror, value))


def _mirror(row: Any) -> Mirror:
    if not isinstance(row, Sequence) or len(row) != 4:
        raise MessageError("testimony.mirrors has a row that is not three texts and a number")
    instance, connection, disk, ago = row
    for text, limit in ((instance, NAME), (connection, _WORD), (disk, _WORD)):
        if not isinstance(text, str) or len(text) > limit:
            raise MessageError(f"testimony.mirrors has a text that is not at most {limit} long")
    if ago is not None and not (type(ago) is int and 0 <= ago < COUNT):
        raise MessageError("testimony.mirrors has a number that is not one of milliseconds")
    return Mirror(instance, connection, disk, None if ago is None else Ms(ago))
