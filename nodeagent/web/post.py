"""One POST to a URL, blocking, for a thread that may wait: a deadline over all of its addresses."""

import asyncio
import re
import socket
import time
from collections.abc import Callable, Sequence

from nodeagent.errors import Unavailable
from nodeagent.web.client import MAX_BODY, Answered, fetch
from nodeagent.web.tls import trusting_tls

URL = r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?(/[^\s#\x00-\x1f\x7f-\uffff]*)"
_PORTS = {"http": 80, "https": 443}
_ADDRESSES = 4  # addresses tried for one name


def post(
    url: str,
    body: bytes,
    *,
    seconds: float,
    ca: str = "",
    headers: Sequence[tuple[str, str]] = (),
    most: int = MAX_BODY,
    steady: Callable[[], float] = time.monotonic,
) -> Answered:
    """Send it, or raise Unavailable; each address of its name gets a share of the time.

    `ca` is a file with the certificates to trust instead of the system's; `steady` is seconds of a
    clock that nobody sets.
    """
    match = re.fullmatch(URL, url)
    assert match is not None
    scheme, host, port, target = match.groups()
    place = host.strip("[]"), int(port or _PORTS[scheme])
    tls = trusting_tls(ca) if scheme == "https" else None
    end, why = steady() + seconds, f"{host} has no address"
    addresses = _addresses(*place)
    for n, address in enumerate(addresses):
        share = round((end - steady()) / (len(addresses) - n), 1)
        if share <= 0:
            break
        try:
            return asyncio.run(
                fetch(
                    address,
                    place[1],
                    target,
                    seconds=share,
                    method="POST",
                    body=body,
                    tls=tls,
                    most=most,
                    host=place[0],
                    headers=headers,
                )
            )
        except Unavailable as error:
            why = str(error)
    raise Unavailable(why)


def is_url(text: str) -> bool:
    return re.fullmatch(URL, text) is not None


def wrong_port(url: str) -> str:
    """Say why the port of a URL is wrong; "" if it is right, or `url` is not a URL."""
    match = re.fullmatch(URL, url)
    if match is None or 0 < int(match[3] or 1) <= 65535:
        return ""
    return f"has the port {match[3]}; it must be from 1 to 65535"


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unavailable(f"{host}: {getattr(error, 'strerror', None) or error}") from None
    return list(dict.fromkeys(str(row[4][0]) for row in found))[:_ADDRESSES]
