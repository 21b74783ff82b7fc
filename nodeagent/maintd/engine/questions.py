"""Questions to another node's agent about one that does not answer: sealed, and opened again.

`Sender` is how a master candidate asks or orders agents at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from nodeagent.errors import MessageError
from nodeagent.maintd.engine.helper_settings import PollSettings
from nodeagent.maintd.planning.node_keys import pins_of
from nodeagent.model.snapshot import Node, Snapshot
from nodeagent.model.units import Ms
from nodeagent.protocol.bounds import LIFE
from nodeagent.protocol.canonical import read
from nodeagent.protocol.envelope import Key, Purpose, open_outer
from nodeagent.protocol.messages import fingerprint, key_of
from nodeagent.protocol.node_key import check_signature
from nodeagent.protocol.signature import sign
from nodeagent.protocol.testimony import Words
from nodeagent.protocol.witness import (
    Question,
    has_promised,
    question_bytes,
    seal_question,
    words_of,
)

MOST = 1024 * 1024  # bytes of an answer


@dataclass(frozen=True, slots=True)
class Sender:
    """The members of `Orders` and of `Questions`.

    `certificate` is the content of its client.pem: key and certificate. `port` and `tls` are those
    of all agents, `now` is unix ms.
    """

    key: Key
    certificate: bytes
    port: int
    tls: bool
    now: Callable[[], Ms]

    @classmethod
    def by(cls, key: Key, certificate: bytes, poll: PollSettings, now: Callable[[], Ms]) -> Self:
        """Return one for the agents that these settings describe."""
        return cls(key, certificate, poll.port, poll.tls, now)


@dataclass(frozen=True, slots=True)
class Questions(Sender):
    """Asks in the name of this master candidate."""

    def sealed(
        self, witness: Node, target: str, cluster: str, *, claim: bool = False
    ) -> tuple[Question, bytes]:
        """Return a question for this witness, and the bytes to send."""
        now = self.now()
        question = Question(
            id=str(uuid4()),
            cluster=cluster,
            node=witness.uuid,
            name=witness.name,
            target=target,
            issued=now,
            expires=now + LIFE,
            claim=claim,
        )
        certificate, signature = sign(self.certificate, question_bytes(self.key, question))
        return question, seal_question(self.key, question, certificate, signature)

    def opened(self, raw: bytes, question: Question, snapshot: Snapshot) -> tuple[Words, bool]:
        """Return the words of a genuine answer, and whether it gives us the node's voice."""
        outer = read(raw, limit=MOST, depth=1)
        document = open_outer(self.key, Purpose.TESTIMONY, question.id, outer)
        signer = key_of(document)
        check_signature(signer, outer)
        if why := pins_of(snapshot).why_not(question.name, fingerprint(signer)):
            raise MessageError(why)
        return words_of(document, question), has_promised(document)
