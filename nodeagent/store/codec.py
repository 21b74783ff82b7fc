"""The ledger as JSON and back; a reader from the future is refused, never guessed at. Pure."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nodeagent.errors import Corrupt, MessageError
from nodeagent.model.action import (
    Action,
    AddTag,
    Drain,
    MovePrimary,
    MoveSecondary,
    RunCommand,
    SetOffline,
)
from nodeagent.model.incident import Incident, Status
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.protocol.canonical import canonical, read_text
from nodeagent.protocol.messages import believe_diagnosis

VERSION = 1
_ACTIONS: Mapping[str, type[Action]] = {
    kind.__name__: kind
    for kind in (Drain, MovePrimary, MoveSecondary, SetOffline, RunCommand, AddTag)
}


def encode(ledger: Ledger) -> str:
    """One canonical text for one ledger."""
    return canonical(
        {
            "v": VERSION,
            "round": ledger.round,
            "incidents": [_incident_out(incident) for incident in ledger.incidents],
            "intents": [
                {
                    "id": intent.id,
                    "incident": intent.incident,
                    "node": intent.node,
                    "job": intent.job,
                    "kind": type(intent.action).__name__,
                    "action": asdict(intent.action),
                }
                for intent in ledger.intents
            ],
        }
    )


def decode(text: str) -> Ledger:
    """Read a ledger back, or raise Corrupt."""
    try:
        document = read_text(text)
        if document["v"] != VERSION:
            raise Corrupt(f"ledger of version {document['v']}; we read {VERSION}")
        return Ledger(
            round=document["round"],
            incidents=tuple(_incident_in(row) for row in document["incidents"]),
            intents=tuple(_intent_in(row) for row in document["intents"]),
        )
    except (LookupError, TypeError, ValueError, MessageError) as error:
        raise Corrupt(f"ledger cannot be read: {error!r}") from None


def _incident_out(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "node": incident.node,
        "diagnosis": incident.diagnosis.text,
        "noted_at": incident.noted_at,
        "status": incident.status.value,
        "jobs": list(incident.jobs),
        "repaired": incident.repaired,
        "tag_seen": incident.tag_seen,
    }


def _incident_in(row: dict[str, Any]) -> Incident:
    return Incident(
        id=row["id"],
        node=row["node"],
        diagnosis=believe_diagnosis(row["diagnosis"]),
        noted_at=row["noted_at"],
        status=Status(row["status"]),
        jobs=tuple(row["jobs"]),
        repaired=row["repaired"],
        tag_seen=row["tag_seen"],
    )


def _intent_in(row: dict[str, Any]) -> Intent:
    action = _ACTIONS[row["kind"]](**row["action"])
    return Intent(row["id"], row["incident"], row["node"], action, row["job"])
