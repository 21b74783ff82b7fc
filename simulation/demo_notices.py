"""A receiver of the demo's notifications: a webhook on loopback that tells each event in a line."""

import asyncio
import json
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from nodeagent.maintd.notices.delivery import Target
from nodeagent.maintd.notices.settings import sinks_of
from nodeagent.model.notice import Sink
from nodeagent.section import Section

SINK = "demo"
_MOST = 1024 * 1024  # bytes of a message
_TABLE = """# A sink of maintd.toml: each message is a POST of JSON.
[[notify]]
name = "{name}"
kind = "webhook"
url = "http://127.0.0.1:{port}/"
interval = "1s"
"""
Say = Callable[[str, str, str], None]  # node, event, text


@asynccontextmanager
async def receiving(say: Say, settings: Path) -> AsyncIterator[tuple[Sink, Target]]:
    """Receive messages; yield the sink and its target, as they are read from `settings`.

    It writes this file: the table as it would be in maintd.toml.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, EOFError, KeyError):
            for event in json.loads(await _body(reader))["events"]:
                say(event["node"], "notify", f"{event['event']}: {event['text']}")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings.write_text(_TABLE.format(name=SINK, port=port))
    sinks, targets = sinks_of(Section("", tomllib.loads(settings.read_text())))
    try:
        yield sinks[0], targets[0]
    finally:
        server.close()


async def _body(reader: asyncio.StreamReader) -> bytes:
    """Read one HTTP request with a length, and return its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lengths = [line.partition(":")[2] for line in head.splitlines() if "content-length:" in line]
    return await reader.readexactly(min(int(lengths[0]), _MOST) if lengths else 0)
