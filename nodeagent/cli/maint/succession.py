"""The succession of a dead master, as a standby tells of it, in lines for people."""

from collections.abc import Iterator

from nodeagent.cli.maint.console.screen import Json
from nodeagent.cli.maint.console.text import age


def succession_facts(this: Json, now: float) -> Iterator[tuple[str, object]]:
    """Yield what a standby would do, and why not now; of the acting maintd, where to ask."""
    told = this.get("succession")  # an older maintd has none
    if told is None:
        if this.get("standby"):
            yield "Succession", "off, or this standby has not asked its root helper yet"
        else:
            yield "Succession", "ask on a standby: it decides whether it succeeds this master"
        return
    yield "Succession", told["reason"]
    if told.get("help") and told["help"] not in told["reason"]:
        yield "Help", told["help"]
    if "at" in told:
        yield "Asked", f"{age(max(0.0, now - told['at']))} ago"
    if told.get("silent-since"):
        yield "No answer", f"of {told['master']} for {age(now - told['silent-since'])}"
    if told.get("judgement"):
        yield "Judgement", f"{told['life']}: {told['judgement']}"
        agree = ", ".join(told["agree"]) or "nobody"
        yield (
            "Agree",
            f"{len(told['agree'])} of {told['nodes']} nodes (needed: {told['needed']}): {agree}",
        )
    if told.get("voices"):
        yield "Voices", ", ".join(told["voices"])
