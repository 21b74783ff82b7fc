"""The question whether another node answers, and the testimony about it, on the wire. Pure.

The question is sealed and signed as an order is, and its salt is its id. The testimony is sealed
with the question's id as its salt, and signed with the witness's own key. A question may also claim
the witness's voice for its signer, who would succeed the target as the master.
"""

from dataclasses import dataclass
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.model.units import Ms
from nodeagent.protocol.envelope import Key, Purpose, open_outer, seal
from nodeagent.protocol.messages import IDENTITY, VERSION, Fields
from nodeagent.protocol.order import Proof, bytes_of, proof_of, read_outer, with_proof
from nodeagent.protocol.testimony import Words


@dataclass(frozen=True, slots=True)
class Question:
    """The master's request that one node tries to reach another, `target`. Times are unix ms.

    With `claim` the signer asks for the node's voice, too: `target` is the master, and is silent.
    """

    id: str
    cluster: str
    node: str
    name: str
    target: str
    issued: Ms
    expires: Ms
    claim: bool = False

    def body(self) -> dict[str, Any]:
        """Return the members to seal; an agent before this knows no claim."""
        body = {name: getattr(self, name) for name in self.__slots__} | {"v": VERSION}
        return body if self.claim else {k: v for k, v in body.items() if k != "claim"}

    @classmethod
    def from_body(cls, document: dict[str, Any]) -> "Question":
        """Read an opened message, or raise MessageError naming the wrong member."""
        take = Fields("question", document)
        return cls(
            id=take.matching("id", IDENTITY),
            cluster=take.text("cluster"),
            node=take.text("node"),
            name=take.text("name"),
            target=take.text("target"),
            issued=Ms(take.number("issued")),
            expires=Ms(take.number("expires")),
            claim="claim" in document and take.flag("claim"),
        )


def question_bytes(key: Key, question: Question) -> bytes:
    """The bytes the master candidate's key signs."""
    return bytes_of(seal(key, Purpose.WITNESS, question.id, question.body()))


def seal_question(key: Key, question: Question, certificate: str, signature: bytes) -> bytes:
    """Compose the master's message. `signature` is over `question_bytes`."""
    sealed = seal(key, Purpose.WITNESS, question.id, question.body())
    return with_proof(sealed, certificate, signature)


def open_question(key: Key, raw: bytes) -> tuple[Question, Proof]:
    """Check the cluster's seal and read the question, or raise MessageError."""
    outer = read_outer(raw)
    question = Question.from_body(open_outer(key, Purpose.WITNESS, outer["salt"], outer))
    if question.id != outer["salt"]:
        raise MessageError("the salt of a question is its id")
    return question, proof_of(outer)


def body_of(
    question: Question, cluster: str, name: str, node: str, words: Words, *, promised: bool = False
) -> dict[str, Any]:
    """Return the members to seal. With `promised` the question's signer has this node's voice."""
    who = {"cluster": cluster, "name": name, "node": node, "target": question.target}
    voice = {"promised": True} if promised else {}
    return {**words.body(), **who, **voice, "v": VERSION}


def words_of(document: dict[str, Any], question: Question) -> Words:
    """Read the opened answer to our question, or raise MessageError."""
    take = Fields("testimony", document)
    for member in ("cluster", "name", "target"):
        if take.text(member) != getattr(question, member):
            raise MessageError(f"testimony.{member} is not the one asked for")
    if take.text("node") not in ("", question.node):
        raise MessageError("testimony.node is not the one asked for")
    return Words.from_body(document)


def has_promised(document: dict[str, Any]) -> bool:
    """Tell whether an opened answer gives us the witness's voice."""
    return document.get("promised") is True
