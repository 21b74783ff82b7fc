"""The `nodeagent-iallocator` command: Ganeti's instance allocator, in place of hail.

Ganeti starts it for each question, so it loads only modules that an answer needs.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from nodeagent import __version__
from nodeagent.cli.departures import leaving_in
from nodeagent.errors import ConfigError, MessageError, NodeAgentError, in_words, with_path
from nodeagent.model.departure import FILE, Departure
from nodeagent.placement.allocate.candidates import Terms
from nodeagent.placement.allocate.iallocator import answer
from nodeagent.placement.allocate.request import read_request

EXIT_FAULT = 1
USAGE = """\
usage: nodeagent-iallocator FILE [OPTION...]

Answers the request in FILE (- for standard input) on standard output, as Ganeti's instance
allocators do. Options of hail's:

  --ignore-soft-errors            take what is possible though it is unwise
  --no-capacity-checks            do not ask whether any one node may fail afterwards
  --restrict-allocation-to=N,...  place new instances on these nodes only
  --static-kvm-node-memory=MIB    what a kvm node takes for itself (4096); 0: what it says
  -t, --text-data=FILE            the cluster is in FILE, as `hbal -t` has it
  --ignore-dynu, --mond=no        change nothing: no load is asked for
  -v, --verbose                   say on standard error what is asked
  -V, --version; -h, --help

and of our own:

  --as-hail                       also answer as hail where it is wrong
  --departures=FILE               the nodes that leave soon, as maintd writes them
                                  (/run/maintd/departures.json); no: none does
"""


@dataclass(frozen=True, slots=True)
class Order:
    file: str
    terms: Terms = field(default_factory=Terms)
    own_memory: int = 4096
    text: str | None = None
    as_hail: bool = False
    departures: str = FILE
    verbose: bool = False


def read_words(words: list[str]) -> Order:
    """Read a command line, or raise ConfigError; options may stand anywhere."""
    order = Order("")
    files, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            files.append(word)
            continue
        name, given, value = word.partition("=")
        if name in _FLAGS and not value:  # Ganeti may write an equals sign after any of them
            order = _FLAGS[name](order)
        elif name in _VALUES:
            if not given:
                if not rest:
                    raise ConfigError(f"{name} needs a value")
                value = rest.pop(0)
            order = _VALUES[name](order, value)
        elif name in _FLAGS:
            raise ConfigError(f"{name} takes no value")
        else:
            raise ConfigError(f"there is no option {word} (see nodeagent-iallocator --help)")
    if len(files) != 1:
        raise ConfigError(f"one file is to be named, not {len(files)}")
    return replace(order, file=files[0])


def _soft(order: Order) -> Order:
    return replace(order, terms=replace(order.terms, ignore_soft=True))


def _no_capacity(order: Order) -> Order:
    return replace(order, terms=replace(order.terms, capacity=False))


def _only(order: Order, value: str) -> Order:
    names = frozenset(value.split(","))
    if "" in names:
        raise ConfigError(f"--restrict-allocation-to: {value!r} names a node without a name")
    return replace(order, terms=replace(order.terms, only=names))


def _own_memory(order: Order, value: str) -> Order:
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(f"--static-kvm-node-memory: {value!r} is not a whole number of MiB")
    return replace(order, own_memory=int(value))


def _mond(order: Order, value: str) -> Order:
    if value != "no":
        raise ConfigError("--mond: load is not asked for; maintd balances by it")
    return order


def _departures(order: Order, value: str) -> Order:
    return replace(order, departures="" if value == "no" else value)


def _text(order: Order, value: str) -> Order:
    return replace(order, text=value)


_FLAGS: dict[str, Callable[[Order], Order]] = {
    "--ignore-soft-errors": _soft,
    "--no-capacity-checks": _no_capacity,
    "--ignore-dynu": lambda order: order,
    "--as-hail": lambda order: replace(order, as_hail=True),
    "--verbose": lambda order: replace(order, verbose=True),
    "-v": lambda order: replace(order, verbose=True),
}
_VALUES: dict[str, Callable[[Order, str], Order]] = {
    "--restrict-allocation-to": _only,
    "--static-kvm-node-memory": _own_memory,
    "--mond": _mond,
    "--departures": _departures,
    "--text-data": _text,
    "-t": _text,
}


def run(order: Order) -> str:
    cluster = None
    if order.text is not None:
        from nodeagent.placement.cluster.textfile import parse

        cluster = parse(_contents(order.text), order.text)
    try:
        document = json.loads(_contents(order.file))
    except (ValueError, RecursionError) as error:
        raise MessageError(f"{order.file}: is not JSON: {error}") from error
    try:
        request = read_request(document, order.own_memory, cluster)
        if order.verbose:
            names = ", ".join(request.instances or (n.instance.name for n in request.newcomers))
            print(f"nodeagent-iallocator: {request.type}: {names}", file=sys.stderr)
        reply = answer(request, order.terms, hail=order.as_hail, leaving=_leaving(order))
    except MessageError as error:
        raise MessageError(f"{order.file}: {error}") from error
    return json.dumps(reply, separators=(",", ":"))


def _leaving(order: Order) -> Mapping[str, Departure]:
    """The nodes that leave soon; a wrong file prevents no answer, but a line says so."""
    if order.as_hail or order.text is not None or not order.departures:
        return {}
    try:
        return leaving_in(order.departures)
    except (NodeAgentError, OSError) as error:
        print(f"nodeagent-iallocator: {with_path(order.departures, error)}", file=sys.stderr)
        return {}


def _contents(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read()
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise MessageError(f"{file}: is not UTF-8 at byte {error.start}") from None


def main() -> NoReturn:
    """Run the command; like hail's, every failure is exit 1 and a line on standard error."""
    words = sys.argv[1:]
    if {"-h", "--help"} & set(words):
        print(USAGE, end="")
        sys.exit(0)
    if {"-V", "--version"} & set(words):
        print(f"nodeagent-iallocator {__version__}")
        sys.exit(0)
    try:
        print(run(read_words(words)), flush=True)
    except (NodeAgentError, OSError) as error:
        print(f"nodeagent-iallocator: {in_words(error)}", file=sys.stderr)
        sys.exit(EXIT_FAULT)
    sys.exit(0)


if __name__ == "__main__":
    main()
