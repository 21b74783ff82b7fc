"""The `nodeagent-succeed` command: a standby's root helper for the succession of a dead master.

systemd starts it for each connection of the standby's maintd to its socket. It trusts nobody: it
reads Ganeti's files itself, seals its questions for all agents, and opens their answers. maintd
only carries both, as the front does for the runner. One JSON object a line, both ways:

    maintd                              helper
    {"verb": "preview" | "succeed"}
                                        {"ask": {NODE: QUESTION, …}}
    {NODE: ANSWER, …}                   … more rounds of questions …
                                        {"told": {…}} or {"failed": why}
"""

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import click

from nodeagent import service
from nodeagent.cli import usage
from nodeagent.cluster.ganeti import configuration
from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.errors import MessageError, NodeAgentError, Unavailable, plain, with_path
from nodeagent.folder import Unfit, locked_folder, read_own, write_own
from nodeagent.maintd.engine.helper_settings import DEFAULT_FILE, HelperSettings, load_for_helper
from nodeagent.maintd.engine.questions import Questions
from nodeagent.maintd.fencing import readings
from nodeagent.maintd.fencing.judgement import SETTLES
from nodeagent.maintd.succession.plan import (
    Attempt,
    Heard,
    HelperStep,
    Known,
    Memory,
    before_power_off,
    outcome,
    plan,
    remember,
)
from nodeagent.model.evidence import PowerReading, Testimony
from nodeagent.model.reason import Reason, SuccessionKind, because
from nodeagent.model.snapshot import Node
from nodeagent.model.units import Ms
from nodeagent.power.controls import Controls
from nodeagent.protocol.envelope import Key
from nodeagent.secret import read_private
from nodeagent.store.records import Fault, document_of, value_of

NAME = "nodeagent-succeed"
log = logging.getLogger(NAME)

FOLDER = "/var/lib/nodeagent/succession"
MEMORY, LOG = "memory.json", "master-failover.log"
LIMIT = ("/usr/bin/timeout", "--verbose", "--kill-after=10", "600")  # seconds
COMMAND = (*LIMIT, "/usr/sbin/gnt-cluster", "master-failover")  # Ganeti votes: no --no-voting
_MOST_STEPS = 12
_MOST_LINE = 64 * 1024 * 1024  # all answers of a round
_MOST_MEMORY = 4 * 1024 * 1024  # 10,000 names of nodes have up to 2.5 MB
_VERBS = {"preview": False, "succeed": True}  # and whether to ask anybody
_ONLY_MAINTD = "maintd's standby talks to this command; see gnt-maint why cluster"
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"}
_WHY = 300
_PATIENCE = 40.0  # seconds for all answers of a round; maintd tries for a little less


@dataclass(frozen=True, slots=True)
class Places:
    """Folders, programs and times that tests set; of them only `config` is set by anybody else."""

    config: str = DEFAULT_FILE
    state: str = FOLDER
    controls: Controls = field(default_factory=Controls)
    settles: float = SETTLES / 1000 + 1  # seconds until other nodes have noticed a power-off
    command: tuple[str, ...] = COMMAND


def _places(context: click.Context, config: str) -> Places:
    places: Places = context.obj or Places()
    return replace(places, config=config)


cli = usage.head(
    NAME,
    "Root helper of a standby: it makes this node the master when that is proven dead.",
    DEFAULT_FILE,
    "maintd.conf.d",
    _places,
)


@cli.command("session")
@click.pass_obj
def session_command(places: Places) -> None:
    """Answer one request of maintd's on standard input; systemd runs this."""
    service.log_to_stderr("info")
    try:
        peer = Peer(socket.socket(fileno=os.dup(sys.stdin.fileno())))
        asks = _VERBS[str(peer.hear().get("verb"))]
    except (OSError, KeyError):  # it is not a socket, or says something else
        raise click.UsageError(_ONLY_MAINTD) from None
    try:
        settings = load_for_helper(places.config, owner=os.geteuid())
        files = Ssconf(settings.cluster.node, settings.cluster.ganeti)
        os.makedirs(places.state, mode=0o700, exist_ok=True)
        with locked_folder(places.state) as lock:
            peer.say({"told": Session(settings, places, peer, lock, files).run(asks=asks)})
    except BlockingIOError:
        peer.say({"failed": "another request is being answered, or a failover runs"})
    except NodeAgentError as error:
        peer.say({"failed": str(error)})
        raise


