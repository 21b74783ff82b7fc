"""The succession of a dead master, as a standby tells of it, in lines for people."""

from collections.abc import Iterator

from nodeagent.cli.maint.console.screen import Json
from nodeagent.cli.maint.console.text import age


def succession_facts(this: Json, now: float) -> Iterator[tuple[str, object]]:
    """Yield what a standby would do, and why not now; of the acting maintd, where to ask."""
    shown = this["succession"]
    if shown is None:
        if this["standby"]:
            yield "Succession", "off, or this standby has not asked its root helper yet"
        else:
            yield "Succession", "ask on a standby: it decides whether it succeeds this master"
        return
    yield "Succession", shown["reason"]
    if shown.get("help") and shown["help"] not in shown["reason"]:
        yield "Help", shown["help"]
    if "at" in shown:
        yield "Asked", f"{age(max(0.0, now - shown['at']))} ago"
    if shown.get("silent-since"):
        yield "No answer", f"of {shown['master']} for {age(now - shown['silent-since'])}"
    if shown.get("judgement"):
        yield "Judgement", f"{shown['life']}: {shown['judgement']}"
        agree = ", ".join(shown["agree"]) or "nobody"
        yield (
            "Agree",
            f"{len(shown['agree'])} of {shown['nodes']} nodes (needed: {shown['needed']}): {agree}",
        )
    if shown.get("voices"):
        yield "Voices", ", ".join(shown["voices"])
