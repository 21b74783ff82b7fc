"""Output on a terminal: colours, tables that wrap, a line that moves. Needs rich."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from nodeagent.cli.maint.console.text import Rows, harmless, shown

STYLES = {
    "noted": "cyan",
    "pending": "yellow",
    "completed": "green",
    "failed": "bold red",
    "canceled": "dim",
    "live-repair": "yellow",
    "evacuate": "red",
    "evacuate-failover": "bold red",
    "drained": "yellow",
    "offline": "dim",
    "silent": "yellow",
    "distrusted": "bold red",
    "job-failed": "red",
    "job-lost": "red",
    "job-done": "green",
    "held": "yellow",
    "storm-tripped": "bold red",
    "OK": "green",
    "WARNING": "yellow",
    "CRITICAL": "bold red",
    "UNREACHABLE": "bold red",
    "UNKNOWN": "magenta",
}
_READABLE = 60  # columns for a text that is longer than that
_INDENT = 4  # columns of indentation for a last column below the others
_LOUD = ("Storm", "Plans", "Trouble", "Nothing done", "Pauses")


class ColourScreen:
    """A terminal. Text is never markup: foreign text can neither colour nor move anything."""

    def __init__(self) -> None:
        self._console = _console(stderr=False)

    def heading(self, text: str) -> None:
        self._print(Text(f"\n{shown(text)}", "bold"))

    def line(self, text: str) -> None:
        self._print(Text(shown(text)))

    def facts(self, rows: Sequence[tuple[str, object]]) -> None:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        cells = [(label, shown(value)) for label, value in rows]
        width = max((len(label) for label, _ in cells), default=0) + 2
        fits = width + _longest(words for _, words in cells) <= self._console.width
        for label, words in cells:
            loud = label in _LOUD and words != "none"
            value = Text(words, "yellow" if loud else STYLES.get(words, ""))
            if fits:
                table.add_row(Text(label), value)
            else:  # a terminal that is too narrow breaks the line, and copies it whole
                self._print(Text(label.ljust(width), "bold").append_text(value))
        if fits:
            self._print(table)

    def table(self, columns: Sequence[str], rows: Rows, none: str = "") -> None:
        if none and not rows:
            self.line(none)
            return
        head = [name.upper() for name in columns]
        cells = [[shown(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in (head, *cells)) for i in range(len(head) - 1)]
        last = [row[-1] for row in cells]
        needs = max(min(_READABLE, max(map(len, last), default=0)), _longest(last), len(head[-1]))
        if self._console.width - sum(widths) - 2 * len(widths) < needs:
            self._two_lines(head, cells, widths)
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
        for name in head[:-1]:
            table.add_column(Text(name), no_wrap=True)
        table.add_column(Text(head[-1]))
        for row in cells:
            table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
        self._print(table)

    def _two_lines(self, head: list[str], cells: list[list[str]], widths: list[int]) -> None:
        """Put the last column below the others where it has little room."""
        self._print(Text("  ".join(map(str.ljust, head, widths)).rstrip(), "bold dim"))
        self._print(Text(" " * _INDENT + head[-1], "bold dim"))
        for *first, last in cells:
            line = Text()
            for cell, width in zip(first, widths, strict=True):
                line.append(cell.ljust(width), STYLES.get(cell, "")).append("  ")
            line.rstrip()
            self._print(line)
            if last and _longest([last]) + _INDENT > self._console.width:
                self._print(Text(" " * _INDENT + last))
            elif last:
                self._print(Padding(Text(last), (0, 0, 0, _INDENT)))

    def _print(self, what: Text | Table | Padding) -> None:
        self._console.print(what, soft_wrap=isinstance(what, Text))


def _longest(texts: Iterable[str]) -> int:
    """Return the length of the longest word: a tag or a UUID, perhaps, that must stay whole."""
    return max((len(word) for text in texts for word in text.split()), default=0)


class _Spinner:
    def __init__(self, status: Status, width: int) -> None:
        self._status = status
        self._width = width

    def tell(self, text: str, news: object = None) -> None:
        self._status.update(Text(harmless(shown(text), self._width)))


@contextmanager
def spinning() -> Iterator[_Spinner]:
    """Show a moving line on standard error, and remove it at the end."""
    console = _console(stderr=True)
    with console.status("") as status:
        yield _Spinner(status, max(20, console.width - 4))


def _console(*, stderr: bool) -> Console:
    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=None if plain else "auto",
    )
