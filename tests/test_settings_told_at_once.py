"""One reading of our files tells all mistakes: none hides another, and each is told once."""

import copy
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nodeagent import settings as agent
from nodeagent.drop_ins import read_files
from nodeagent.errors import ConfigError
from nodeagent.faults import Faults
from nodeagent.maintd.engine import settings as maintd
from nodeagent.power import settings as power
from tests import golden
from tests.agent.place import safe_folder

Document: TypeAlias = dict[str, Any]
Parse: TypeAlias = Callable[[Document, Mapping[str, str] | None, Faults | None], object]

AGENT = """
[agent]
node = "node1"
log = "info"
[listen]
port = 1817
[diagnose]
commands = ["smart", "raid"]
every = "1m"
[diagnose.command.smart]
timeout = "5s"
bucket = {"/used" = 10}
[diagnose.command.raid]
nagios = {0 = "Ok", 2 = "live-repair"}
repair = "rebuild"
[repair]
queue-commands = ["power-cycle"]
"""
MAINTD = """
[maintd]
every = "1m"
standby = true
[http]
address = "127.0.0.1"
read = "users"
[succession]
enabled = true
[sabakan]
url = "https://sabakan/graphql"
ca = "/ca"
token = "/token"
priorities = {worker = 1}
[policy]
autorepair = "safe"
storm = 50
[owners]
command = "tell"
[[owners.webhooks]]
owner = "db"
url = "https://hooks/db"
ca = "/ca"
[[owners.webhooks]]
owner = "web"
url = "https://hooks/web"
[constraints]
partial-admission = 1
[queue]
back_off_seconds = 10
[[queue.repair_procedures]]
machine_types = ["r640"]
[[queue.repair_procedures.repair_operations]]
operation = "unhealthy"
health_check_command = "is-healthy"
[[queue.repair_procedures.repair_operations.repair_steps]]
repair_command = "reset"
watch_seconds = 60
[[queue.repair_procedures.repair_operations.repair_steps]]
repair_command = "power-cycle"
[[queue.repair_procedures.repair_operations]]
operation = "silent"
health_check_command = "is-healthy"
repair_steps = [{repair_command = "power-cycle"}]
[[queue.repair_procedures]]
machine_types = ["r740"]
[[queue.repair_procedures.repair_operations]]
operation = "unhealthy"
health_check_command = "is-healthy"
repair_steps = [{repair_command = "power-cycle"}]
[[queue.incidents]]
machine_type = "r640"
operation = "unhealthy"
needs = ["evacuate"]
[[queue.incidents]]
machine_type = "r740"
operation = "unhealthy"
needs = ["live-repair"]
[[notify]]
name = "hook"
kind = "webhook"
url = "https://hooks/x"
events = ["failed"]
title = "{{ summary }}"
secret = "/secret"
[[notify]]
name = "manager"
kind = "alertmanager"
url-file = "/url"
[[notify]]
name = "mail"
kind = "smtp"
server = "mx"
from = "a@b"
to = ["c@d"]
user = "u"
password = "/password"
[[notify]]
name = "ticket"
kind = "command"
command = "open-ticket"
"""
POWER = """
[power]
time-limit = "40s"
[device.bmc]
agent = "fence_ipmilan"
options = { ip = "{short}-bmc", lanplus = 1 }
password-file = "/power/{short}"
[device.redfish]
agent = "fence_redfish"
options = { ip = "{short}-bmc", systems_uri = "/redfish/v1/Systems/1" }
[device.pdu]
agent = "fence_apc_snmp"
options = { ip = "pdu", plug = "{outlet}", snmp_version = 3 }
secret-files = { snmp_auth = "/power/pdu" }
outlet = true
[nodes."node1.example.org"]
levels = [["bmc"], ["pdu"]]
values = { outlet = 7 }
[nodes."*"]
levels = [["redfish"]]
"""
FILES: dict[str, tuple[str, Parse]] = {
    "agent.toml": (AGENT, agent.parse),
    "maintd.toml": (MAINTD, maintd.parse),
    "power.toml": (POWER, power.parse),
}
JUNK: tuple[Any, ...] = (-1, "\x00", [[]], {}, {"what": {}}, None)  # None: the key is missing


