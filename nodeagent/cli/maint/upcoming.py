"""Next steps of a node, an instance, a group, an entry or a window: what, when, and the command."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from nodeagent.cli.maint.console.arguments import when
from nodeagent.cli.maint.console.text import is_missed, told_name
from nodeagent.model.asked import some_of

Json = dict[str, Any]
Step: TypeAlias = tuple[str, str]
"""A sentence, and the command that helps; empty if only waiting does."""
_EVEN = 300  # seconds after which a balanced group is searched again


def upcoming(of: str, about: Json, this: Json, *, enabled: bool) -> Iterator[Step]:
    """Yield the next steps of what `gnt-maint why` shows, in order.

    `about` is that, of the type `of`; `this` is the newest round; `enabled` is whether the repair
    queue starts entries. Sentences that the list of blocked work has are left out.
    """
    if of == "entry":
        yield from _of_entry(about["entry"], about["held"], enabled=enabled)
    elif of in _STEPS:
        yield from _STEPS[of](about, this)


def _of_node(about: Json, this: Json) -> Iterator[Step]:
    node = about["node"]
    name = node["name"]
    if (back := node["returning"]) is not None:
        at = f"at {when(back['at'])}, if it stays healthy" if back["at"] else "after its proof"
        serves = back["to"] == "in service"
        then = f"goes back into service {at}" if serves else f"is left {back['to']}"
        yield f"{name} {then} (asked for by {back['who']})", ""
    if at := node["unreachable-at"]:
        then = f"{name} counts as unreachable at {when(at)} unless it answers before"
        yield f"maintd asks its agent in each round; {then}", f"nodeagent report {name}"
    reasons = {held["reason"] for held in about["held"]}
    running = {f"job {c['job']} ({c['action']}) to end" for c in node["claims"]}
    waits = [text for i in about["incidents"] for text in i["waits"] if text not in reasons]
    if running.intersection(waits):  # they are listed above
        yield "maintd goes on once the running jobs have ended", ""
    yield from ((text, "") for text in waits if text not in running)
    for window in about["windows"]:
        yield from _of_window({"window": window}, this)
    if (turn := about["turn"]) is not None:
        yield from _of_turn(turn, reasons)


def _of_turn(turn: Json, reasons: set[str]) -> Iterator[Step]:
    """Yield when a node that waits in a roll has its turn, and what holds the roll."""
    place = f"it is the next of the roll to run {turn['command']}"
    if turn["before"]:
        after = f"{turn['position']} of {turn['of']}, after {some_of(turn['before'])}"
        place = f"its turn to run {turn['command']} is number {after}"
    back = f"; it may be back at {when(turn['returns-at'])}" if turn["returns-at"] else ""
    yield f"{place}{back}", ""
    for held in turn["holds"]:
        if held["reason"] not in reasons:
            yield held["reason"], held["help"]
    if not turn["holds"] and len(turn["away"]) >= turn["at-once"]:
        yield f"the roll waits until one of these is back: {some_of(turn['away'])}", ""


def _of_instance(about: Json, this: Json) -> Iterator[Step]:
    """Yield what its nodes' windows do with it; the rest is the judgement of auto-repair."""
    for window in about["windows"]:
        if is_missed(window):
            continue
        if window["mode"] == "draining" and not window["begun"] and window["begins"] is not None:
            yield f"the evacuation of {window['node']} starts {_at(window['begins'], this)}", ""


def _of_group(about: Json, this: Json) -> Iterator[Step]:
    group, next_round = about["group"], this["at"] + this["every"]
    if group["under-way"]:
        yield f"its {group['under-way']} jobs end; then maintd searches for better places again", ""
    elif group["halted"] or group["held"]:
        yield f"maintd tries again {_at(next_round, this)}, in the next round", ""
    elif not (group["on"] or group["asked"]):
        yield "maintd moves nothing by itself", f"gnt-maint balance -G {group['group']}"
    elif group["moves"]:
        yield f"the moves start {_at(next_round, this)}, in the next round", ""
    else:
        searched = next_round if group["at"] is None else max(group["at"] + _EVEN, next_round)
        yield f"maintd searches for better places {_at(searched, this)}", ""


def _of_entry(entry: Json, held: list[Json], *, enabled: bool) -> Iterator[Step]:
    index, machine = entry["index"], entry["nodename"] or entry["address"]
    if entry["status"] == "failed":
        yield f"look at {machine}, then remove the entry", f"gnt-maint queue delete {index}"
    elif entry["status"] == "succeeded":
        yield "the repair is over; the entry can be removed", f"gnt-maint queue delete {index}"
    elif entry["deleted"]:
        yield "maintd removes the entry once its jobs have ended", ""
    elif not enabled:
        yield "the repair queue is disabled: maintd starts no step", "gnt-maint queue enable"
    elif not held:
        yield "maintd goes on in the next round", ""


def _of_window(about: Json, this: Json) -> Iterator[Step]:
    window = about["window"]
    name = told_name(window)
    if window["overdue"] and window["held"]:
        return  # the reasons have the command
    if window["mode"] == "up":
        yield f"maintd puts {name} back as it was before the window", ""
    elif window["mode"] == "down":
        yield "once your work there is done, end the window", f"gnt-maint window up {name}"
    elif window["node"] is None:
        yield f"from {when(window['start'])} on, take it down", f"gnt-maint window down {name}"
    elif is_missed(window):
        over = f"the window of {name} is over: maintd evacuates nothing for it"
        yield over, f"gnt-maint window cancel {name}"
    elif not window["begun"]:
        yield f"the evacuation of {name} starts {_at(window['begins'], this)}", ""
    elif window["left"]:
        yield f"maintd evacuates {name}: {window['left']} instances are left", ""
    else:
        yield f"{name} is empty: take it down", f"gnt-maint window down {name}"


def _at(moment: float, this: Json) -> str:
    """Say when, or that it is due."""
    return f"at {when(moment)}" if moment > this["now"] else "as soon as maintd can"


_STEPS: Mapping[str, Callable[[Json, Json], Iterator[Step]]] = {
    "node": _of_node,
    "instance": _of_instance,
    "group": _of_group,
    "window": _of_window,
}
