"""One reader of what others wrote, as the fuzzer and the tests of growth drive it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nodeagent.errors import MessageError, NodeAgentError

SURE = (MessageError,)


@dataclass(frozen=True)
class Decoder:
    """`read` may raise `errors` and nothing else, or return what it refused.

    Good inputs are the files in seeds/NAME, and those that are `made`. With `json` each is a
    document, and others' texts stand in its strings.
    """

    name: str
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = SURE
    json: bool = True
    made: tuple[bytes, ...] = ()

    @cached_property
    def seeds(self) -> tuple[bytes, ...]:
        return (*files(self.name), *self.made)


def files(name: str) -> list[bytes]:
    """The good inputs of a decoder that are kept in files."""
    folder = Path(__file__).parent / "seeds" / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def each(readers: Iterable[Callable[[], object]]) -> str:
    """Run all of them; what those said that refused."""
    said = []
    for read in readers:
        try:
            read()
        except NodeAgentError as error:
            said.append(str(error))
    return "\n".join(said)


def text_of(raw: bytes) -> str:
    """Any bytes as a text: what is no UTF-8 stands there as one character a byte."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