def lines(parse: Parse, document: Document) -> list[str]:
    """All mistakes of a document; without collecting the first of them is raised."""
    faults = Faults(collect=True)
    parse(copy.deepcopy(document), {}, faults)
    if not faults.lines:
        parse(copy.deepcopy(document), None, None)
        return []
    with pytest.raises(ConfigError) as first:
        parse(copy.deepcopy(document), None, None)
    assert str(first.value) == faults.lines[0]
    assert all(line.isprintable() for line in faults.lines)
    return faults.lines


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each table, list and value of a document."""
    if path:
        yield path
    inside: list[tuple[Any, Any]] = list(enumerate(value)) if isinstance(value, list) else []
    if isinstance(value, dict):
        inside = list(value.items())
    for key, below in inside:
        yield from paths(below, (*path, key))


def changed(document: Document, path: tuple[Any, ...], junk: Any) -> Document:
    fresh = copy.deepcopy(document)
    place: Any = fresh
    for key in path[:-1]:
        place = place[key]
    if junk is None:
        del place[path[-1]]
    else:
        place[path[-1]] = junk
    return fresh


def part(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """The table of a list, or the table in a table, that is independent of others beside it."""
    return path[:2] if path[0] != "owners" else path[:3]


@pytest.mark.parametrize("file", FILES)
def test_a_good_file_has_no_mistake(file: str) -> None:
    text, parse = FILES[file]
    assert lines(parse, tomllib.loads(text)) == []


@pytest.mark.parametrize("file", FILES)
def test_whatever_is_wrong_is_told_and_nothing_breaks(file: str) -> None:
    """Nor does a wrong value make its key `missing` or `not known`."""
    text, parse = FILES[file]
    document = tomllib.loads(text)
    for path in paths(document):
        for junk in JUNK:
            told = lines(parse, changed(document, path, junk))
            keys = [line.partition(" is ")[0] for line in told]
            assert len(keys) == len(set(keys)), (path, junk, told)


@pytest.mark.parametrize("file", FILES)
def test_a_mistake_of_one_table_hides_none_of_another(file: str) -> None:
    text, parse = FILES[file]
    document = tomllib.loads(text)
    places = [path for path in paths(document) if len(path) > len(part(path))]
    single = {path: lines(parse, changed(document, path, -1)) for path in places}
    for one, other in pairwise([*places, *places[::3], *places[::7]]):
        if part(one) != part(other):
            both = lines(parse, changed(changed(document, one, -1), other, -1))
            assert set(single[one]) | set(single[other]) <= set(both), (one, other)


# Exact lines.

TABLES = {
    "the reviewer's three sinks, and policy": """
[policy]
autorepair = "yes"
[[notify]]
name = "a"
kind = "webhook"
url = "https://x/"
events = ["nonsense"]
[[notify]]
name = "b"
kind = "webhook"
url-file = "/url"
events = ["nothing"]
secs = 1
[[notify]]
name = "a"
kind = "smtp"
from = "a@b"
to = ["c@d"]
""",
    "a wrong kind hides nothing, and makes nothing unknown or missing": """
[[notify]]
name = "a"
kind = "webhok"
url-file = "url"
events = ["nonsense"]
seconds = "5s"
server = "mx:99999"
command = "a b"
colour = "red"
[[notify]]
name = "b"
events = ["nothing"]
""",
    "both templates": """
[[notify]]
name = "a"
kind = "webhook"
url = "https://x/"
title = "{{ one }}"
body = "{{ two }}"
""",
    "what is no table": 'notify = [1, {name = "b", kind = "command"}]\nowners = 5',
    "webhooks of owners": """
[[owners.webhooks]]
url = "http://x/"
ca = "/ca"
[[owners.webhooks]]
owner = "a b"
[[owners.webhooks]]
url = "https://x:70000/"
""",
    "procedures and incidents": """
[[queue.repair_procedures]]
machine_types = ["a", "b"]
[[queue.repair_procedures]]
machine_types = ["b"]
repair_operations = [
  {operation = "o", health_check_command = "a b", repair_steps = [{watch_seconds = -1}]},
  {operation = "o", health_check_command = "check", repair_steps = []},
]
[[queue.incidents]]
machine_type = "c"
operation = "o"
needs = ["Ok"]
[[queue.incidents]]
machine_type = "c"
needs = ["evacuate"]
""",
    "settings that are gone, and relations": """
