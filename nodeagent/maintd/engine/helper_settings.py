"""The settings of maintd.toml that the root helper of a standby reads as well.

It checks no other section: a fault there must not stop it, and it loads no parser of their texts.
"""

from dataclasses import dataclass

from nodeagent.drop_ins import read_files
from nodeagent.model.ganeti import GANETI_FOLDER
from nodeagent.model.setting import setting
from nodeagent.section import Section

DEFAULT_FILE = "/etc/nodeagent/maintd.toml"
DROP_INS = "maintd.conf.d"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Access to the cluster, on its master.

    `node` is our own name in the cluster; if empty, maintd finds it. `ganeti` is Ganeti's folder,
    `luxi` the socket of its luxid. `grace` is how many seconds to wait before a submission without
    an answer counts as lost; 0 for the default.
    """

    node: str = setting("text", "")
    ganeti: str = setting("path", GANETI_FOLDER)
    luxi: str = setting("path", "/run/ganeti/socket/ganeti-query")
    grace: float = setting("duration", 0.0, least=0, most=3600)


@dataclass(frozen=True, slots=True)
class PollSettings:
    """Settings of the poll: `seconds` is each agent's deadline, `total` that of the whole poll.

    `oldest` is the maximum age, in ms, of a diagnosis to act on. `load` is the source of instances'
    load, where balancing uses it: `agent`, or Ganeti's `mond`.
    """

    port: int = setting("count", 1817, least=1, most=65535)
    seconds: float = setting("duration", 5.0, least=0.1, most=60)
    tls: bool = setting("flag", default=True)
    oldest: int = 600_000
    total: float = setting("duration", 30.0, least=1, most=600)
    load: str = setting("text", "agent", pattern="agent|mond", wanted="agent or mond")


@dataclass(frozen=True, slots=True)
class SuccessionSettings:
    """Whether this node may become the master by itself.

    `after` is how long (s) the master must not have answered anybody; later candidates add to it.
    """

    enabled: bool = setting("flag", default=False)
    after: float = setting("duration", 600.0, least=10, most=86400)


@dataclass(frozen=True, slots=True)
class HelperSettings:
    """The sections of the helper."""

    cluster: ClusterSettings
    poll: PollSettings
    succession: SuccessionSettings


def load_for_helper(path: str, *, owner: int | None) -> HelperSettings:
    """Read the file and its drop-ins, or raise ConfigError with the key and its file."""
    values, places = read_files(path, owner, DROP_INS)
    root = Section("", values, places=places)
    cluster, poll, succession = map(root.table, ("cluster", "poll", "succession"))
    settings = HelperSettings(
        cluster.read(ClusterSettings),
        poll_settings(poll),
        succession.read(SuccessionSettings),
    )
    for section in (cluster, poll, succession):
        section.done()
    return settings


def poll_settings(section: Section) -> PollSettings:
    oldest = section.duration("oldest", PollSettings().oldest / 1000, 1, 86400)
    return section.read(PollSettings, oldest=round(oldest * 1000))
