"""A maintd process as production assembles it, over a simulated cluster behind a door.

`python -m tests.torture.one_maintd CONFIG HOST PORT NODE FOLDER`. Only Ganeti is another: its
place has a `Remote`. In FOLDER, `stall` says where to stop; `maintd.log` gets each log message,
with the host's monotonic time.
"""

import logging
import sys
import time
from functools import partial

from nodeagent import service
from nodeagent.cli import maintd, maintd_run
from nodeagent.cluster.ganeti.ssconf import Ssconf
from nodeagent.maintd.engine import failpoint
from nodeagent.maintd.engine.conduct import Conduct
from nodeagent.maintd.engine.settings import Settings
from tests.torture import stall
from tests.torture.door import Remote
from tests.torture.rules import BELIEVED


def connect(remote: Remote, settings: Settings, *, dry: bool) -> tuple[Remote, Conduct]:
    """As `_cluster` of production."""
    where, vote, oldest = settings.cluster, settings.maintd.vote, settings.poll.oldest
    files = Ssconf(where.node, where.ganeti)
    check = partial(files.check_master, remote.master)
    conduct = Conduct(files.own_name(), check, vote, oldest, dry, believed=BELIEVED)
    return remote, conduct


def log_also(path: str) -> None:
    """Have the log of production in a file, too, with our times."""
    usual, out = service.log_to_stderr, logging.FileHandler(path)
    out.setFormatter(_Stamped())

    def both(level: str) -> None:
        usual(level)
        logging.getLogger().addHandler(out)

    service.log_to_stderr = both


class _Stamped(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{time.monotonic():.4f} {record.levelname} {super().format(record)}"


def stop_at(file: str) -> None:
    """Let it stop itself at the engine's places, too."""
    usual = failpoint.reach

    def both(name: str) -> None:
        usual(name)
        stall.reach(file, name)

    failpoint.reach = both


def main() -> None:
    config, host, port, node, folder = sys.argv[1:]
    log_also(f"{folder}/maintd.log")
    stop_at(f"{folder}/stall")
    remote = Remote((host, int(port)), node, stall=f"{folder}/stall")
    maintd_run._cluster = partial(connect, remote)  # type: ignore[assignment]
    maintd.cli(["--config", config, "run"])


if __name__ == "__main__":
    main()
