"""Reasons are values: their sentences, the commands that help, and what tells one from another."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from nodeagent.model.reason import KINDS, AnyKind, Kind, Of, Reason, Subject, because

TOP = Path(__file__).parent.parent.parent
NAMED = {kind.name: kind for kind in KINDS}
FULL = because(Kind.NO_FREE_NODE, "default", wanted=("4096 MiB of memory",))
OFF = because(Kind.OUT_OF_SERVICE, "n5", state="offline")
TAG = "maintd:repairready:01a1"


@pytest.mark.parametrize(
    ("reason", "sentence", "help"),
    [
        (because(Kind.SETTLING, "n3", left=39_001), "settling for 40 s more", ""),
        (because(Kind.SETTLING, "n3", left=600_001), "settling for 11 min more", ""),
        (
            because(Kind.TRY_AGAIN, "n3", left=1_800_000, why="full"),
            "next attempt in 1800 s: full",
            "",
        ),
        (
            because(Kind.PAUSED, "n3", what="node", who="ada", why="", place=" --node n3"),
            "node paused by ada",
            "gnt-maint resume --node n3",
        ),
        (
            because(Kind.PAUSED, what="cluster", who="ada", why="night", place=" --cluster"),
            "cluster paused by ada: night",
            "gnt-maint resume --cluster",
        ),
        (
            because(Kind.TAGGED, command="gnt-cluster", tag="maintd:pause:yes"),
            "the cluster has the tag maintd:pause:yes and is paused until somebody removes it",
            "gnt-cluster remove-tags maintd:pause:yes",
        ),
        (
            because(Kind.TAGGED, "n3", command="gnt-node", tag="maintd:hold:x"),
            "node n3 has the tag maintd:hold:x and is paused until somebody removes it",
            "gnt-node remove-tags n3 maintd:hold:x",
        ),
        (
            because(Kind.STORM, why="4 of 6 nodes are unhealthy"),
            "storm brake: 4 of 6 nodes are unhealthy; gnt-maint resume --storm resets it",
            "gnt-maint resume --storm",
        ),
        (
            because(Kind.NODES_IN_WORK, count=2, most=2, nodes=("n1", "n2")),
            "maintd works on 2 of at most 2 nodes: n1, n2",
            "",
        ),
        (
            because(Kind.CANNOT_MOVE, "web", why=FULL),
            "instance web cannot move: no free node of its group has 4096 MiB of memory",
            "gnt-maint why web",
        ),
        (
            because(Kind.NO_FREE_NODE, "g", wanted=("1 MiB of memory", "2 MiB of disk")),
            "no free node of its group has 1 MiB of memory and 2 MiB of disk",
            "",
        ),
        (
            because(Kind.ALL_TAKEN, "g", whys=(OFF, OFF), more="3"),
            "no other node of its group is free: n5 is offline, n5 is offline, and 3 more",
            "",
        ),
        (because(Kind.ALL_TAKEN, "g", whys=None), "no other node of its group is free", ""),
        (
            because(Kind.MIRROR_CANNOT_MOVE, "web", why=because(Kind.ALONE, "default"), alone="n1"),
            "the secondary of instance web cannot move: it is the only node of its group;"
            " gnt-node add-tags"
            " n1 maintd:degraded:yes lets it stay",
            "gnt-node add-tags n1 maintd:degraded:yes",
        ),
        (
            because(Kind.WAITS_FOR_REPAIR, "n3", state="offline", left=("web", "db")),
            "evacuated and offline: repair n3, then run gnt-maint done n3; until then the"
            " secondary of these does not work: web, db",
            "gnt-maint done n3",
        ),
        (
            because(
                Kind.STAYS,
                "n3",
                state="drained",
                did="drained it",
                incident="01a1",
                over="was canceled",
                why="",
            ),
            "n3 stays drained: maintd drained it for incident 01a1, which was canceled; gnt-maint"
            " done n3 puts it back",
            "gnt-maint done n3",
        ),
        (
            because(Kind.NOT_LASTING, "g", moves=3, score=1.5, final=0.25, doubt="", left=9500),
            "3 moves would bring its score from 1.50000000 to 0.25000000: they start if"
            " this holds for"
            " 10 s more",
            "",
        ),
        (
            because(Kind.LATE_DOWN, "n3", at="2026-11-23T02:00:00Z"),
            "overdue: n3 is still down, and its window ended at 2026-11-23T02:00:00Z: run"
            " gnt-maint window up n3",
            "gnt-maint window up n3",
        ),
        (
            because(Kind.ENTRY_WAITS, "3", address="10.0.0.9", why=because(Kind.QUEUE_DISABLED)),
            "queue entry 3 (10.0.0.9): the repair queue is disabled",
            "gnt-maint queue enable",
        ),
        (
            because(
                Kind.WRONG_TAG, "g", Of.GROUP, fault="x", command="gnt-group", tag="t", then="stop"
            ),
            "a tag of group g is wrong: x: run gnt-group remove-tags g t; stop",
            "gnt-group remove-tags g t",
        ),
    ],
    ids=lambda one: one.kind.word if isinstance(one, Reason) else "",
)
def test_sentences_and_help(reason: Reason, sentence: str, help: str) -> None:
    assert str(reason) == sentence
    assert reason.help == help


def test_a_subject_is_of_the_kinds_usual_sort_or_of_another() -> None:
    assert because(Kind.NOT_BALANCED, "default").subject == Subject(Of.GROUP, "default")
    assert because(Kind.TAGGED, "default", Of.GROUP).subject == Subject(Of.GROUP, "default")


# The kinds.


def _rows() -> Iterator[tuple[list[str], list[str]]]:
    """The kinds of each item of the list of reasons, and what it says that they say."""
    text = (TOP / "docs" / "reasons.md").read_text()
    for item in re.findall(r"^- (.*?)(?=^- |^#|\Z)", text, re.M | re.S):
        head = re.match(r"(.*?) \(((?:`[a-z-]+`(?:, )?)+)\): ", " ".join(item.split()))
        if head:  # others say the rest
            yield re.findall("`([a-z-]+)`", head[2]), re.findall("`([^`]+)`", head[1])


def test_no_two_kinds_have_one_name() -> None:
    assert len(NAMED) == len(KINDS)


def test_the_list_of_reasons_is_the_enumeration() -> None:
    assert {word for kinds, _ in _rows() for word in kinds} == {kind.word for kind in KINDS}


def _pieces(text: str) -> Iterator[str]:
    """Words that stand between what varies."""
    yield from (part.strip(" :") for part in re.split(r"…|: |\{[^}]*\}|\([^)]*\)", text))


def test_each_item_of_the_list_has_words_of_its_kinds() -> None:
    said = {kind.word: kind.sentence for kind in KINDS}
    for kinds, texts in _rows():
        of_kinds = {piece for kind in kinds for piece in _pieces(said[kind]) if len(piece) > 3}
        shown = {piece for text in texts for piece in _pieces(text) if len(piece) > 3}
        if of_kinds:  # else others say it
            assert any(one in other or other in one for one in of_kinds for other in shown), kinds


def test_alerts_ask_for_kinds_that_there_are() -> None:
    for name in ("packaging/alerts/nodeagent.yml", "docs/maintd-http.md"):
        asked = re.findall(r'gnt_maint_held\{kind=~?"([^"]*)"', (TOP / name).read_text())
        assert asked
        assert {one for some in asked for one in some.split("|")} <= {k.metric for k in KINDS}


def _fields(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((TOP / "nodeagent").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
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
        re.findall(r"\b(?:Fencing|Ledger|Succession)?Kind\.([A-Z_]+)\b", code)
    )


# Every kind chooses: all readers see it, or it is private (`reason_kinds.PRIVATE`).
PUBLIC = """
    agent-in-doubt agent-runs agent-unreachable all-taken alone asks at-most at-once attempts
    by-rules cancels-power-off candidate cannot-migrate cannot-move changed check-awaited
    checks-first claimed command-later command-soon command-waits control-fails cooling-down cut-off
    daemons-stopped deleted disks-unread domain-broken domain-failed domain-silent doubt drill-blind
    drill-observes entry-waits failed failed-before fence-burst fence-limit fence-switched-off
    fence-tries-again fenced fenced-online fences-no-master fencing-waits few-agree few-free-nodes
    few-nodes few-voices few-witnesses files-differ group-in-work halted hangs has-trouble in-doubt
    incident-first incident-there instance-gone is-master keeps-instances lately later-pass ledger
    left-alone left-to-queue level-fails list-given-up lives local-disks lost-job lost-order
    many-silent master master-lives may-boot mirror-cannot-move mirror-closed mirror-refuses
    mirror-too-small mirror-unknown more-refused more-undiagnosed more-unreachable more-wrong-tags
    move-waits moved-by-others mute network-in-doubt never-migrates never-settles new-mirror
    newer-rule no-command no-evidence no-failure-left no-free-node no-helper no-level-counts
    no-master no-memory no-move no-new-mirror no-other-mirror no-place-anew no-place-for-mirror
    no-place-to-run no-power-control no-procedure no-room no-search noded-unknown nodes-in-work
    none-elsewhere not-a-candidate not-again not-asked not-balanced not-checked not-dead not-enabled
    not-fenced not-for-maintd not-in-balance not-lasting not-off not-repaired not-shown not-taken
    not-there not-well not-written notices-first off-since-another offline offline-answers
    offline-no-order older-than-power on-hold on-the-move only-failover only-node only-one-says
    open-incident other-candidate others-job others-silent our-job out-of-service outdated
    outdated-queue paused power-contradicted power-is-off power-unknown power-unproven
    powered-and-silent proves put-back-by-others queue-disabled quiet-time rebuilt refused
    return-contradicted return-failed return-waits returns-after-moves returns-later returns-soon
    reviving runs-again runs-alone same-machine settling silence-alone silent-order small-cluster
    standby stays stays-tag-gone step-waits storm struck-another suspects-itself tag-awaited tagged
    tags-forbid tags-leave taken to-be-put-back too-late too-small try-again under-repair
    undiagnosed unheard unknown-changes unknown-disks unknown-if-room unknown-room unknown-rooms
    unreachable unreadable-rule waits waits-for-job waits-for-repair watched watcher-paused
    watcher-unknown would-fence wrong-tag wrong-tags you-decide
