"""gnt-maint explain: show how auto-repair judges an instance, and what blocks its repair."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import click

from nodeagent.cli.maint.console.arguments import luxi_path, luxi_socket, when
from nodeagent.cli.maint.console.client import NotFound, Unreachable, Where
from nodeagent.cli.maint.console.completion import complete
from nodeagent.cli.maint.console.looking import looks
from nodeagent.cli.maint.console.nodes import instance_path
from nodeagent.cli.maint.console.options import as_json, cli, filled
from nodeagent.cli.maint.console.screen import Json, Screen, emit, screen
from nodeagent.cli.maint.console.text import status_of
from nodeagent.clocks import unix_ms
from nodeagent.errors import Unavailable

if TYPE_CHECKING:
    from nodeagent.model.ledger import Policy


@cli.command()
@click.argument("instance", callback=filled, shell_complete=complete("instance"))
@luxi_socket
@looks
@as_json
def explain(where: Where, instance: str, *, luxi: str | None, as_json: bool) -> None:
    """Show how auto-repair judges an instance.

    Shows what it may do, what it would do next, and why not. Asks maintd, or Ganeti where no
    maintd runs; with --luxi always Ganeti.
    """
    answer = _explained(where, instance, luxi)
    if as_json:
        emit(answer)
    else:
        tell(screen(), answer)


def _explained(where: Where, name: str, luxi: str | None) -> Json:
    if where.elsewhere and luxi is not None:
        raise click.UsageError(f"--luxi and {where.elsewhere} are two places: name one")
    if luxi is not None:
        return _thought(where, name, luxi)
    try:
        reach = where.reach()
        explanation: Json = reach.get(instance_path(reach, name))
    except (Unreachable, NotFound) as error:
        if where.elsewhere:  # the Ganeti of this machine may be another one
            raise
        try:
            return _thought(where, name, None)  # a new instance is unknown to maintd
        except Unavailable as other:
            if isinstance(error, NotFound):
                raise NotFound(f"there is no instance {name}") from None
            raise Unreachable(f"{error}; and {other}") from None
    else:
        return explanation


def _thought(where: Where, name: str, luxi: str | None) -> Json:
    """Explain an instance by Ganeti's knowledge alone."""
    from nodeagent.cluster.ganeti.backend import GanetiCluster
    from nodeagent.maintd.autorepair.jobs import judge_of
    from nodeagent.maintd.autorepair.one_pass import observe, why_held, why_stopped
    from nodeagent.maintd.http.autorepair import explain as explained
    from nodeagent.maintd.planning.tag_settings import with_tags

    with closing(GanetiCluster(luxi_path(where, luxi))) as cluster:
        seen = observe(cluster, unix_ms)
        snapshot = seen.observed.snapshot
        instance = snapshot.instances.get(name)
        if instance is None:
            raise NotFound(f"there is no instance {name}")
        mode = with_tags(_policy(where), snapshot).autorepair
        judge = judge_of(seen.ledger, seen.observed, mode, unix_ms())
        held = why_held(cluster, seen, name, judge.rules.mode, judge.now)
    return explained(instance, judge, mode, why_stopped(seen, instance), held)


def _policy(where: Where) -> "Policy":
    from nodeagent.model.ledger import Policy

    settings = where.settings()
    return Policy() if settings is None else settings.policy


def tell(on: Screen, answer: Json) -> None:
    """Show the answer of `/1/explain` about an instance."""
    policy, health, state, then = (answer[key] for key in ("policy", "health", "state", "next"))
    rows: list[tuple[str, object]] = [
        (
            "Instance",
            f"{answer['instance']} ({answer['template']}) on {', '.join(answer['nodes'])}",
        ),
        ("Mode", f"{answer['mode']}: {_MODE[answer['mode']]}"),
        ("Policy", policy["words"]),
        ("Health", _steps(health)),
        ("State", _state(state)),
        *(("Later", _record(record)) for record in state.get("later", ())),
        *(("Before", _record(record)) for record in state.get("ended", ())),
        ("Next", f"{then['is']}: {then['why']}"),
        *(("  puts on", tag) for tag in then.get("add", ())),
        *(("  takes off", tag) for tag in then.get("remove", ())),
    ]
    rows += [("Budget", _budget(budget)) for budget in answer.get("budgets", ())]
    rows += [("Paused", why) for why in answer.get("paused", ())]
    rows += [("Held", why) for why in answer.get("held", ())]
    rows += [
        ("Unreadable", f"{unreadable['tag']}: {unreadable['why']}")
        for unreadable in answer["unreadable"]
    ]
    rows += _work(answer)
    on.facts(rows)
    if answer["jobs"]:
        on.heading("Jobs")
        columns = ("job", "repair", "how", "what")
        on.table(columns, [(j["job"], j["repair"], _how(j), j["what"]) for j in answer["jobs"]])


def _budget(budget: Json) -> str:
    names = [f"{disrupted['instance']} ({disrupted['why']})" for disrupted in budget["disrupted"]]
    counts = ", migrations too" if budget["migrations"] else ""
    now = "; ".join(names[:_NAMED]) or "none"
    more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{budget['name']}: at most {budget['most']} disrupted at once{counts}; now {now}{more}"


def _work(answer: Json) -> Iterator[tuple[str, object]]:
    """Yield the incidents of its nodes, and maintd's jobs with it, if maintd was asked."""
    for incident in answer.get("incidents", ()):
        need = incident["need"] or "unknown"
        yield (
            "Incident",
            f"{incident['uuid']}: {incident['node-name']} requests {need}, {status_of(incident)}",
        )
    for intent in answer.get("work", ()):
        job = "" if intent["job"] is None else f"job {intent['job']}: "
        yield "Planned" if intent["state"] == "promised" else "Running", f"{job}{intent['action']}"


_NAMED = 3  # instances of a budget
_MODE = {
    "off": "maintd does not repair instances; gnt-maint repair would do the following",
    "safe": "maintd repairs instances, where it runs, as it was designed",
    "compatible": "maintd repairs instances, where it runs, as harep does",
}


def _steps(health: Json) -> str:
    steps = f" (to be mended by {', '.join(health['steps'])})" if health["steps"] else ""
    return f"{health['is']}: {health['why']}{steps}"


def _state(state: Json) -> str:
    if "repair" in state:
        return f"{state['is']}: {_record(state['repair'])}"
    return f"{state['is']}: {state['why']}" if "why" in state else str(state["is"])


def _record(record: Json) -> str:
    jobs = f", jobs {', '.join(map(str, record['jobs']))}" if record["jobs"] else ""
    ending = f" {record['result']}" if record["result"] else ""
    return f"{record['type']}{ending}, {when(record['at'])}, repair {record['id']}{jobs}"


def _how(job: Json) -> str:
    return f"{job['outcome']}: {job['why']}" if job["why"] else str(job["outcome"])
