"""The front's part as a witness: try the ports of another node, and read this node's DRBD disks.

Only an answer shows that a program lives: the kernel of a frozen node still takes connections.
"""

import asyncio
import os
import ssl
from collections.abc import Collection, Mapping
from typing import Any

from nodeagent.agent.collectors import drbd
from nodeagent.errors import MessageError, Unavailable
from nodeagent.model.evidence import Contact, Mirror
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import MIRRORS, NAME, brief
from nodeagent.protocol.canonical import read
from nodeagent.protocol.testimony import Words
from nodeagent.ssconf import port_of
from nodeagent.web.client import NoAnswer, fetch
from nodeagent.web.tls import untrusting_tls

SECONDS = 5.0  # for a connection and an answer: the kernel tries again after 1 s and 3 s
# mond asks all master candidates which instance has which disk, and waits 10 s for a dead one.
MOND_SECONDS = 18.0
_MOST = 4 * 1024 * 1024  # bytes of mond's report
_NO_AGES: Mapping[int, Ms] = {}
_KNOWN = (0, 1, 4)  # mond's codes for good, bad for now (a peer is gone), and bad; 2 is unknown
_LISTENERS = ("/proc/net/tcp", "/proc/net/tcp6")
_HERE = {"00000000", "0100007F", "0" * 32, "0000000000000000FFFF00000100007F"}
_LISTEN = "0A"
_RANK = (Contact.ANSWERS, Contact.CONNECTS, Contact.REFUSED, Contact.SILENT)


async def words(
    addresses: Collection[str], noded: int, agent: int, ages: Mapping[int, Ms], *, tls: bool
) -> Words:
    """Try both ports at all addresses of a node, and meanwhile read our own DRBD disks.

    `ages` is by minor for how long (ms) the disk has not been seen complete (`collectors.drbd`).
    """
    secure = untrusting_tls()
    at_noded, at_agent, (mirrors, why) = await asyncio.gather(
        _best(addresses, noded, secure),
        _best(addresses, agent, secure if tls else None),
        read_mirrors(ages),
    )
    return Words(at_noded, at_agent, mirrors, why)


async def try_port(address: str, port: int, tls: ssl.SSLContext | None) -> Contact:
    """Ask for /healthz, and tell how far the connection came: any byte is an answer.

    A connection that is closed without a byte counts as refused: the kernel lives, and whether a
    program does is unknown. A fault of our own is no evidence: UNKNOWN.
    """
    try:
        await fetch(address, port, "/healthz", seconds=SECONDS, tls=tls)
    except NoAnswer as error:
        return error.contact
    return Contact.ANSWERS


async def _best(addresses: Collection[str], port: int, tls: ssl.SSLContext | None) -> Contact:
    """The liveliest contact over all addresses."""
    contacts = await asyncio.gather(*(try_port(address, port, tls) for address in addresses))
    return next((contact for contact in _RANK if contact in contacts), Contact.UNKNOWN)


# This node's DRBD disks.


async def read_mirrors(ages: Mapping[int, Ms]) -> tuple[tuple[Mirror, ...] | None, str]:
    """Read our DRBD disks from Ganeti's monitoring daemon; None with the reason if that fails."""
    if not os.path.exists(drbd.STATUS):
        return (), ""  # the kernel has no DRBD
    try:
        port = port_of("mond")
        if why := not_roots(port):
            return None, why
        answer = await fetch(
            "127.0.0.1", port, "/1/report/storage/drbd", seconds=MOND_SECONDS, most=_MOST
        )
        if answer.status != 200:
            return None, f"ganeti-mond answered with HTTP status {answer.status}"
        return await asyncio.to_thread(mirrors_of, answer.body, ages), ""
    except (MessageError, Unavailable) as error:
        return None, f"ganeti-mond: {error}"


def not_roots(port: int) -> str:
    """Say why the listener on this port is not to be believed; empty if root listens there."""
    listening = False
    for path in _LISTENERS:
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                rows = [line.split() for line in file]
        except OSError:
            continue  # without IPv6 there is no such file
        for row in rows[1:]:
            if len(row) < 8 or row[3] != _LISTEN or row[1].partition(":")[2] != f"{port:04X}":
                continue
            if row[1].partition(":")[0] not in _HERE:
                continue
            listening = True
            if row[7] != "0":
                return f"user {row[7]}, not root, listens on port {port}"
    return "" if listening else f"ganeti-mond does not listen on port {port}"


def mirrors_of(body: bytes, ages: Mapping[int, Ms] = _NO_AGES) -> tuple[Mirror, ...]:
    """Decode mond's report of its collector drbd, or raise MessageError. Pure."""
    report: Any = read(body, limit=_MOST)
    data = report.get("data") if isinstance(report, dict) else None
    devices = data.get("deviceInfos") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(devices, list):
        raise MessageError("its report has no list of devices")
    status = data.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    if type(code) is not int or code not in _KNOWN:
        raise MessageError(f"its report has the status {brief(code)}: the disks' state is unknown")
    if len(devices) > MIRRORS:
        raise MessageError(f"its report has more than {MIRRORS} devices")
    return tuple(_mirror(device, ages) for device in devices)


def _mirror(device: Any, ages: Mapping[int, Ms]) -> Mirror:
    if not isinstance(device, dict):
        raise MessageError("its report has a device that is not an object")

    def text(name: str, limit: int, *, needed: bool) -> str:
        value = device.get(name)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or len(value) > limit:
            raise MessageError(f"its report has a device with a wrong {name}")
        return value

    return Mirror(
        text("instance", NAME, needed=False),
        text("connectionState", 64, needed=True),
        text("localState", 64, needed=False),
        ages.get(minor) if type(minor := device.get("minor")) is int else None,
    )
