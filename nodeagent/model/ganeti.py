"""Known versions of Ganeti, and the reason to doubt another. Pure."""

import re

KNOWN = ((3, 0), (3, 1))  # the conformance suite passes with these


def doubt(said: str) -> str:
    """Say why maintd may misunderstand this version of Ganeti; "" for a known one."""
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})(?![0-9])", said, re.ASCII)
    if found is None:
        return "that is not a Ganeti version we can read"
    if (int(found[1]), int(found[2])) in KNOWN:
        return ""
    newest = ".".join(map(str, KNOWN[-1]))
    known = " and ".join(".".join(map(str, one)) for one in KNOWN)
    return f"it was never tried with us: we know {known}, and take it for {newest}"
