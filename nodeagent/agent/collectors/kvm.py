"""`kvm-inst-rss`: the resident memory of each KVM instance, in pages of 4 KiB."""

import os
from contextlib import suppress
from typing import Any

_FACTOR = os.sysconf("SC_PAGE_SIZE") // 4096


class KvmInstRss:
    """Finds instances by the `-name` that Ganeti gives their KVM processes."""

    name = "kvm-inst-rss"
    category: str | None = None

    def sample(self) -> Any:
        """`{"<instance>": pages}`."""
        pages: dict[str, int] = {}
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):  # it is gone since it was listed
                if not _is_kvm(_read(pid, "comm")):
                    continue
                if instance := _after(_read(pid, "cmdline").split("\0"), "-name"):
                    resident = _read(pid, "statm").split()[1]
                    pages[instance] = int(resident) * _FACTOR
        return pages


def _is_kvm(name: str) -> bool:
    return name.startswith("qemu-system") or name == "kvm\n"


def _read(pid: str, file: str) -> str:
    with open(f"/proc/{pid}/{file}", "rb") as opened:
        return os.fsdecode(opened.read())


def _after(arguments: list[str], option: str) -> str:
    place = arguments.index(option) + 1 if option in arguments else len(arguments)
    value = arguments[place] if place < len(arguments) else ""
    return value.split(",")[0].removeprefix("guest=")
