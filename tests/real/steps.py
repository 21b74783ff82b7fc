"""What several tests on the laboratory do: windows, the queue, repairs, and their ends."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from click import ClickException

from nodeagent.cluster.ganeti.backend import GanetiCluster
from nodeagent.model.ledger import Trail
from tests.real.lab import gnt, listed, power, socket_path
from tests.real.maintd import Maintenance, flags, job_list, until

AGENT = """
[repair]
queue-commands = ["is-healthy", "power-cycle", "reinstall", "tell-inventory"]
"""


PROCEDURES = """
[[queue.repair_procedures]]
machine_types = ["r640"]

[[queue.repair_procedures.repair_operations]]
operation = "unreachable"
health_check_command = "is-healthy"
success_command = "tell-inventory"
[[queue.repair_procedures.repair_operations.repair_steps]]
repair_command = "power-cycle"
watch_seconds = 2
[[queue.repair_procedures.repair_operations.repair_steps]]
repair_command = "reinstall"
command_timeout_seconds = 120
need_drain = true
watch_seconds = 2

[[queue.repair_procedures.repair_operations]]
operation = "hopeless"
health_check_command = "is-healthy"
[[queue.repair_procedures.repair_operations.repair_steps]]
repair_command = "power-cycle"
need_drain = true
"""


# Each notes what it was given; the first step heals nothing, the second when it is let go on.
COMMANDS = """
ran() { printf '%s\\n' "$(cat)" >> /run/ran-$NODEAGENT_COMMAND; }
"""


SCRIPTS = {
    "is-healthy": "ran; cat /run/healthy",
    "power-cycle": "ran",
    "reinstall": "ran; until [ -e /run/go ]; do sleep 0.2; done; echo true > /run/healthy",
    "tell-inventory": "ran",
}


FOLDER = "/etc/ganeti/node-repair-commands"


def with_queue(
    system: Maintenance,
    procedures: str,
    scripts: Mapping[str, str],
    masters: Sequence[str] = ("node1",),
) -> None:
    """Have the repair queue, with these procedures, and commands that the masters' agents run."""
    for master in masters:
        system.shell(master, "mkdir -p /etc/nodeagent/conf.d /etc/nodeagent/maintd.conf.d")
        system.write(master, "/etc/nodeagent/conf.d/queue.toml", AGENT)
        system.write(master, "/etc/nodeagent/maintd.conf.d/queue.toml", procedures)
        for name, script in scripts.items():
            text = f"#!/bin/sh -e\n{COMMANDS}\n{script}"
            system.write(master, f"{FOLDER}/{name}", text, mode="755")
        system.shell(master, "echo false > /run/healthy")
        system.restart_agent(master)


def used_before() -> None:
    """Have the queue as if it had been used, so that this is no job of maintd's in a test."""
    gnt("gnt-cluster", "add-tags", "maintd:queue:used")


def more_rounds(system: Maintenance, count: int) -> None:
    """Wait until maintd has held so many more rounds."""
    before = system.get("/1/round")["rounds"]
    until(lambda: system.get("/1/round")["rounds"] >= before + count, 60, system.tail)


def ran(system: Maintenance, command: str) -> list[dict[str, Any]]:
    """What the command was given on standard input, each time it ran."""
    text = system.shell("node1", f"cat /run/ran-{command} 2>/dev/null || :")
    return [json.loads(line) for line in text.splitlines()]


def window(system: Maintenance, *words: str) -> str:
    """What gnt-maint window says, which must be well."""
    return system.do("window", *words)


def machines(system: Maintenance, master: str = "node1") -> dict[str, dict[str, Any]]:
    """The machines of all windows, and those that return, by the short names of their nodes."""
    told = system.get("/1/windows", master)
    rows = [one for row in told["windows"] for one in row["machines"]] + told["returning"]
    return {one["node"].partition(".")[0]: one for one in rows}


def is_current(system: Maintenance, master: str) -> bool:
    """Whether maintd there has found the newest ledger, without asking a person."""
    try:
        found = system.get("/1/round", master=master)
    except ClickException:
        return False
    return bool(found["rounds"]) and found["outdated"] is None


