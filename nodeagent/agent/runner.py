"""The runner: the half of the agent that is root, runs commands and holds the cluster key.

It listens on a unix socket only, to the front's user only, and knows five verbs. Everything
it decides is decided elsewhere, by pure functions; this is where they are given the world.
"""

import asyncio
import base64
import ctypes
import grp
import json
import logging
import os
import pwd
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.resources import files
from typing import Any

from nodeagent import __version__, service
from nodeagent.agent import diagnose, orders, whitelist
from nodeagent.agent.command import Commands
from nodeagent.agent.link import Frame, listen
from nodeagent.agent.receipts import Receipts, replace_file
from nodeagent.agent.run import Finished, Limits
from nodeagent.agent.ssconf import Ssconf
from nodeagent.errors import MessageError, NodeAgentError
from nodeagent.model.diagnosis import Diagnosis, Steady, Unusable, Verdict
from nodeagent.protocol.canonical import printable, read
from nodeagent.protocol.envelope import SALT, Purpose, seal
from nodeagent.protocol.messages import Order, Progress, Receipt, Report, believe_diagnosis
from nodeagent.protocol.order import Signed, open_order
from nodeagent.settings import RunLimits, Settings

log = logging.getLogger(__name__)

AT_ONCE = 4  # commands running side by side
OUTPUT_KEPT = 32 * 1024  # characters of a repair command's output in its receipt
_SET_CHILD_SUBREAPER = 36
_SIGNATURE = str(files("nodeagent.protocol") / "signature.py")


