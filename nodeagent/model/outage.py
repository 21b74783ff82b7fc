"""Nodes that are out of service, and their ways back. Pure."""

from dataclasses import dataclass
from enum import Enum

from nodeagent.model.units import Ms
from nodeagent.model.window import Standing

STALE = "stale-instances"  # a shipped command: what runs here although it runs elsewhere


class Proof(Enum):
    """The proof of health that a node owes before it takes instances again.

    NONE: a person wants it back as it is. NOW: its agent says Ok. LASTING: its agent has said Ok
    for `return-after` without a break, and `return-check` has succeeded there.
    """

    NONE = "none"
    NOW = "now"
    LASTING = "lasting"


@dataclass(frozen=True, slots=True)
class Back:
    """The way of a node to the state `to`. Times are unix ms.

    `cause` says why, in words, or `who` has reported the node repaired, at `at`. `only_ours` undoes
    only what our own jobs did, and only if the job queue shows that nobody else has changed the
    node since. `online` tells that we poll it, `well` since when it has said Ok without a break (0:
    it does not), `checked` that the check command has succeeded meanwhile. `fenced` tells that it
    was fenced, and that the check for stale instances has not succeeded yet. `tries` counts the
    failures of a job; `not_before` is when to try the next, `failure` why it failed.
    """

    at: Ms
    to: Standing = Standing.SERVING
    proof: Proof = Proof.LASTING
    cause: str = ""
    who: str = ""
    only_ours: bool = False
    online: bool = False
    well: Ms = Ms(0)
    checked: bool = False
    fenced: bool = False
    tries: int = 0
    not_before: Ms = Ms(0)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """A node (its UUID) that our own jobs took out of service, or that is on its way `back`.

    `incident` is the one that keeps it out, or did last; empty if our jobs did not change the node.
    `drained_by` is the job that drained it; `offline` tells that we took it offline after that.
    `ended` tells that the incident was completed or failed; closing it accepts that. `why` says why
    maintd does not put it back by itself.
    """

    node: str
    incident: str = ""
    drained_by: str = ""
    offline: bool = False
    ended: bool = False
    why: str = ""
    back: Back | None = None

    @property
    def ours(self) -> bool:
        """Tell whether our own jobs took the node out of service."""
        return self.incident != ""
