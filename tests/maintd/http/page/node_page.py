"""A node's page as people see it."""

from tests.maintd.http.page.rigs import Balanced, plain
from tests.maintd.served import Served


def page(one: Served, node: str) -> str:
    answer = one.ask("GET", f"/status/{node}")
    assert answer.status == 200
    text = answer.body.decode()
    assert Balanced(text)
    return text


def section(text: str, name: str) -> str:
    """The texts below a heading."""
    return " ".join(plain(text.partition(f"<h2>{name}</h2>")[2].partition("</section>")[0]).split())