""".split()


def test_every_kind_is_public_or_private() -> None:
    assert sorted(kind.word for kind in KINDS if not kind.private) == PUBLIC


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.metric.startswith(("ow", "ov"))])
def test_reasons_about_owners_and_late_windows_are_private(kind: AnyKind) -> None:
    assert kind.private


def _filled(kind: AnyKind) -> Reason:
    secret: dict[str, Any] = dict.fromkeys(_fields(kind.sentence) - {"it", "help"}, "pangolin")
    return because(kind, "pangolin", **secret | ({"left": 1} if "left" in secret else {}))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.private])
def test_a_private_reason_is_hidden_wherever_it_is(kind: AnyKind) -> None:
    secret = _filled(kind)
    assert secret.public == because(Kind.NOT_SHOWN)
    whys = (because(Kind.OUT_OF_SERVICE, "n2", state="drained"), secret)
    deep = because(Kind.CANNOT_MOVE, "i1", why=because(Kind.ALL_TAKEN, whys=whys, more=""))
    assert "pangolin" in str(deep)
    assert kind in deep.kinds
    assert str(deep.public) == (
        "instance i1 cannot move: no other node of its group is free: n2 is drained, not shown: it"
        " takes a user with the option read"
    )
    assert "pangolin" not in f"{deep.public} {deep.public.help}"


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.private and kind is not Kind.PAUSED]
)
def test_another_reason_is_shown_as_it_is(kind: AnyKind) -> None:
    assert _filled(kind).public == _filled(kind)
