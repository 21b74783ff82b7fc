"""Read the ledger of a database in the form of version 0.2: a row for each of its parts.

A plain member has its path as key (`round`, `queue.next`), an element of a list its path and its
name (`intents/7`), and names the element before it. An empty list has no row.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nodeagent.errors import Corrupt
from nodeagent.model.ledger import Ledger
from nodeagent.model.outage import Back, Outage, Way
from nodeagent.model.purpose import (
    OfBalance,
    OfIncident,
    OfRepair,
    OfReturn,
    OfTags,
    OfWindow,
    Purpose,
    purpose_of,
)
from nodeagent.model.units import Ms
from nodeagent.model.window import Standing
from nodeagent.store.codec import believed, encode, parsed
from nodeagent.store.records import Fault, document_of

_SUMS = 2**256
BEFORE = "before"
# The members of an intent that named its purpose: one of them was not empty.
_PURPOSES: Mapping[str, Callable[[str], Purpose]] = {
    "repair": OfRepair,
    "group": OfBalance,
    "entry": purpose_of,
    "window": OfWindow,
    "back": OfReturn,
    "incident": OfIncident,
}


def read(db: sqlite3.Connection) -> tuple[int, Ledger]:
    """Return the newest save's number and its ledger; 0 and an empty one before the first.

    If maintd did not know whether it was the newest, its plans wait for a person.

    Corrupt: a part is missing, or not as it was written.
    """
    row = db.execute("SELECT number, sum FROM revision").fetchone()
    if row is None:
        return 0, Ledger()
    number, written = row
    total = 0
    document: dict[str, Any] = json.loads(encode(Ledger())) | {"drained": [], "returning": []}
    lists: dict[str, dict[str, tuple[str, Any]]] = {}
    for key, text, digest in db.execute("SELECT key, text, digest FROM entity ORDER BY number"):
        if _digest(key, text) != digest:
            raise Corrupt(f"{str(key)[:150]!r} of the ledger is not as it was written")
        total += int(digest, 16)
        path, _, name = key.partition("/")
        try:
            value = parsed(text)
        except Fault as fault:
            raise Corrupt(f"the ledger cannot be read: {key}: {fault}") from None
        if name:
            lists.setdefault(path, {})[value["after"]] = name, value["value"]
        elif path != "v":  # the version of the form
            _put(document, path, value)
    if f"{total % _SUMS:064x}" != written:
        raise Corrupt("the ledger is not as it was written: a part of it is missing or old")
    for path, members in lists.items():
        _put(document, path, _in_order(members))
    for intent in document["intents"]:
        intent["purpose"] = _purpose(intent)
    document["outages"] = _outages(document)
    _place(document)
    ledger = believed(Ledger, document)
    return number, replace(ledger, away=ledger.away or _doubted_since(db))


def _doubted_since(db: sqlite3.Connection) -> Ms:
    made = "SELECT count(*) FROM sqlite_master WHERE name = 'doubt'"
    if not db.execute(made).fetchone()[0]:
        return Ms(0)
    query = "SELECT since FROM doubt JOIN revision ON doubt.epoch = revision.epoch"
    row = db.execute(query).fetchone()
    return Ms(row[0]) if row else Ms(0)


def _digest(key: object, text: object) -> str:
    raw = f"{key}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()


def _purpose(intent: dict[str, Any]) -> Any:
    words = {member: intent.pop(member, "") for member in _PURPOSES}
    kept = [_PURPOSES[member](word) for member, word in words.items() if word]
    return document_of(kept[0] if kept else OfTags(), Purpose)


def _outages(document: dict[str, Any]) -> list[Any]:
    """Make one outage a node of all that the ledger knew of nodes out of service.

    Jobs that it did not name are called BEFORE.
    """
    outages: dict[str, Outage] = {}
    for each in document["incidents"]:
        if each.pop("was_drained"):
            outages[each["node"]] = Outage(each["node"], Standing.DRAINED)
    for each in document["scheduled"]:
        outage = _of_scheduled(each)
        if outage is not None:
            outages[outage.node] = outage
    document["scheduled"] = [each for each in document["scheduled"] if each["mode"] != "up"]
    for each in document.pop("drained"):
        outages[each["node"]] = _of_drained(each)
    for each in document.pop("returning"):
        outage = outages.get(each["node"], Outage(each["node"]))
        outages[outage.node] = replace(outage, back=_of_returning(each))
    for each in document["queue"]["entries"]:
        del each["restore_after"]
    return [document_of(outage) for outage in outages.values()]


def _place(document: dict[str, Any]) -> None:
    """Give each machine its window, of which there was one, and the series that it belongs to."""
    times = {
        _key(machine): window["unavailability"]
        for window in document["schedule"]["windows"]
        for machine in window["machines"]
    }
    series = {
        _key(member["machine"]): each["number"]
        for each in document["series"]
        for member in each["members"]
        if member["placed"]
    }
    for each in document["scheduled"]:
        each["when"] = times[_key(each["machine"])]
        each["series"] = series.get(_key(each["machine"]), 0)


def _key(machine: dict[str, str]) -> tuple[str, str]:
    return machine["hostname"].lower(), machine["ip"]


def _of_scheduled(each: dict[str, Any]) -> Outage | None:
    """Read the outage of a machine in a window, or on its way back; adapt the machine's record."""
    standing, taken, was_down = each.pop("found"), each.pop("taken"), each.pop("was_down")
    each["begun"] = standing is not None
    if standing is None:
        return None
    outage = Outage(each["node"], Standing(standing))
    if outage.found is Standing.SERVING:
        outage = replace(outage, drained_by=BEFORE)
    if taken and (was_down or each["mode"] == "down") and outage.found is not Standing.OFFLINE:
        outage = replace(outage, offline_by=BEFORE)
    back = Back(Way.WINDOW, each["since"])
    return replace(outage, back=back) if each["mode"] == "up" else outage


def _of_drained(each: dict[str, Any]) -> Outage:
    outage = Outage(
        each["node"],
        incident=each["incident"],
        drained_by=each["job"],
        offline_by=BEFORE if each["offline"] else "",
        ended=each["ended"],
    )
    if not each["back"]:
        return replace(outage, why=each["why"])
    withdrawn = each["back"] == "it was withdrawn"
    back = Back(
        Way.WITHDRAWN if withdrawn else Way.UNDRAINED,
        Ms(0),
        "" if withdrawn else each["back"].removesuffix(" asked for it"),
        tries=each["tries"],
        not_before=each["not_before"],
        failure=each["why"],
    )
    return replace(outage, back=back)


def _of_returning(each: dict[str, Any]) -> Back:
    alike = ("at", "who", "online", "well", "checked", "fenced", "tries", "not_before")
    return Back(
        Way.FORCED if each["forced"] else Way.DONE,
        **{name: each[name] for name in alike},
        to=Standing(each["to"]),
        failure=each["why"],
    )


def _in_order(members: dict[str, tuple[str, Any]]) -> list[Any]:
    values: list[Any] = []
    after = ""
    while after in members and len(values) < len(members):
        after, value = members[after]
        values.append(value)
    if len(values) != len(members):
        raise Corrupt("the ledger cannot be read: a list lacks an element")
    return values


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        document = document[step]
    document[last] = value
