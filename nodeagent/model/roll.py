"""Rolling maintenance: nodes leave service in turn, run a command, prove healthy, return. Pure."""

from dataclasses import dataclass, field, replace
from enum import Enum

from nodeagent.model.units import Ms
from nodeagent.model.window import Consent

MINUTE = Ms(60_000)
REBOOT = "reboot-node"  # a shipped command: only the machine's new start proves that it has run


@dataclass(frozen=True, slots=True)
class Hours:
    """Times of a week in which nodes may begin, on the clocks of `zone`.

    `weekdays` are 0 (Monday) to 6. `begin` and `end` are minutes of the day; an `end` that is not
    later is on the next day.
    """

    weekdays: tuple[int, ...]
    begin: int
    end: int
    zone: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The work of a roll at each node, and its limits.

    `command` is run by the node's own agent. At most `at_once` nodes are away. A node must have
    returned `return_within` (ms) after its command began, and the next one begins `pause_between`
    (ms) after that at the earliest. A node proves healthy by `quiet` ms of Ok, by success of the
    command `check`, if any, and by a new start of its machine if the command `reboots` it.
    `offline`: it is marked offline while it is away. `keep_secondaries`: only what runs there
    leaves. `blocked_by` are matchers: no node begins while an alert fires that matches all of them.
    `why` is for people. A node with owned instances leaves no earlier than `notice`
    after the roll's start, unless the owners accept; `consent` is the weight of their answers until
    the `deadline` after it (both ms).
    """

    command: str
    at_once: int = 1
    hours: Hours | None = None
    return_within: Ms = Ms(15 * MINUTE)
    pause_between: Ms = Ms(0)
    quiet: Ms = MINUTE
    check: str = ""
    reboots: bool = False
    offline: bool = False
    keep_secondaries: bool = False
    blocked_by: tuple[str, ...] = ()
    why: str = ""
    consent: Consent = field(default=Consent())
    notice: Ms = Ms(0)
    deadline: Ms = Ms(0)


class Phase(Enum):
    """The progress of a node in a roll; the words are shown.

    LEAVING: it is drained and emptied. RUNNING: its agent runs the command. RETURNING: it owes its
    proof, and goes back. FAILED: a step has failed, and the node waits for a person. SKIPPED: a
    person has left it out, or it is no longer in the cluster.
    """

    WAITING = "waiting"
    LEAVING = "leaving"
    RUNNING = "running"
    RETURNING = "returning"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """Tell whether nothing more happens at the node."""
        return self in (Phase.DONE, Phase.SKIPPED)

    @property
    def away(self) -> bool:
        """Tell whether the node counts as away."""
        return self in (Phase.LEAVING, Phase.RUNNING, Phase.RETURNING, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class RollNode:
    """A node in a roll: its UUID, and the name by which people know it. Times are unix ms.

    `since` is when its phase began, `left_at` when it began to leave. `begun` tells that work there
    has begun, `drained` that it was seen out of service since. `boot` is its machine's start before
    the command, `ran_at` when that was ordered. `tries` counts steps that are tried again,
    `not_before` is when to try again. `why` says why that is, or why the node failed, is late or
    was skipped.
    """

    node: str
    name: str
    phase: Phase = Phase.WAITING
    since: Ms = Ms(0)
    left_at: Ms = Ms(0)
    begun: bool = False
    drained: bool = False
    boot: str = ""
    ran_at: Ms = Ms(0)
    tries: int = 0
    not_before: Ms = Ms(0)
    why: str = ""

    @property
    def claims(self) -> bool:
        """Tell whether the roll wants the node out of service; one that returns is not wanted."""
        leaves = self.phase is Phase.LEAVING and self.begun
        return leaves or self.phase in (Phase.RUNNING, Phase.FAILED)

    @property
    def in_line(self) -> bool:
        """Tell whether nothing has been done there yet, so that it may still have to wait."""
        return self.phase is Phase.WAITING or (self.phase is Phase.LEAVING and not self.begun)

    @property
    def may_be_silent(self) -> bool:
        """Tell whether its agent may not answer: the command was ordered, and it is not late."""
        return self.phase in (Phase.RUNNING, Phase.RETURNING) and not self.late

    @property
    def late(self) -> bool:
        """Tell whether it should have returned by now."""
        return self.phase in (Phase.RUNNING, Phase.RETURNING) and self.why != ""

    def at(self, phase: Phase, now: Ms, why: str = "") -> "RollNode":
        """Return it in another phase, which begins now."""
        return replace(self, phase=phase, since=now, why=why, not_before=Ms(0))


@dataclass(frozen=True, slots=True)
class Roll:
    """A rolling maintenance that `who` asked for at `at` (unix ms), with its nodes in their order.

    `number` is never reused. `paused` names who lets no further node begin. `stopped` says why
    nothing begins until a person looks: a node has failed. `canceled` names who ended it: what has
    begun returns. `returned_at` is when the last node returned (unix ms), `over_at` when all were
    over.
    """

    number: int
    who: str
    at: Ms
    terms: Terms
    nodes: tuple[RollNode, ...] = field(default=())
    paused: str = ""
    stopped: str = ""
    canceled: str = ""
    returned_at: Ms = Ms(0)
    over_at: Ms = Ms(0)

    @property
    def over(self) -> bool:
        """Tell whether it has ended; it is shown until the next one."""
        return self.over_at > 0

    def member(self, node: str) -> RollNode | None:
        """Return a node of it, by its UUID."""
        return next((roll_node for roll_node in self.nodes if roll_node.node == node), None)

    def put(self, node: RollNode) -> "Roll":
        """Return the roll with this node in place of the same one."""
        nodes = tuple(
            node if roll_node.node == node.node else roll_node for roll_node in self.nodes
        )
        return replace(self, nodes=nodes)