[store]
kind = "etcd"
[cluster]
backend = "luxi"
user = "maintd"
[succession]
enabled = true
[sabakan]
url = "http://x/graphql"
ca = "/ca"
token = "/token"
oldest = "1s"
[http]
address = "somewhere"
plain = true
read = "users"
""",
}
OF_POWER = """
[power]
time-limit = "51s"
[device.one]
agent = "fence_redfish"
options = { action = "off", password = " s3cret", ip = '"x"', cipher = 5.5 }
[device.two]
options = { snmp_version = "2c" }
secret-files = { snmp_version = "/x", password = "x" }
[device."a b"]
agent = "fence_dummy"
[nodes.n1]
levels = [["one"], ["three"], ["four", "two"]]
[nodes.n2]
[nodes."n 3"]
levels = [["two"]]
colour = 1
"""


def test_each_mistake_has_its_line() -> None:
    """The lines of each file, in settings.txt; RENEW=1 writes it."""
    shown = ""
    for name, text in TABLES.items():
        told = sorted(lines(maintd.parse, tomllib.loads(text)))
        shown += f"{name}\n" + "".join(f"  {line}\n" for line in told)
    told = sorted(lines(power.parse, tomllib.loads(OF_POWER)))
    assert not any("s3cret" in line for line in told), "Ganeti shows them to everyone"
    shown += "power.toml\n" + "".join(f"  {line}\n" for line in told)
    golden.same(Path(__file__).with_name("settings.txt"), shown)


# Files.


def matches(told: list[str], wanted: list[str]) -> None:
    """The lines begin so, in any order."""
    assert len(told) == len(wanted), told
    for begin in wanted:
        assert any(line.startswith(begin) for line in told), (begin, told)


@pytest.fixture
def folder() -> Iterator[Path]:
    with safe_folder() as fresh:
        (fresh / "conf.d").mkdir(0o755)
        for name in ("agent.toml", "conf.d/10.toml", "conf.d/20.toml"):
            (fresh / name).touch(0o644)
        yield fresh


def of_files(folder: Path, owner: int | None = None) -> tuple[list[str], Faults]:
    faults = Faults(collect=True)
    values, places = read_files(str(folder / "agent.toml"), owner, faults=faults)
    agent.parse(values, places, faults)
    return [line.replace(str(folder), "FOLDER") for line in faults.lines], faults


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[listen\nport = 0\n", "not TOML: "),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"#" * 16385, "line 1 is longer than"),
        (b"a = " + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
        (b"a" + b".a" * 5000 + b" = 1", "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_hides_no_other(folder: Path, content: bytes, why: str) -> None:
    (folder / "agent.toml").write_text("listen.port = 70000")
    (folder / "conf.d/10.toml").write_bytes(content)
    (folder / "conf.d/20.toml").write_text('agent.log = "loud"')
    told, faults = of_files(folder)
    assert faults.incomplete
    assert told[0].startswith(f"FOLDER/conf.d/10.toml: {why}")
    rest = [line for line in told[1:] if " a is not a known" not in line]
    assert len(rest) == 2
    assert rest[0].startswith("FOLDER/conf.d/20.toml: agent.log is 'loud'")
    assert rest[1].startswith("FOLDER/agent.toml: listen.port is 70000")


def test_nothing_is_missing_while_a_file_cannot_be_read(folder: Path) -> None:
    """The lost file may have it."""
    text = "[diagnose.command.x]\nnagios = {2 = 'live-repair'}"
    (folder / "agent.toml").write_text(text)
    told, _ = of_files(folder)
    assert told == [
        "FOLDER/agent.toml: diagnose.command.x.repair is missing: a code is mapped to live-repair"
    ]
    (folder / "conf.d/10.toml").write_text("[")
    told, _ = of_files(folder)
    assert len(told) == 1
    assert "not TOML" in told[0]


def test_nor_is_a_device_or_a_level() -> None:
    faults = Faults(collect=True)
    faults.incomplete = True
    document = tomllib.loads('[device.a]\n[nodes.n]\nlevels = [["lost"]]\n[nodes.m]\n')
    power.parse(document, {}, faults)
    assert faults.lines == []


def test_wrong_folders_and_files_hide_no_value(folder: Path) -> None:
    (folder / "agent.toml").write_text("listen.port = 70000")
    (folder / "conf.d/10.toml").rename(folder / "elsewhere")
    (folder / "elsewhere").write_text('agent.log = "loud"')
    (folder / "conf.d/10.toml").symlink_to(folder / "elsewhere")
    (folder / "conf.d/20.toml").chmod(0o666)
    (folder / "conf.d/20.toml").write_text("diagnose.confirm = 0")
    folder.chmod(0o777)
    (folder / "conf.d").chmod(0o775)
    told, faults = of_files(folder, os.getuid())
    assert not faults.incomplete
    matches(
        told,
        [
            "folder FOLDER can be written by others (mode 0777)",
            "folder FOLDER/conf.d can be written by others (mode 0775)",
            "FOLDER/conf.d/10.toml: is a link",
            f"FOLDER/conf.d/20.toml: owned by uid {os.getuid()}, mode 0666; it must be owned by",
            "FOLDER/agent.toml: listen.port is 70000",
            "FOLDER/conf.d/10.toml: agent.log is 'loud'",
            "FOLDER/conf.d/20.toml: diagnose.confirm is 0",
        ],
    )


def test_every_wrong_tag() -> None:
    faults = Faults(collect=True)
    tags = [
        "nodeagent:confirm:none",
        "nodeagent:diagnose:../x",
        "nodeagent:every:1m",
        "nodeagent:every:2m",
        "nodeagent:folder:/tmp",
    ]
    read = agent.with_tags(agent.Settings(), tags, faults)
    assert read.diagnose.every == 60
    matches(
        faults.lines,
        [
            "cluster tag nodeagent:every:2m: 'every' is set by another tag too",
            "cluster tag nodeagent:folder:/tmp: unknown setting 'folder'",
            "tag nodeagent.diagnose is ['../x']; it must be",
            "tag nodeagent.confirm is 'none'; it must be",
        ],
    )
