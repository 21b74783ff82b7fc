"""The question whether another node answers, and the testimony about it, on the wire. Pure.

The question is sealed and signed as an order is, and its salt is its id. The testimony is sealed
with the question's id as its salt, and signed with the witness's own key.
"""

from dataclasses import dataclass
from typing import Any

from nodeagent.errors import MessageError
from nodeagent.protocol.envelope import Key, Purpose, open_outer, seal
from nodeagent.protocol.messages import IDENTITY, VERSION, Fields
from nodeagent.protocol.order import Proof, bytes_of, proof_of, read_outer, with_proof
from nodeagent.protocol.testimony import Words


@dataclass(frozen=True, slots=True)
class Question:
    """The master's request that one node tries to reach another, `target`. Times are unix ms."""

    id: str
    cluster: str
    node: str
    name: str
    target: str
    issued: int
    expires: int

    def body(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"v": VERSION}

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
            issued=take.number("issued"),
            expires=take.number("expires"),
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


def body_of(question: Question, cluster: str, name: str, node: str, words: Words) -> dict[str, Any]:
    """Return the members to seal."""
    who = {"cluster": cluster, "name": name, "node": node, "target": question.target}
    return {**words.body(), **who, "v": VERSION}


def words_of(document: dict[str, Any], question: Question) -> Words:
    """Read the opened answer to our question, or raise MessageError."""
    take = Fields("testimony", document)
    for member in ("cluster", "name", "target"):
        if take.text(member) != getattr(question, member):
            raise MessageError(f"testimony.{member} is not the one asked for")
    if take.text("node") not in ("", question.node):
        raise MessageError("testimony.node is not the one asked for")
    return Words.from_body(document)
