"""A node's own key on disk: made once, root's alone, and told in one line where it is unfit."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from nodeagent.agent import node_key
from nodeagent.agent.node_key import NodeKey
from nodeagent.errors import NodeAgentError, Unavailable
from nodeagent.protocol.messages import NODE_KEY
from tests import needs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    NodeKey(str(tmp_path)).public  # noqa: B018 it is made at its first use
    return tmp_path / node_key.FILE


def trouble(file: Path) -> str:
    before = file.lstat()
    with pytest.raises(NodeAgentError) as caught:
        NodeKey(str(file.parent)).public  # noqa: B018
    assert file.lstat().st_mtime_ns == before.st_mtime_ns  # nothing is made anew in silence
    told = str(caught.value)
    assert "\n" not in told
    assert told.startswith(str(file))
    return told


def test_it_is_made_once_and_kept(file: Path) -> None:
    first, text = NodeKey(str(file.parent)), file.read_bytes()
    assert NODE_KEY.fullmatch(first.public)
    assert NodeKey(str(file.parent)).public == first.public
    assert file.read_bytes() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == [node_key.FILE]
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(first.public))
    public.verify(first.sign(b"text"), b"text")


def test_it_is_on_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    NodeKey(str(tmp_path)).public  # noqa: B018
    written, folder = synced
    assert ".new-" in written
    assert folder == str(tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610])
def test_one_that_others_may_read_is_not_used(file: Path, mode: int) -> None:
    file.chmod(mode)
    told = trouble(file)
    assert f"mode {mode:04o} is too open" in told
    assert "`gnt-maint agents trust`" in told


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: text[:-1],
        lambda text: text + text,
        lambda text: text[:10] + (b"0" if text[10:11] != b"0" else b"1") + text[11:],
        lambda text: text[:80] + (b"0" if text[80:81] != b"0" else b"1") + text[81:],
    ],
)
def test_a_damaged_one_is_not_used(file: Path, change: "object") -> None:
    assert callable(change)
    file.write_bytes(change(file.read_bytes()))
    assert "damaged; remove it for a new key" in trouble(file)


@needs.mark("root")
def test_one_that_another_user_owns_is_not_used(file: Path) -> None:
    os.chown(file, 65534, 65534)
    assert "owned by user 65534" in trouble(file)


def test_a_link_a_pipe_or_a_folder_is_none(file: Path) -> None:
    moved = file.rename(file.parent / "moved")
    file.symlink_to(moved)
    assert "symbolic links" in trouble(file)
    file.unlink()
    os.mkfifo(file, 0o600)
    assert "not a regular file" in trouble(file)
    file.unlink()
    file.mkdir(0o700)
    trouble(file)


def test_a_disk_that_takes_nothing_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = NodeKey(str(tmp_path))
    with monkeypatch.context() as full:

        def refuse(path: str, content: bytes) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(node_key, "replace_file", refuse)
        with pytest.raises(Unavailable, match="No space left on device"):
            key.public  # noqa: B018
    assert os.listdir(tmp_path) == []
    assert key.public == NodeKey(str(tmp_path)).public
