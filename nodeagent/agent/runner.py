"""The runner: the half of the agent that is root, runs commands and holds the cluster key.

It listens on a unix socket only, to the front's user only, and knows nine verbs. Pure functions
elsewhere make all its decisions; this module connects them to the system.
"""

import asyncio
import ctypes
import fcntl
import logging
import os
import pwd
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from nodeagent import __version__, service
from nodeagent.agent import diagnose, steady, whitelist
from nodeagent.agent.cgroup import Cages
from nodeagent.agent.command import Commands
from nodeagent.agent.execute import run_diagnose
from nodeagent.agent.installed import EVERY, Installed
from nodeagent.agent.link import Frame, Handle, listen
from nodeagent.agent.node_key import NodeKey
from nodeagent.agent.repairs import Repairs
from nodeagent.agent.ssconf import Ssconf
from nodeagent.agent.witness import Witness
from nodeagent.agent.writer import SavedFile, Writer
from nodeagent.clocks import unix_ms
from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.folder import sweep
from nodeagent.model.clock import STEP, step
from nodeagent.model.diagnosis import Steady, Unusable, Verdict
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import WHY
from nodeagent.protocol.envelope import SALT, Purpose
from nodeagent.protocol.messages import Receipt, Report
from nodeagent.settings import Settings

log = logging.getLogger(__name__)

AT_ONCE = 4  # commands running side by side
_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class PeerOfRunner:
    """The peer of one connection: its server certificate, once it has said hello."""

    tls: str = ""


