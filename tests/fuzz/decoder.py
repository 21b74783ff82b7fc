"""One reader of what others wrote, as the fuzzer and the tests of growth drive it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodeagent.errors import MessageError, NodeAgentError

SURE = (MessageError,)


@dataclass(frozen=True)
class Decoder:
    """`read` may raise `errors` and nothing else, or return what it refused.

    `seeds` are good inputs. With `json` each is a document, and others' texts stand in its strings.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = SURE
    json: bool = True


def each(readers: Iterable[Callable[[], object]]) -> str:
    """Run all of them; what those said that refused."""
    said = []
    for read in readers:
        try:
            read()
        except NodeAgentError as error:
            said.append(str(error))
    return "\n".join(said)


def seed(*documents: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(document).encode() for document in documents)


def text_of(raw: bytes) -> str:
    """Any bytes as a text: what is no UTF-8 stands there as one character a byte."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
