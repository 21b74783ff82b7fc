"""Messages on the wire: diagnosis, report, order, receipt; each from text to type. Pure."""

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.diagnosis import Diagnosis, Need
from nodeagent.model.units import Ms, Seconds
from nodeagent.protocol.bounds import COMMANDS, WHY, brief, cut
from nodeagent.protocol.canonical import MAX_BYTES, MAX_DEPTH, canonical, printable, read_text

VERSION = 1
COMMAND_DEPTH = MAX_DEPTH - 2  # levels one command may nest: merging adds two around it
MAX_DIAGNOSIS = 6 * MAX_BYTES  # bytes as sent (`sent_size`): 256 KiB of DEL become so many
COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NODE_KEY = re.compile("[0-9a-f]{64}")
INTERRUPTED = "the agent ended while the command ran"  # the reason after a restart begins so
UNREAD = "its receipt cannot be read"  # the reason begins so if the node's disk fails
MOST_CHECKS = 64  # names of checks in a report
MOST_RUNS = 256  # names of commands that need no diagnosis, in a report
MOST_COMMANDS = 128 * 1024  # characters of the texts of commands and of their last runs
MOST_STDIN = 16 * 1024  # characters of an order's own stdin for the repair queue
BUILT_IN = Diagnosis(Need.OK, None, '{"status":"Ok"}')


def is_diagnosis(document: Any) -> bool:
    """Tell whether a document meets the published schema: the schema's rules by hand.

    A property test holds the two together. Only a wrong document goes through the schema itself,
    for the place of its fault. So a node with correct scripts never loads the library, a fifth of
    the runner's memory.
    """
    if not isinstance(document, dict):
        return False
    status, command = document.get("status"), document.get("command")
    if not isinstance(status, str) or status not in _STATUSES:
        return False
    if "command" not in document:
        return True
    return isinstance(command, str) and bool(COMMAND_NAME.fullmatch(command))


_STATUSES = frozenset(need.wire for need in Need)


def check_diagnosis(document: Any) -> None:
    """Check a document against the published schema, or raise naming the place of the fault."""
    if is_diagnosis(document):
        return
    if place := schema_fault(document):
        raise MessageError(place)
    # In Python's reading JSON Schema's $ also matches before a final newline.
    command = printable(brief(document.get("command")))
    raise MessageError(f"at $.command: {command} is not a command name")


def schema_fault(document: Any) -> str | None:
    """Return the place and kind of the worst fault by the published schema; None without one."""
    from importlib.resources import files

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    text = files("nodeagent.protocol").joinpath("schemas/diagnosis.json").read_text("utf-8")
    fault = best_match(Draft202012Validator(json.loads(text)).iter_errors(document))
    return None if fault is None else f"at {fault.json_path}: {_short(fault.message)}"


def _short(message: str) -> str:
    return printable(message, most=200)[1:-1].replace('\\"', '"')


def diagnosis_of(document: Any) -> Diagnosis:
    """Turn a document into a Diagnosis, or raise MessageError naming the place of the fault."""
    check_diagnosis(document)
    need = Need.from_wire(document["status"])
    return Diagnosis(need, document.get("command"), canonical(document))


def sent_size(text: str) -> int:
    """Return the bytes a diagnosis takes in an answer: as a text in a text, all ASCII."""
    return len(json.dumps(json.dumps(text, ensure_ascii=False)))


def believe_diagnosis(text: str) -> Diagnosis:
    """Read a diagnosis out of a sealed report; its text must be canonical already."""
    diagnosis = diagnosis_of(read_text(text))
    if diagnosis.text != text:
        raise MessageError("the diagnosis is not in canonical form")
    return diagnosis


