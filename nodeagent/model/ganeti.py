"""Ganeti: its folder, its known versions, and the reason to doubt another. Pure."""

import re

GANETI_FOLDER = "/var/lib/ganeti"  # its own files, on each node
KNOWN = ((3, 0), (3, 1))  # the conformance suite passes with these


def doubt(version: str) -> str:
    """Say why maintd may misunderstand this version of Ganeti; "" for a known one."""
    match = re.match(r"([0-9]{1,9})\.([0-9]{1,9})(?![0-9])", version, re.ASCII)
    if match is None:
        return "that is not a Ganeti version we can read"
    if (int(match[1]), int(match[2])) in KNOWN:
        return ""
    newest = ".".join(map(str, KNOWN[-1]))
    known = " and ".join(".".join(map(str, numbers)) for numbers in KNOWN)
    return f"it was never tried with us: we know {known}, and take it for {newest}"
