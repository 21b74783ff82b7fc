"""Clients that pause, plan, take down, bring up and answer over maintd's HTTPS, and their records.

An operation without a certain answer (a time limit, 503, *kept on this node only*) stays open: it
may have happened or not. One that was certainly not taken is left out.
"""

import base64
import http.client
import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from nodeagent.maintd.windows.mesos import read_schedule
from nodeagent.maintd.windows.schedule import version
from tests.torture.ground import Ground
from tests.torture.linear import Op
from tests.torture.objects import Planned, Unsafe
from tests.web.live import untrusting

PORT = 1816
USER, PASSWORD = "alice", "secret"
USERS = f"{USER} {{CLEARTEXT}}{PASSWORD} write\n"
_PATIENCE = 8.0  # seconds for an answer
_LASTS = 3600  # seconds of a window
_REFUSALS = (
    *("is paused already", "is not paused", "the schedule has changed since"),
    *("and must be in the schedule until it is up", "is not in the schedule", "and must be"),
)
_NOT_TAKEN = ("another maintd acts", "is only read here", "another node was the master meanwhile")


class Said(NamedTuple):
    """An answer: its status, and its JSON or text."""

    status: int
    body: Any


class Unheard(Exception):
    """No answer came."""


def ask(address: str, method: str, path: str, body: object = None, **headers: str) -> Said:
    """Ask a maintd as a user who may change things; Unheard: nobody knows what it did."""
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    connection = http.client.HTTPSConnection(address, PORT, timeout=_PATIENCE, context=untrusting())
    given = {"Authorization": f"Basic {login}", "Content-Type": "application/json", **headers}
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, given)
        answer = connection.getresponse()
        raw = answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise Unheard(str(error)) from None
    finally:
        connection.close()
    try:
        return Said(answer.status, json.loads(raw))
    except ValueError:
        return Said(answer.status, raw)


@dataclass
class History:
    """What all clients saw; `odd` are answers that nobody should get.

    `refusals` says whether a refusal tells of the state: one that rests on what is *kept on this
    node only* may be of a state that nobody else will see.
    """

    ops: list[Op] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    asked: int = 0
    refused: int = 0
    refusals: bool = True
    others: list[str] = field(default_factory=list)  # refusals that tell nothing of the state
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: str, verb: str, given: Any, start: float, said: Said | None) -> bool:
        """Record a change; return whether it was accepted for certain."""
        end = time.monotonic()
        unsafe = Unsafe(given) if key.startswith("pause/") and given is not None else given
        with self._lock:
            self.asked += 1
            if said is None:
                self.ops.append(Op(key, verb, unsafe, None, start))
                return False
            text = said.body if isinstance(said.body, str) else json.dumps(said.body)
            if said.status == 200:
                alone = isinstance(said.body, dict) and said.body.get("kept")
                open_ = alone or (isinstance(said.body, str) and said.body)
                known = unsafe if open_ else given
                self.ops.append(Op(key, verb, known, True, start, None if open_ else end))
                return not open_
            if said.status in (400, 409, 412):
                self.refused += 1
                if any(why in text for why in _REFUSALS):
                    if self.refusals:
                        self.ops.append(Op(key, verb, given, False, start, end))
                else:
                    self.others.append(f"{key} {verb}: {text}")
            elif said.status != 503:
                self.odd.append(f"{key} {verb}: {said.status} {text}")
            elif not any(why in text for why in _NOT_TAKEN):
                self.ops.append(Op(key, verb, unsafe, None, start))
            return False

    def read(self, key: str, answer: Any, start: float) -> None:
        with self._lock:
            self.ops.append(Op(key, "read", None, answer, start, time.monotonic()))


@dataclass
class Acting:
    """Finds the maintd that acts, among those at these addresses."""

    addresses: Sequence[str]
    whole: bool = False  # its newest ledger must be in Ganeti's configuration
    last: str = ""
    whys: dict[str, str] = field(default_factory=dict)  # why each does not act, by address

    def find(self) -> str | None:
        """Return the address of one that holds rounds and carries them out."""
        for address in sorted(self.addresses, key=lambda one: one != self.last):
            self.whys[address] = _why_not(address, whole=self.whole)
            if not self.whys[address]:
                self.last = address
                return address
        return None

    def look(self) -> Mapping[str, str]:
        """Return why each of them does not act, by address."""
        return {address: _why_not(address, whole=self.whole) for address in self.addresses}


def _why_not(address: str, *, whole: bool) -> str:
    try:
        said = ask(address, "GET", "/1/round")
    except Unheard as error:
        return str(error)
    if said.status != 200:
        return str(said.body)
    told, there = said.body, said.body["ledger"]
    for key in ("trouble", "idle", "outdated"):
        if told[key] is not None and (whole or key != "outdated"):
            return f"{key}: {told[key]}"
    if whole and (there["rule"]["number"] or 0) != there["number"]:
        return f"ledger: {there}"
    return ""


