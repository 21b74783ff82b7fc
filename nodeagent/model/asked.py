"""The root of all requests: how one is told, and whether it may wait. Pure."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Asked:
    """A request: its fields are what is kept of it, by its class's name.

    `says` is what it asks for, in words for the history. If it is `urgent`, it begins or releases
    something at once: nobody expects that hours later.
    """

    says: ClassVar[str] = ""
    urgent: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """The request, after "asked to"."""
        return self.says.format(self)

    @property
    def about(self) -> tuple[str, str]:
        """The incident and the node (its name) that it is about, or empty."""
        return getattr(self, "incident", ""), getattr(self, "node", "")

    @property
    def at_once(self) -> bool:
        """Whether it is refused once it has waited for long."""
        return self.urgent
