"""All routes by who asks and by whether the ledger is in doubt: the status of each answer."""

from tests.maintd.served import NOBODY, REMOTE, ROOT

# By kind of reader: its peer and its user.
READERS: dict[str, tuple[str, str | None]] = {
    "root": (ROOT, None),
    "socket": (NOBODY, None),
    "loopback": ("127.0.0.1", None),
    "writer": (REMOTE, "alice"),
    "reader": (REMOTE, "reader"),
    "owner": (REMOTE, "dbuser"),
    "local owner": ("::1", "dbuser"),
    "stranger": (REMOTE, None),
}
ALL = 200, True  # the status of an answer, and whether it may have secrets
LESS = 200, False
NO_NAME, NO_RIGHT = (401, False), (403, False)

OPEN = dict.fromkeys(READERS, LESS)
STATUS = {
    **dict.fromkeys(("root", "socket", "writer", "reader"), ALL),
    **dict.fromkeys(("loopback", "local owner"), LESS),
    "owner": NO_RIGHT,
    "stranger": NO_NAME,
}
PLANS = {**STATUS, "loopback": NO_NAME, "local owner": NO_RIGHT}
OWN = {  # offers: each owner its own
    **STATUS,
    "socket": NO_RIGHT,
    "loopback": NO_NAME,
    "owner": ALL,
    "local owner": ALL,
}
MESOS = {**OWN, "owner": LESS, "local owner": LESS}
WRITERS = {**PLANS, "socket": NO_RIGHT, "reader": NO_RIGHT}
ASKED = {
    **dict.fromkeys(READERS, (404, False)),
    "socket": NO_RIGHT,
    "loopback": NO_NAME,
    "stranger": NO_NAME,
}
ABSENT = {
    kind: (404, False) if status == 200 else (status, False) for kind, (status, _) in STATUS.items()
}
NUMBERS = {kind: (status, False) for kind, (status, _) in STATUS.items()}

# Statuses: all is well; another ledger may be the newest; this one waits for a person; no round.
ALWAYS = (200, 200, 200, 200)
STATE = (200, 200, 200, 503)
CERTAIN = (200, 503, 503, 503)
CHANGE = (None, 503, 503, 503)  # well: whatever the round says
KEPT = (None, None, None, 503)  # in tags, or over with the round

Readers = dict[str, tuple[int, bool]]
States = tuple[int | None, ...]
GET: dict[str, tuple[Readers, States]] = {
    "/": (OPEN, ALWAYS),
    "/1": (OPEN, ALWAYS),
    "/1/openapi.json": (OPEN, ALWAYS),
    "/healthz": (OPEN, ALWAYS),
    "/status": (STATUS, ALWAYS),
    "/status/<name>": (STATUS, ALWAYS),
    "/metrics": (NUMBERS, ALWAYS),
    "/1/history": (STATUS, ALWAYS),
    "/readyz": (OPEN, CERTAIN),
    "/1/status": (STATUS, STATE),
    "/1/jobs": (STATUS, STATE),
    "/1/evacuated": (STATUS, STATE),
    "/1/incidents/<uuid>": (STATUS, STATE),
    "/1/round": (STATUS, STATE),
    "/1/plan": (STATUS, STATE),
    "/1/held": (STATUS, STATE),
    "/1/needs-you": (STATUS, STATE),
    "/1/nodes": (STATUS, STATE),
    "/1/names": (STATUS, STATE),
    "/1/agents": (STATUS, STATE),
    "/1/autorepair": (STATUS, STATE),
    "/1/explain/<name>": (STATUS, STATE),
    "/1/observation": (WRITERS, STATE),
    "/1/ledger": (WRITERS, (200, 503, 503, 503)),
    "/1/notify": (STATUS, STATE),
    "/1/nodes/<name>/drill": (WRITERS, STATE),
    "/1/balance": (STATUS, CERTAIN),
    "/1/windows": (PLANS, CERTAIN),
    "/1/maintenance.ics": (PLANS, CERTAIN),
    "/1/offers": (OWN, CERTAIN),
    "/1/queue": (STATUS, CERTAIN),
    "/1/queue/sources": (STATUS, CERTAIN),
    "/1/queue/sources/variables": (ABSENT, CERTAIN),
    "/1/constraints": (STATUS, CERTAIN),
    "/1/wishes/<uuid>": (ASKED, (404, 503, 503, 404)),
    "/maintenance/schedule": (MESOS, CERTAIN),
    "/maintenance/status": (MESOS, CERTAIN),
    "/1/maintenance/schedule": (MESOS, CERTAIN),
    "/1/maintenance/status": (MESOS, CERTAIN),
}
