"""Versions of Ganeti that are known, and why another is doubted. Pure."""

import re

KNOWN = ((3, 0), (3, 1))  # what the conformance suite has been seen to pass with


def doubt(said: str) -> str:
    """Why we may misunderstand a Ganeti of this version; empty where we know it."""
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})(?![0-9])", said, re.ASCII)
    if found is None:
        return "that is not a Ganeti version we can read"
    if (int(found[1]), int(found[2])) in KNOWN:
        return ""
    newest = ".".join(map(str, KNOWN[-1]))
    known = " and ".join(".".join(map(str, one)) for one in KNOWN)
    return f"it was never tried with us: we know {known}, and take it for {newest}"
