"""Parts of a copy, written whole as they stand on an agent's disk."""

from nodeagent.model.copies import Part
from nodeagent.protocol.parts import Header, head_of, tail_of


def write_part(part: Part) -> bytes:
    header = Header.of(part)
    head = head_of(header)
    return head + part.body + tail_of(head, header)
