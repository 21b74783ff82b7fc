"""Ask Ganeti beside the rounds whether noded answers on nodes whose agent does not.

A dead node may delay the answer by many seconds, so a thread waits for it, not a round.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping

from nodeagent.background import Background, Start
from nodeagent.cluster.backend import Cluster
from nodeagent.errors import NodeAgentError
from nodeagent.model.snapshot import Snapshot

log = logging.getLogger(__name__)
AGAIN = 300.0  # seconds between questions to a node: as often as Ganeti's watcher asks it
AT_ONCE = 15  # nodes of one question: luxid waits for their answers at the same time


class Noded:
    """Remember by node name whether noded answered; ask only about the given nodes.

    A node counts as not answering only if another one has answered the same question.
    """

    def __init__(
        self,
        cluster: Cluster,
        steady: Callable[[], float] = time.monotonic,
        start: Start | None = None,
    ) -> None:
        self._cluster = cluster
        self._steady = steady
        self._asked: dict[str, float] = {}
        self._answers: dict[str, bool] = {}
        self._background = Background("noded", start)

    def answers(self) -> Mapping[str, bool]:
        return dict(self._answers)

    def age(self, name: str) -> float:
        """The seconds since the question about this node."""
        return self._steady() - self._asked.get(name, -AGAIN)

    def ask(self, snapshot: Snapshot, names: Collection[str]) -> None:
        """Ask about some of these nodes, if that is due; drop all others.

        Ganeti never asks an offline node, so its silence would be nobody's answer.
        """
        if self._background.busy:
            return
        now, nodes = self._steady(), snapshot.nodes
        asked = [n for n in names if nodes[n].vm_capable and not nodes[n].offline]
        for name in self._asked.keys() - set(asked):
            del self._asked[name]
            self._answers.pop(name, None)
        due = [n for n in asked if now - self._asked.get(n, -AGAIN) >= AGAIN]
        due.sort(key=lambda name: self._asked.get(name, -AGAIN))
        others = [n.name for n in nodes.values() if n.in_service and n.name not in names]
        witness = snapshot.master if snapshot.master in others else next(iter(others), None)
        if not due or witness is None:
            return
        chosen = due[:AT_ONCE]
        self._asked |= dict.fromkeys(chosen, now)
        if why := self._background.begin(lambda: self._ask(chosen, witness)):
            log.warning("noded-unknown why=%r", why)

    def _ask(self, chosen: Collection[str], witness: str) -> None:
        """Ask noded on these nodes: if any node answers, the others do not.

        If Ganeti tells nothing, an older answer is no evidence either.
        """
        answering: dict[str, bool] = {}
        try:
            answered = self._cluster.answering([*chosen, witness])
            answering = {name: name in answered for name in chosen if answered}
        except NodeAgentError as error:
            log.warning("noded-unknown why=%r", str(error))
        except Exception:  # a bug must not end the thread unseen; this is only evidence
            log.exception("noded-unknown")
        finally:
            self._answers = {
                n: yes for n, yes in self._answers.items() if n not in chosen
            } | answering
