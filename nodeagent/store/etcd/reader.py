"""Reads of the state below a prefix, each at one revision: the record, ranges in pages, values."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nodeagent.errors import Unavailable
from nodeagent.store.etcd.answers import coded, number, raw
from nodeagent.store.etcd.client import Client, Compacted
from nodeagent.store.etcd.record import MOST_OPS, Op, Record, after, decode, on_top, staged
from nodeagent.web.client import TooLarge

PAGE = 200  # keys
_TRIES = 3


class Held(NamedTuple):
    """A value, and the revision in which its key was made."""

    value: bytes
    made: int


@dataclass(frozen=True, slots=True)
class View:
    """The state at one moment: its record as written, and etcd's revision of record and moment.

    `parts` are the changes of a stage that are not all carried over.
    """

    record: Record = field(default_factory=Record)
    raw: bytes = b""
    changed: int = 0
    revision: int = 0
    parts: tuple[tuple[Op, ...], ...] = ()

    @property
    def ops(self) -> Iterator[Op]:
        return (op for part in self.parts for op in part)


class Reader:
    """Read below one prefix. All its methods run on the client's event loop."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self.prefix = prefix

    def key(self, name: str) -> str:
        """Return a key as the gateway takes it."""
        return coded((self.prefix + name).encode("utf-8", "surrogatepass"))

    async def look(self) -> View:
        """Return the state as it is now, asked of a majority of the members."""
        for _ in range(_TRIES):
            answer = await self.client.call("kv/range", {"key": self.key("commit")})
            view = seen(answer.get("kvs", []), number(answer.get("header", {}), "revision"))
            if view.record.stage is None:
                return view
            try:
                folder = f"stage/{view.record.stage.id}/"
                found = await self.range(view, folder, after(folder))
            except Compacted:
                continue  # it was slow, and the stage is gone by now
            parts = staged(view.record.stage, [found[key].value for key in sorted(found)])
            ops = tuple(map(tuple, parts))
            return View(view.record, view.raw, view.changed, view.revision, ops)
        raise Unavailable("etcd's history is compacted faster than it can be read")

    async def range(self, view: View, start: str, end: str) -> dict[str, Held]:
        """Return the keys from `start` up to `end` (exclusive) as they were, without a stage."""
        found: dict[str, Held] = {}
        page = PAGE
        while True:
            asked = {
                "key": self.key(start),
                "range_end": self.key(end),
                "limit": str(page),
                "revision": str(view.revision),
            }
            try:
                answer = await self.client.call("kv/range", asked)
            except TooLarge:
                if page == 1:
                    raise
                page = max(1, page // 10)
                continue
            for kv in answer.get("kvs", []):
                start = raw(kv, "key").decode("utf-8", "surrogatepass")[len(self.prefix) :]
                found[start] = Held(raw(kv, "value"), number(kv, "create_revision"))
            if answer.get("more") is not True:
                return found
            start += "\0"

    async def texts(self, view: View, start: str, end: str) -> dict[str, bytes]:
        """Return the values from `start` up to `end` (exclusive), with a stage on top."""
        found = await self.range(view, start, end)
        plain = {key: held.value for key, held in found.items()}
        return on_top(plain, view.ops, start, end)

    async def values(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the present values of those names that are there, without a stage."""
        found: dict[str, bytes] = {}
        for some in _chunks(list(names), MOST_OPS):
            asked = [{"request_range": {"key": self.key(name)}} for name in some]
            answer = await self.client.call("kv/txn", {"success": asked})
            for name, one in zip(some, answer.get("responses", []), strict=True):
                for kv in one.get("response_range", {}).get("kvs", []):
                    found[name] = raw(kv, "value")
        return found

    async def oldest(self, folder: str, most: int) -> dict[str, bytes]:
        """Return some values of a folder: those that were written first."""
        asked = {
            "key": self.key(folder),
            "range_end": self.key(after(folder)),
            "limit": str(most),
            "sort_order": "ASCEND",
            "sort_target": "MOD",
        }
        answer = await self.client.call("kv/range", asked)
        return {
            raw(kv, "key").decode("utf-8", "surrogatepass")[len(self.prefix) :]: raw(kv, "value")
            for kv in answer.get("kvs", [])
        }

    async def count(self, folder: str) -> int:
        """Return the number of keys in a folder; "" is the one of all folders."""
        end = coded(after(self.prefix + folder).encode())
        asked = {"key": self.key(folder), "range_end": end, "count_only": True}
        return number(await self.client.call("kv/range", asked), "count")

    def change(self, op: Op) -> dict[str, Any]:
        """Return a change as the gateway takes it."""
        if op.value is not None:
            return {"request_put": {"key": self.key(op.key), "value": coded(op.value)}}
        which = {"key": self.key(op.key)}
        if op.end:
            which["range_end"] = self.key(op.end)
        return {"request_delete_range": which}


def seen(kvs: Iterable[dict[str, Any]], revision: int) -> View:
    """Return the state of a record that was read at this revision; of none, the empty one."""
    for kv in kvs:
        text = raw(kv, "value")
        return View(decode(text), text, number(kv, "mod_revision"), revision)
    return View(revision=revision)


def _chunks(names: list[str], most: int) -> Iterator[list[str]]:
    return (names[at : at + most] for at in range(0, len(names), most))
