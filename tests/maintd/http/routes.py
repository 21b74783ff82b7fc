"""The description of all routes, and how an answer is held to it."""

import json
from pathlib import Path
from typing import Any

import jsonschema

from nodeagent.maintd.http import routes
from nodeagent.web.exchange import Response
from tests.maintd.served import Served

DOCUMENT: dict[str, Any] = json.loads(Path(routes.__file__).with_name("openapi.json").read_text())


def described() -> list[tuple[str, str]]:
    """Each path with each of its methods."""
    paths = DOCUMENT["paths"].items()
    return [(path, method) for path, item in paths for method in item if method != "parameters"]


def there(served: Served) -> list[tuple[str, str]]:
    """The routes that there are, written as the description writes them."""
    rows = served.api.table
    return [
        ("/" + "/".join(row.segments).replace("<", "{").replace(">", "}"), row.method.lower())
        for row in rows
    ]


def held_to(path: str, method: str, answer: Response) -> None:
    """Hold an answer against what the description says of it."""
    item = DOCUMENT["paths"][path][method]["responses"][str(answer.status)]
    kind = answer.kind.partition(";")[0]
    schema = item["content"][kind]["schema"]
    if kind == "application/json":
        root = {**schema, "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(root).validate(json.loads(answer.body))