class Peer:
    """The maintd at the other end of a connection. It may have gone, or say anything."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE)
        self._connection = connection
        self._lines = connection.makefile("rb")

    def say(self, document: Mapping[str, Any]) -> None:
        """Send one line; a peer that has gone hears of the end from the next session."""
        with suppress(OSError):
            self._connection.sendall(json.dumps(document).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """Return the object in the next line; an empty one if none comes in time."""
        try:
            message = json.loads(self._lines.readline(_MOST_LINE))
        except (OSError, ValueError, RecursionError):
            return {}
        return message if isinstance(message, dict) else {}


def levels_of(controls: Controls, name: str) -> Mapping[str, str]:
    """Say of each level of a node why it does not count, empty if it does; ask no device."""
    try:
        control = controls.of(name)
    except NodeAgentError as error:
        return {"power control": plain(str(error), _WHY)}
    levels = {level.label: control.why_not(level) for level in control.levels}
    return levels or {"power.toml": "it has no level for this node"}


def read_power(controls: Controls, node: Node) -> PowerReading:
    """Read the power of a node. A level that says ON now is not proven by that."""
    status = controls.of(node.name).status()
    now = service.moment().wall
    if status.powered is None:
        return PowerReading(node.uuid, now, None, why=plain("; ".join(status.lines), _WHY))
    return readings.read(json.dumps(status.to_json()), node.uuid, now, alive=False)


def power_off(controls: Controls, node: Node) -> str:
    """Switch a node off by the levels that count; say why that is not proven, or nothing."""
    outcome = controls.of(node.name).off()
    return "" if outcome.level else plain("; ".join(outcome.lines), _WHY)


def fail_over(places: Places, lock: int) -> str:
    """Run Ganeti's own command to its end or its limit; return its last words if it failed.

    It outlives this process with its limit, and then goes on holding the lock. Its words go to a
    file.
    """
    with open(os.path.join(places.state, LOG), "w+b") as output:
        code = subprocess.run(
            places.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            pass_fds=(lock,),
            check=False,
        ).returncode
        output.seek(0)
        words = output.read(16 * 1024).decode(errors="replace")
    return plain(f"exit code {code}: {' '.join(words.split())}", _WHY) if code else ""


@dataclass(frozen=True, slots=True)
class Session:
    """One request: each step as planned, to the last. `lock` is held, and `files` are Ganeti's."""

    settings: HelperSettings
    places: Places
    peer: Peer
    lock: int
    files: Ssconf

    def run(self, *, asks: bool) -> dict[str, Any]:
        """Take all steps that the plan has now; return the outcome."""
        known = self._known(asks=asks)
        end: HelperStep | Reason = plan(known)
        for _ in range(_MOST_STEPS):
            if isinstance(end, Reason):
                break
            log.info("step=%s master=%s", end.name, known.files)
            known, why = self._take(end, known)
            known = self._now(known)
            end = why or plan(known)
        if not isinstance(end, Reason):
            end = because(SuccessionKind.TOO_LATE, known.files)
        log.info("end kind=%s why=%r", end.kind.word, str(end))
        return outcome(known, end)

    def _known(self, *, asks: bool) -> Known:
        """Return the knowledge that needs no other node."""
        settings, master = self.settings, self.files.master()
        return Known(
            settings.succession.enabled,
            self.files.own_name(),
            master,
            configuration.read(f"{settings.cluster.ganeti}/config.data"),
            Ms(round(settings.succession.after * 1000)),
            service.moment(),
            _load(self.places.state),
            levels_of(self.places.controls, master),
            asks=asks,
        )

    def _now(self, known: Known) -> Known:
        """Bring up to date what the clocks and the files say."""
        return replace(known, at=service.moment(), files=self.files.master())

    def _take(self, step: HelperStep, known: Known) -> tuple[Known, Reason | None]:
        """Take a step; return the knowledge after it, and why it is the last one."""
        places = self.places
        match step:
            case HelperStep.ASK | HelperStep.ASK_FOR_VOICES:
                heard = self._ask(known, claim=step is HelperStep.ASK_FOR_VOICES)
                known = self._now(replace(known, heard=heard))
                return self._keep(known, remember(known)), None
            case HelperStep.READ_POWER:
                return replace(known, power=read_power(places.controls, known.master)), None
            case HelperStep.POWER_OFF:
                known = self._keep(known, before_power_off(known))
                if why := power_off(places.controls, known.master):
                    return known, because(SuccessionKind.NOT_OFF, known.master.name, why=why)
                time.sleep(places.settles)
                return replace(known, cut=True, power=None, heard=None), None
            case HelperStep.FAIL_OVER:
                return self._fail_over(known)

    def _fail_over(self, known: Known) -> tuple[Known, Reason]:
        """Run Ganeti's own failover; its files then tell whether it came to its end."""
        name = known.master.name
        why = fail_over(self.places, self.lock) or "it said nothing"
        end = because(SuccessionKind.FAILED, name, why=why)
        if self.files.is_master():
            why = "this node became the master"
            end = because(SuccessionKind.IS_MASTER, known.me)
        tried = Attempt(service.moment().wall, name, why)
        return self._keep(known, replace(known.memory, tried=tried)), end

    def _keep(self, known: Known, memory: Memory) -> Known:
        if memory != known.memory:
            _save(self.places.state, memory)
        return replace(known, memory=memory)

    def _ask(self, known: Known, *, claim: bool) -> Heard:
        """Have all agents in service asked, and open what comes back."""
        folder, snapshot, at = self.settings.cluster.ganeti, known.snapshot, service.moment()
        key = Key(read_private(f"{folder}/hmac.key", any_owner=True))
        certificate = read_private(f"{folder}/client.pem", any_owner=True)
        questions = Questions.by(key, certificate, self.settings.poll, lambda: at.wall)
        sealed = {
            name: questions.sealed(node, snapshot.master, snapshot.cluster, claim=claim)
            for name, node in snapshot.nodes.items()
            if not node.offline and name != snapshot.master
        }
        self.peer.say({"ask": {name: body.decode() for name, (_, body) in sealed.items()}})
        answers = self.peer.hear()
        testimonies: dict[str, Testimony] = {}
        voices: set[str] = set()
        for name in sealed.keys() & answers.keys():
            question, answer = sealed[name][0], str(answers[name])
            try:
                words, promised = questions.opened(answer.encode(), question, snapshot)
            except (MessageError, UnicodeEncodeError) as error:
                log.warning("witness-unable node=%s why=%r", name, str(error))
                continue
            testimonies[name] = words.of(name, at.wall)
            if promised:
                voices.add(name)
        return Heard(at, testimonies, frozenset(voices) if claim else None)


def _load(folder: str) -> Memory:
    """Read the memory; none if there is no file. Unavailable: nothing may be tried without it."""
    try:
        return value_of(Memory, json.loads(read_own(folder, MEMORY, _MOST_MEMORY)))
    except FileNotFoundError:
        return Memory()
    except (OSError, Unfit, Fault, ValueError, RecursionError) as error:
        why = with_path(f"{folder}/{MEMORY}", error)
        raise Unavailable(f"{why}: look whether a failover runs, then remove it") from None


def _save(folder: str, memory: Memory) -> None:
    try:
        write_own(folder, MEMORY, json.dumps(document_of(memory)).encode())
    except (OSError, Unfit) as error:
        raise Unavailable(with_path(folder, error)) from None


def main(places: Places | None = None) -> NoReturn:
    """Run the command."""
    usage.run(cli, NAME, places)


if __name__ == "__main__":
    main()
