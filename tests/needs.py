"""What a test needs and a machine may lack: the one place that skips tests for what is absent.

A test names its needs, and is skipped with the name of the one that is absent:

    @needs.mark("root", "curl")
    def test_a_network_of_its_own() -> None: ...

A fixture or a helper calls `needs.require("laboratory")`; where only trying shows it, it calls
`needs.lacking("mount", "mount: permission denied")`.

`NEEDS` in the environment says what must be here: there, absence fails the test and skips nothing.
`NEEDS=all` (.ci/run) is everything but the needs that contradict others, such as an ordinary user;
`NEEDS="ganeti hail"` is these. `python -m tests.needs` lists what is here.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

TOP = Path(__file__).resolve().parents[1]
SHARED = TOP.parent / "shared"
MOND, CONFD = "/usr/sbin/ganeti-mond", "/usr/sbin/ganeti-confd"
HAIL = "/usr/lib/ganeti/iallocators/hail"
GANETI = max(Path("/usr/share/ganeti").glob("3.*"), default=Path("/nonexistent"))
GANETI_PYTHON = "/usr/bin/python3"  # Debian's, which has the libraries of Ganeti
# The Redfish emulator; `make test-power` and `make test-real` install it.
EMULATOR = TOP / os.environ.get("SUSHY", "build/sushy") / "bin/sushy-emulator"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_IS_ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Need:
    """`here` looks for it; `name` follows "needs " in the reason; NEEDS=all wants it or not."""

    here: Callable[[], bool]
    name: str
    by_all: bool = True


def where(program: str) -> str | None:
    """Return the path of a program; None where it is absent."""
    return shutil.which(HAIL if program == "hail" else program)


def _tool(program: str) -> Need:
    return Need(lambda: where(program) is not None, f"{program}: sudo packaging/test-tools")


def _device_tool(program: str) -> Need:
    """One of the tools that switch nodes: they are run with the system's PATH."""
    here = lambda: shutil.which(program, path=SYSTEM_PATH) is not None  # noqa: E731
    return Need(here, f"{program}: sudo packaging/test-tools")


def _of_ganeti(name: str, path: str = "") -> Need:
    return Need(lambda: where(path or name) is not None, f"Debian's ganeti: {path or name}")


def _shared(name: str) -> Need:
    return Need((SHARED / name).exists, f"../shared/{name} beside the checkout")


def _kernel(name: str) -> Need:
    """Only trying shows whether the machine has it: the test says so with `lacking`."""
    return Need(_is_tried, name)


def _is_tried() -> bool:
    return True


def _has_logical_units() -> bool:
    """Tell whether the code of Ganeti's master is here; htools alone have no Python code."""
    return (GANETI / "ganeti/cmdlib/instance_operation.py").exists()


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    except OSError:
        return False


def _has_history() -> bool:
    script = str(TOP / "packaging/before")
    return all(_succeeds([script, "--revision", *which]) for which in ([], ["--keyed"]))


def _has_index() -> bool:
    return _succeeds(["git", "-C", str(TOP), "ls-files", "--error-unmatch", "pyproject.toml"])


def _is_in_the_matrix() -> bool:
    told = Path("/etc/os-release")
    text = told.read_text() if told.exists() else ""
    return bool(
        re.search(r"^ID=debian$", text, re.M) and re.search(r'^VERSION_ID="1[23]"', text, re.M)
    )


