"""The interpreters in a script's `#!` line: the kernel starts them as root, by their path.

So only root may change each file and the folders above it. Links on the way, such as `/bin`, are
followed where only root can set them. `env` starts a program of the commands' PATH: that program is
judged in its place. An interpreter may be a script itself.
"""

import os
import stat
from contextlib import ExitStack

from nodeagent.agent.run import ENVIRONMENT
from nodeagent.folder import Unfit, opened_file
from nodeagent.protocol.canonical import printable

HEAD = 256  # bytes that the kernel reads of a file (BINPRM_BUF_SIZE)
_DEEPEST = 4  # scripts that are interpreters of scripts
_BLANKS = b" \t"


def judge_interpreter(head: bytes, uid: int, who: str, depth: int = 0) -> None:
    """Judge the interpreter in a file's first bytes, or raise Unfit; complaints call `uid` `who`.

    A file without `#!` is an ELF program, or the kernel does not start it by itself.
    """
    if head.startswith(b"\x7fELF"):
        return
    if head.startswith(b"\xef\xbb\xbf#!"):
        raise Unfit("starts with a byte order mark: save it as UTF-8 without one")
    if not head.startswith(b"#!"):
        raise Unfit(
            "has no #! line and is not an ELF program: begin it with a line such as #!/bin/sh"
        )
    if depth > _DEEPEST:
        raise Unfit(f"has more than {_DEEPEST} scripts as interpreters of each other")
    line, newline, _ = head[2:HEAD].partition(b"\n")
    if not newline and len(head) >= HEAD:
        raise Unfit(f"has a #! line of more than {HEAD} bytes, which the kernel cuts off")
    if line.endswith(b"\r"):
        raise Unfit("has the line ends of DOS, CR LF: convert it, such as with `dos2unix`")
    if b"\0" in line:
        raise Unfit("has a NUL in its #! line")
    words = line.strip(_BLANKS).replace(b"\t", b" ").split(b" ", 1)
    path, argument = os.fsdecode(words[0]), os.fsdecode(words[1].strip()) if words[1:] else ""
    real_path = _judged(path, uid, who, depth)
    if "env" in (os.path.basename(path), os.path.basename(real_path)):
        _judged(_by_env(path, argument), uid, who, depth)


def _judged(path: str, uid: int, who: str, depth: int) -> str:
    """Judge one interpreter, or raise Unfit; return its real path."""
    if not path.startswith("/"):
        raise Unfit(f"its interpreter {printable(path)} is not an absolute path")
    try:
        with ExitStack() as opened:
            place, real = opened_file(path, uid, who, opened)
            info = os.fstat(place)
            if not info.st_mode & stat.S_IXUSR:
                raise Unfit("it is not executable")
            fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, fd)
            head = os.pread(fd, HEAD, 0)
    except Unfit as no:
        raise Unfit(f"its interpreter {printable(path)}: {no}") from None
    except OSError as error:
        raise Unfit(f"its interpreter {printable(path)}: {error.strerror}") from None
    judge_interpreter(head, uid, who, depth + 1)
    return real


def _by_env(env: str, argument: str) -> str:
    """Return the program that env starts for a script: a bare name, or -S and plain words."""
    name, *rest = argument.split() or [""]
    if name == "-S":
        name, *rest = rest or [""]
    elif rest:  # the kernel passes the rest as one argument
        name = argument
    if not name or name.startswith("-") or any(c in "= \\\"'$#" for c in "".join((name, *rest))):
        took = printable(argument)
        raise Unfit(f"its interpreter {env} would take {took}: write the interpreter's own path")
    if "/" in name:
        return name
    folders = ENVIRONMENT["PATH"].split(":")
    paths = [f"{folder}/{name}" for folder in folders]
    path = next((path for path in paths if os.access(path, os.X_OK)), None)
    if path is None:
        search_path = ENVIRONMENT["PATH"]
        raise Unfit(
            f"its interpreter {printable(name)} is not in {search_path}, the PATH of commands"
        )
    return path
