"""A run: clients ask, faults happen, all is mended, and the records are checked; again and again.

After each phase everything is mended and quiet, so that the final state is one to read.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.torture.clients import Acting, Client, History, Unheard, ask, series_of
from tests.torture.rules import BELIEVED, beside_the_master, more_than_once
from tests.torture.scene import MASTERS, WORKERS, Scene

_QUIET = 120.0  # seconds until all is well again
_PERSON = 20.0  # seconds until a person looks
_CLIENTS = 3


class Broken(AssertionError):
    """The records show that a promise was broken."""


@dataclass
class Torture:
    """One run over a scene; `told` is its diary."""

    scene: Scene
    seed: int
    told: list[str] = field(default_factory=list)
    history: History = field(default_factory=History)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.luck = random.Random(self.seed)
        addresses = [self.scene.ground.address[name] for name in MASTERS]
        self.acting = Acting(addresses)

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:7.1f} s  {text}"
        self.told.append(line)
        print(line, flush=True)

    def ready(self) -> None:
        """Wait until a maintd acts."""
        self.until("a maintd acts", self.unready)

    def _look_after(self) -> None:
        """Do as a person whom a maintd asks to look: a job shows a gap in its ledger."""
        for address, why in Acting(self.acting.addresses, whole=True).look().items():
            if why.startswith("outdated: another node has been the master"):
                self.say(f"a person goes on: {ask(address, 'POST', '/1/ledger/resume').body}")

    def acting_node(self) -> str:
        """Return the node of the maintd that acts; "" if none does."""
        found = self.scene.ground.inside("clients", self.acting.find)
        return next((n for n in MASTERS if self.scene.ground.address[n] == found), "")

    def unready(self) -> str:
        whole = replace(self.acting, whole=True)
        found = self.scene.ground.inside("clients", whole.find)
        return f"nobody acts: {whole.whys}" if found is None else ""

    def phase(self, seconds: float, faults: Callable[[float], None]) -> None:
        """Have clients ask during faults for so long; then mend all, and check."""
        crowd = [
            Client(self.scene.ground, self.luck.getrandbits(32), self.acting, self.history, WORKERS)
            for _ in range(_CLIENTS)
        ]
        for client in crowd:
            client.start()
        faults(time.monotonic() + seconds)
        for client in crowd:
            client.over.set()
        for client in crowd:
            client.join(60)
            if client.failed is not None:
                raise client.failed
        self.check(self._settle())

    def _settle(self) -> set[str]:
        """Wait until a maintd acts and nothing is under way; return the series it shows then."""

        there, patience = set[str](), time.monotonic() + _PERSON

        def stirring() -> str:
            nonlocal patience
            if (why := self.unready()) and time.monotonic() > patience:
                patience = time.monotonic() + _PERSON
                self.scene.ground.inside("clients", self._look_after)
            return why or self.scene.door.under_way()

        def read() -> str:
            """Return why it cannot be read yet."""
            address = self.acting.find()
            if address is None:
                return "nobody acts"
            try:
                # This is answered by a round after all that was asked before.
                said = ask(address, "POST", "/1/resume", {"scope": "cluster"})
                if said.status != 409 or "is not paused" not in str(said.body):
                    return str(said)
                there.update(series_of(address))
            except (Unheard, AssertionError) as error:
                return repr(error)
            return ""

        def unread() -> str:
            return self.scene.ground.inside("clients", read)

        self.until("all is quiet", stirring)
        time.sleep(2)  # rounds follow what the last jobs did
        self.until("all is quiet", stirring)
        self.until("the state is read", unread)
        return there

    def until(self, what: str, why_not: Callable[[], str], seconds: float = _QUIET) -> None:
        """Wait until nothing speaks against it any more."""
        until = time.monotonic() + seconds
        while why := why_not():
            if time.monotonic() > until:
                raise Broken(f"not within {seconds:.0f} s: {what}: {why}")
            time.sleep(0.3)

    # The checks.

    def check(self, there: set[str]) -> None:
        """Raise Broken if the records show anything that must not be."""
        history = self.history
        if history.odd:
            raise Broken(f"answers that nobody should get: {history.odd}")
        if wrong := history.wrong(there):
            raise Broken(f"series {wrong}")
        if twice := more_than_once(self.scene.door.reasons()):
            raise Broken(f"intents with more than one job: {twice}")
        effects = self.scene.door.effects
        # Files are written in a moment, and not at once.
        if others := beside_the_master(effects, self.scene.namings, BELIEVED + 0.5):
            raise Broken(f"effects by one that did not act: {others}")
        for path, text in self.scene.output().items():
            if "Traceback" in text:
                raise Broken(f"{path}:\n{text[-4000:]}")
        late = Counter(effect.refused for effect in effects if effect.refused)
        self.say(
            f"checked: {history.asked} requests; of the series {len(history.accepted)} accepted,"
            f" {len(history.refused)} refused, {len(history.unknown)} without an answer;"
            f" {len(self.scene.door.reasons())} jobs; not done: {dict(late)}"
        )

    @property
    def answered(self) -> int:
        """The changes with a certain answer."""
        return len(self.history.accepted)