class Client(threading.Thread):
    """Makes random requests of the one that acts, until `over`."""

    def __init__(
        self, ground: Ground, seed: int, acting: Acting, history: History, nodes: Sequence[str]
    ) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.failed: BaseException | None = None
        self._ground = ground
        self._luck = random.Random(seed)
        self._acting = Acting(acting.addresses)
        self._history = history
        self._nodes = nodes  # those with windows; the others are paused
        self._name = f"{seed:x}"
        self._turn = 0

    def run(self) -> None:
        try:
            self._ground.enter("clients")
            while not self.over.wait(self._luck.uniform(0.1, 0.8)):
                if address := self._acting.find():
                    self._turn += 1
                    self._request(address)
        except BaseException as error:
            self.failed = error

    def _request(self, address: str) -> None:
        what = self._luck.choices(
            (self._pause, self._plan, self._switch, self._answer, self._weekly), (4, 2, 2, 1, 1)
        )[0]
        what(address)

    def _put(
        self, address: str, key: str, verb: str, given: Any, path: str, body: object, **more: str
    ) -> None:
        start, said = time.monotonic(), None
        try:
            said = ask(address, "POST", path, body, **more)
        except Unheard:
            pass
        self._history.take(key, verb, given, start, said)

    def _pause(self, address: str) -> None:
        place = self._luck.choice(("n1", "n2", "n3", "group"))
        at = {"scope": "group", "group": "default"}
        at = at if place == "group" else {"scope": "node", "node": place}
        verb = self._luck.choice(("pause", "resume", "resume", "force"))
        why = f"{self._name}-{self._turn}"
        body = at if verb == "resume" else {**at, "why": why}
        body |= {"force": "yes"} if verb == "force" else {}
        path = "/1/resume" if verb == "resume" else "/1/pause"
        self._put(address, f"pause/{place}", verb, None if verb == "resume" else why, path, body)

    def _plan(self, address: str) -> None:
        """Replace the schedule, mostly only as it was seen."""
        there = _seen(address)
        if there is None:
            return
        after = {one.machine: one.start for one in there}
        for name in self._luck.sample(self._nodes, self._luck.randint(1, len(self._nodes))):
            if name in after and self._luck.random() < 0.5:
                del after[name]
            else:
                after[name] = int(time.time()) + self._luck.randint(-5, 90)
        seen = {one.machine: one.start for one in there} if self._luck.random() < 0.8 else None
        more = {} if seen is None else {"If-Match": f'"{_version(seen)}"'}
        path = "/1/maintenance/schedule"
        self._put(address, "schedule", "set", (after, seen), path, _schedule(after), **more)

    def _switch(self, address: str) -> None:
        verb, name = self._luck.choice(("down", "up")), self._luck.choice(self._nodes)
        self._put(address, "schedule", verb, name, f"/1/machine/{verb}", [{"hostname": name}])

    def _answer(self, address: str) -> None:
        try:
            said = ask(address, "GET", "/1/offers")
        except Unheard:
            return
        if said.status == 200 and said.body:
            one = self._luck.choice(said.body)["id"]
            kind = self._luck.choice(("accept", "decline"))
            why = f"{self._name}-{self._turn}"
            call = {
                "type": f"{kind.upper()}_INVERSE_OFFERS",
                f"{kind}_inverse_offers": {"inverse_offer_ids": [{"value": one}], "reason": why},
            }
            self._put(address, f"offer/{one}", kind, why, "/1/offers", call)

    def _weekly(self, address: str) -> None:
        """Add a series that only this request can have added; its first day is far."""
        when = f"{self._luck.choice(_DAYS)} {self._luck.randint(0, 23):02}:"
        when += f"{self._luck.randint(0, 59):02}"
        begins = (datetime.now(UTC) + timedelta(days=300)).date().isoformat()
        body = {
            "machines": [self._nodes[0]],
            "weekly": when,
            "zone": "Europe/Zurich",
            "duration": 60,
            "from": begins,
            "every": self._luck.randint(1, 500),
        }
        key = f"series/{when} {body['every']}"
        self._put(address, key, "add", True, "/1/series", body)


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def read_all(address: str, history: History) -> None:
    """Record the whole state as a maintd shows it."""
    start = time.monotonic()
    told = {path: ask(address, "GET", f"/1/{path}") for path in ("round", "windows", "offers")}
    for path, said in told.items():
        assert said.status == 200, (path, said)
    places = {"n1": None, "n2": None, "n3": None, "group": None}
    for hold in told["round"].body["holds"]:
        place = "group" if hold["scope"] == "group" else hold["name"]
        places[place] = hold["why"]
    for place, why in places.items():
        history.read(f"pause/{place}", why, start)
    planned = _seen(address)
    assert planned is not None
    history.read("schedule", planned, start)
    there = {
        f"series/{one['weekly'].lower()} {one['every']}" for one in told["windows"].body["series"]
    }
    touched = {op.key for op in history.ops}
    for key in there | {key for key in touched if key.startswith("series/")}:
        history.read(key, key in there, start)
    for offer in told["offers"].body:
        if (key := f"offer/{offer['id']}") in touched and offer["answer"]:
            history.read(key, offer["answer"]["reason"], start)


def _seen(address: str) -> tuple[Planned, ...] | None:
    """Return the schedule; None if it has changed while it was read, or nobody answers."""
    try:
        before = ask(address, "GET", "/1/maintenance/schedule")
        status = ask(address, "GET", "/1/maintenance/status")
        after = ask(address, "GET", "/1/maintenance/schedule")
    except Unheard:
        return None
    if {before.status, status.status, after.status} != {200} or before != after:
        return None
    down = {one["hostname"] for one in status.body.get("down_machines", [])}
    return tuple(
        Planned(machine["hostname"], _start(window), machine["hostname"] in down)
        for window in before.body.get("windows", [])
        for machine in window["machine_ids"]
    )


def _start(window: Any) -> int:
    return int(window["unavailability"]["start"]["nanoseconds"]) // 10**9


def _schedule(windows: Mapping[str, int]) -> dict[str, object]:
    rows = [
        {
            "machine_ids": [{"hostname": name}],
            "unavailability": {
                "start": {"nanoseconds": start * 10**9},
                "duration": {"nanoseconds": _LASTS * 10**9},
            },
        }
        for name, start in sorted(windows.items())
    ]
    return {"windows": rows}


def _version(windows: Mapping[str, int]) -> str:
    return version(read_schedule(json.dumps(_schedule(windows)).encode()))