class Fields:
    """A decoded object; each call takes one member, once, by its type."""

    def __init__(self, what: str, document: dict[str, Any]) -> None:
        self._what = what
        self._document = document
        if document.get("v") != VERSION:
            version = printable(brief(document.get("v")))
            raise MessageError(f"{what} of version {version}; we speak {VERSION}")

    def _wrong(self, name: str, wanted: str) -> MessageError:
        return MessageError(f"{self._what}.{name} is not {wanted}")

    def text(self, name: str, most: int = 255) -> str:
        value = self._document.get(name)
        if not isinstance(value, str) or len(value) > most:
            raise self._wrong(name, f"a text of at most {most} characters")
        return value

    def text_or_none(self, name: str, most: int = 255) -> str | None:
        return None if self._document.get(name) is None else self.text(name, most)

    def number(self, name: str) -> int:
        value = self._document.get(name)
        if type(value) is not int or value < 0 or value >= 2**63:
            raise self._wrong(name, "a count")
        return value

    def moment_or_none(self, name: str) -> Ms | None:
        return None if self._document.get(name) is None else Ms(self.number(name))

    def matching(self, name: str, pattern: re.Pattern[str]) -> str:
        value = self.text(name)
        if not pattern.fullmatch(value):
            raise self._wrong(name, f"of the form {pattern.pattern}")
        return value

    def flag(self, name: str) -> bool:
        value = self._document.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def names(self, name: str, most: int) -> tuple[str, ...]:
        """Read command names; an empty list if the member is absent."""
        value = self._document.get(name, [])
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of at most {most} names")
        if not all(
            isinstance(command, str) and COMMAND_NAME.fullmatch(command) for command in value
        ):
            raise self._wrong(name, "a list of command names")
        return tuple(value)

    def reasons(self, name: str) -> dict[str, str]:
        """Read why commands are unusable, by command; cut a long reason."""
        value = self._document.get(name)
        if not isinstance(value, dict) or len(value) > COMMANDS:
            raise self._wrong(name, f"an object of at most {COMMANDS} texts")
        for command, why in value.items():
            if not isinstance(why, str) or not COMMAND_NAME.fullmatch(command):
                raise self._wrong(name, "an object of texts by the names of commands")
        return {command: cut(why, WHY) for command, why in value.items()}


@dataclass(frozen=True, slots=True)
class Report:
    """A node's report on itself; times are unix milliseconds.

    `node` is the node's UUID, empty while the node has not learnt it; `name` is its name in Ganeti.
    `seq` grows within one `epoch` (one life of the runner). `diagnosis` is canonical text, None
    before the first confirmation. `unusable` names the commands whose last run gave no usable
    diagnosis, with the reason. `firm` tells that the diagnosis rests on none of them, so that one
    may act on it. `master` is the master as this node knows it.

    `checks` are the commands that change nothing; the node takes `checks_taken` orders of them at
    once. `runs` are all commands that it takes orders for without a diagnosis, `boot` is Linux' id
    of its present start. `commands` and `last_runs` are texts about all commands, as in
    `protocol/commands`, None while unknown. `refuses` says why the node would refuse each order
    now, empty if it judges each, None if that is unknown. An agent of 0.2.0 omits the last five.
    `tls` is the SHA-256 of the front's certificate, empty for plain HTTP. `key` is the node's own
    public key (hex), which signs the report.
    """

    cluster: str
    node: str
    name: str
    epoch: str
    seq: int
    time: Ms
    diagnosis: str | None
    checked: Ms | None
    changed: Ms | None
    unusable: dict[str, str]
    firm: bool
    master: str
    tls: str
    software: str
    checks: tuple[str, ...] = ()
    checks_taken: int = 1
    key: str = ""
    runs: tuple[str, ...] = ()
    boot: str = ""
    commands: str | None = None
    last_runs: str | None = None
    refuses: str | None = None

    def body(self) -> dict[str, Any]:
        members = {name: getattr(self, name) for name in self.__slots__}
        lists = {"checks": list(self.checks), "runs": list(self.runs)}
        return members | lists | {"v": VERSION}

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Report":
        """Read an opened message, or raise MessageError naming the wrong member."""
        take = Fields("report", document)
        return cls(
            cluster=take.text("cluster"),
            node=take.text("node"),
            name=take.text("name"),
            epoch=take.text("epoch"),
            seq=take.number("seq"),
            time=Ms(take.number("time")),
            diagnosis=take.text_or_none("diagnosis", most=MAX_DIAGNOSIS),
            checked=take.moment_or_none("checked"),
            changed=take.moment_or_none("changed"),
            unusable=take.reasons("unusable"),
            firm=take.flag("firm"),
            master=take.text("master"),
            tls=take.text("tls"),
            software=take.text("software"),
            checks=take.names("checks", MOST_CHECKS),
            checks_taken=take.number("checks_taken"),
            key=key_of(document),
            runs=take.names("runs", MOST_RUNS),
            boot=take.text("boot", 64) if "boot" in document else "",
            commands=_shared(take.text_or_none("commands", MOST_COMMANDS)),
            last_runs=take.text_or_none("last_runs", MOST_COMMANDS),
            refuses=take.text_or_none("refuses", WHY),
        )


