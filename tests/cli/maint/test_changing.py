"""--dry-run, --yes and the question on a terminal, of all verbs that change something."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nodeagent.cli import gnt_maint
from nodeagent.cli.maint.console.client import Where
from tests.cli.live import Live
from tests.cli.run import at
from tests.cli.terminal import at_a_terminal
from tests.maintd.queue.mender import Mender, policy
from tests.verbs import verbs_of

# These look or wait, and write nothing but a file.
OTHERS = {
    "capacity": "looks at Ganeti",
    "check": "a plug-in",
    "constraints": "a group",
    "queue is-enabled": "one word",
    "queue wait": "waits",
    "rolling": "looks at Ganeti",
    "sources get-variables": "one document",
    "sources is-enabled": "one word",
    "wait": "waits",
    "window wait": "waits",
    "what-if evacuate": "looks at Ganeti",
    "window export": "one document",
    "ledger show": "one document",
    "ledger export": "a file here",
}


def verbs(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in verbs_of(group).items():
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def test_every_verb_looks_or_changes() -> None:
    for name, command in verbs(gnt_maint.cli):
        options = {name for parameter in command.params for name in parameter.opts}
        looks, changes = "--watch" in options, options & {"--dry-run", "--yes"}
        assert changes in ({"--dry-run", "--yes"}, set()), name
        assert looks + bool(changes) + (name in OTHERS) == 1, name


@pytest.mark.parametrize(
    "verb",
    [
        ("done",),
        ("evacuate", "--why", "x"),
        ("fenced", "--i-have-pulled-the-plug"),
        ("drill",),
        ("drill", "--really"),
        ("commands",),
        ("agents", "trust"),
        ("roll", "retry"),
        ("history", "--node"),
        ("pause", "--node"),
    ],
    ids=" ".join,
)
def test_a_name_that_no_node_can_have_is_refused_in_one_line(
    live: Live, verb: tuple[str, ...]
) -> None:
    for name in (
        "n\xf6de",
        "a b",
        "a\x1bb",
        "a\nb",
        "n1/evacuate?",
        "n1#",
        "%6e1",
        "..",
        "x" * 999,
    ):
        refusal = at(live, *verb, name).refused(1)
        assert refusal.startswith("there is no node "), name
        assert refusal.isprintable(), name
    assert not live.rig.ledger.holds
    assert not live.rig.ledger.outages


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "--why", "f\udcfcr Tests"),
        ("evacuate", "n2", "--why", "f\udcfcr Tests"),
        ("notify", "test", "f\udcfcr"),
        ("constraints", "set", "f\udcfcr", "5"),
    ],
    ids=lambda words: words[0],
)
def test_words_of_another_encoding_are_refused_in_one_line(
    live: Live, words: tuple[str, ...]
) -> None:
    refusal = at(live, *words).refused(64)
    assert refusal.startswith("the command line is not UTF-8: ")
    assert not live.rig.ledger.holds


def test_a_verb_that_cannot_be_a_dry_run_changes_nothing(live: Live) -> None:
    """So every verb that changes something has both options, or fails in its own tests."""
    with click.Context(click.Command("reads")), pytest.raises(KeyError):
        Where(live.socket).reach().change("POST", "/1/pause", {"scope": "cluster"})
    assert not live.rig.ledger.holds


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(Mender(policy(), heals="nothing"), tmp_path)
    yield found
    found.close()


FORCED = ("queue", "add", "--force", "unreachable", "r640", "n3")


def entries(live: Live) -> list[str]:
    return [one["nodename"] for one in at(live, "queue", "list", "--json").json]


def test_on_a_terminal_it_asks_before_work_starts(live: Live) -> None:
    here = ("--socket", live.socket)
    code, shown_ = at_a_terminal("", *here, "pause", "--node", "n4")
    assert (code, "[y/N]" in shown_) == (0, False), "nothing starts"
    code, shown_ = at_a_terminal("n\n", *here, *FORCED)
    question = "You ask maintd to repair n3 (unreachable).\nIt will order n1 to run check.\n"
    question += "Go on? [y/N]: n\n"
    assert (code, shown_) == (1, f"{question}gnt-maint: nothing was changed\n")
    assert entries(live) == []
    code, shown_ = at_a_terminal("y\n", *here, *FORCED)
    assert (code, shown_.endswith("n3 is queued.\n")) == (0, True)
    assert entries(live) == ["n3"]
