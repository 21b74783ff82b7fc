"""Listening at a path: who connects is known by the kernel, and nobody's socket is taken."""

import asyncio
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from nodeagent.web.exchange import Request, Response
from nodeagent.web.server import Server
from tests import needs


def peer(request: Request) -> Response:
    return Response.text(f"{request.peer} {request.secure}")


async def ask(path: str, uid: int = os.geteuid()) -> bytes:
    sock, me = socket.socket(socket.AF_UNIX), os.geteuid()
    os.seteuid(uid)  # the kernel notes who connects as they connect
    try:
        sock.connect(path)
    finally:
        os.seteuid(me)
    reader, writer = await asyncio.open_unix_connection(sock=sock)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("uid", [os.geteuid(), pytest.param(65534, marks=needs.mark("root"))])
def test_the_peer_is_the_user_who_connected(tmp_path: Path, uid: int) -> None:
    groups = ",".join(map(str, sorted({os.getegid(), *os.getgroups()})))

    async def run(path: str) -> None:
        server = Server(peer)
        await server.start_unix(path, 0o666)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o666
        assert await ask(path, uid) == f"uid:{uid}:{groups} False".encode()
        await server.close()

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        asyncio.run(run(f"{folder}/sock"))
        assert os.listdir(folder) == []


def test_what_a_dead_one_left_is_replaced_and_a_living_one_s_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)

    async def run() -> None:
        first, second = Server(peer), Server(peer)
        await first.start_unix(path, 0o600)
        with pytest.raises(OSError, match="listens at"):
            await second.start_unix(path, 0o600)
        await second.close()
        assert await ask(path)
        await first.close()

    asyncio.run(run())


def test_no_file_of_another_kind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.write_text("precious")

    async def run() -> None:
        with pytest.raises(FileExistsError):
            await Server(peer).start_unix(str(path), 0o600)

    asyncio.run(run())
    assert path.read_text() == "precious"


def test_the_socket_of_a_successor_is_left_to_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")

    async def run() -> None:
        old, new = Server(peer), Server(peer)
        await old.start_unix(path, 0o600)
        os.unlink(path)
        await new.start_unix(path, 0o600)
        await old.close()
        assert await ask(path)
        await new.close()

    asyncio.run(run())
