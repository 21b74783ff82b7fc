"""Clusters by their names: the files, gnt-maint --cluster, and gnt-maint clusters."""

import ast
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from nodeagent.cli.gnt_maint import cli
from nodeagent.cli.maint import clusters
from nodeagent.cli.maint.console import clusters_file
from nodeagent.model.window import Schedule
from nodeagent.model.wish import SetSchedule
from tests import golden
from tests.cli import scenes
from tests.cli.fixtures import secret
from tests.cli.live import Live
from tests.cli.run import Done, gnt_maint
from tests.cli.terminal import in_a_terminal
from tests.maintd.answering import serving
from tests.maintd.http.page.rigs import window

SCREEN = Path(__file__).parent / "screens" / "clusters.txt"


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of all, in place of the one below /etc; nobody has a file of his own yet."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(clusters_file, "SHARED", str(folder / "clusters.toml"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder / "clusters.toml"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "home/.config/nodeagent/clusters.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def hanging() -> Iterator[str]:
    """The URL of a server that takes connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"https://127.0.0.1:{server.getsockname()[1]}"


def entry(name: str, url: str, ca: str = "", password_file: str = "") -> str:
    who = f'user = "alice"\npassword-file = "{password_file}"\n' if password_file else ""
    return f'[clusters.{name}]\nurl = "{url}"\nca = "{ca}"\n{who}'


# The files.


def test_a_persons_own_entry_replaces_the_shared_one_whole(shared: Path, own: Path) -> None:
    shared.write_text(entry("a", "https://shared-a", "/a.pem") + entry("b", "https://shared-b"))
    own.write_text('[clusters.a]\nurl = "https://own-a"\npassword-file = "pw"\nuser = "me"\n')
    found = clusters_file.entries()
    assert [(one.name, one.file) for one in found.values()] == [("a", str(own)), ("b", str(shared))]
    where = found["a"].where()
    assert (where.url, where.user, where.ca) == ("https://own-a", "me", "")
    assert where.password_file == str(own.parent / "pw")


def test_a_fault_of_the_file_is_one_line_with_its_place(shared: Path, tmp_path: Path) -> None:
    """The golden file has the texts; RENEW=1 writes their lines (tests/golden.py)."""
    screen = SCREEN.with_name("clusters-faults.txt")
    texts = re.findall(r"^(['\"].*)$", screen.read_text(), re.M)
    assert texts
    open_to_all = shared.parent / "open"
    open_to_all.write_text("x")
    open_to_all.chmod(0o644)
    shown = []
    for text in map(ast.literal_eval, texts):
        shared.write_text(text)
        shown.append(f"{text!r}\n  {gnt_maint('--cluster', 'a', 'held').refused(78)}\n")
    told = "".join(shown).replace(str(tmp_path), "FOLDER")
    told = re.sub("(not TOML: ).*", r"\1…", told)  # Python's own words
    golden.same(screen, told)


def test_a_file_that_others_may_write_or_own_is_refused(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would choose the host that gets the password."""
    shared.write_text(entry("a", "https://127.0.0.1:1"))
    shared.chmod(0o664)
    line = ("--cluster", "a", "held")
    assert gnt_maint(*line).refused(78).endswith(f"others may write it: chmod go-w {shared}")
    shared.chmod(0o644)
    assert gnt_maint(*line).code == 69
    owner = os.stat(shared).st_uid
    if owner == 0:
        os.chown(shared, 4711, -1)
        owner = 4711
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert gnt_maint(*line).refused(78).startswith(f"{shared}: it belongs to user {owner}")


# --cluster.


def test_a_name_stands_for_the_whole_address(busy: Live, shared: Path, tmp_path: Path) -> None:
    url, ca = busy.over_tls()
    password = secret(tmp_path)
    shared.write_text(entry("a", url, ca, password) + entry("bare", url, ca) + entry("far", url))
    assert gnt_maint("--cluster", "a", "cancel", "n3").code == 0
    assert busy.rig.incident("n3").why == "canceled by alice"
    said = gnt_maint("--cluster", "bare", "pause").refused(1)
    assert said.endswith(f"({shared}: clusters.bare: user, password-file)")
    said = gnt_maint("--cluster", "far", "held").refused(69)
    assert said.endswith(f": name it, or its signer, as {shared}: clusters.far.ca")


@pytest.mark.parametrize(
    "line",
    [
        "repair",
        "explain i1 --luxi /x",
        "what-if evacuate n1",
        "window propose --start +1d --for 1h",
        "balance",
        "rolling",
        "ledger forget",
    ],
)
@pytest.mark.parametrize("option", ["--cluster", "--url"])
def test_a_verb_about_this_machine_refuses_another(shared: Path, line: str, option: str) -> None:
    shared.write_text(entry("a", "https://127.0.0.1:1"))
    name = "a" if option == "--cluster" else "https://127.0.0.1:1"
    said = gnt_maint(option, name, *line.split()).refused(64)
    assert re.match(f"(--luxi and )?{option} (is|are) ", said)


def test_the_shell_completes_names_of_clusters_and_in_them(busy: Live, shared: Path) -> None:
    def offered(*words: str) -> list[str]:
        completing = ShellComplete(cli, {}, "gnt-maint", "_GNT_MAINT_COMPLETE")
        return [item.value for item in completing.get_completions([*words[:-1]], words[-1])]

    url, ca = busy.over_tls()
    shared.write_text(entry("alpha", url, ca) + entry("beta", url, ca) + entry("again", url))
    assert offered("--cluster", "a") == ["again", "alpha"]
    assert offered("--cluster", "alpha", "done", "n") == [f"n{n}" for n in range(1, 7)]
    shared.write_text("[")
    assert offered("--cluster", "a") == []
    assert offered("--cluster", "alpha", "done", "n") == []


