"""The sentences of all kinds of reasons and events, and the commands that help: one golden list."""

from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from nodeagent.model.action import Drain
from nodeagent.model.event import Event
from nodeagent.model.event_kinds import SENTENCES
from nodeagent.model.reason import KINDS, AnyKind, Kind, Of, because
from nodeagent.model.sentence import filled
from nodeagent.model.units import Ms
from tests import golden

DOCS = Path(__file__).resolve().parents[2] / "docs"
ABOUT_REASONS = """# Every reason

This page is written from the program: each kind of reason with its label in metrics, what it is
about, its sentence with and without the parts that may be missing, and the command that helps.
A private one is hidden from readers who may not see everything. [Reasons](reasons.md) tells what
to do.

"""
HERE = Path(__file__).parent
OF_THE_SUBJECT = {"it", "what", "help"}


def example(name: str, how: str) -> Any:
    """A detail of this name, of the type that its format takes."""
    if how in ("s", "wait"):
        return 90_001
    if how in (";", "&"):
        return (f"<{name} 1>", f"<{name} 2>")
    return f"<{name}>" if how == "" or how.startswith("+") else 1.5


def details(*texts: str, optional: bool) -> dict[str, Any]:
    """Examples of the details that the texts have; `optional` are those that may be left out."""
    found: dict[str, Any] = {}
    for text in texts:
        for _, name, how, _ in Formatter().parse(text):
            if name and (optional or not (how or "").startswith("+")):
                found[name] = example(name, how or "")
    return found


def lines_of(kind: AnyKind) -> list[str]:
    found: list[str] = []
    for optional in (True, False):
        given = details(kind.sentence, kind.command, optional=optional)
        told = because(kind, "<it>", **{k: given[k] for k in given if k not in OF_THE_SUBJECT})
        said = [f"  {told}"] + ([f"    $ {told.help}"] if told.help else [])
        found += said if said != found else []
    private = ", private" if kind.private else ""
    return [f"{kind.word} ({kind.metric}, of a {kind.of.value}{private})", *found]


def test_every_reason() -> None:
    said = [f"    {line}\n" for kind in KINDS for line in lines_of(kind)]
    golden.same(DOCS / "every-reason.md", ABOUT_REASONS + "".join(said))


def test_every_event() -> None:
    said: list[str] = []
    for kind, sentence in SENTENCES.items():
        for optional in (True, False):
            given = details(sentence, optional=optional) | {"action": "", "job": ""}
            event = Event(Ms(0), kind, job="77", action=Drain("n1"), details=given)
            line = f"{kind}: {event}"
            said += [line] if line not in said[-1:] else []
    golden.same(HERE / "events.txt", "\n".join(said) + "\n")


@pytest.mark.parametrize(
    ("sentence", "value", "written"),
    [
        ("{x:s}", 39_001, "40 s"),
        ("{x:s}", 1_800_000, "1800 s"),
        ("{x:wait}", 39_001, "40 s"),
        ("{x:wait}", 599_999, "600 s"),
        ("{x:wait}", 600_000, "10 min"),
        ("{x:wait}", 600_001, "11 min"),
        ("{x}", None, ""),
        ("{x}", ("a", "b"), "a, b"),
        ("{x:;}", ("a", "b"), "a; b"),
        ("{x:&}", ("a", "b"), "a and b"),
        ("{x:&}", "a", "a"),
        ("on{x:+: %}", "a", "on: a"),
        ("on{x:+: %}", ("a", "b"), "on: a, b"),
        ("on{x:+: %}", None, "on"),
        ("on{x:+: %}", "", "on"),
        ("{x:.3f}", 0.25, "0.250"),
    ],
)
def test_how_a_detail_is_written(sentence: str, value: Any, written: str) -> None:
    assert filled(sentence, {"x": value}.get) == written


def test_a_subject_is_of_the_kinds_usual_sort_or_of_another() -> None:
    """And the cluster has no name."""
    tagged = {"tag": "t", "command": "gnt-x"}
    told = {
        str(because(Kind.TAGGED, **tagged)).partition(" has ")[0],
        str(because(Kind.TAGGED, "n3", **tagged)).partition(" has ")[0],
        str(because(Kind.TAGGED, "default", Of.GROUP, **tagged)).partition(" has ")[0],
    }
    assert told == {"the cluster", "node n3", "group default"}


def test_a_reason_in_another_lends_its_command() -> None:
    disabled = because(Kind.QUEUE_DISABLED)
    assert because(Kind.ENTRY_WAITS, "3", address="a", why=disabled).help == disabled.help
    whys = (because(Kind.OUT_OF_SERVICE, "n5", state="offline"), disabled)
    assert because(Kind.ALL_TAKEN, "g", whys=whys, more="").help == disabled.help
