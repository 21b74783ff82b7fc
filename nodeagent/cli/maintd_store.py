"""`maintd store`: copy this node's database."""

import os

import click

from nodeagent.cli import usage
from nodeagent.errors import NodeAgentError
from nodeagent.maintd.settings import load
from nodeagent.store import copies


@click.group("store", subcommand_metavar="COMMAND [ARGS]...")
def store() -> None:
    """Copy this node's database: ledger, requests and history."""


@store.command("copy")
@click.option("--to", required=True, type=usage.FILE, metavar="FILE", help="Write this new file.")
@click.pass_obj
def copy(config: str, to: str) -> None:
    """Copy the database into a new file, complete and checked, also beside a running maintd."""
    try:
        settings = load(config, owner=os.geteuid())
        copies.copy(f"{settings.maintd.state}/ledger.sqlite", to)
    except NodeAgentError as error:
        usage.die("maintd", error)
    click.echo(f"{to}: ok")