# gnt-maint clusters.


def test_each_cluster_has_a_line_and_a_deadline_of_its_own(
    busy: Live, shared: Path, hanging: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that of the cluster that hangs is short: a busy machine answers for the others."""
    ask = clusters._ask
    monkeypatch.setattr(
        clusters, "_ask", lambda one, seconds: ask(one, 1 if one.name == "hangs" else seconds)
    )
    url, ca = busy.over_tls()
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    shared.write_text(
        entry("good", url, ca)
        + entry("hangs", hanging, ca)
        + entry("refuses", url, ca, secret(wrong, b"mistyped\n"))
        + entry("nobody", "https://127.0.0.1:1", ca)
        + "[clusters.mistyped]\nulr = ''\n"
    )
    done = gnt_maint("clusters", "--json", "--timeout", "60s")
    assert (done.code, done.err) == (2, "")
    found = {one["name"]: one for one in Done(0, done.out, "").json}
    assert [(name, one["state"], one["code"]) for name, one in found.items()] == [
        ("good", "WARNING", 1),
        ("hangs", "UNREACHABLE", 2),
        ("mistyped", "UNKNOWN", 3),
        ("nobody", "UNREACHABLE", 2),
        ("refuses", "UNKNOWN", 3),
    ]
    assert len({tuple(one) for one in found.values()}) == 1, "the same members in each"
    good = found["good"]
    assert (good["cluster"], good["master"]) == ("cluster.example", "n1")
    assert (good["out"], good["needs-you"]) == (["n3"], ["n1"])
    assert (good["windows"], good["unknown"]) == (None, ["windows"]), "it needs a user with a role"
    assert found["hangs"]["why"] == "no complete answer within 1 s"
    assert "the name or the password is wrong" in found["refuses"]["why"]
    assert f"{shared}: clusters.mistyped.ulr is not a known" in found["mistyped"]["why"]


def test_the_screen_at_80_columns_and_the_json(busy: Live, own: Path, tmp_path: Path) -> None:
    """A user with a role sees the windows; RENEW=1 writes the file (tests/golden.py)."""
    folder = tmp_path / "rolling"
    folder.mkdir()
    live = scenes.rolling(folder)
    try:
        url, ca = live.over_tls()
        now = live.rig.time
        schedule = Schedule((window(now, 2, "n6"), window(now + 86400, 2, "n2")))
        live.rig.wish(SetSchedule(schedule, consents=(None, None)))
        live.tick()
        anybody = entry("lab", *busy.over_tls())
        down = entry("down", "https://127.0.0.1:1")
        own.write_text(entry("berlin", url, ca, secret(tmp_path)) + anybody + down)
        code, screen = in_a_terminal("clusters", COLUMNS="80", TERM="dumb", NO_COLOR="1")
        found = gnt_maint("clusters", "--json")
    finally:
        live.close()
    lines = [line.rstrip() for line in screen.splitlines()]
    assert (code, found.code, max(map(len, lines)) <= 80) == (2, 2, True)
    golden.same(SCREEN, "\n".join([*lines, found.out]))


def test_a_look_up_of_a_name_that_hangs_holds_up_nobody(
    quiet: Live, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No socket's time limit covers it."""
    url, ca = quiet.over_tls()
    shared.write_text(entry("a", url, ca) + entry("lost", "https://name.invalid"))
    over, waited, look_up = threading.Event(), list[bool](), socket.getaddrinfo

    def slow(host: str, *rest: Any, **more: Any) -> Any:
        if host == "name.invalid":
            waited.append(not over.wait(10))
        return look_up(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    # When it begins, when it waits for a, which answers, and then for lost: the time is up.
    moments = iter([0.0, 0.0, 61.0])
    monkeypatch.setattr(clusters, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    found = gnt_maint("clusters", "-o", "cluster,why", "--no-headers", "--timeout", "60s")
    assert waited == [], "it ended before"
    over.set()
    assert (found.code, found.lines) == (
        2,
        ["a     6 nodes", "lost  no complete answer within 60 s"],
    )


def test_all_are_asked_at_once_and_another_release_costs_only_its_line(
    quiet: Live, shared: Path
) -> None:
    """Another answers once two ask for the first time: no round, or one without texts."""
    both = threading.Barrier(2)
    odd = b'{"trouble":null,"at":1,"now":2,"every":3,"holds":[],"cluster":4,"master":5}'

    def answer(head: Mapping[str, str], _: bytes) -> tuple[int, bytes]:
        if head["path"] == "/1/round":
            return 200, odd if both.wait(20) == 0 else b"{}"
        return 200, b'{"windows":[],"returning":[]}' if head["path"] == "/1/windows" else b"[]"

    url, ca = quiet.over_tls()
    with serving(answer) as port:
        other = f"http://127.0.0.1:{port}"
        shared.write_text(entry("a", url, ca) + entry("b", other) + entry("c", other))
        found = gnt_maint("clusters", "-o", "state,why", "--no-headers", "--separator", ": ")
    assert found.code == 3
    assert found.lines[0] == "OK: 6 nodes"
    for line in found.lines[1:]:
        assert line.startswith("UNKNOWN: a bug, or another maintd than this speaks to: ")
