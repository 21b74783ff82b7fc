"""The socket between front and runner: frames, order, strangers, hangs."""

import asyncio
import os
import select
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from nodeagent.agent.link import CONNECTIONS, MAX_FRAME, Frame, Link, frame, listen, read_frame
from nodeagent.errors import MessageError, Unavailable
from tests import needs
from tests.patience import PATIENCE, until_async

ME = frozenset({os.getuid()})


async def echo(asked: Frame) -> Frame:
    if asked.get("verb") == "slow":
        await asyncio.sleep(0.2)
    if asked.get("verb") == "bug":
        raise ZeroDivisionError
    return {"echo": asked}


@asynccontextmanager
async def served(folder: Path, allowed: frozenset[int] = ME) -> AsyncIterator[str]:
    path = str(folder / "socket")
    server = await listen(path, allowed, -1, lambda: echo)
    try:
        yield path
    finally:
        server.close()


def story(folder: Path, tell: Callable[[str], Awaitable[None]]) -> None:
    async def main() -> None:
        async with served(folder) as path:
            await asyncio.wait_for(tell(path), 10)

    asyncio.run(main())


def test_a_greeting_goes_first_and_answers_come_to_those_who_asked(tmp_path: Path) -> None:
    async def tell(path: str) -> None:
        link = Link(path, on_connect=lambda: {"verb": "hello", "tls": "x"})
        answers = await asyncio.gather(*(link.ask({"n": n}) for n in range(50)))
        assert [answer["echo"]["n"] for answer in answers] == list(range(50))
        assert link.greeting == {"echo": {"verb": "hello", "tls": "x"}}
        link.close()

    story(tmp_path, tell)


def test_nobody_is_given_the_answer_to_another_s_question(tmp_path: Path) -> None:
    """One gives up waiting; those who asked before and after do not get its answer."""

    async def tell(path: str) -> None:
        link = Link(path)
        with pytest.raises(Unavailable, match="does not answer"):
            await link.ask({"verb": "slow"}, seconds=0.05)
        assert not link.connected, "nobody queues behind a runner that hangs"
        assert await link.ask({"n": 1}) == {"echo": {"n": 1}}
        canceled = asyncio.create_task(link.ask({"verb": "slow"}))
        await asyncio.sleep(0.01)
        canceled.cancel()
        assert await link.ask({"n": 2}) == {"echo": {"n": 2}}
        link.close()

    story(tmp_path, tell)


def test_a_runner_that_restarts_is_found_again(tmp_path: Path) -> None:
    async def main() -> None:
        link = Link(str(tmp_path / "socket"))
        with pytest.raises(Unavailable, match="cannot be reached"):
            await link.ask({})
        for _ in range(2):
            async with served(tmp_path):
                assert await link.ask({"n": 1}) == {"echo": {"n": 1}}
            link.close()
            assert not link.connected

    asyncio.run(main())


def test_a_connection_given_up_neither_breaks_its_successor_nor_is_heard(tmp_path: Path) -> None:
    """The runner hung with a question half sent; it comes back while the next one is asked."""
    heard: list[int] = []
    hung = asyncio.Event()

    async def hangs_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(0)
        me = len(heard) - 1
        if me == 0:
            await hung.wait()
        with suppress(OSError):
            while await read_frame(reader) is not None:
                heard[me] += 1
                await asyncio.sleep(0.3)
                writer.write(frame({"from": me}))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_unix_server(hangs_first, tmp_path / "socket")
        link = Link(str(tmp_path / "socket"))
        with pytest.raises(Unavailable, match="does not answer"):
            await link.ask({"much": "x" * 6_000_000}, seconds=0.3)
        second = asyncio.create_task(link.ask({"n": 2}))
        while len(heard) < 2:
            await asyncio.sleep(0.01)
        hung.set()
        assert await second == {"from": 1}
        assert link.connected
        assert heard == [0, 1], "of the first question nothing more was sent"
        link.close()
        server.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_an_answer_nobody_asked_for_ends_the_connection(tmp_path: Path) -> None:
    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(frame({"n": 1}) + frame({"n": 2}))

    async def main() -> None:
        server = await asyncio.start_unix_server(talks, tmp_path / "socket")
        link = Link(str(tmp_path / "socket"))
        assert await link.ask({}) == {"n": 1}
        # Nor is it taken for the answer to the next question.
        await until_async(lambda: not link.connected)
        link.close()
        server.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_bug_in_a_verb_ends_the_connection_at_once_and_only_that(tmp_path: Path) -> None:
    async def tell(path: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        link = Link(path)
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="gone"):
            await link.ask({"verb": "bug"})
        assert asyncio.get_running_loop().time() - began < 1
        assert await link.ask({"n": 1}) == {"echo": {"n": 1}}
        link.close()

    story(tmp_path, tell)


