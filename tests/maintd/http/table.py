"""All routes by who asks and by whether the ledger is in doubt: the status of each answer."""

from typing import Any

from nodeagent.model.ledger import Ledger
from nodeagent.model.units import Ms
from nodeagent.store.carried import Carried, pack
from tests.maintd.rig import Rig, fleet
from tests.maintd.served import MEMBER, NOBODY, REMOTE, ROOT

NO_WISH = "6f3b1d5e-0002-8000-8000-00000000abcd"

# By kind of reader: its peer and its user.
READERS: dict[str, tuple[str, str | None]] = {
    "root": (ROOT, None),
    "socket": (NOBODY, None),
    "loopback": ("127.0.0.1", None),
    "writer": (REMOTE, "alice"),
    "reader": (REMOTE, "reader"),
    "operator": (REMOTE, "operator"),
    "planner": (REMOTE, "planner"),
    "group": (MEMBER, None),  # of operators, at the admin socket
    "owner": (REMOTE, "dbuser"),
    "local owner": ("::1", "dbuser"),
    "stranger": (REMOTE, None),
}
ALL = 200, True  # the status of an answer, and whether it may have secrets
LESS = 200, False
NO_NAME, NO_RIGHT = (401, False), (403, False)

OPEN = dict.fromkeys(READERS, LESS)
STATUS = {
    **dict.fromkeys(("root", "socket", "writer", "reader", "operator", "planner", "group"), ALL),
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
WRITERS = {**PLANS, **dict.fromkeys(("socket", "reader", "operator", "planner", "group"), NO_RIGHT)}
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
    "/1/commands": (STATUS, STATE),
    "/1/stage": (STATUS, STATE),
    "/1/nodes/<name>/commands": (STATUS, STATE),
    "/1/autorepair": (STATUS, STATE),
    "/1/explain/<name>": (STATUS, STATE),
    "/1/observation": (WRITERS, STATE),
    "/1/ledger": (WRITERS, (200, 503, 503, 503)),
    "/1/notify": (STATUS, STATE),
    "/1/nodes/<name>/drill": (WRITERS, STATE),
    "/1/balance": (STATUS, CERTAIN),
    "/1/capacity": (STATUS, STATE),
    "/1/windows": (PLANS, CERTAIN),
    "/1/roll": (STATUS, CERTAIN),
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

ENTRY = {"operation": "unreachable", "machine_type": "r640", "address": "10.9.9.9"}
SERIES = {"machines": ["n5"], "weekly": "sat 02:00", "zone": "Europe/Zurich", "duration": 3600}
OFFER = {
    "type": "ACCEPT_INVERSE_OFFERS",
    "accept_inverse_offers": {"inverse_offer_ids": [{"value": NO_WISH}]},
}
MACHINES = [{"hostname": "n4"}]
KEY = "ab" * 32
RULE = Rig(fleet(), []).cluster.ledger_rule_uuid()
EXPORTED = Carried(1, "", Ms(0), Ledger(), rule_uuid=RULE)

# Who may make a change: the status of a refusal, by reader; None: the change is considered.
WRITES: dict[str, int | None] = {
    **dict.fromkeys(("root", "writer")),
    **dict.fromkeys(
        ("socket", "reader", "operator", "planner", "group", "owner", "local owner"), 403
    ),
    **dict.fromkeys(("loopback", "stranger"), 401),
}
OPERATES: dict[str, int | None] = {**WRITES, "operator": None, "group": None}
PLANS_WORK: dict[str, int | None] = {**WRITES, "planner": None}
STOPS: dict[str, int | None] = {**OPERATES, "planner": None}
ANSWERS = {**WRITES, "owner": None, "local owner": None}  # owners answer their offers
MACHINES_FIRST = {
    **PLANS_WORK,
    "reader": 400,
    "operator": 400,
    "group": 400,
}  # as Mesos: first what is wrong with the machines

# By method and path: who may, the statuses, and a body.
CHANGES: dict[tuple[str, str], tuple[dict[str, int | None], States, Any]] = {
    ("DELETE", "/1/incidents/<uuid>"): (OPERATES, KEPT, None),
    ("POST", "/1/incidents/<uuid>/retry"): (OPERATES, CHANGE, None),
    ("POST", "/1/nodes/<name>/done"): (OPERATES, CHANGE, None),
    ("POST", "/1/nodes/<name>/evacuate"): (OPERATES, CHANGE, {"why": "new disks"}),
    ("POST", "/1/nodes/<name>/fenced"): (WRITES, CHANGE, {"pulled-the-plug": "yes"}),
    ("POST", "/1/nodes/<name>/drill"): (WRITES, CHANGE, {"really": "yes"}),
    ("POST", "/1/agents/<name>/trust"): (WRITES, KEPT, {"key": KEY}),
    ("POST", "/1/pause"): (STOPS, KEPT, {"scope": "cluster"}),
    ("POST", "/1/resume"): (OPERATES, KEPT, {"scope": "cluster"}),
    ("POST", "/1/storm/reset"): (WRITES, CHANGE, None),
    ("POST", "/1/ledger"): (WRITES, CHANGE, {"rule": pack(EXPORTED)}),
    ("POST", "/1/ledger/resume"): (WRITES, KEPT, None),
    ("POST", "/1/balance"): (WRITES, CHANGE, {"group": "default"}),
    ("POST", "/1/balance/stop"): (STOPS, CHANGE, {"group": "default"}),
    ("POST", "/1/roll"): (PLANS_WORK, CHANGE, {"command": "reboot-node", "nodes": ["n4"]}),
    ("POST", "/1/roll/pause"): (STOPS, CHANGE, None),
    ("POST", "/1/roll/resume"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/roll/cancel"): (STOPS, CHANGE, None),
    ("POST", "/1/roll/nodes/<name>/skip"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/roll/nodes/<name>/retry"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/series"): (PLANS_WORK, CHANGE, SERIES),
    ("POST", "/1/series/<name>"): (PLANS_WORK, CHANGE, {"times": 5}),
    ("DELETE", "/1/series/<name>"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/offers"): (ANSWERS, CHANGE, OFFER),
    ("POST", "/1/queue"): (PLANS_WORK, CHANGE, ENTRY),
    ("POST", "/1/queue/delete"): (PLANS_WORK, CHANGE, {"index": "0"}),
    ("POST", "/1/queue/enable"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/queue/disable"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/queue/reset-backoff"): (PLANS_WORK, CHANGE, None),
    ("POST", "/1/queue/sources/enable"): (WRITES, CHANGE, None),
    ("POST", "/1/queue/sources/disable"): (WRITES, CHANGE, None),
    ("POST", "/1/queue/sources/variables"): (
        WRITES,
        CHANGE,
        {"having": {"states": ["UNREACHABLE"]}},
    ),
    ("POST", "/1/constraints"): (
        WRITES,
        CHANGE,
        {"name": "maximum-repair-queue-entries", "value": "5"},
    ),
    ("POST", "/1/notify/test"): (WRITES, KEPT, {}),
    ("POST", "/maintenance/schedule"): (PLANS_WORK, CHANGE, {}),
    ("POST", "/machine/down"): (MACHINES_FIRST, CHANGE, MACHINES),
    ("POST", "/machine/up"): (MACHINES_FIRST, CHANGE, MACHINES),
    ("POST", "/1/maintenance/schedule"): (PLANS_WORK, CHANGE, {}),
    ("POST", "/1/machine/down"): (MACHINES_FIRST, CHANGE, MACHINES),
    ("POST", "/1/machine/up"): (MACHINES_FIRST, CHANGE, MACHINES),
}
