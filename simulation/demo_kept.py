"""Extras of a demo that stays up: breaking and repairing nodes, HTTPS with users, htools' text."""

import secrets
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nodeagent.cluster.backend import Cluster
from nodeagent.maintd.balancing.inputs import take_stock
from nodeagent.maintd.http.routes import Api
from nodeagent.web.tls import make_certificate, server_tls
from simulation.demo_nodes import ASKED, CLUSTER, REBOOT, Nodes
from simulation.textfile import write

ADMIN, OWNER = "demo", "db"  # users; the second answers for the owner of the same name
CommandLine = Callable[[str, str], str]  # of a user and a path


@asynccontextmanager
async def secured(api: Api, users: Path) -> AsyncIterator[CommandLine]:
    """Serve over TLS as well: over plain HTTP nobody may change anything.

    It writes `users`, with a password for this life only; yields the curl command with that user.
    """
    password = secrets.token_urlsafe(9)
    users.touch(0o600)
    users.write_text(f"{ADMIN} {password} write\n{OWNER} {password} owner:{OWNER}\n")
    server = api.server()
    tls, clear = server_tls(make_certificate()), api.reading.clear
    port = await server.start("127.0.0.1", 0, tls, clear=clear)
    try:
        yield lambda user, path: f"curl -k -u {user}:{password} https://127.0.0.1:{port}{path}"
    finally:
        await server.close()


def gnt_maint(socket: str) -> list[str]:
    """Return its command line: a fresh clone is not in the PATH."""
    beside = Path(sys.executable).with_name("gnt-maint")
    words = [str(beside)] if beside.exists() else [sys.executable, "-m", "nodeagent.cli.gnt_maint"]
    return [*words, "--socket", socket]


def hints(nodes: Nodes, socket: str, page: str, cluster: Cluster, curl: CommandLine) -> list[str]:
    """Return lines to copy, each with its effect; write the files in them."""
    saved = nodes.folder / "cluster.data"
    saved.write_text(write(take_stock(cluster).cluster))
    scripts = {"break": _BREAK, "mend": _MEND, **_MACHINES}
    values = {"cluster": CLUSTER, "asked": ASKED, "master": cluster.master().partition(".")[0]}
    for name, text in scripts.items():
        script = nodes.folder / name
        script.write_text(text.format(folder=shlex.quote(str(nodes.folder)), **values))
        script.chmod(0o755)
    folder = shlex.quote(str(nodes.folder))
    lines = (
        (f"alias gnt-maint={shlex.quote(shlex.join(gnt_maint(socket)))}", "first"),
        ("gnt-maint status", "the cluster on one screen; also why, nodes, history"),
        (f"xdg-open {page}", "the page, in any browser of this machine"),
        (f"{folder}/break node2", "node2 asks to be evacuated"),
        (f"{folder}/break node4 evacuate-failover", "by failover, not migration"),
        (f"{folder}/break node6 live-repair", "its agent reseats a disk"),
        (f"{folder}/mend node2", "node2 reports Ok again"),
        ("gnt-maint done node2", "and is back after 1 s of proof"),
        (f"gnt-maint rolling -t {shlex.quote(str(saved))}", "which nodes can go down together"),
        ("gnt-maint window add node6 --start +2m --for 10m", "maintd evacuates it in time"),
        (f"gnt-maint roll start node2 node4 --run {REBOOT} --quiet-time 2s", "reboot in turn"),
        ("gnt-maint roll status --watch", "until Ctrl-C; or look at the page"),
        (f"{folder}/silence node5", "its agent ends; after 20 s ask gnt-maint why node5"),
        (f"{folder}/speak node5", "and its agent starts again"),
        (f"{folder}/power-off node3", "it dies; maintd proves it, and fences it"),
        (f"{folder}/power-on node3", "it boots; then gnt-maint done node3"),
        ("gnt-maint commands", "which node runs what; edit one in a node's folder diagnose"),
        ("gnt-maint notify test", "a message to you; notify.toml there has the settings"),
        ("gnt-maint queue add unreachable demo 192.0.2.9", "a machine to power-cycle"),
        (curl(ADMIN, "/maintenance/schedule"), "Mesos' schedule"),
        (curl(OWNER, "/1/offers"), "the questions to the owner of db1 to db6"),
    )
    return [f"  {line}  # {told}" for line, told in lines]


_BREAK = """#!/bin/sh
# break NODE [NEED]: have the node's diagnose command ask for evacuate, or for NEED.
need=${{2:-evacuate}} command=
case $need in
    evacuate|evacuate-failover) ;;
    live-repair) command='"command": "reseat-disk", ' ;;
    *) echo "break NODE [evacuate|evacuate-failover|live-repair]" >&2; exit 64 ;;
esac
cd {folder}/"$1.{cluster}" || exit 64
printf '{{"status": "%s", %s"details": {{"bay": 3}}}}' "$need" "$command" > hardware.new
mv hardware.new hardware.json
"""
_MEND = """#!/bin/sh
# mend NODE: have the node's diagnose command report Ok.
cd {folder}/"$1.{cluster}" || exit 64
echo '{{"status": "Ok"}}' > hardware.new
mv hardware.new hardware.json
"""
_ASK = """#!/bin/sh
# {verb} NODE: {effect}.
[ "$1" != {{master}} ] || {{{{ echo "{{master}} is the master: maintd runs there" >&2; exit 64; }}}}
cd {{folder}}/"$1.{{cluster}}" || exit 64
touch ../{{asked}}/{verb}."$1.{{cluster}}"
"""
_EFFECTS = {
    "silence": "end the node's agent; its noded answers",
    "speak": "start the node's agent again",
    "power-off": "let the machine die, so that no power control starts it",
    "power-on": "mend the machine, and start it as gnt-node power on does",
}
_MACHINES = {verb: _ASK.format(verb=verb, effect=effect) for verb, effect in _EFFECTS.items()}