RULES = "ganeti:watcher:autorepair:"


RESULT = re.compile(
    f"{RULES}result:(?P<kind>[a-z-]+):(?P<id>[^:]+):[0-9]+:(?P<end>[a-z]+):(?P<jobs>[0-9+]*)"
)


def set_service(name: str, **flags: bool) -> None:
    """Put a node out of service or back, as an administrator does."""
    options = [f"--{flag}={'yes' if on else 'no'}" for flag, on in flags.items()]
    gnt("gnt-node", "modify", "-f", "--auto-promote", *options, name)


def dies(name: str) -> None:
    """A node is gone, and an administrator has seen it. (Its disks would be in use otherwise.)"""
    power(name, "cut")
    set_service(name, offline=True)


def tags(instance: str) -> list[str]:
    """An instance's tags about repairs, without their prefix."""
    ((lines,),) = listed("instance", "tags", name=instance)
    return sorted(line.removeprefix(RULES) for line in lines if line.startswith(RULES))


def ended(system: Maintenance, instance: str, seconds: float = 120) -> dict[str, str]:
    """Wait for the one result tag of an instance, with nothing pending beside it."""
    found: list[dict[str, str]] = []

    def come() -> bool:
        ((lines,),) = listed("instance", "tags", name=instance)
        found[:] = [m.groupdict() for line in lines if (m := RESULT.fullmatch(line))]
        return bool(found) and not any(f"{RULES}pending" in line for line in lines)

    until(come, seconds, lambda: f"{tags(instance)} {system.tail()}")
    (result,) = found
    for trail in jobs_of(result["id"]):  # shown where the test fails
        print(trail.job, trail.action, trail.result)
    return result


def jobs_of(repair: str) -> list[Trail]:
    """The jobs of one repair that the queue knows, in order."""
    cluster = GanetiCluster(socket_path())
    try:
        return [trail for trail in cluster.trails() if trail.purpose.repair == repair]
    finally:
        cluster.close()


# No rest: what one test has moved is made anew under its name in the next.
ON = ("maintd:balance:yes", "maintd:balance-settle:0s", "maintd:balance-cooldown:0s")


MOVES = {"INSTANCE_MIGRATE", "INSTANCE_REPLACE_DISKS"}


ADVISED = re.compile(r"run (gnt-cluster command -n \S+ lvremove -f \S+)")


def completes(system: Maintenance, name: str, incident: Mapping[str, object], master: str) -> None:
    """Wait until the new master completes it.

    A job that the failover cut off may stop it: its connection timed out, or its new volumes stand
    in the way of the next one. An administrator does what maintd says then, and removes the tag.
    """
    stopped: list[object] = []
    found: list[dict[str, object]] = []

    def over() -> bool:
        of_node = [i for i in system.incidents(master) if str(i["node-name"]).startswith(name)]
        found[:] = [i for i in of_node if i["uuid"] not in {*stopped, *system.past}]
        return bool(found) and found[-1]["repair-status"] in ("completed", "failed")

    until(over, 300, lambda: f"{found} {system.tail()}")
    assert found[-1]["uuid"] == incident["uuid"]
    while found[-1]["repair-status"] == "failed":
        why = str(found[-1]["why"])
        assert "NoMasterError" not in why, "what was cut off is planned anew"
        failed = [job for job in job_list() if job[1] in ("error", "canceled")]
        assert why.startswith(tuple(f"job {job[0]} " for job in failed)), found
        assert len(stopped) < 3, "one volume of a disk after the other, and no more"
        stopped.append(found[-1]["uuid"])
        until(lambda: "repairfailed" in flags(name)["tags"], 60, system.tail)
        if advised := ADVISED.search(why):
            gnt(*advised[1].split())
        gnt("gnt-node", "remove-tags", name, f"maintd:repairfailed:{stopped[-1]}")
        until(over, 300, lambda: f"{found} {system.tail()}")
