"""Reasons are values: all that the code gives has its kind, and the private ones are hidden."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

from nodeagent.model.reason import KINDS, AnyKind, Kind, Reason, because

TOP = Path(__file__).parent.parent.parent
NAMED = {kind.name: kind for kind in KINDS}


def test_no_two_kinds_have_one_name() -> None:
    assert len(NAMED) == len(KINDS)


def test_the_list_of_reasons_is_the_enumeration() -> None:
    text = " ".join((TOP / "docs" / "reasons.md").read_text().split())
    named = re.findall(r"\(((?:`[a-z-]+`(?:, )?)+)\): ", text)
    listed = {word for words in named for word in re.findall("`([a-z-]+)`", words)}
    assert listed == {kind.word for kind in KINDS}


def test_alerts_ask_for_kinds_that_there_are() -> None:
    for name in ("packaging/alerts/nodeagent.yml", "docs/maintd-http.md"):
        asked = re.findall(r'gnt_maint_held\{kind=~?"([^"]*)"', (TOP / name).read_text())
        assert asked
        assert {one for some in asked for one in some.split("|")} <= {k.metric for k in KINDS}


def _fields(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


def _calls() -> Iterator[tuple[str, ast.Call]]:
    texts = ((path, path.read_text()) for path in sorted((TOP / "nodeagent").rglob("*.py")))
    for path, text in texts:
        if "because(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "because":
                yield f"{path.name}:{node.lineno}", node


def test_every_reason_has_the_details_that_its_sentence_tells() -> None:
    """A detail that is missing would be left out of the sentence, one too many is never told."""
    for place, call in _calls():
        kinds = [n.attr for n in ast.walk(call.args[0]) if isinstance(n, ast.Attribute)]
        given = {word.arg for word in call.keywords}
        if None in given or not kinds:
            continue  # passed on in one
        told = set[str]()
        for kind in kinds:
            told |= _fields(NAMED[kind].sentence) | _fields(NAMED[kind].command)
        optional = {"it", "help", "what", "alone", "whys", "more", "then", "off", "wanted"}
        optional |= {"status", "there", "why"} if len(kinds) > 1 else {"status", "there"}
        assert told - optional <= given, f"{place}: {kinds}"
        assert given <= told, f"{place}: {kinds}"


def test_every_kind_is_a_reason_somewhere() -> None:
    code = "".join(path.read_text() for path in (TOP / "nodeagent").rglob("*.py"))
    assert {kind.name for kind in KINDS} <= set(
        re.findall(r"\b(?:[A-Z][a-z]+)?Kind\.([A-Z_]+)\b", code)
    )


def test_what_owners_say_is_private() -> None:
    """Every kind chooses, and docs/every-reason.md has its choice."""
    late_or_owners = [kind for kind in KINDS if kind.metric.startswith(("ow", "ov"))]
    assert late_or_owners
    assert all(kind.private for kind in late_or_owners)


def _filled(kind: AnyKind) -> Reason:
    secret: dict[str, Any] = dict.fromkeys(_fields(kind.sentence) - {"it", "help"}, "pangolin")
    return because(kind, "pangolin", **secret | ({"left": 1} if "left" in secret else {}))


def test_a_private_reason_is_hidden_wherever_it_is() -> None:
    out = because(Kind.OUT_OF_SERVICE, "n2", state="drained")
    for kind in (kind for kind in KINDS if kind.private):
        secret = _filled(kind)
        assert secret.public == because(Kind.NOT_SHOWN)
        taken = because(Kind.ALL_TAKEN, whys=(out, secret), more="")
        deep = because(Kind.CANNOT_MOVE, "i1", why=taken)
        assert "pangolin" in str(deep)
        assert kind in deep.kinds
        hidden = because(Kind.ALL_TAKEN, whys=(out, because(Kind.NOT_SHOWN)), more="")
        assert deep.public == because(Kind.CANNOT_MOVE, "i1", why=hidden), kind
        assert "pangolin" not in f"{deep.public} {deep.public.help}"


OF_PROGRAMS = {"claimed", "standby", "lives", "only-one-says"}  # `who` is a node, or work
OF_PROGRAMS |= {"power-contradicted", "older-than-power", "daemons-stopped"}


def test_no_reason_names_a_person_to_all_readers() -> None:
    for kind in KINDS:
        named = "who" in _fields(kind.sentence) and kind.word not in OF_PROGRAMS
        assert not named or kind.private or "who" in kind.personal, kind
        if kind.personal:
            shown = _filled(kind).public
            told = [dict(shown.details)[name] for name in kind.personal]
            assert told == ["an administrator", ""][: len(told)], kind
            deep = because(Kind.CANNOT_MOVE, "i1", why=_filled(kind))
            assert deep.public == because(Kind.CANNOT_MOVE, "i1", why=shown), kind


def test_another_reason_is_shown_as_it_is() -> None:
    for kind in KINDS:
        if not kind.private and not kind.personal:
            assert _filled(kind).public == _filled(kind)
