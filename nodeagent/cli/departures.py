"""Read maintd's file of the nodes that leave soon, for the allocator and for planning commands."""

import json
import os
import stat
from collections.abc import Mapping

from nodeagent.clocks import unix_ms
from nodeagent.errors import MessageError
from nodeagent.model.departure import Departure
from nodeagent.placement.cluster.leaving import MOST, read_leaving


def leaving_in(path: str) -> Mapping[str, Departure]:
    """Read the nodes that leave soon; none without the file. MessageError: it is wrong.

    Root reads what maintd, a common user, has written: a regular file of a limited size.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return {}  # maintd does not run here
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise MessageError("is not a regular file")
        contents = stream.read(MOST + 1)
    if len(contents) > MOST:
        raise MessageError(f"has more than {MOST} bytes")
    try:
        document = json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise MessageError("is not JSON") from error
    return read_leaving(document, unix_ms())