class Runner:
    """One node's runner, from start to stop."""

    def __init__(
        self,
        settings: Settings,
        *,
        owner: whitelist.Owner = whitelist.ROOT,
        reload: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings = settings
        self.started = asyncio.Event()
        self._owner = owner
        self._reload = reload
        self._ssconf = Ssconf(settings.agent)
        self._commands = Commands(spare=2)
        self._at_once = asyncio.Semaphore(AT_ONCE)
        os.makedirs(settings.agent.state, mode=0o700, exist_ok=True)
        self._receipts = Receipts(os.path.join(settings.agent.state, "receipts"))
        self._steady_file = os.path.join(settings.agent.state, "steady.json")
        self._steadies = load_steadies(self._steady_file)
        self._epoch = str(uuid.uuid4())
        self._seq = 0
        self._tls = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._repair: asyncio.Task[None] | None = None
        self._judging = asyncio.Lock()
        self._runs: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._told: dict[str, str] = {}
        self._verbs: dict[str, Callable[[Frame], Awaitable[Frame]]] = {
            "hello": self._hello,
            "report": self._report,
            "order": self._order,
            "receipt": self._receipt,
            "health": self._health,
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`; then let a running repair finish."""
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for receipt in self._receipts.close_interrupted(_now()):
            log.error("order-interrupted id=%s command=%s", receipt.order, receipt.command)
        # systemd makes the folder for the packaged unit; elsewhere it may not be there yet.
        os.makedirs(os.path.dirname(self.settings.agent.socket), mode=0o755, exist_ok=True)
        allowed, gid = _front_user(self.settings.agent.front, self._owner)
        server = await listen(self.settings.agent.socket, allowed, gid, self._handle)
        self._commands.warm_up()
        self._begin()
        log.info("runner-started socket=%s", self.settings.agent.socket)
        service.notify(
            "READY=1", f"STATUS={len(self.settings.diagnose.commands)} diagnose commands"
        )
        alive = asyncio.create_task(service.keep_alive(lambda: True))
        self.started.set()
        await stop.wait()
        service.notify("STOPPING=1")
        alive.cancel()
        server.close()
        if self._repair is not None:
            log.info("runner-stopping waiting for the running repair command")
            await self._repair
        for task in self._tasks:
            task.cancel()
        await self._commands.close()
        with suppress(FileNotFoundError):
            os.unlink(self.settings.agent.socket)
        log.info("runner-stopped")

    def reload(self) -> None:
        """Take up changed settings; wrong ones change nothing and are said."""
        if self._reload is None:
            return
        service.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            fresh = self._reload()
            if fresh.agent != self.settings.agent:
                log.warning("settings-need-restart the [agent] table changed; the old one stays")
                fresh = replace(fresh, agent=self.settings.agent)
            self.settings = fresh
            self._begin()
            log.info("settings-reloaded")
        except NodeAgentError as error:
            log.error("settings-kept the new ones are wrong: %s", error)  # noqa: TRY400
        service.notify("READY=1")

    def verdict(self) -> Verdict:
        """What this node says now."""
        wanted = self.settings.diagnose
        order = [name for name in wanted.commands if not wanted.command(name).audit]
        return diagnose.merge(self._steadies, order, _now())

    # Diagnosing.

    def _begin(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = [
            asyncio.create_task(self._diagnose_for_ever(name))
            for name in self.settings.diagnose.commands
        ]

    async def _diagnose_for_ever(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                async with self._at_once:
                    await self.diagnose(name)
            except Exception:
                log.exception("diagnose-broken command=%s", name)
            due = max(due + self.settings.diagnose.every, loop.time())
            await asyncio.sleep(due - loop.time())

    async def diagnose(self, name: str) -> None:
        """Run one diagnose command and fold what it said into what we stand by."""
        wanted = self.settings.diagnose
        command = wanted.command(name)
        that = await run_diagnose(self._commands, self.settings, name, self._owner)
        unusable = isinstance(that, Unusable)
        self._runs["unusable" if unusable else "usable"] += 1
        before = self._steadies.get(name, Steady())
        after = diagnose.stabilise(
            before, that, _now(), confirm=wanted.confirm, confirm_worse=wanted.confirm_worse
        )
        self._steadies[name] = after
        self._tell(name, before, after, audit=command.audit)
        if replace(after, checked=None) != replace(before, checked=None):
            store_steadies(self._steady_file, self._steadies)

    def _tell(self, name: str, before: Steady, after: Steady, *, audit: bool) -> None:
        if after.why is not None and after.why != before.why:
            log.warning("diagnose-unusable command=%s why=%r", name, after.why)
        if after.current is not None and after.current != before.current:
            word = "would-say" if audit else "says"
            log.info("diagnose-changed command=%s %s=%s", name, word, after.current.need.wire)

    # The verbs.

    async def _handle(self, asked: Frame) -> Frame:
        verb = self._verbs.get(str(asked.get("verb")))
        if verb is None:
            return {"error": "unknown verb"}
        try:
            return await verb(asked)
        except NodeAgentError as error:
            self._say_once(f"verb {asked.get('verb')}", str(error))
            return {"error": "unavailable"}

    async def _hello(self, asked: Frame) -> Frame:
        tls = asked.get("tls")
        self._tls = tls if isinstance(tls, str) and len(tls) in (0, 64) else ""
        identity = self._ssconf.identity()
        return {"address": identity.address, "name": identity.name, "cluster": identity.cluster}

    async def _report(self, asked: Frame) -> Frame:
        salt = asked.get("salt")
        if salt is None:  # nobody's question: the time, as confd's queries have it
            salt = str(int(time.time()))
        if not isinstance(salt, str) or not SALT.fullmatch(salt):
            return {"bad": "salt is 1 to 64 of 0-9 A-Z a-z . _ : -"}
        identity = self._ssconf.identity()
        verdict = self.verdict()
        self._seq += 1
        report = Report(
            cluster=identity.cluster,
            node=identity.uuid,
            name=identity.name,
            epoch=self._epoch,
            seq=self._seq,
            time=_now(),
            diagnosis=verdict.diagnosis.text if verdict.diagnosis else None,
            checked=verdict.checked,
            changed=verdict.changed,
            unusable=verdict.unusable,
            firm=verdict.firm,
            master=self._ssconf.master(),
            tls=self._tls,
            software=__version__,
        )
        sealed = seal(self._ssconf.key(), Purpose.REPORT, salt, report.body())
        return {"sealed": sealed.decode()}

    async def _order(self, asked: Frame) -> Frame:
        raw = asked.get("order")
        if not isinstance(raw, str):
            return {"refused": True}
        async with self._judging:
            judged = await self._judge(raw.encode())
            if isinstance(judged, orders.Refused):
                log.warning("order-refused why=%r", judged.why)
                self._refused["order"] += 1
                return {"refused": True}
            if isinstance(judged, orders.Known):
                return self._sealed_receipt(judged.receipt, judged.receipt.order)
            return self._start(judged.order)

    async def _judge(self, raw: bytes) -> orders.Judgement:
        try:
            signed = open_order(self._ssconf.key(), raw)
            signer = await _signer(signed)
        except MessageError as error:
            return orders.Refused(str(error))
        identity, verdict = self._ssconf.identity(), self.verdict()
        view = orders.View(
            cluster=identity.cluster,
            name=identity.name,
            uuid=identity.uuid,
            diagnosis=verdict.diagnosis,
            doubtful=not verdict.firm,
            enabled=self.settings.repair.enabled,
            now=_now(),
        )
        receipt = self._receipts.get(signed.order.id)
        candidates = self._ssconf.candidates()
        running = self._receipts.running
        return orders.judge(signed.order, signer, candidates, view, receipt, running)

    def _start(self, order: Order) -> Frame:
        repair = self.settings.repair
        found = whitelist.look_up(
            repair.folder, order.command, owner=self._owner, link_folders=repair.link_folders
        )
        if isinstance(found, whitelist.Refused):
            log.warning("order-refused id=%s why=%r", order.id, str(found))
            return {"refused": True}
        verdict = self.verdict().diagnosis
        assert verdict is not None
        receipt = Receipt(
            order=order.id,
            incident=order.incident,
            command=order.command,
            progress=Progress.STARTED,
            started=_now(),
            ended=None,
            code=None,
            why="",
            output="",
        )
        try:
            self._receipts.keep(receipt)  # on disk before anything is started
        except OSError as error:
            found.close()
            log.error("order-refused id=%s why='no receipt can be kept: %s'", order.id, error)  # noqa: TRY400
            return {"refused": True}
        log.info(
            "order-started id=%s command=%s incident=%s", order.id, order.command, order.incident
        )
        self._repair = asyncio.create_task(self._carry_out(found, verdict, receipt))
        return self._sealed_receipt(receipt, order.id)

    async def _carry_out(
        self, vetted: whitelist.Vetted, diagnosis: Diagnosis, receipt: Receipt
    ) -> None:
        with vetted:
            limits = _limits(self.settings.repair.limits)
            ran = await self._commands.run(vetted, diagnosis.text.encode(), limits)
        code = ran.code if isinstance(ran, Finished) and ran.stopped is None else None
        output = ran.stdout.decode("utf-8", "replace") if isinstance(ran, Finished) else ""
        ended = replace(
            receipt,
            progress=Progress.from_exit(code) if code is not None else Progress.FAILED,
            ended=_now(),
            code=code,
            why=(ran.fault or "")[:1000],
            output=output.replace("\0", "�")[:OUTPUT_KEPT],
        )
        self._receipts.keep(ended)
        self._repair = None
        log.info("order-ended id=%s progress=%s code=%s", ended.order, ended.progress.value, code)

    async def _receipt(self, asked: Frame) -> Frame:
        salt, order = asked.get("salt"), asked.get("id")
        receipt = self._receipts.get(order) if isinstance(order, str) else None
        if receipt is None:
            return {"unknown": True}
        if not isinstance(salt, str) or not SALT.fullmatch(salt):
            return {"bad": "salt is 1 to 64 of 0-9 A-Z a-z . _ : -"}
        return self._sealed_receipt(receipt, salt)

    def _sealed_receipt(self, receipt: Receipt, salt: str) -> Frame:
        identity = self._ssconf.identity()
        body = receipt.body() | {"name": identity.name, "cluster": identity.cluster}
        sealed = seal(self._ssconf.key(), Purpose.RECEIPT, salt, body)
        return {"sealed": sealed.decode()}

    async def _health(self, asked: Frame) -> Frame:
        verdict = self.verdict()
        try:
            self._ssconf.key()
            ready, why = True, ""
        except NodeAgentError as error:
            ready, why = False, str(error)
        return {
            "ready": ready,
            "why": why,
            "need": verdict.diagnosis.need.wire if verdict.diagnosis else None,
            "checked": verdict.checked,
            "changed": verdict.changed,
            "unusable": sorted(verdict.unusable),
            "runs": dict(self._runs),
            "refused": self._refused.total(),
            "stuck": self._commands.stuck,
            "busy": sorted(self._commands.busy),
        }

    def _say_once(self, what: str, why: str) -> None:
        if self._told.get(what) != why:
            self._told[what] = why
            log.error("cannot-answer what=%r why=%r", what, why)


async def run_diagnose(
    commands: Commands, settings: Settings, name: str, owner: whitelist.Owner
) -> diagnose.Interpreted:
    """Look up, run and interpret one diagnose command."""
    wanted = settings.diagnose
    command = wanted.command(name)
    found = whitelist.look_up(wanted.folder, name, owner=owner, link_folders=wanted.link_folders)
    if isinstance(found, whitelist.Refused):
        return Unusable(f"may not run: {found.why}")
    with found:
        ran = await commands.run(found, b"", _limits(command.limits))
    if isinstance(ran, Finished) and ran.stderr:
        text = ran.stderr.decode("utf-8", "replace").strip()
        log.info("diagnose-stderr command=%s text=%s", name, printable(text, 500))
    reading = diagnose.Reading(command.drop, command.bucket, command.nagios, command.repair)
    return diagnose.interpret(ran, reading)


def load_steadies(path: str) -> dict[str, Steady]:
    """Read what we stood by before a restart; unreadable means nothing is known, said aloud."""
    try:
        with open(path, "rb") as file:
            document = read(file.read(), limit=64 * 1024 * 1024)
        return {name: _steady(row) for name, row in document.items()}
    except FileNotFoundError:
        return {}
    except (OSError, MessageError, AttributeError, LookupError, TypeError) as error:
        log.error("steady-lost file=%s why=%r", path, str(error))  # noqa: TRY400
        return {}


def store_steadies(path: str, steadies: dict[str, Steady]) -> None:
    """Write what we stand by, so that a restart is not amnesia."""
    rows = {
        name: asdict(replace(row, challenger=None, times=0))
        | {"current": row.current.text if row.current else None}
        for name, row in steadies.items()
    }
    try:
        replace_file(path, json.dumps(rows).encode())
    except OSError as error:
        log.error("steady-unsaved file=%s why=%r", path, str(error))  # noqa: TRY400


def _steady(row: dict[str, Any]) -> Steady:
    text = row["current"]
    current = believe_diagnosis(text) if text is not None else None
    return Steady(current, checked=row["checked"], changed=row["changed"], why=row["why"])


async def _signer(signed: Signed) -> str:
    """Digest of the certificate that signed, or raise MessageError; asks another process."""
    question = {
        "certificate": signed.certificate,
        "signature": signed.signature,
        "signed": base64.b64encode(signed.signed).decode(),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        _SIGNATURE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(10):
            out, _ = await process.communicate(json.dumps(question).encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise MessageError("the signature could not be checked in time") from None
    answer = read(out)
    if not isinstance(answer, dict) or not isinstance(answer.get("digest"), str):
        raise MessageError(f"not signed: {printable(str(answer))}")
    return str(answer["digest"])


def _limits(given: RunLimits) -> Limits:
    return Limits(given.timeout, given.output, given.memory, given.processes)


def _front_user(name: str, owner: whitelist.Owner) -> tuple[frozenset[int], int]:
    """Who may talk to the runner: its own user, and the front's where that exists."""
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return frozenset({owner.uid}), -1
    return frozenset({owner.uid, user.pw_uid}), grp.getgrgid(user.pw_gid).gr_gid


def _now() -> int:
    return time.time_ns() // 1_000_000