def _shared(text: str | None) -> str | None:
    """Return the one copy of a text in memory: many nodes have the same commands."""
    return None if text is None else sys.intern(text)


def key_of(document: dict[str, Any]) -> str:
    """Return the public node key of an opened message (hex)."""
    key = document.get("key")
    if not isinstance(key, str) or not NODE_KEY.fullmatch(key):
        raise MessageError(f"key is not of the form {NODE_KEY.pattern}")
    return key


@dataclass(frozen=True, slots=True)
class Order:
    """The master's request that one node runs one repair command, once. Times are unix ms.

    `stdin` is the SHA-256 of the command's input: the text of the node's own diagnosis, or for the
    repair queue `text`, which comes with the order. `seconds` is how long the command may then run.
    """

    id: str
    cluster: str
    node: str
    name: str
    incident: str
    command: str
    stdin: str
    issued: Ms
    expires: Ms
    text: str | None = None
    seconds: Seconds = Seconds(0)

    def body(self) -> dict[str, Any]:
        members = {name: getattr(self, name) for name in self.__slots__} | {"v": VERSION}
        if self.text is None:
            del members["text"], members["seconds"]
        return members

    @classmethod
    def from_body(cls, document: dict[str, Any], *, queue: bool = False) -> "Order":
        """Read an opened message, or raise MessageError naming the wrong member."""
        take = Fields("order", document)
        order = cls(
            id=take.matching("id", IDENTITY),
            cluster=take.text("cluster"),
            node=take.text("node"),
            name=take.text("name"),
            incident=take.matching("incident", IDENTITY),
            command=take.matching("command", COMMAND_NAME),
            stdin=take.matching("stdin", re.compile("[0-9a-f]{64}")),
            issued=Ms(take.number("issued")),
            expires=Ms(take.number("expires")),
            text=take.text("text", MOST_STDIN) if queue else None,
            seconds=Seconds(take.number("seconds") if queue else 0),
        )
        if order.text is not None and digest(order.text) != order.stdin:
            raise MessageError("order.stdin is not the digest of its text")
        return order


class Progress(Enum):
    """The state of an order; all but STARTED are final."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    LATER = "later"
    NOT_NOW = "not-now"

    @classmethod
    def from_exit(cls, code: int) -> "Progress":
        """Read a repair command's exit code, as in sysexits: 0, 75 TEMPFAIL, 69 UNAVAILABLE."""
        return {0: cls.DONE, 75: cls.LATER, 69: cls.NOT_NOW}.get(code, cls.FAILED)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The node's record of one order. `output` is the head of the command's output."""

    order: str
    incident: str
    command: str
    progress: Progress
    started: Ms
    ended: Ms | None
    code: int | None
    why: str
    output: str

    def body(self) -> dict[str, Any]:
        """Return the members to seal or store."""
        members = {name: getattr(self, name) for name in self.__slots__}
        return members | {"progress": self.progress.value, "v": VERSION}

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Receipt":
        """Read an opened or stored receipt, or raise MessageError naming what is wrong."""
        take = Fields("receipt", document)
        code = document.get("code")
        if code is not None and (type(code) is not int or abs(code) >= 2**31):
            raise MessageError("receipt.code is not an exit code")
        try:
            progress = Progress(document.get("progress"))
        except ValueError:
            raise MessageError("receipt.progress is unknown") from None
        return cls(
            order=take.matching("order", IDENTITY),
            incident=take.matching("incident", IDENTITY),
            command=take.matching("command", COMMAND_NAME),
            progress=progress,
            started=Ms(take.number("started")),
            ended=take.moment_or_none("ended"),
            code=code,
            why=take.text("why", most=WHY),
            output=take.text("output", most=256 * 1024),
        )


def fingerprint(public: str) -> str:
    """Name a node's public key: the SHA-256 of its 32 bytes, in hex; empty for none."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest() if public else ""


def digest(text: str) -> str:
    """SHA-256 of a text, hex; names the input of a repair command."""
    return hashlib.sha256(text.encode()).hexdigest()
