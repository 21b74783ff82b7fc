"""The base class of all requests: their words, and whether they may wait. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Asked:
    """A request: its fields are stored under the name of its class.

    `says` describes it for the history. An `urgent` request starts or releases something at once:
    nobody expects that hours later.
    """

    says: ClassVar[str] = ""
    urgent: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """Return the words after "asked to"."""
        return self.says.format(self)

    @property
    def about(self) -> tuple[str, str]:
        """Return its incident and the name of its node, or empty texts."""
        return getattr(self, "incident", ""), getattr(self, "node", "")

    @property
    def at_once(self) -> bool:
        """Tell whether maintd refuses it once it has waited for long."""
        return self.urgent


def some_of(several: Sequence[object]) -> str:
    """Name the first five, and count the others."""
    more = f" and {len(several) - 5} more" if len(several) > 5 else ""
    return f"{', '.join(map(str, several[:5]))}{more}"
