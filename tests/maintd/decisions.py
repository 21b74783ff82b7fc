"""Rounds that were decided once, kept to be decided again: the safety net under `decide`.

Each line of `decisions.jsonl.xz` holds one round: the observation (ledger, what was observed,
policy, moment) as `GET /1/observation` tells it, and the Decision. The rounds come from the
hypothesis lives, the journeys, the rules' own tests and the real laboratory. `make decisions`
renews the file on purpose: it runs those with `-p tests.maintd.decisions`, which writes each new
shape of a round to the folder `DECISIONS_INTO`, and keeps the rounds that go through most lines of
the code together. In the laboratory maintd is started through this module for the same.
"""

import hashlib
import json
import lzma
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from itertools import islice
from operator import or_
from pathlib import Path
from types import FrameType
from typing import Any, get_type_hints

from nodeagent.cli import maintd
from nodeagent.errors import Corrupt
from nodeagent.maintd.deciding import decide as deciding
from nodeagent.maintd.engine import round as rounds
from nodeagent.model.ledger import Decision, Ledger, Policy
from nodeagent.model.reason import Reason
from nodeagent.model.snapshot import Observed
from nodeagent.model.units import Ms
from nodeagent.store.codec import decode_observation, encode_observation
from nodeagent.store.records import document_of, value_of

SAVED = Path(__file__).with_name("decisions.jsonl.xz")
ALIKE = 4  # rounds of one shape that one process writes
ASKED = 2400  # rounds of which those that are kept are chosen
MOST = 400  # rounds that are kept
LONGEST = 120_000  # characters of an observation: a few large clusters would fill the file
_NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")

_MEMBERS = {name: hint for name, hint in get_type_hints(Decision).items() if name != "held"}

_decide = deciding.decide
Line = tuple[str, int]  # of a file


def text_of(decision: Decision) -> str:
    """A Decision as text: the same value is the same bytes."""
    document = {name: document_of(getattr(decision, name), hint) for name, hint in _MEMBERS.items()}
    held = [(one.node, one.incident, _plain(one.why)) for one in decision.held]
    return _dumped(document | {"held": held})


def _plain(value: Any) -> Any:
    """A reason and its details as JSON."""
    if isinstance(value, Reason):
        details = {name: _plain(detail) for name, detail in value.details}
        return [value.kind.word, value.subject.of.value, value.subject.name, details]
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def as_read(text: str) -> str:
    """The same of a Decision that was written before: members that are new have their defaults."""
    old = json.loads(text)
    members = {
        name: document_of(value_of(hint, old[name]), hint) for name, hint in _MEMBERS.items()
    }
    return _dumped(members | {"held": old["held"]})


