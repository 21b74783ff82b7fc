"""The `nodeagent-succeed` command: a standby's root helper for the succession of a dead master.

systemd starts it for each connection of the standby's maintd to its socket. It trusts nobody: it
reads Ganeti's files itself, seals its questions for all agents, and opens their answers. maintd
only carries both, as the front does for the runner. One JSON object a line, both ways:

    maintd                            helper
    {"verb": "preview" | "succeed"}
                                      {"ask": {"id", "address", "port", "tls", "body"}} …, {"asked"}
    {"id", "answer"} for each of them
                                      {"told": {…}} or {"failed": why}
"""

import fcntl
import json
import logging
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import click

from nodeagent import __version__, service
from nodeagent.cli import usage
from nodeagent.cli.failover import Failover, Switch
from nodeagent.cluster.ganeti import configuration
from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import Corrupt, MessageError, NodeAgentError, Unavailable, in_words
from nodeagent.folder import Unfit, opened_folder, replace_in
from nodeagent.maintd.engine.questions import Questions
from nodeagent.maintd.helper_settings import DEFAULT_FILE, HelperSettings, load_for_helper
from nodeagent.maintd.succession import memory as remembered
from nodeagent.maintd.succession.memory import Clocks, Memory
from nodeagent.maintd.succession.plan import FRESH, Heard, Known, Step, plan
from nodeagent.maintd.succession.story import told
from nodeagent.model.evidence import Testimony
from nodeagent.model.reason import Reason, SuccessionKind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key
from nodeagent.protocol.witness import Question
from nodeagent.secret import read_private

NAME = "nodeagent-succeed"
log = logging.getLogger(NAME)

FOLDER = "/var/lib/nodeagent/succession"
MEMORY, LOCK = "memory.json", "lock"
_MOST_STEPS = 12
_MOST_LINE = 4 * 1024 * 1024
_MOST_MEMORY = 64 * 1024
_PATIENCE = 40.0  # seconds for all answers of a round; maintd tries for a little less
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Places:
    """Folders and programs that tests put elsewhere; no setting names them."""

    state: str = FOLDER
    switch: Switch = field(default_factory=Switch)
    failover: Failover = field(default_factory=Failover)


PLACES = Places()


@click.group(
    NAME,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, prog_name=NAME)
@click.option(
    "-c",
    "--config",
    default=DEFAULT_FILE,
    show_default=True,
    metavar="FILE",
    type=usage.FILE,
    help="Settings of maintd; maintd.conf.d/*.toml beside it is read too.",
)
@click.pass_context
def cli(context: click.Context, config: str) -> None:
    """Root helper of a standby: it makes this node the master when that is proven dead."""
    context.obj = config, context.obj or PLACES
    usage.needs_command(context)


@cli.command("session")
@click.pass_obj
def session_command(given: tuple[str, Places]) -> None:
    """Answer one request of maintd's on standard input; systemd runs this."""
    config, places = given
    service.log_to_stderr("info")
    line = Line(sys.stdin.fileno(), sys.stdout.fileno())
    asked = line.hear(time.monotonic() + 10)
    if asked is None or asked.get("verb") not in ("preview", "succeed"):
        raise click.UsageError("maintd's standby talks to this command; see gnt-maint why cluster")
    try:
        settings = load_for_helper(config, owner=os.geteuid())
        with _alone(places.state) as lock:
            session = Session(settings, places, line, lock)
            line.say({"told": session.run(asks=asked["verb"] == "succeed")})
    except BlockingIOError:
        line.say({"failed": "another request is being answered, or a failover runs"})
    except NodeAgentError as error:
        line.say({"failed": str(error)})
        raise


