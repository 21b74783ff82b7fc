"""The `#!` line of a command: the kernel would start what it names, as root."""

import os
from pathlib import Path

import pytest

from nodeagent.agent.interpreter import HEAD
from tests import needs
from tests.attacks.folder import NOBODY, put, refusal, run, vetted


def whys(folder: Path, line: str | bytes) -> str:
    put(folder, "tool", line if isinstance(line, bytes) else f"#!{line}\necho EVIL\n")
    return refusal(folder)


@pytest.mark.parametrize(
    "line",
    [
        "/bin/sh",  # a link to usr/bin where /usr is merged
        "/usr/bin/sh",
        " \t/bin/sh\t -e ",
        "/usr/bin/python3 -I",
        "/usr/bin/../bin//sh",
        "/usr/bin/env sh",
        "/bin/env sh",
        "/usr/bin/env -S sh -e",
        "/usr/bin/env /bin/sh",
    ],
)
def test_what_only_root_can_change_may_interpret(folder: Path, line: str) -> None:
    text = "print('GOOD')" if "python" in line else "echo GOOD"
    put(folder, "tool", f"#!{line}\n{text}\n")
    assert run(folder).stdout == b"GOOD\n"


def test_an_interpreter_that_everybody_may_write(folder: Path) -> None:
    tool = put(folder, "mine", "#!/bin/sh\n", 0o777)
    why = whys(folder, f"{tool}")
    assert why == f'its interpreter "{tool}": file {tool} can be written by others (mode 0777)'
    tool.chmod(0o755)
    vetted(folder).close()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_on_the_way_that_others_may_write(folder: Path, mode: int) -> None:
    (folder / "open").mkdir()
    tool = put(folder / "open", "mine")
    (folder / "open").chmod(mode)
    assert f"folder {folder}/open can be written by others" in whys(folder, f"{tool} -x")


@needs.mark("root")
def test_an_interpreter_of_somebody_else_or_in_its_folder(folder: Path) -> None:
    tool = put(folder, "mine")
    os.chown(tool, NOBODY, 0)
    assert f"file {tool} is owned by uid {NOBODY}, not by" in whys(folder, str(tool))
    os.chown(tool, 0, 0)
    link = folder / "link"
    link.symlink_to(tool)
    vetted_by(folder, str(link))
    os.lchown(link, NOBODY, 0)
    assert f"link {link} is owned by uid {NOBODY}, not by" in whys(folder, str(link))
    (folder / "theirs").mkdir()
    put(folder / "theirs", "mine")
    os.chown(folder / "theirs", NOBODY, 0)
    why = whys(folder, f"{folder}/theirs/mine")
    assert f"folder {folder}/theirs is owned by uid {NOBODY}" in why


def vetted_by(folder: Path, line: str) -> None:
    put(folder, "tool", f"#!{line}\n")
    vetted(folder).close()


def test_links_are_followed_to_what_they_mean(folder: Path) -> None:
    (folder / "deep").mkdir()
    mine = put(folder, "mine", mode=0o757)
    for name, target in (("one", "deep/two"), ("deep/two", "../mine"), ("three", f"{mine}")):
        (folder / name).symlink_to(target)
    for name in ("one", "deep/two", "three"):
        assert f"file {mine} can be written by others" in whys(folder, f"{folder}/{name}")
    (folder / "round").symlink_to("round")
    assert "more than 40 links lead there" in whys(folder, f"{folder}/round")


def test_a_script_as_interpreter_is_judged_like_any(folder: Path) -> None:
    evil = put(folder, "evil", mode=0o777)
    put(folder, "outer", f"#!{evil}\n")
    why = whys(folder, f"{folder}/outer")
    assert f'its interpreter "{evil}": file {evil} can be written by others' in why
    for n in range(6):
        put(folder, f"s{n}", f"#!{folder}/s{n + 1}\n" if n < 5 else "#!/bin/sh\n")
    assert "more than 4 scripts as interpreters of each other" in whys(folder, f"{folder}/s0")
    vetted_by(folder, f"{folder}/s2")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("bin/sh", "is not an absolute path"),
        ("", "is not an absolute path"),
        ("/bin/sh\0x", "NUL"),
        ("/no/such/interpreter", "/no: No such file or directory"),
        ("/usr/bin", "it is a folder"),
        ("/bin/sh\r", "line ends of DOS, CR LF"),
        ("/etc/passwd", "it is not executable"),
        ("/etc/passwd/x", "/etc/passwd is not a folder"),
        ("/dev/null", "/dev/null is not a regular file"),
        ("/" + "x" * HEAD, f"#! line of more than {HEAD} bytes"),
        ("/bin/sh" + " " * HEAD + "-x", f"#! line of more than {HEAD} bytes"),
        ("/usr/bin/env", 'would take ""'),
        ("/usr/bin/env -i sh", 'would take "-i sh"'),
        ("/usr/bin/env sh -e", 'would take "sh -e"'),
        ("/usr/bin/env PATH=/tmp sh", 'would take "PATH=/tmp sh"'),
        ("/usr/bin/env -S PATH=/tmp sh", 'would take "-S PATH=/tmp sh"'),
        ("/usr/bin/env -S -i sh", 'would take "-S -i sh"'),
        ("/usr/bin/env -S ${X} sh", "would take"),
        ("/usr/bin/env no-such-interpreter", "is not in /usr/sbin:/usr/bin:/sbin:/bin, the PATH"),
        ("/usr/bin/env ./sh", "is not an absolute path"),
    ],
)
def test_a_line_that_is_refused_says_why(folder: Path, line: str, why: str) -> None:
    assert why in whys(folder, line)