def saved() -> Iterator[tuple[str, str]]:
    """(observation, decision) of each round that was kept."""
    with lzma.open(SAVED, "rt", encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            yield one["observation"], one["decision"]


def decided_anew(observation: str) -> str:
    """The Decision on an observation now."""
    return text_of(_decide(*given(observation)))


def given(observation: str) -> tuple[Ledger, Observed, Policy, Ms]:
    """What was given to a round."""
    return decode_observation(observation)


def shape(decision: Decision, before: Ledger) -> str:
    """Two rounds of one shape show the same: which actions, which reasons, which states."""
    known = {intent.id for intent in before.intents}
    ledger = decision.ledger
    new = sorted({type(i.action).__name__ for i in ledger.intents if i.id not in known})
    left = sorted({type(i.action).__name__ for i in ledger.intents if i.id in known})
    held = sorted({h.why.kind.word for h in decision.held})
    states = sorted({i.status.value for i in ledger.incidents})
    entries = sorted({e.status.value for e in ledger.queue.entries})
    ways = sorted({one.back.way.value for one in ledger.outages if one.back is not None})
    stages = sorted({one.stage.value for one in ledger.fencing})
    phases = sorted({one.phase.value for one in ledger.roll.nodes}) if ledger.roll else []
    windows = min(len(ledger.schedule.windows), 2)
    refused = sorted({_NUMBERS.sub("#", why)[:60] for why in decision.refused.values()})
    return repr((new, left, held, states, entries, ways, stages, phases, windows, refused))


class Recorder:
    """Writes what `decide` is given and says, each shape a few times."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._path = os.path.join(folder, f"{os.getpid()}.jsonl")
        self._seen: dict[str, int] = {}

    def decide(self, ledger: Ledger, observed: Observed, policy: Policy, now: int) -> Decision:
        decision = _decide(ledger, observed, policy, Ms(now))
        mark = hashlib.sha256(shape(decision, ledger).encode()).hexdigest()[:16]
        if self._seen.get(mark, 0) < ALIKE:
            self._seen[mark] = self._seen.get(mark, 0) + 1
            with suppress(TypeError):  # a test's own stand-in
                self._write(mark, encode_observation(ledger, observed, policy, Ms(now)), decision)
        return decision

    def _write(self, mark: str, observation: str, decision: Decision) -> None:
        if len(observation) <= LONGEST:
            one = {"shape": mark, "observation": observation, "decision": text_of(decision)}
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(one, ensure_ascii=False) + "\n")


def pytest_configure() -> None:
    """As a plug-in of pytest: write the rounds of this run."""
    rounds.decide = Recorder(os.environ["DECISIONS_INTO"]).decide  # type: ignore[attr-defined]


def collect(folder: Path) -> list[dict[str, str]]:
    """Of all that was written, rounds of as many shapes as can be, small ones first."""
    found: dict[str, list[dict[str, str]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for line in file:
                one = json.loads(line)
                found.setdefault(one["shape"], []).append(one)
    for alike in found.values():
        alike.sort(key=lambda one: (len(one["observation"]), one["observation"]))
    ranked = (
        one for rank in range(6) for mark in sorted(found) for one in found[mark][rank : rank + 1]
    )
    return most_different(list(islice(filter(None, map(_anew, ranked)), ASKED)))


def most_different(rounds: list[dict[str, str]]) -> list[dict[str, str]]:
    """Choose rounds that go through all lines that any of them does, and that again and again."""
    numbers: dict[Line, int] = {}
    rest = [(_lines(one["observation"], numbers), one) for one in rounds]
    kept: list[dict[str, str]] = []
    missing = 0
    while rest and len(kept) < MOST:
        best = max(range(len(rest)), key=lambda at: (rest[at][0] & missing).bit_count())
        if rest[best][0] & missing:
            lines, one = rest.pop(best)
            kept.append(one)
            missing &= ~lines
        else:
            missing = reduce(or_, (lines for lines, _ in rest))
    return kept


def _lines(observation: str, numbers: dict[Line, int]) -> int:
    """The lines of maintd that decide this round, a bit for each; a new line gets a number."""
    seen: set[Line] = set()

    def within(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return within

    def calls(frame: FrameType, *_: object) -> Callable[..., Any] | None:
        return within if "/nodeagent/maintd/" in frame.f_code.co_filename else None

    inputs = given(observation)
    sys.settrace(calls)
    try:
        _decide(*inputs)
    finally:
        sys.settrace(None)
    return sum(1 << numbers.setdefault(line, len(numbers)) for line in seen)


def _anew(one: dict[str, str]) -> dict[str, str] | None:
    """A round as it is decided now; None if it cannot be read back, as a test's own stand-in."""
    with suppress(Corrupt):
        observation = one["observation"]
        return {"observation": observation, "decision": decided_anew(observation)}
    return None


def keep(folder: str) -> None:
    """Keep what was written to a folder."""
    _write_file(collect(Path(folder)))


def decide_again() -> None:
    """Decide each saved round anew, print which members differ how often, and keep the result."""
    kept, differing = [], Counter[str]()
    for observation, before in saved():
        after = decided_anew(observation)
        old, new = json.loads(as_read(before)), json.loads(after)
        differing.update(member for member in new if old[member] != new[member])
        kept.append({"observation": observation, "decision": after})
    for member, rounds_that_differ in differing.most_common():
        print(f"{member} differs in {rounds_that_differ} rounds")
    _write_file(most_different(kept) if len(kept) > MOST else kept)


def _write_file(kept: list[dict[str, str]]) -> None:
    with lzma.open(SAVED, "wt", encoding="utf-8", preset=9) as file:
        for one in kept:
            file.write(json.dumps(one, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(kept)} rounds, {SAVED.stat().st_size} bytes")


def run_maintd() -> None:
    """`nodeagent.cli.maintd`, recorded."""
    pytest_configure()
    del sys.argv[1]
    maintd.main()


if __name__ == "__main__":
    if sys.argv[1] == maintd.__name__:
        run_maintd()
    elif sys.argv[1] == "again":
        decide_again()
    else:
        keep(sys.argv[1])
