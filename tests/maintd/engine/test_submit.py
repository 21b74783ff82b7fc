"""Requests of jobs: what follows a job that is not there, or is decided long ago, is not sent."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from nodeagent.cluster.backend import Accepted, Answer, NotTaken, Submission
from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.errors import Unavailable
from nodeagent.maintd.engine.submit import Submitter
from nodeagent.model.action import MovePrimary, Retag, Scope
from nodeagent.model.incident import Status
from nodeagent.model.ledger import Intent, Ledger
from nodeagent.model.purpose import OfTags
from nodeagent.model.snapshot import Instance
from tests.maintd.rig import QUICK, Between, Rig, fleet
from tests.maintd.world import EVACUATE, seen, six


@dataclass
class Busy(Between):
    """Each job takes 6 s to arrive; the answer to the second request is lost."""

    rig: list[Rig] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def grace(self) -> float:
        return 300.0

    @property
    def at_once(self) -> int:
        return GanetiCluster(grace=self.grace).at_once

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        self.sizes.append(len(batch))
        if len(self.sizes) != 2:
            return self.cluster.submit(batch)
        now = self.rig[0].time
        self.cluster._late.extend((now + 6 * n, one) for n, one in enumerate(batch, 1))
        raise Unavailable("the connection is lost; luxid goes on")


def test_a_request_of_many_jobs_whose_answer_is_lost_is_not_repeated() -> None:
    """A node with 80 instances is emptied."""
    sizes: list[int] = []
    rigs: list[Rig] = []
    instances = [Instance(f"i{n:02}", "n3", None, "rbd", memory=10) for n in range(80)]
    policy = replace(QUICK, moves=80)
    rig = Rig(fleet(), instances, policy, through=lambda cluster: Busy(cluster, rigs, sizes))
    rigs.append(rig)
    rig.agents.says["n3"] = EVACUATE
    for _ in range(100):
        rig.tick(20)
    assert max(sizes) * 6 < 300
    moves = Counter(
        job.action.instance
        for job in rig.cluster.jobs.values()
        if isinstance(job.action, MovePrimary)
    )
    assert set(moves.values()) == {1}
    assert len(moves) == 80
    assert rig.status("n3") is Status.COMPLETED


FIRST = Intent("1", OfTags(), "n2", Retag(Scope.NODE, "n2", ("a",)))
NEXT = replace(FIRST, id="2", after="1", action=Retag(Scope.NODE, "n2", ("b",)))
OTHER = replace(FIRST, id="3", action=Retag(Scope.NODE, "n3", ("c",)))


class Desk:
    """A submitter, and Ganeti which answers each request as it is told to: a job a second."""

    grace, at_once = 30.0, 10

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.sent: list[list[tuple[str, str | None]]] = []
        self.seconds, self.master, self.acting = 0.0, True, True
        self.ledger = Ledger(intents=(FIRST, NEXT, OTHER))
        self.submitter = Submitter(
            cast(Any, self),
            cast(Any, self),
            cast(Any, self),
            lambda: self.ledger,
            self.remember,
            lambda: self.seconds,
            cast(Any, None),
        )

    async def confirm(self) -> None:
        if not self.master:
            raise Unavailable("no vote")

    def check(self) -> None:
        if not self.acting:
            raise Unavailable("it slept")

    def remember(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def submit(self, batch: Sequence[Submission]) -> Sequence[Answer]:
        tags = [one.action.add[0] for one in batch if isinstance(one.action, Retag)]
        self.sent.append([(tag, one.after) for tag, one in zip(tags, batch, strict=True)])
        self.seconds += 100.0 if (answer := self.answers.pop(0)) == "late" else 1.0
        if answer == "lost":
            raise Unavailable("no answer")
        taken = [Accepted(f"job {tag}") for tag in tags]
        return [NotTaken("full") for _ in tags] if answer == "full" else taken

    def begin(self, *intents: Intent) -> tuple[list[str | None], dict[str, str]]:
        """The jobs of all intents, and why others certainly have none."""
        asyncio.run(self.submitter.submit(list(intents), seen(six())))
        return [intent.job for intent in self.ledger.intents], self.submitter.not_taken


def test_what_follows_a_job_is_submitted_after_it() -> None:
    whys = {
        "full": "the job it follows was not submitted",
        "lost": "the answer to an earlier submission was lost",
        "late": "an earlier submission took too long",
    }
    one = Desk("", "")
    assert one.begin(FIRST, NEXT, OTHER) == (["job a", "job b", "job c"], {})
    assert one.sent == [[("a", None), ("c", None)], [("b", "job a")]]
    for answer, jobs, not_taken in (
        ("full", [None, None, None], {"1": "full", "3": "full", "2": whys["full"]}),
        ("lost", [None, None, None], {"2": whys["lost"]}),
        ("late", ["job a", None, "job c"], {"2": whys["late"]}),
    ):
        one = Desk(answer)
        assert one.begin(FIRST, NEXT, OTHER) == (jobs, not_taken), answer
        assert one.sent == [[("a", None), ("c", None)]], answer


def test_without_mastership_nothing_is_sent() -> None:
    one = Desk()
    one.master = False
    why = "it is unknown whether this is the master: no vote"
    assert one.begin(FIRST, OTHER) == ([None] * 3, {"1": why, "3": why})
    one = Desk()
    one.acting = False
    assert one.begin(FIRST, OTHER) == ([None] * 3, {"1": "it slept", "3": "it slept"})
    assert one.sent == []