class Line:
    """The two ends of a connection, read line by line with a deadline. A peer may have gone."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._rest = bytearray()

    def say(self, document: Mapping[str, Any]) -> None:
        """Send one line; a peer that has gone hears of the end from the next session."""
        rest = memoryview(json.dumps(document).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._writing, rest) :]
        except OSError:
            log.info("peer-gone")

    def hear(self, until: float) -> dict[str, Any] | None:
        """Return the next line; None at the end, at the deadline, or if it is no object."""
        while (end := self._rest.find(b"\n")) < 0:
            left = until - time.monotonic()
            if left <= 0 or len(self._rest) > _MOST_LINE:
                return None
            if select.select([self._reading], [], [], left)[0]:
                piece = os.read(self._reading, 65536)
                if not piece:
                    return None
                self._rest += piece
        text = bytes(self._rest[:end])
        del self._rest[: end + 1]
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class Session:
    """One request: each step as planned, to the last."""

    def __init__(self, settings: HelperSettings, places: Places, line: Line, lock: int) -> None:
        self._settings = settings
        self._places = places
        self._line = line
        self._lock = lock
        self._memory = Memory()
        self._asked_at = 0  # steady ms
        self._power: tuple[str, ...] = ()

    def run(self, *, asks: bool) -> dict[str, Any]:
        """Take all steps that the plan has now; return the outcome."""
        self._memory = _load(self._places.state)
        known = self._known(asks=asks)
        self._keep(remembered.resumed(self._memory, known, clocks()))
        end: Step | Reason = plan(self._again(known))
        for _ in range(_MOST_STEPS):
            if isinstance(end, Reason):
                break
            log.info("step=%s master=%s", end.name, known.files)
            known, why = self._take(end, self._again(known))
            end = why or plan(self._again(known))
        if not isinstance(end, Reason):
            end = because(SuccessionKind.TOO_LATE, known.files)
        log.info("end kind=%s why=%r", end.kind.word, str(end))
        return told(self._again(known), end, self._power)

    def _known(self, *, asks: bool) -> Known:
        """Return the knowledge that needs no other node."""
        settings, at = self._settings, clocks()
        folder = settings.cluster.ganeti
        files = Ssconf(settings.cluster.node, folder)
        snapshot = configuration.read(f"{folder}/config.data")
        master = files.master()
        levels, self._power = self._places.switch.why_none(master)
        return Known(
            settings.succession.enabled,
            files.own_name(),
            master,
            snapshot,
            Ms(round(settings.succession.after * 1000)),
            at.now,
            levels=levels,
            asks=asks,
        )

    def _again(self, known: Known) -> Known:
        """Bring up to date what the clocks and the files say."""
        at, files = clocks(), Ssconf(self._settings.cluster.node, self._settings.cluster.ganeti)
        master = known.snapshot.nodes.get(known.snapshot.master)
        since = self._memory.silent_since(master.uuid, at) if master is not None else None
        return replace(
            known,
            now=at.now,
            files=files.master(),
            since=since,
            tried=self._memory.tried_lately,
        )

    def _take(self, step: Step, known: Known) -> tuple[Known, Reason | None]:
        """Take a step; return the knowledge after it, or also why it failed."""
        name = known.snapshot.master
        match step:
            case Step.ASK | Step.ASK_FOR_VOICES:
                known = replace(known, heard=self._ask(known, claim=step is Step.ASK_FOR_VOICES))
                known = replace(known, now=clocks().now)
                self._keep(remembered.heard(self._memory, known, clocks()))
                return known, None
            case Step.READ_POWER:
                reading, self._power = self._places.switch.read(known.master)
                return replace(known, power=reading), None
            case Step.POWER_OFF:
                self._keep(remembered.begins(self._memory, known, step, clocks()))
                reading, self._power = self._places.switch.off(known.master)
                known = replace(known, power=reading, cut=reading.powered is False, heard=None)
                if reading.powered is not False:
                    return known, because(SuccessionKind.NOT_OFF, name, why=reading.why)
                time.sleep(self._places.switch.settles)
                return known, None
            case Step.FAIL_OVER:
                return known, self._fail_over(known)

    def _fail_over(self, known: Known) -> Reason:
        """Run Ganeti's own failover, unless the voices are too old by now."""
        name = known.snapshot.master
        before = self._memory
        self._keep(remembered.begins(self._memory, known, Step.FAIL_OVER, clocks()))
        if clocks().steady - self._asked_at > FRESH:
            self._keep(before)
            return because(SuccessionKind.TOO_LATE, name)
        why = self._places.failover.run(self._places.state, self._lock)
        files = Ssconf(self._settings.cluster.node, self._settings.cluster.ganeti)
        if files.master() == known.me:
            why = "; ".join(filter(None, ("this node became the master", why)))
            self._keep(remembered.ended(self._memory, name, why, clocks()))
            return because(SuccessionKind.IS_MASTER, known.me)
        why = why or "it said nothing"
        self._keep(remembered.ended(self._memory, name, why, clocks()))
        return because(SuccessionKind.FAILED, name, why=why)

    def _keep(self, memory: Memory) -> None:
        if memory != self._memory:
            self._memory = memory
            _save(self._places.state, memory)

    # Questions.

    def _ask(self, known: Known, *, claim: bool) -> Heard:
        """Have all agents in service asked, and open what comes back."""
        settings, snapshot = self._settings, known.snapshot
        questions = self._questions()
        at = clocks()
        self._asked_at = at.steady
        open_: dict[str, tuple[Node, Question]] = {}
        for node in snapshot.nodes.values():
            if node.offline or node.name == snapshot.master:
                continue
            question, body = questions.sealed(node, snapshot.master, snapshot.cluster, claim=claim)
            open_[question.id] = node, question
            where = {"address": node.address, "port": settings.poll.port, "tls": settings.poll.tls}
            self._line.say({"ask": {"id": question.id, **where, "body": body.decode()}})
        self._line.say({"asked": len(open_)})
        testimonies: dict[str, Testimony] = {}
        voices: set[str] = set()
        for node, question, answer in self._answers(open_):
            try:
                words, promised = questions.opened(answer, question, snapshot)
            except (MessageError, UnicodeEncodeError) as error:
                log.warning("witness-unable node=%s why=%r", node.name, str(error))
                continue
            testimonies[node.name] = Testimony(
                node.name, at.now, words.noded, words.agent, words.mirrors, words.why
            )
            if promised:
                voices.add(node.name)
        return Heard(at.now, testimonies, frozenset(voices), claimed=claim)

    def _answers(
        self, open_: dict[str, tuple[Node, Question]]
    ) -> Iterator[tuple[Node, Question, bytes]]:
        until = time.monotonic() + _PATIENCE
        while open_ and (line := self._line.hear(until)) is not None:
            node_and_question = open_.pop(str(line.get("id")), None)
            answer = line.get("answer")
            if node_and_question is not None and isinstance(answer, str):
                yield *node_and_question, answer.encode()

    def _questions(self) -> Questions:
        settings, folder = self._settings, self._settings.cluster.ganeti
        return Questions(
            Key(read_private(f"{folder}/hmac.key", any_owner=True)),
            read_private(f"{folder}/client.pem", any_owner=True),
            settings.poll.port,
            settings.poll.tls,
            lambda: clocks().now,
            settings.poll.require_node_keys,
        )


