"""`nodeagent report`: fetch, verify and show the report of a node."""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import click

from nodeagent.cli import exits
from nodeagent.cli.terminal import read, shown
from nodeagent.clocks import unix_ms
from nodeagent.model.short_name import meant
from nodeagent.model.units import read_duration
from nodeagent.protocol.canonical import printable

MAX_TIMEOUT = 3600


def _limit(_: click.Context, option: click.Parameter, text: str) -> float:
    """A callback: a duration, in seconds."""
    seconds = read_duration(text) or 0.0
    if not 0 < seconds <= MAX_TIMEOUT:
        why = f"{printable(text, 40)} is not a duration up to an hour: write 500ms, 10s or 1m"
        raise click.BadParameter(why, param=option)
    return seconds


@click.command()
@click.argument("host")
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(1, 65535),
    help="Port of the agent [from our own settings].",
)
@click.option("--node", metavar="NAME", help="Ganeti's name of the node, if HOST is an address.")
@click.option("--plain", is_flag=True, help="Use plain HTTP.")
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=_limit,
    default="5s",
    show_default=True,
    help="Time limit of the whole request: 500ms, 10s.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_obj
def report(
    config: str,
    host: str,
    port: int | None,
    node: str | None,
    *,
    plain: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Fetch the report of HOST, verify and show it.

    HOST is a node's name, short or full, or its address. Must be able to read the cluster's key.
    Exit code 0 if the report is genuine, 69 if the agent does not answer, 1 if the report cannot
    be trusted.
    """
    from nodeagent.agent.ssconf import Ssconf
    from nodeagent.protocol.look import Distrusted, Seen, Silent

    settings = read(config)
    ssconf = Ssconf(settings.agent)
    name, address = _whom(host, node, ssconf.addresses())
    tls = settings.listen.tls and not plain
    port = port or settings.listen.port
    look = asyncio.run(_look(ssconf, name, address, port, tls=tls, seconds=timeout))
    match look:
        case Silent(why):
            hint = "on that node run systemctl status nodeagent-front nodeagent-runner"
            click.echo(f"nodeagent: {host}: no report: {shown(why)}; {hint}", err=True)
            sys.exit(exits.UNAVAILABLE)
        case Distrusted(why):
            reason = f"{shown(why)}; on the master run gnt-maint agents"
            click.echo(f"nodeagent: {host}: NOT TRUSTED: {reason}", err=True)
            sys.exit(exits.FAULT)
        case Seen(report=genuine, ahead=ahead):
            body = genuine.body()
            if as_json:
                click.echo(json.dumps(body, indent=2))
            else:
                _show(body, ahead)


def _whom(host: str, node: str | None, addresses: Mapping[str, str]) -> tuple[str, str]:
    """Return the node's name and address for HOST; the resolver is not asked."""
    known = meant(host, addresses)
    if len(known) == 1:
        return node or known[0], addresses[known[0]]
    if known:
        raise click.BadParameter(f"it is short for {' and '.join(known)}", param_hint="HOST")
    if not host.isprintable() or not _is_address(host):
        why = f"{printable(host)} is neither a node of this cluster nor an address"
        raise click.BadParameter(why, param_hint="HOST")
    name = node or next((name for name, address in addresses.items() if address == host), "")
    if not name:
        why = f"{host} is not the address of a node here; name the node with --node"
        raise click.BadParameter(why, param_hint="HOST")
    return name, host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _look(
    ssconf: Any, name: str, address: str, port: int, *, tls: bool, seconds: float
) -> Any:
    from nodeagent.errors import Unavailable
    from nodeagent.protocol.look import Expected, Silent, judge_answer
    from nodeagent.web.client import fetch
    from nodeagent.web.tls import untrusting_tls

    salt = secrets.token_hex(16)
    target = f"/1/report/node/diagnose?salt={salt}"
    try:
        answer = await fetch(
            address, port, target, seconds=seconds, tls=untrusting_tls() if tls else None
        )
    except Unavailable as error:
        return Silent(str(error))
    cluster = ssconf.identity().cluster
    expected = Expected(cluster, name, "", salt, answer.certificate)
    return judge_answer(answer.status, answer.body, ssconf.key(), expected, unix_ms())


def _show(body: dict[str, Any], ahead: int) -> None:
    now = time.time() * 1000
    for label, value in (
        ("node", f"{body['name']} {body['node'] or '(it does not know its UUID)'}"),
        ("cluster", body["cluster"]),
        ("master, as it believes", body["master"]),
        ("diagnosis", body["diagnosis"] or "none confirmed yet"),
        ("firm", _firm(body)),
        ("checked", _ago(body["checked"], now)),
        ("changed", _ago(body["changed"], now)),
        ("clock", clock_of(ahead)),
        ("orders", orders_of(body["refuses"])),
        ("agent", f"{body['software']}, report {body['seq']} of {body['epoch']}"),
        *((f"unusable: {name}", why) for name, why in sorted(body["unusable"].items())),
    ):
        click.echo(f"{label + ':':26}{shown(str(value))}")


def clock_of(ahead: int) -> str:
    """Say how a node's clock differs from ours, by the ms that it is ahead."""
    if abs(ahead) < 2000:  # the answer took a while
        return "as here"
    return f"{abs(ahead) / 1000:.0f} s {'ahead of' if ahead > 0 else 'behind'} the clock here"


def orders_of(refuses: str | None) -> str:
    """Say whether a node refuses each order, by what its report says of that."""
    if refuses is None:
        return "unknown: this release of the agent does not say"
    return f"each is refused: {refuses}" if refuses else "each is judged"


def _firm(body: dict[str, Any]) -> str:
    """Say whether one may act on the diagnosis, and why not."""
    if body["firm"]:
        return "yes"
    if body["diagnosis"] is None:
        return "no; a command counts from when enough runs in a row have agreed"
    if body["unusable"]:
        return (
            "no, maintd does not act on it: one of its commands is unusable or reported"
            " something else"
        )
    return "no, maintd does not act on it: the last run of one of its commands contradicts it"


def _ago(when: int | None, now: float) -> str:
    return "never" if when is None else f"{max(0.0, now - when) / 1000:.0f} s ago"
