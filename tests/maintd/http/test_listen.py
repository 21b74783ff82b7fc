"""Where maintd listens, and what is said when it cannot."""

import asyncio
import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from nodeagent.cli import maintd_run as command
from nodeagent.errors import ConfigError, Unavailable
from nodeagent.maintd.engine.settings import HttpSettings, MaintdSettings, Settings
from nodeagent.maintd.http.listen import listening
from nodeagent.web import selfsigned
from nodeagent.web.client import fetch
from nodeagent.web.tls import fingerprint, untrusting_tls
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import Served

PEM = selfsigned.make()


def served(folder: Path) -> Served:
    return Served(Rig(fleet()), folder)


def test_with_a_certificate_of_ours_of_one_s_own_or_plainly(tmp_path: Path) -> None:
    (tmp_path / "pem").write_bytes(PEM)
    (tmp_path / "pem").chmod(0o600)

    async def run(http: HttpSettings) -> tuple[bytes, str]:
        path = str(tmp_path / "run" / "sock")
        async with listening(served(tmp_path).api, path, ["127.0.0.1"], http) as port:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
            tls = None if http.plain else untrusting_tls()
            answer = await fetch("127.0.0.1", port, "/", seconds=10, tls=tls)
        assert not os.path.exists(path)
        return answer.body, answer.certificate

    assert asyncio.run(run(HttpSettings(port=0, plain=True))) == (b"[1]", "")
    body, certificate = asyncio.run(run(HttpSettings(port=0, tls=str(tmp_path / "pem"))))
    assert (body, certificate) == (b"[1]", fingerprint(PEM))
    body, certificate = asyncio.run(run(HttpSettings(port=0)))
    assert body == b"[1]"
    assert certificate not in ("", fingerprint(PEM))


@pytest.mark.parametrize(
    "content",
    [None, b"", b"nonsense", PEM[:100], PEM.split(b"-----BEGIN C")[0]],
    ids=["no file", "empty", "nonsense", "cut short", "only its key"],  # PEM is another each time
)
def test_a_certificate_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "pem").write_bytes(content)
        (tmp_path / "pem").chmod(0o600)
    http = HttpSettings(port=0, tls=str(tmp_path / "pem"))

    async def run() -> None:
        async with listening(served(tmp_path).api, str(tmp_path / "sock"), ["127.0.0.1"], http):
            pass

    with pytest.raises(ConfigError, match=r"http\.tls"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "address", "port", "why"),
    [
        ("no/no/sock", "127.0.0.1", 0, "maintd.socket .*No such file"),
        ("sock", "192.0.2.1", 0, "http.address 192.0.2.1, port 0: Cannot assign"),
    ],
)
def test_where_nobody_can_listen(
    tmp_path: Path, path: str, address: str, port: int, why: str
) -> None:
    http = HttpSettings(address=address, port=port, plain=True)

    async def run() -> None:
        async with listening(served(tmp_path).api, str(tmp_path / path), [address], http):
            pass

    with pytest.raises(Unavailable, match=why):
        asyncio.run(run())
    assert not (tmp_path / "sock").exists(), "what was opened is closed again"


def test_ready_is_told_when_both_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own `serve`, around a coordinator of the tests."""
    place = str(tmp_path / "notify")
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(place)
    heard.setblocking(False)
    monkeypatch.setenv("NOTIFY_SOCKET", place)
    monkeypatch.setattr(command, "assemble", lambda *_, **__: served(tmp_path).maintd)
    path = str(tmp_path / "sock")
    daemon = MaintdSettings(state=str(tmp_path), socket=path, every=0.2)
    settings = Settings(daemon, http=HttpSettings(address="127.0.0.1", port=0, plain=True))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        serving = asyncio.create_task(command.serve(settings, "", dry=False))
        while b"READY=1" not in await loop.sock_recv(heard, 4096):
            pass
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(serving, 10)

    asyncio.run(run())
    heard.close()
    assert not os.path.exists(path)


def test_a_dry_run_beside_the_daemon_goes_on_without_listening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(command, "assemble", lambda *_, **__: served(tmp_path).maintd)
    path = str(tmp_path / "sock")
    settings = Settings(
        MaintdSettings(state=str(tmp_path), socket=path),
        http=HttpSettings(address="127.0.0.1", port=0, plain=True),
    )

    async def run() -> None:
        async with listening(served(tmp_path).api, path, ["127.0.0.1"], settings.http):
            with pytest.raises(Unavailable, match="another process listens"):
                await command.serve(settings, "", dry=False)
            serving = asyncio.create_task(command.serve(settings, "", dry=True))
            while "not-listening" not in caplog.text:
                await asyncio.sleep(0.02)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(serving, 10)

    asyncio.run(run())
