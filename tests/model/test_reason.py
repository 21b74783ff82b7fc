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
        re.findall(r"\b(?:Budget|Fencing|Ledger|Roll|Stage|Succession)?Kind\.([A-Z_]+)\b", code)
    )


# Every kind chooses: all readers see it, or it is `private`.
PUBLIC = """
    agent-in-doubt agent-runs agent-unreachable all-taken alone asks at-most at-once attempts
    budget-differs budget-down budget-exceeded budget-never budget-overridden budget-spent
    budget-unreadable by-rules cancels-power-off candidate cannot-migrate cannot-move changed
    check-awaited checks-first claimed command-later command-soon command-waits control-fails
    cooling-down cut-off daemons-stopped deleted disks-unread domain-broken domain-failed
    domain-silent doubt drill-blind drill-observes entry-waits failed failed-before fence-burst
    fence-limit fence-switched-off fence-tries-again fenced fenced-online fences-no-master
    fencing-waits few-agree few-free-nodes few-nodes few-voices few-witnesses files-differ
    group-in-work halted hangs has-trouble in-doubt in-roll incident-first incident-there
    instance-gone is-master keeps-instances lately ledger left-alone left-to-queue level-fails
    list-given-up lives local-disks lost-job lost-order many-silent master master-lives may-boot
    mirror-cannot-move mirror-closed mirror-refuses mirror-too-small mirror-unknown more-budget-tags
    more-refused more-undiagnosed more-unreachable more-wrong-tags move-waits moved-by-others
    moves-again mute network-in-doubt never-migrates never-settles new-mirror newer-rule no-command
    no-evidence no-failover-there no-failure-left no-free-node no-helper no-level-counts no-master
    no-memory no-move no-new-mirror no-other-mirror no-place-anew no-place-for-mirror
    no-place-to-run no-power-control no-procedure no-room no-search nobody-told noded-unknown
    nodes-in-work nodes-unknown none-elsewhere not-a-candidate not-again not-asked not-balanced
    not-checked not-dead not-enabled not-fenced not-for-maintd not-in-balance not-lasting not-off
    not-repaired not-shown not-started-anew not-taken not-there not-well not-written nothing-asked
    notices-first off-since-another offline offline-answers offline-no-order older-than-power
    on-hold on-the-move only-failover only-node only-one-says open-incident other-candidate
    others-job others-silent our-job out-of-service outdated outdated-queue passed pause-ended
    paused power-contradicted power-is-off power-unknown power-unproven powered-and-silent proves
    put-back-by-others queue-disabled quiet-time rebuilt refused return-contradicted return-failed
    return-waits returns-after-moves reviving roll-alerts roll-alerts-awaited roll-alerts-unknown
    roll-failed roll-hours roll-incident roll-master-last roll-master-waits roll-no-room
    roll-not-listed roll-offline roll-out-of-service roll-pause-between roll-paused roll-shares
    roll-start-unknown roll-stopped roll-zone runs-again runs-alone same-machine settling
    silence-alone silent-order small-cluster sought-later standby stays stays-tag-gone step-waits
    storm struck-another suspects-itself tag-awaited tagged tags-forbid tags-leave taken taken-back
    too-late too-small try-again under-repair undiagnosed unheard unknown-changes unknown-disks
    unknown-if-room unknown-room unknown-rooms unreachable unreadable-rule waits waits-for-job
    waits-for-repair watched watcher-paused watcher-unknown would-balance would-evacuate would-fence
    would-mend would-queue would-repair wrong-tag wrong-tags you-decide
""".split()


def test_every_kind_is_public_or_private() -> None:
    assert sorted(kind.word for kind in KINDS if not kind.private) == PUBLIC
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


def test_another_reason_is_shown_as_it_is() -> None:
    for kind in KINDS:
        if not kind.private and kind is not Kind.PAUSED:
            assert _filled(kind).public == _filled(kind)
