"""`kvm-inst-rss`: the resident memory of each KVM instance, in pages of 4 KiB."""

from contextlib import suppress
from typing import Any

import psutil

_PAGE = 4096


class KvmInstRss:
    """Finds instances by the `-name` that Ganeti gives their KVM processes."""

    name = "kvm-inst-rss"
    category: str | None = None

    def sample(self) -> Any:
        """`{"<instance>": pages}`."""
        pages: dict[str, int] = {}
        for pid in psutil.pids():
            if not _is_kvm(pid):
                continue
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if instance := _after(process.cmdline(), "-name"):
                    pages[instance] = process.memory_info().rss // _PAGE
        return pages


def _is_kvm(pid: int) -> bool:
    # psutil's Process costs five times this, for each of a node's thousand processes, and
    # the interpreter answers nobody meanwhile.
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read()
    except OSError:
        return False  # gone since it was listed
    return name.startswith(b"qemu-system") or name == b"kvm\n"


def _after(arguments: list[str], option: str) -> str:
    place = arguments.index(option) + 1 if option in arguments else len(arguments)
    value = arguments[place] if place < len(arguments) else ""
    return value.split(",")[0].removeprefix("guest=")