# Each by the name that marks and NEEDS take.
ALL: Mapping[str, Need] = {
    # who runs the tests
    "root": Need(lambda: _IS_ROOT, "root: sudo make test"),
    # the checkout and what is beside it
    "git": _tool("git"),
    "index": Need(_has_index, "a git checkout: this copy has no index of git"),
    "history": Need(_has_history, "the whole history: git fetch --unshallow"),
    "shared/htools": _shared("htools"),
    "shared/cases": _shared("cases"),
    "shared/facts": _shared("facts/mesos-cke.md"),
    "laboratory": _shared("ganeti-lab"),
    "packages": Need(
        lambda: "PACKAGE_TEST" in os.environ, "built packages: make package-test", by_all=False
    ),
    # Ganeti's own programs, of Debian's packages ganeti and ganeti-htools
    "hail": _of_ganeti("hail", HAIL),
    "harep": _of_ganeti("harep"),
    "hbal": _of_ganeti("hbal"),
    "hroller": _of_ganeti("hroller"),
    "hspace": _of_ganeti("hspace"),
    "confd": _of_ganeti("confd", CONFD),
    "mond": _of_ganeti("mond", MOND),
    "ganeti": Need(_has_logical_units, "Debian's ganeti: its Python code"),
    "debian": Need(_is_in_the_matrix, "Debian 12 or 13", by_all=False),
    # other programs
    "ansible-playbook": _tool("ansible-playbook"),
    "chattr": _tool("chattr"),
    "chromium": Need(lambda: chromium() is not None, "chromium: sudo packaging/test-tools"),
    "curl": _tool("curl"),
    "gcc": _tool("gcc"),
    "openssl": _tool("openssl"),
    "prometheus": _tool("prometheus"),
    "prometheus-alertmanager": _tool("prometheus-alertmanager"),
    "promtool": _tool("promtool"),
    "systemd-analyze": _tool("systemd-analyze"),
    "systemd-socket-activate": _tool("systemd-socket-activate"),
    "vgcreate": Need(Path("/usr/sbin/vgcreate").exists, "vgcreate: sudo packaging/test-tools"),
    "python3": Need(
        lambda: shutil.which("python3", path=SYSTEM_PATH) is not None, "Debian's python3"
    ),
    # tools that switch nodes, and the devices that they switch
    "fence_apc_snmp": _device_tool("fence_apc_snmp"),
    "fence_ipmilan": _device_tool("fence_ipmilan"),
    "fence_redfish": _device_tool("fence_redfish"),
    "ipmi_sim": _device_tool("ipmi_sim"),
    "ipmitool": _device_tool("ipmitool"),
    "snmpd": _device_tool("snmpd"),
    "redfish-emulator": Need(EMULATOR.exists, "the Redfish emulator: make test-power"),
    # what the kernel and its file systems allow
    "acl": _kernel("a file system with access control lists"),
    "ext4-errors": _kernel("a kernel that can make an error of ext4"),
    "ext4-shutdown": Need(_is_tried, "a kernel that tells a shutdown of ext4", by_all=False),
    "inode-flags": _kernel("a file system with immutable files"),
    "loop": _kernel("loop devices"),
    "memory-controller": _kernel("the memory controller of control groups"),
    "mount": _kernel("permission to mount"),
    "overlay": _kernel("overlay file systems"),
    "pid-namespaces": _kernel("pid namespaces"),
    "pids-controller": _kernel("the pids controller of control groups"),
    "trusted-folder": _kernel("a home that only this user can write: sudo make test"),
    "version-1": _kernel("an openssl that makes certificates of version 1"),
    # the one or the other of two
    "no-plug-in": Need(_is_tried, "a machine without Nagios' plug-ins", by_all=False),
    "power-control": Need(_is_tried, "a cluster with an oob_program", by_all=False),
    "no-power-control": Need(_is_tried, "a cluster without an oob_program", by_all=False),
}
POWER_TOOLS = ("fence_apc_snmp", "fence_ipmilan", "fence_redfish", "ipmi_sim", "ipmitool", "snmpd")


def chromium() -> str | None:
    """Return the path of the browser, by either of its names."""
    return where("chromium") or where("chromium-browser")


def mark(*names: str) -> pytest.MarkDecorator:
    """Mark a test, a parameter or a module: all of these must be here."""
    for name in names:
        ALL[name]  # an unknown one fails here
    return pytest.mark.needs(*names)


@cache
def absent(name: str) -> str:
    """Return why a test that needs it cannot run here; "" if it can."""
    return "" if ALL[name].here() else f"needs {ALL[name].name}"


def missing(*names: str) -> str:
    """Return why one of these is absent; "" if all are here."""
    return next(filter(None, map(absent, names)), "")


def _wanted() -> list[str]:
    return re.findall(r"[^\s,]+", os.environ.get("NEEDS", ""))


def check() -> None:
    """Refuse a word in NEEDS that names nothing: it would want nothing."""
    for word in _wanted():
        if word not in ALL and word != "all":
            told = f"NEEDS={os.environ['NEEDS']}: {word} is not one of all, {', '.join(ALL)}"
            raise pytest.UsageError(told)


def is_wanted(name: str) -> bool:
    """Tell whether NEEDS says that it must be here."""
    words = _wanted()
    return name in words or ("all" in words and ALL[name].by_all)


def require(*names: str) -> None:
    """Skip the test that runs, or fail it where NEEDS wants what is absent."""
    for name in names:
        if why := absent(name):
            _end(name, why)


def lacking(name: str, why: str | None = None) -> NoReturn:
    """Skip or fail the test that runs: it has tried, and this machine lacks it."""
    _end(name, f"needs {ALL[name].name}" + (f" ({why})" if why else ""))


def _end(name: str, why: str) -> NoReturn:
    if is_wanted(name):
        pytest.fail(f"{why}; NEEDS={os.environ['NEEDS']} wants it here", pytrace=False)
    pytest.skip(why)


def module(name: str, *, least: tuple[int, ...] = ()) -> Any:
    """Import an optional library of the tests, of a version or later, or skip who imports it."""
    try:
        found = import_module(name)
    except ImportError as error:
        why = f"needs {name}: {error}"
    else:
        version = tuple(map(int, re.findall(r"\d+", getattr(found, "__version__", ""))))
        if version >= least:
            return found
        why = f"needs {name} {'.'.join(map(str, least))}: {found.__version__} is here"
    if "all" in _wanted():
        raise ImportError(why)
    pytest.skip(why, allow_module_level=True)


def collected(item: pytest.Item) -> None:
    """Skip a test at its own place, which pytest then names."""
    for name in _named(item):
        if (why := absent(name)) and not is_wanted(name):
            item.add_marker(pytest.mark.skip(reason=why))
            return


def begin(item: pytest.Item) -> None:
    """Fail a test whose need is wanted and absent; those to be skipped do not come here."""
    require(*_named(item))


def _named(item: pytest.Item) -> list[str]:
    return [name for marker in item.iter_markers("needs") for name in marker.args]


def main() -> None:
    """List what is here and what is not."""
    for name, need in ALL.items():
        state = "tried by the tests" if need.here is _is_tried else absent(name) or "here"
        print(f"{name:24}{state}")


if __name__ == "__main__":
    main()
