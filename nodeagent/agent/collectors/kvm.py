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
        found: dict[str, int] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                name = process.name()
                if name.startswith("qemu-system") or name == "kvm":
                    instance = _after(process.cmdline(), "-name")
                    if instance:
                        found[instance] = process.memory_info().rss // _PAGE
        return found


def _after(arguments: list[str], option: str) -> str:
    place = arguments.index(option) + 1 if option in arguments else len(arguments)
    value = arguments[place] if place < len(arguments) else ""
    return value.split(",")[0].removeprefix("guest=")
