"""`--watch` ends with Ctrl-C, whatever Python runs in that moment."""

import os
import signal
import weakref

import click
import pytest

from nodeagent.cli.maint.console import looking


class Module:
    """Something that a weak reference can be to."""


def press_ctrl_c(_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python runs the handler between two instructions
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_weak_references_callback_ends_it() -> None:
    """Imports have such callbacks, and Python ignores whatever is raised there."""
    shown = []

    def show() -> None:
        module = Module()
        told = weakref.ref(module, press_ctrl_c)
        assert told() is module
        del module
        shown.append("once")
        assert len(shown) == 1, "Ctrl-C was lost"

    before = signal.getsignal(signal.SIGINT)
    with click.Context(click.Command("held")) as context:
        context.meta[looking._EVERY] = 1
        with pytest.raises(click.exceptions.Exit) as ended:
            looking.again_and_again(show)
    assert ended.value.exit_code == 0
    assert signal.getsignal(signal.SIGINT) is before
