"""Mistakes in settings: the first is raised, or all are collected, each once. Pure."""

from nodeagent.errors import ConfigError


class Faults:
    """The mistakes of one reading, as lines; without `collect` the first raises ConfigError.

    `incomplete` tells that a file could not be read: then nobody can say that a key is missing.
    """

    def __init__(self, *, collect: bool = False) -> None:
        self.collect = collect
        self.incomplete = False
        self._found: dict[str, str] = {}

    def add(self, mistake: str, about: str = "") -> None:
        """Take a mistake; `about` is the file, the table or the key."""
        if not self.collect:
            raise ConfigError(mistake)
        self._found.setdefault(mistake, about)

    def has(self, about: str) -> bool:
        """Tell whether a mistake concerns this file, table or key, or a part of it."""
        inside = tuple(f"{about}{mark}" for mark in ".[")
        return any(
            subject == about or subject.startswith(inside) for subject in self._found.values()
        )

    @property
    def lines(self) -> list[str]:
        return list(self._found)

    def take_new(self, others: "Faults", prefix: str) -> None:
        """Take another reading's mistakes, after these words, about what is right so far."""
        known = set(self._found.values())
        for line, about in others._found.items():
            if about not in known:
                self.add(f"{prefix}{line}", about)
