"""The verbs of a command of ours, also those that it imports only as they are used."""

import click


def verbs_of(command: click.Command) -> dict[str, click.Command]:
    """Return the commands directly below this one, by name; none if it is no group."""
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: verb for name, verb in found.items() if verb is not None}
