"""The page of all clusters: one file that needs no server of ours, for a wall screen or a look."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from nodeagent.cli.maint.console.files import read, save
from nodeagent.cli.maint.console.screen import Json
from nodeagent.maintd.http.page.environment import templates

_MOST = 64 * 1024 * 1024  # bytes of an earlier page
_LASTS = 300  # seconds for which the page believes what it shows
_KINDS = {
    "OK": ("well", ""),
    "WARNING": ("sick", "warn"),
    "UNKNOWN": ("doubt", "warn"),
    "CRITICAL": ("failed", "bad"),
    "UNREACHABLE": ("failed", "bad"),
}  # by state: the classes of its badge and of its tile
_KNOWN = re.compile(r'<li id="cluster-([A-Za-z0-9._-]+)" data-known="([0-9]{1,11})"')


def write(file: str, clusters: Sequence[Json], links: Mapping[str, str], at: float) -> None:
    """Replace the file by a page of these clusters, at once and as the umask has it; Refused.

    The earlier page tells when the state of a cluster was last known.
    """
    before = read(file, _MOST).decode(errors="replace") if os.path.exists(file) else ""
    save(file, draw(clusters, links, at, last_known(before)).encode())


def last_known(page: str) -> dict[str, int]:
    """Return when the state of each cluster was last known, in unix seconds, by such a page."""
    return {name: int(at) for name, at in _KNOWN.findall(page)}


def draw(
    clusters: Sequence[Json], links: Mapping[str, str], at: float, known: Mapping[str, int]
) -> str:
    """Return the page: `clusters` as `gnt-maint clusters --json` has it, in the order of the page.

    `links` has the pages of the clusters' own maintds by name, `at` and `known` are unix seconds.
    """
    environment, policy = templates()
    rows = [_row(cluster, links.get(cluster["name"], ""), at, known) for cluster in clusters]
    counts = Counter(cluster["state"] for cluster in clusters)
    words = {
        "policy": Markup(policy),  # noqa: S704 our own text
        "rows": rows,
        "tiles": [(count, state, _KINDS[state][1]) for state, count in counts.items()],
        "first": {cluster["state"]: cluster["name"] for cluster in reversed(clusters)},
        "wrong": len(clusters) - counts["OK"],
        "at": at,
        "lasts": _LASTS,
    }
    return environment.get_template("clusters.html").render(words)


def _row(cluster: Json, link: str, at: float, known: Mapping[str, int]) -> Json:
    is_known = "at" not in cluster["unknown"]
    return {
        "name": cluster["name"],
        "state": cluster["state"],
        "kind": _KINDS[cluster["state"]][0],
        "why": cluster["why"],
        "link": link,
        "cluster": cluster["cluster"],
        "master": (cluster["master"] or "").partition(".")[0],
        "round": cluster["now"] - cluster["at"] if is_known else None,
        "known": int(at) if is_known else known.get(cluster["name"]),
        "facts": list(_facts(cluster)) if is_known else [],
    }


def _facts(cluster: Json) -> Iterator[tuple[str, str]]:
    """Yield what else is to know, in words, and the part of the cluster's own page about it."""
    roll, unknown = cluster["roll"], cluster["unknown"]
    if count := len(cluster["needs-you"]):
        yield f"{count} need{'s' if count == 1 else ''} you", "#needs-you"
    if cluster["out"]:
        yield f"{len(cluster['out'])} out of service", "#cluster"
    if "roll" in unknown:
        yield "roll unknown", ""
    elif roll:
        state = "" if roll["state"] == "active" else f", {roll['state']}"
        yield f"{roll['done']}/{roll['nodes']} of the roll{state}", "#roll"
    if "windows" in unknown:  # only users with a role are told
        yield "windows unknown", ""
    elif cluster["windows"]:
        yield f"{len(cluster['windows'])} in windows", "#maintenance"
