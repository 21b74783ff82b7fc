"""The `nodeagent` command: its options, its daemons, and its other verbs."""

import os
import sys

import click

from nodeagent.cli import usage
from nodeagent.cli.usage import Verb, head
from nodeagent.settings import DEFAULT_FILE, load

VERBS = {
    "check-config": Verb(
        "nodeagent.cli.check_config", "Check the settings, and print all that is wrong or `ok`."
    ),
    "commands": Verb(
        "nodeagent.cli.commands", "Show both command folders: which files run, and why."
    ),
    "diagnose": Verb(
        "nodeagent.cli.diagnose", "Run the diagnose commands now and print the diagnosis."
    ),
    "new-command": Verb(
        "nodeagent.cli.new_command", "Write a diagnose command to begin with, and its test."
    ),
    "report": Verb("nodeagent.cli.report", "Fetch the report of HOST, verify and show it."),
}
cli = head(
    "nodeagent",
    "Health agent: report faults of this node, and run repairs ordered by the master.",
    DEFAULT_FILE,
    "conf.d",
    verbs=VERBS,
)


@cli.command()
@click.pass_obj
def run(config: str) -> None:
    """Run front and runner together in the foreground."""
    from nodeagent.agent.daemon import run_both

    load(config, owner=os.geteuid())
    sys.exit(run_both(config))


@cli.command()
@click.pass_obj
def runner(config: str) -> None:
    """Run the root process, which runs the commands.

    Only this process holds the cluster's key.
    """
    from nodeagent.agent.daemon import become

    become("runner", config)


@cli.command()
@click.pass_obj
def front(config: str) -> None:
    """Run the unprivileged process on the network."""
    from nodeagent.agent.daemon import become

    become("front", config)


def main() -> None:
    usage.run(cli, "nodeagent")


if __name__ == "__main__":
    main()
