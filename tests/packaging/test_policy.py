"""Guide and manual page of the policy, written from its declaration; RENEW=1 writes them."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from nodeagent.model.action import Scope
from nodeagent.model.policy import Policy
from nodeagent.model.setting import Setting, settings_of
from tests import golden

DOCS = Path(__file__).resolve().parents[2] / "docs"
SETTINGS = tuple(settings_of(Policy))
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
TYPES = {
    "ms": "duration",
    "ms_or_no": "duration or no",
    "flag": "true or false",
    "percent": "0 to 100",
    "decimal": "number",
    "command": "name",
}
ON = {Scope.CLUSTER: "cluster", Scope.GROUP: "group", Scope.NODE: "node"}


def test_the_guide_lists_every_setting() -> None:
    rows = [
        f"| `{one.key}` | {default(one)} | {ON[one.scope]} | {first(one.text)} |"
        for one in SETTINGS
    ]
    table = "\n".join(["| key | default | tags of | meaning |", "|---|---|---|---|", *rows])
    hold(DOCS / "maintaining.md", r"(?<=\n)\| key \| default \| tags of .*?(?=\n\n)", table)


def test_the_manual_page_explains_every_setting() -> None:
    chapter = "\n".join(
        [".SH [policy]", *head(), *(line for one in SETTINGS for line in entry(one))]
    )
    hold(DOCS / "man/maintd.toml.5", r"(?<=\n)\.SH \[policy\].*?(?=\n\.SH )", chapter)


def hold(page: Path, part: str, written: str) -> None:
    """Hold the part of a page that this expression finds against what it must be."""
    before = page.read_text()
    assert len(re.findall(part, before, re.DOTALL)) == 1
    golden.same(page, re.sub(part, lambda _: written, before, flags=re.DOTALL))


def default(setting: Setting) -> str:
    """Write the default as the settings' file has it."""
    value = getattr(Policy(), setting.name)
    match setting.how:
        case "ms" | "ms_or_no":
            unit = next(
                unit for unit, ms in UNITS.items() if value % ms == 0 and (value or ms == 1000)
            )
            return f"{value // UNITS[unit]}{unit}"
        case "flag":
            return "true" if value else "false"
        case "percent":
            return f"{value * 100:.0f}"
        case "word_or_no":
            return str(setting.limits["word"]) if value else "no"
        case _:
            return str(value) or "empty"


def kind(setting: Setting) -> str:
    """Say which values it takes."""
    match setting.how:
        case "count":
            return f"{setting.limits['least']} to {setting.limits['most']}"
        case "choice":
            *words, last = setting.limits["words"]
            return f"{', '.join(words)} or {last}"
        case "word_or_no":
            return f"{setting.limits['word']} or no"
        case how:
            return TYPES[how]


def first(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def head() -> Iterator[str]:
    yield "Each of these may also be a tag of the cluster,"
    yield ".BI maintd: KEY : VALUE"
    yield "(yes or no for true and false), which overrides the file."
    for scope, where in ((Scope.NODE, "of a group or a node"), (Scope.GROUP, "of a group")):
        *keys, last = [f"`{one.key}`" for one in SETTINGS if one.scope is scope]
        yield from roff(f"{', '.join(keys)} and {last} may also be tags {where}.")
    yield from roff("The nearest tag counts. A wrong or misplaced tag stops new work in its place.")


def entry(setting: Setting) -> Iterator[str]:
    yield ".TP"
    yield f'.BR {escaped(setting.key)} " ({kind(setting)}, {default(setting)})"'
    yield from roff(setting.text)


def roff(text: str) -> Iterator[str]:
    """Write a sentence a line; what stands in backticks is bold."""
    for sentence in re.split(r"(?<=\.) ", text):
        for line in textwrap.wrap(sentence, 96, break_long_words=False, break_on_hyphens=False):
            yield re.sub("`([^`]*)`", lambda word: rf"\fB{escaped(word[1])}\fP", line)


def escaped(word: str) -> str:
    return word.replace("-", r"\-")
