"""Every reader of what others write."""

from tests.fuzz import of_ganeti, of_nodes, of_people

DECODERS = {one.name: one for one in (*of_nodes.DECODERS, *of_ganeti.DECODERS, *of_people.DECODERS)}