class Runner:
    def __init__(
        self,
        settings: Settings,
        *,
        owner: whitelist.Owner = whitelist.ROOT,
        reload: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings = settings
        self.started = asyncio.Event()
        self._reloaded = asyncio.Event()  # a new one for each reload
        self._owner = owner
        self._reload = reload
        self._ssconf = Ssconf(settings.agent)
        cages = Cages()
        self._commands = Commands(cages=cages)
        # Repairs apart: a repair and a diagnose command of one name are two commands.
        self._repair_commands = Commands(cages=cages)
        self._check_commands = Commands(cages=cages)
        self._at_once = asyncio.Semaphore(AT_ONCE)
        os.makedirs(settings.agent.state, mode=0o700, exist_ok=True)
        self._node_key = NodeKey(settings.agent.state)
        self.repairs: Repairs
        self._writer = Writer()
        file = os.path.join(settings.agent.state, "commands.json")
        self._installed = Installed(file, owner, later=self._writer.later)
        file = os.path.join(settings.agent.state, "steady.json")
        unsaved = "steady-unsaved file=%s why=%r"
        self._steady_file = SavedFile(file, unsaved, self._writer.later)
        self._steadies: dict[str, Steady] = {}
        self._moment = service.moment()  # by which their times are right
        self._epoch = os.urandom(16).hex()
        self._seq = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._runs: Counter[str] = Counter()
        self._told: dict[str, str] = {}
        self._witness = Witness(self._ssconf, self._sealed, settings)
        self._verbs: dict[str, Callable[[Frame, PeerOfRunner], Awaitable[Frame]]] = {
            "hello": self._hello,
            "nodes": self._nodes,
            "report": self._report,
            "order": self._order,
            "receipt": self._receipt,
            "health": self._health,
            "witness": self._witness.ask,
            "testify": self._witness.testify,
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`; then let a running repair finish."""
        with self._alone():
            self._remember()
            await self._run(stop)

    def _remember(self) -> None:
        """Read the files of the last runner; not while it may still be writing."""
        state = self.settings.agent.state
        sweep(state)
        self._moment = service.moment()
        wanted = self.settings.diagnose.commands
        self._steadies = steady.load(self._steady_file.path, self._moment, wanted)
        self._installed.load()
        self.repairs = Repairs(
            os.path.join(state, "receipts"),
            self._ssconf,
            self._repair_commands,
            lambda: self.settings.repair,
            self.verdict,
            self._owner,
            self._check_commands,
        )
        self.repairs.close_interrupted()
        self._node_key.tell(partial(self._say_once, "cannot-answer verb=report"))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock out a second runner: it would take the socket, and fail the first's repair."""
        path = os.path.join(self.settings.agent.state, "lock")
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Unavailable(f"another runner holds {path}") from None
        finally:
            os.close(lock)

    async def _run(self, stop: asyncio.Event) -> None:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # systemd makes the folder for the packaged unit; elsewhere it may be missing.
        os.makedirs(os.path.dirname(self.settings.agent.socket), mode=0o755, exist_ok=True)
        allowed, gid = _front_user(self.settings.agent.front, self._owner)
        server = await listen(self.settings.agent.socket, allowed, gid, self._begin_connection)
        self._begin()
        looking = asyncio.create_task(self._look_for_ever())
        checking = asyncio.create_task(self._check_for_ever())
        log.info("runner-started socket=%s", self.settings.agent.socket)
        service.notify(
            "READY=1", f"STATUS={len(self.settings.diagnose.commands)} diagnose commands"
        )
        alive = asyncio.create_task(service.keep_alive(lambda: True))
        self.started.set()
        await stop.wait()
        service.notify("STOPPING=1")
        await self.repairs.finish()  # meanwhile the runner still seals reports
        server.close()
        alive.cancel()
        looking.cancel()
        checking.cancel()
        for task in self._tasks.values():
            task.cancel()
        await self._repair_commands.close()
        await self._check_commands.close()
        await self._commands.close()
        await self._writer.finish()
        with suppress(FileNotFoundError):
            os.unlink(self.settings.agent.socket)
        log.info("runner-stopped")

    def reload(self) -> None:
        """Apply changed settings; wrong ones change nothing and are logged."""
        if self._reload is None:
            return
        service.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            fresh = self._reload()
            for table in ("agent", "listen"):  # the front reads the latter, and only once
                old = getattr(self.settings, table)
                if getattr(fresh, table) != old:
                    log.warning("settings-need-restart [%s] changed; the old one stays", table)
                    fresh = replace(fresh, **{table: old})
            self.settings = fresh
            self._begin()
            self._reloaded.set()
            self._reloaded = asyncio.Event()
            log.info("settings-reloaded")
        except NodeAgentError as error:
            log.error("settings-kept the new ones are wrong: %s", error)  # noqa: TRY400
        service.notify("READY=1")

    def verdict(self) -> Verdict:
        """Return the node's verdict; empty while the tags that may name its commands are unread."""
        if why := self.settings.tags_ignored:
            return Verdict(None, None, None, {"settings": why}, firm=False)
        wanted = self.settings.diagnose
        order = [name for name in wanted.commands if not wanted.command(name).audit]
        return diagnose.merge(self._steadies, order, self._now())

    def _now(self) -> Ms:
        """Return unix ms, and keep the ages of diagnoses through each step of the clock."""
        now = service.moment()
        if abs(step(self._moment, now)) >= STEP:
            self._steadies = steady.in_step(self._steadies, self._moment, now)
            self._moment = now
        return now.wall

    # Diagnosing.

    def _begin(self) -> None:
        """Diagnose by the current settings; running commands go on undisturbed."""
        wanted = self.settings.diagnose.commands
        for name in [name for name in self._tasks if name not in wanted]:
            self._tasks.pop(name).cancel()
            for trouble in ("unusable", "stderr"):
                self._told.pop(f"diagnose-{trouble} command={name}", None)
        for name in [name for name in wanted if name not in self._tasks]:
            self._tasks[name] = asyncio.create_task(self._diagnose_for_ever(name))

    async def _diagnose_for_ever(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                async with self._at_once:
                    await self.diagnose(name)
            except Exception:
                log.exception("diagnose-broken command=%s", name)
                before = self._steadies.get(name, Steady())
                self._steadies[name] = replace(before, why="internal error; the log tells more")
            due = await self._next_due(due)

    async def _next_due(self, last: float) -> float:
        """Wait for the next run, by the settings of that moment; return when it was due."""
        loop = asyncio.get_running_loop()
        ended = loop.time()
        while (due := max(last + self.settings.diagnose.every, ended)) > loop.time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._reloaded.wait()
        return due

    async def diagnose(self, name: str) -> None:
        """Run one diagnose command and fold its result into the confirmed state."""
        wanted = self.settings.diagnose
        command = wanted.command(name)
        hear, took = partial(self._hear, name), list[Ms]()
        that = await run_diagnose(
            self._commands, self.settings, name, self._owner, hear, took.append
        )
        self._runs["unusable" if isinstance(that, Unusable) else "usable"] += 1
        now = self._now()
        verdict = "unusable" if isinstance(that, Unusable) else that.need.wire
        self._installed.ran(name, verdict, took[0] if took else None, now)
        before = self._steadies.get(name, Steady())
        after = diagnose.stabilise(
            before, that, now, confirm=wanted.confirm, confirm_worse=wanted.confirm_worse
        )
        self._steadies[name] = after
        if isinstance(that, Unusable):
            self._say_once(f"diagnose-unusable command={name}", str(that))
        else:
            self._told.pop(f"diagnose-unusable command={name}", None)
        if after.unequal >= diagnose.UNSETTLED > before.unequal:
            log.warning("diagnose-unsettled command=%s why=%r", name, after.why)
        if after.current is not None and after.current != before.current:
            word = "would-say" if command.audit else "says"
            log.info("diagnose-changed command=%s %s=%s", name, word, after.current.need.wire)
        changed = replace(after, checked=None) != replace(before, checked=None)
        if changed or self._steady_file.owed:
            self._steady_file.save(partial(steady.written, dict(self._steadies), self._moment))

    async def _look_for_ever(self) -> None:
        """Look at the installed commands at least once a minute, and after a reload."""
        while True:
            try:
                self._installed.look(self.settings, self.repairs.newest(), unix_ms())
            except Exception:
                log.exception("commands-broken")
            with suppress(TimeoutError):
                async with asyncio.timeout(min(EVERY, self.settings.diagnose.every)):
                    await self._reloaded.wait()

    async def _check_for_ever(self) -> None:
        """Find out once a minute whether this node could take orders, before one comes."""
        told = ""
        while True:
            await self.repairs.check()
            why = self.repairs.refuses
            if why and why != told:
                log.warning("takes-no-orders why=%r", why)
            elif told and not why:
                log.info("takes-orders-again")
            told = why
            await asyncio.sleep(EVERY)

    def _hear(self, name: str, text: str) -> None:
        """Log a diagnose command's standard error when it changes; nearly all write nothing."""
        event = f"diagnose-stderr command={name}"
        if not text:
            self._told.pop(event, None)
        elif self._told.get(event) != text:
            self._told[event] = text
            log.info("%s text=%s", event, text)

    # The verbs.

    def _begin_connection(self) -> Handle:
        """Begin a connection with its own state: another front must not speak for this node's."""
        return partial(self._handle, PeerOfRunner())

    async def _handle(self, caller: PeerOfRunner, asked: Frame) -> Frame:
        verb = self._verbs.get(str(asked.get("verb")))
        if verb is None:
            return {"error": "unknown verb"}
        trouble = f"cannot-answer verb={asked['verb']}"
        try:
            answer = await verb(asked, caller)
        except NodeAgentError as error:
            self._say_once(trouble, str(error))
            return {"error": "unavailable"}
        self._told.pop(trouble, None)
        return answer

    async def _hello(self, asked: Frame, caller: PeerOfRunner) -> Frame:
        tls = asked.get("tls")
        caller.tls = tls if isinstance(tls, str) and len(tls) in (0, 64) else ""
        identity = self._ssconf.identity()
        return {"address": identity.address, "name": identity.name, "cluster": identity.cluster}

    async def _nodes(self, _asked: Frame, _: PeerOfRunner) -> Frame:
        return {"nodes": sorted(self._ssconf.all_addresses())}

    async def _report(self, asked: Frame, caller: PeerOfRunner) -> Frame:
        salt = asked.get("salt")
        if salt is None:  # the time instead of a question's salt, as confd's queries have it
            salt = str(int(time.time()))
        if not isinstance(salt, str) or not SALT.fullmatch(salt):
            return {"bad": "salt is 1 to 64 of 0-9 A-Z a-z . _ : -"}
        identity = self._ssconf.identity()
        verdict = self.verdict()
        commands, last_runs = self._installed.texts()
        self._seq += 1
        report = Report(
            cluster=identity.cluster,
            node=identity.uuid,
            name=identity.name,
            epoch=self._epoch,
            seq=self._seq,
            time=unix_ms(),
            diagnosis=verdict.diagnosis.text if verdict.diagnosis else None,
            checked=verdict.checked,
            changed=verdict.changed,
            unusable=verdict.unusable,
            firm=verdict.firm,
            master=self._ssconf.master(),
            tls=caller.tls,
            software=__version__,
            checks=self.settings.repair.checks,
            checks_taken=self.repairs.checks.most,
            runs=self.settings.repair.without_diagnosis,
            boot=service.this_boot(),
            commands=commands,
            last_runs=last_runs,
            refuses=self.repairs.refuses[:WHY],
        )
        return self._sealed(Purpose.REPORT, salt, report.body())

    async def _order(self, asked: Frame, _: PeerOfRunner) -> Frame:
        raw = asked.get("order")
        receipt = await self.repairs.order(raw.encode()) if isinstance(raw, str) else None
        if receipt is None:
            return {"refused": True}
        return self._sealed_receipt(receipt, receipt.order)

    async def _receipt(self, asked: Frame, _: PeerOfRunner) -> Frame:
        salt, order = asked.get("salt"), asked.get("id")
        receipt = self.repairs.receipt(order) if isinstance(order, str) else None
        if receipt is None:
            return {"unknown": True}
        if not isinstance(salt, str) or not SALT.fullmatch(salt):
            return {"bad": "salt is 1 to 64 of 0-9 A-Z a-z . _ : -"}
        return self._sealed_receipt(receipt, salt)

    def _sealed_receipt(self, receipt: Receipt, salt: str) -> Frame:
        identity = self._ssconf.identity()
        body = receipt.body() | {"name": identity.name, "cluster": identity.cluster}
        return self._sealed(Purpose.RECEIPT, salt, body)

    def _sealed(self, purpose: Purpose, salt: str, body: dict[str, object]) -> Frame:
        """Seal with the cluster's key, and sign with this node's own."""
        return {"sealed": self._node_key.seal(self._ssconf.key(), purpose, salt, body).decode()}

    async def _health(self, asked: Frame, _: PeerOfRunner) -> Frame:
        verdict = self.verdict()
        ran = (self._commands, self._repair_commands, self._check_commands)
        judges = (self.repairs, self._witness)
        try:
            self._ssconf.key()
            self._ssconf.identity()
            ready, why = bool(self._node_key.public), ""
        except NodeAgentError as error:
            ready, why = False, str(error)
        return {
            "ready": ready,
            "why": why,
            "need": verdict.diagnosis.need.wire if verdict.diagnosis else None,
            "checked": verdict.checked,
            "changed": verdict.changed,
            "firm": verdict.firm,
            "unusable": sorted(verdict.unusable),
            "runs": dict(self._runs),
            "refused": sum(judge.refusals.count for judge in judges),
            "stuck": sum(commands.stuck for commands in ran),
            "busy": sorted({name for commands in ran for name in commands.busy}),
        }

    def _say_once(self, event: str, why: str) -> None:
        """Log a trouble when it begins or changes, not each time; its end removes it."""
        if self._told.get(event) != why:
            self._told[event] = why
            log.warning("%s why=%r", event, why)


def _front_user(name: str, owner: whitelist.Owner) -> tuple[frozenset[int], int]:
    """Return the users that may talk to the runner: its own, and the front's if that exists."""
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return frozenset({owner.uid, os.geteuid()}), -1
    return frozenset({owner.uid, os.geteuid(), user.pw_uid}), user.pw_gid
