"""Run the shipped commands as the agent runs them, on fixture trees instead of this machine."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeAlias
from unittest.mock import patch

from tests import golden

ETC = Path(__file__).resolve().parents[2] / "etc"
DIAGNOSE = ETC / "node-diagnose-commands"
REPAIR = ETC / "node-repair-commands"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NEEDS = ("Ok", "live-repair", "evacuate", "evacuate-failover")
OK = {"status": "Ok", "details": {"faults": []}}
CALL = "call-operator"
PYTHON = "#!/usr/bin/python3 -I"

Files: TypeAlias = Mapping[str, str | None]


def files(words: str) -> dict[str, str]:
    """Files of one line each, written `path=line`; a path alone is an empty file."""
    pairs = (word.partition("=") for word in words.split())
    return {path: f"{line}\n" if equals else "" for path, equals, line in pairs}


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def diagnosis(self) -> dict[str, Any]:
        """What it printed, which must keep the contract of a diagnose command."""
        assert (self.code, self.stderr) == (0, "")
        said: dict[str, Any] = json.loads(self.stdout)
        assert set(said) <= {"status", "command", "details"}
        assert said["status"] in NEEDS
        assert ("command" in said) == (said["status"] == "live-repair")
        assert NAME.fullmatch(said.get("command", "x"))
        assert self.stdout == json.dumps(said, sort_keys=True) + "\n"
        return said

    @property
    def need(self) -> str:
        return str(self.diagnosis["status"])

    @property
    def faults(self) -> Any:
        return self.diagnosis["details"]["faults"]

    @property
    def complaint(self) -> str:
        """The one line of a command that could not know or could not do."""
        assert self.code != 0
        assert self.stderr.count("\n") == 1, self.stderr
        assert self.stderr.endswith("\n")
        return self.stderr.rstrip("\n")


def hold(shipped: "Shipped", file: str, rows: Iterable[tuple[str, Ran]]) -> None:
    """Hold what a command prints in each row against a golden table; RENEW=1 writes it."""
    told = ""
    for name, ran in rows:
        said = "well" if ran.code == 0 and ran.diagnosis == OK else ran.stdout or ran.complaint
        told += f"{name}: {said.strip()}\n"
    told = re.sub(rf"{re.escape(str(shipped.root))}(/row-\d+)?", "ROOT", told)
    golden.same(Path(__file__).parent / "answers" / f"{file}.txt", told)


def run_file(path: Path, stdin: bytes = b"") -> Ran:
    done = subprocess.run(
        [path], input=stdin, capture_output=True, env=ENVIRONMENT, cwd="/", timeout=60, check=False
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@cache
def compiled(path: Path, constants: frozenset[str]) -> CodeType:
    """A command that takes the values of these constants from GIVEN; compiled once for all."""
    text = path.read_text()
    assert text.startswith(PYTHON)
    for constant in constants:
        head, _, rest = text.partition(f"\n{constant} = ")
        assert rest, f"{path.name} has no constant {constant}"
        text = f"{head}\n{constant} = GIVEN[{constant!r}]\n{rest.partition(chr(10))[2]}"
    return compile(text, path, "exec")


def run_here(path: Path, stdin: bytes, given: Mapping[str, object]) -> Ran:
    """Run a command with other constants, without the start of an interpreter.

    tests/etc/test_here.py starts each of them as the agent does.
    """
    code_object = compiled(path, frozenset(given))
    main = ModuleType("__main__")
    vars(main).update(GIVEN=given, __file__=str(path))
    before, code = dict(os.environ), 0
    said, complained = StringIO(), StringIO()
    with (
        chdir("/"),
        redirect_stdout(said),
        redirect_stderr(complained),
        reading(stdin),
        patch.dict(sys.modules, __main__=main),
    ):
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        try:
            exec(code_object, vars(main))
        except SystemExit as ended:
            if isinstance(ended.code, str):
                print(ended.code, file=complained)
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            os.environ.clear()
            os.environ.update(before)
    return Ran(code, said.getvalue(), complained.getvalue())


@contextmanager
def reading(stdin: bytes) -> Iterator[None]:
    """Standard input holds this."""
    before, sys.stdin = sys.stdin, TextIOWrapper(BytesIO(stdin))
    try:
        yield
    finally:
        sys.stdin = before


class Shipped:
    """The shipped commands with other constants, and a folder for their world."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self._rows = 0

    def anew(self) -> "Shipped":
        """Another, empty world, for the next row of a table."""
        self._rows += 1
        return Shipped(self.tree({f"row-{self._rows}": None}) / f"row-{self._rows}")

    def run(self, name: str, stdin: object = b"", **constants: object) -> Ran:
        """Run it as if each given constant had been given another value."""
        path = next(f / name for f in (DIAGNOSE, REPAIR) if (f / name).exists())
        given = {k: str(v) if isinstance(v, Path) else v for k, v in constants.items()}
        raw = stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()
        return run_here(path, raw, given)

    def tree(self, files: Files, under: str = "") -> Path:
        """Make files; "-> x" is a symbolic link to x, None a folder. Give back the root."""
        for name, content in files.items():
            path = self.root / under / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.mkdir(exist_ok=True)
            elif content.startswith("-> "):
                path.unlink(missing_ok=True)
                path.symlink_to(content.removeprefix("-> "))
            else:
                path.write_text(content)
        return self.root / under

    def tool(self, name: str, script: str) -> Path:
        """A fake tool, written in sh."""
        path = self.root / "tools" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path
