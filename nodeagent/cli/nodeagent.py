"""The `nodeagent` command: its options, its daemons, and its other verbs."""

import os
import sys

import click

from nodeagent.cli.check_config import check_config
from nodeagent.cli.commands import commands
from nodeagent.cli.diagnose import diagnose
from nodeagent.cli.new_command import new_command
from nodeagent.cli.report import report
from nodeagent.cli.terminal import die
from nodeagent.cli.usage import head
from nodeagent.cli.usage import run as run_command
from nodeagent.errors import NodeAgentError
from nodeagent.settings import DEFAULT_FILE, load

cli = head(
    "nodeagent",
    "Health agent: report faults of this node, and run repairs ordered by the master.",
    DEFAULT_FILE,
    "conf.d",
)


@cli.command()
@click.pass_obj
def run(config: str) -> None:
    """Run front and runner together in the foreground."""
    from nodeagent.agent.daemon import run_both

    try:
        load(config, owner=os.geteuid())
    except NodeAgentError as error:
        die(error)
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


for verb in (check_config, commands, diagnose, new_command, report):
    cli.add_command(verb)


def main() -> None:
    run_command(cli, "nodeagent")


if __name__ == "__main__":
    main()
