"""The `maintd` command: its options, and where its verbs are."""

from nodeagent.cli import usage
from nodeagent.cli.usage import Verb
from nodeagent.maintd.engine.helper_settings import DEFAULT_FILE

VERBS = {
    "check-config": Verb(
        "nodeagent.cli.maintd_check", "Check the settings, and print all that is wrong or `ok`."
    ),
    "check-master": Verb(
        "nodeagent.cli.maintd_run", "End with 1 where Ganeti's files name another master."
    ),
    "run": Verb("nodeagent.cli.maintd_run", "Serve until SIGTERM."),
}
cli = usage.head(
    "maintd",
    "Maintenance daemon: drain, evacuate and repair nodes that report faults.",
    DEFAULT_FILE,
    "maintd.conf.d",
    verbs=VERBS,
)


def main() -> None:
    usage.run(cli, "maintd")


if __name__ == "__main__":
    main()