def clocks() -> Clocks:
    with open(_BOOT, encoding="ascii") as file:
        boot = file.read().strip()
    steady = Ms(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000)
    return Clocks(Ms(time.time_ns() // 1_000_000), steady, boot)


@contextmanager
def _alone(folder: str) -> Iterator[int]:
    """Hold the lock, or raise BlockingIOError. A failover that outlives us goes on holding it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, LOCK), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    finally:
        os.close(lock)


def _load(folder: str) -> Memory:
    """Read the memory; none if there is no file. Corrupt: nothing may be tried without it."""
    path = os.path.join(folder, MEMORY)
    try:
        with opened_folder(folder, os.geteuid(), "root") as place:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(MEMORY, flags, dir_fd=place), "rb") as file:
                return remembered.from_json(json.loads(file.read(_MOST_MEMORY)))
    except FileNotFoundError:
        return Memory()
    except (OSError, Unfit, Corrupt, ValueError, RecursionError) as error:
        why = f"{path}: {in_words(error)}: look whether a failover runs, then remove it"
        raise Unavailable(why) from None


def _save(folder: str, memory: Memory) -> None:
    text = json.dumps(remembered.to_json(memory))
    try:
        with opened_folder(folder, os.geteuid(), "root") as place:
            replace_in(place, MEMORY, text.encode())
    except (OSError, Unfit) as error:
        raise Unavailable(f"{folder}: {in_words(error)}") from None


def main(places: Places = PLACES) -> NoReturn:
    """Run the command."""
    try:
        usage.run(cli, NAME, places)
    except NodeAgentError as error:
        usage.die(NAME, error)


if __name__ == "__main__":
    main()
