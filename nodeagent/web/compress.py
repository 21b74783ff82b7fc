"""Compression of answers, for clients that ask for it. Pure.

BREACH reads a secret from the length of compressed answers that hold both the secret and a text of
the attacker's. So an answer is compressed only if it holds no secret: no password, no token, and
nothing that only some readers may see. An answer repeats nothing of a request.
"""

import gzip
import re
from dataclasses import replace

from nodeagent.web.exchange import Request, Response

_LEAST = 1024  # bytes; less is not worth it
_LEVEL = 3  # 4 MB take 25 ms; 6 takes twice as long and saves a tenth more
_NEVER = re.compile(r"q=0(\.0{0,3})?")


def wanted(request: Request) -> bool:
    """Tell whether the client reads gzip, and its answer may be compressed.

    A full answer to a user over the network is not compressed: it has nodes' texts beside owners'
    answers, which not everybody may see. At a unix socket nobody sees its length.
    """
    if request.full and not request.peer.startswith("uid:"):
        return False
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return not _NEVER.fullmatch(weight.strip())
    return False


def compressed(response: Response) -> Response:
    """Return the response by gzip if that is shorter; else unchanged. May take long."""
    if response.status != 200 or len(response.body) < _LEAST:
        return response
    body = gzip.compress(response.body, _LEVEL, mtime=0)
    headers = {**response.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return replace(response, body=body, headers=headers)
