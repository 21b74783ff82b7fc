"""A balancing as a shell script for an administrator to read, and then to run. Pure."""

from collections.abc import Iterator

from nodeagent.cli.maint.console.text import harmless
from nodeagent.cli.maint.hbal.lines import Words, jobsets, shell
from nodeagent.placement.balance.search import Plan
from nodeagent.placement.layout.score import shown

STOP = "/tmp/stop-htools"  # noqa: S108 (where hbal's scripts look, too)
_HEAD = """\
#!/bin/sh
# {moves} moves in group {group}: the score {initial} becomes {final}.
# Made by gnt-maint balance. To stop before the next move: touch {stop}
set -e

go_on() {{
  if [ -e {stop} ]; then
    echo "stopped by {stop}"
    exit 0
  fi
}}
"""


def script(plan: Plan, words: Words) -> str:
    """Return the commands in their order; those of one job set may run together."""
    return "".join(f"{line}\n" for line in _lines(plan, words))


def _lines(plan: Plan, words: Words) -> Iterator[str]:
    yield _HEAD.format(
        moves=len(plan.steps),
        group=harmless(plan.layout.group.name),
        initial=shown(plan.initial),
        final=shown(plan.final),
        stop=STOP,
    )
    for number, jobs in enumerate(jobsets(plan.steps), 1):
        yield f"echo 'job set {number}, {len(jobs)} moves'"
        for step in jobs:
            yield "go_on"
            yield from shell(plan.layout, step, words.short)
