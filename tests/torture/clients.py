"""Clients that add series, pause, plan, take down and bring up over maintd's HTTPS."""

import base64
import http.client
import json
import random
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tests.torture.ground import Ground
from tests.web.live import untrusting

PORT = 1816
USER, PASSWORD = "alice", "secret"
USERS = f"{USER} {{CLEARTEXT}}{PASSWORD} write\n"
_PATIENCE = 8.0  # seconds for an answer
_LASTS = 3600  # seconds of a window
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
    """The series that clients added, each of one request alone; they stay for good.

    `accepted` are in force for certain and `refused` for certain not; of the `unknown` nobody can
    say. `odd` are answers that nobody should get.
    """

    accepted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    odd: list[str] = field(default_factory=list)
    asked: int = 0

    def take(self, said: Said | None, series: str = "") -> None:
        """Record the answer to a change, of such a series or of something else."""
        self.asked += 1
        text = "" if said is None else json.dumps(said.body)
        if said is None or (said.status == 503 and not any(why in text for why in _NOT_TAKEN)):
            found = self.unknown
        elif said.status == 200:
            # One that is kept on this node only may be lost with it.
            alone = isinstance(said.body, dict) and said.body.get("kept")
            alone = alone or (isinstance(said.body, str) and said.body)
            found = self.unknown if alone else self.accepted
        else:
            found = self.refused
            if said.status not in (400, 409, 412, 503):
                self.odd.append(f"{series}: {said.status} {text}")
        if series:
            found.add(series)

    def wrong(self, there: Collection[str]) -> str:
        """Return why these series cannot be all that there are; "" if they can."""
        lost, refused = self.accepted.difference(there), self.refused.intersection(there)
        if lost:
            return f"accepted and lost: {sorted(lost)}"
        return f"refused and there: {sorted(refused)}" if refused else ""


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

    def run(self) -> None:
        try:
            self._ground.enter("clients")
            while not self.over.wait(self._luck.uniform(0.1, 0.8)):
                if address := self._acting.find():
                    self._request(address)
        except BaseException as error:
            self.failed = error

    def _request(self, address: str) -> None:
        what = self._luck.choice((self._add, self._add, self._pause, self._plan, self._switch))
        what(address)

    def _put(self, address: str, path: str, body: object, series: str = "") -> None:
        said = None
        with suppress(Unheard):
            said = ask(address, "POST", path, body)
        self._history.take(said, series)

    def _add(self, address: str) -> None:
        """Add a series that only this request can have added; its first day is far."""
        begins = (datetime.now(UTC) + timedelta(days=300)).date().isoformat()
        clock = f"{self._luck.randint(0, 23):02}:{self._luck.randint(0, 59):02}"
        when, every = f"{self._luck.choice(_DAYS)} {clock}", self._luck.randint(1, 500)
        body = {
            "machines": [self._nodes[0]],
            "weekly": when,
            "zone": "Europe/Zurich",
            "duration": 60,
            "from": begins,
            "every": every,
        }
        self._put(address, "/1/series", body, f"{when} {every}")

    def _pause(self, address: str) -> None:
        at = {"scope": "node", "node": self._luck.choice(("n1", "n2", "n3"))}
        if self._luck.random() < 0.5:
            self._put(address, "/1/pause", {**at, "why": self._name})
        else:
            self._put(address, "/1/resume", at)

    def _plan(self, address: str) -> None:
        """Replace the schedule of windows, for which maintd empties nodes."""
        some = self._luck.sample(self._nodes, self._luck.randint(0, len(self._nodes)))
        after = {name: int(time.time()) + self._luck.randint(-5, 90) for name in some}
        self._put(address, "/1/maintenance/schedule", _schedule(after))

    def _switch(self, address: str) -> None:
        verb, name = self._luck.choice(("down", "up")), self._luck.choice(self._nodes)
        self._put(address, f"/1/machine/{verb}", [{"hostname": name}])


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def series_of(address: str) -> set[str]:
    """Return the series that a maintd shows."""
    said = ask(address, "GET", "/1/windows")
    assert said.status == 200, said
    return {f"{one['weekly'].lower()} {one['every']}" for one in said.body["series"]}


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
