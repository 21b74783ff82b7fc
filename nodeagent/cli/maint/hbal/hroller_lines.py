"""Groups of nodes in hroller's words: the lines it prints. Pure.

Tests compare all of it with the real hroller 3.0.2 and 3.1, byte for byte.
"""

from collections.abc import Iterator, Mapping

from nodeagent.placement.cluster.cluster import Cluster
from nodeagent.placement.evacuate.colouring import Colours, Graph
from nodeagent.placement.evacuate.rolling import Batch, Rolling

# From so many `-v` on (hroller begins with one of its own) it prints more.
WAYS, GRAPH = 2, 3


def lines(
    cluster: Cluster,
    found: Rolling,
    verbosity: int = 1,
    *,
    header: bool = True,
    first: bool = False,
    moves: bool = False,
) -> Iterator[str]:
    """Yield a group a line, or of the `first` one a node a line; `moves` shows its moves."""
    if verbosity >= GRAPH:
        yield f"Node Graph: {_array(found.graph)}"
    if verbosity >= WAYS:
        yield _compared(found.coloured)
    if header:
        yield "'First Reboot Group'" if first else "'Node Reboot Groups'"
    for batch in found.batches[:1] if first else found.batches:
        names = [cluster.nodes[index].name for index in batch.nodes]
        yield from names if first else [",".join(names)]
        if moves:
            yield from _moves(cluster, batch)


def _moves(cluster: Cluster, batch: Batch) -> Iterator[str]:
    for instance, target in batch.relocations:
        yield f"  {cluster.instances[instance].name} {cluster.nodes[target].name}"


def _array(graph: Graph) -> str:
    """Write an array of lists as hroller's language does."""
    rows = ",".join(f"({one},[{','.join(map(str, graph[one]))}])" for one in graph)
    return f"array ({min(graph)},{max(graph)}) [{rows}]"


def _compared(coloured: Mapping[str, Colours]) -> str:
    """Compare how many colours each way needs, and for how many nodes; the best comes first."""
    text, last = "", 0
    backwards = list(coloured.items())[::-1]
    for name, classes in sorted(backwards, key=lambda each: len(each[1])):
        if text:
            text += " TIE " if len(classes) == last else " LOOSE "
        last = len(classes)
        text += f"{name}: {last} ({','.join(str(len(one)) for one in classes)})"
    return text