@needs.mark("root")
def test_the_socket_is_of_its_group_and_the_kernel_says_who_calls() -> None:
    async def tell(path: str) -> None:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        os.chmod(path, 0o666)
        text = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "s.sendall(b'\\0\\0\\0\\2{}'); print(s.recv(9))"
        )
        process = await asyncio.create_subprocess_exec(
            "/usr/bin/python3", "-I", "-c", text, path, user=65534, stdout=-1, stderr=-1
        )
        out, said = await process.communicate()
        gone = b"ConnectionReset" in said or b"BrokenPipe" in said
        assert out == b"b''\n" or gone, (out, said)

    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        story(Path(open_to_all), tell)


def test_the_ninth_at_once_is_not_heard_until_one_of_them_has_gone(tmp_path: Path) -> None:
    async def tell(path: str) -> None:
        links = [Link(path) for _ in range(CONNECTIONS)]
        for link in links:
            assert await link.ask({}) == {"echo": {}}
        ninth = Link(path)
        for _ in range(3):
            with pytest.raises(Unavailable):
                await ninth.ask({})
        links.pop().close()
        await asyncio.sleep(0.05)
        assert await ninth.ask({}) == {"echo": {}}
        for link in (*links, ninth):
            link.close()

    story(tmp_path, tell)


@pytest.mark.parametrize(
    "question",
    [
        pytest.param({"much": "x" * 3 * 2**20}, id="3 MiB, as only an answer may have"),
        pytest.param({"deep": {}}, id="not flat"),
    ],
)
def test_a_question_that_no_front_asks_ends_the_connection(tmp_path: Path, question: Frame) -> None:
    async def tell(path: str) -> None:
        link = Link(path)
        with pytest.raises(Unavailable):
            await link.ask(question)
        assert await link.ask({"order": "\x01" * 256 * 1024}), "the largest there is"
        link.close()

    story(tmp_path, tell)


def test_an_answer_that_is_not_read_holds_no_descriptor(tmp_path: Path) -> None:
    """As much of it as the kernel does not take; then the connection is spoilt."""
    one, other = socket.socketpair()
    one.setblocking(False)
    taken = one.send(bytes(10**7))
    one.close()
    other.close()

    async def tell(path: str) -> None:
        with socket.socket(socket.AF_UNIX) as asker:
            asker.connect(path)
            asker.setblocking(False)
            asked = frame({"much": "x" * (taken + 20_000)}) + b"\0\0\0\2[]"
            await asyncio.get_running_loop().sock_sendall(asker, asked)
            closed = select.poll()
            closed.register(asker, select.POLLRDHUP)
            while not closed.poll(0):
                await asyncio.sleep(0.01)

    story(tmp_path, tell)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\xff\xff\xff\xff", id="4 GiB"),
        pytest.param((MAX_FRAME + 1).to_bytes(4, "big"), id="one byte too many"),
        pytest.param(b"\0\0\0\2[]", id="no object"),
        pytest.param(b"\0\0\0\3{}}", id="trailing"),
        pytest.param(b"\0\0\0\0", id="empty"),
        pytest.param(b'\0\0\0\x0d{"a":1,"a":1}', id="key twice"),
    ],
)
def test_bad_frames_end_the_connection(tmp_path: Path, raw: bytes) -> None:
    async def tell(path: str) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(raw)
        assert await reader.read() == b""
        writer.close()
        fed = asyncio.StreamReader()
        fed.feed_data(raw)
        fed.feed_eof()
        with pytest.raises(MessageError):
            await read_frame(fed)

    story(tmp_path, tell)


def test_half_a_frame_is_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        for cut in range(6):
            fed = asyncio.StreamReader()
            fed.feed_data(frame({"a": 1})[:cut])
            fed.feed_eof()
            assert await read_frame(fed) is None

    asyncio.run(main())
