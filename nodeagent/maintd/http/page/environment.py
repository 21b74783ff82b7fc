"""The templates of all pages, with our style, our script, and the policy that lets in no other."""

import base64
import hashlib
import os
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nodeagent.maintd.http.page import text
from nodeagent.model.event_kinds import word_of

_FOLDER = os.path.join(os.path.dirname(__file__), "templates")
_REFRESH = 30  # seconds


@cache
def templates() -> tuple[Environment, str]:
    """Return the templates, compiled once in a process, and their Content-Security-Policy."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=text.clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hashes = {}
    for name in ("status.css", "page.js"):
        with open(os.path.join(_FOLDER, name)) as file:
            inside = file.read()
        environment.globals[name.partition(".")[2]] = Markup(inside)  # noqa: S704 our own file
        hashes[name] = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    # All before a template is loaded: each keeps those that are there then.
    environment.globals |= {"refresh": _REFRESH, "href": text.href}
    environment.filters |= {"when": text.when, "iso": text.iso, "whole": text.whole}
    environment.filters |= {"ago": text.ago, "event_word": word_of, "unbroken": text.unbroken}
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['page.js']}'; connect-src 'self';"
        f" style-src 'sha256-{hashes['status.css']}'; img-src data:;"
        " base-uri 'none'; form-action 'self'"
    )
    return environment, policy
