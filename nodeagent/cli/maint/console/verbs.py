"""The verbs of gnt-maint with their lines in its help, and other names that people try."""

from collections.abc import Mapping

from nodeagent.cli.usage import Verb


def _verb(module: str, line: str) -> Verb:
    return Verb(f"nodeagent.cli.maint.{module}", line)


VERBS: Mapping[str, Verb] = {
    "agents": _verb("agents", "List the agents with the keys they sign with."),
    "balance": _verb("balance", "Find the moves that spread a group's instances better."),
    "cancel": _verb("control", "Stop working on an incident."),
    "capacity": _verb("capacity", "Show how many more instances fit, also with nodes away."),
    "check": _verb("check", "Check the state as a Nagios plug-in does."),
    "clusters": _verb("clusters", "Show the state of all clusters, one line each."),
    "commands": _verb("commands", "Show which node runs which commands, and which nodes differ."),
    "constraints": _verb("constraints", "Limit automatic repairs of reported machines."),
    "done": _verb("done", "Close the ended incidents of NODE: it is repaired."),
    "drill": _verb("drill", "Show what maintd would do if NODE died now."),
    "evacuate": _verb("evacuate", "Take NODE out of service: drain and evacuate it."),
    "explain": _verb("explain", "Show how auto-repair judges an instance."),
    "fenced": _verb("fenced", "Tell maintd that you have cut the power of NODE."),
    "groups": _verb("groups", "List the groups: balancing, and what blocks it."),
    "held": _verb("show", "List blocked work, with reasons and remedies."),
    "history": _verb("history", "Show past events, the newest last."),
    "incidents": _verb("show", "List the open incidents."),
    "ledger": _verb("ledger", "Show where maintd's ledger is kept, save it, put it back."),
    "nodes": _verb("show", "List the nodes: state, health, incident."),
    "notify": _verb("notify", "List the sinks of notifications and their state."),
    "offers": _verb("offers", "Accept or decline maintenance on behalf of instance owners."),
    "pause": _verb("control", "Start no new work there; running jobs finish."),
    "plan": _verb("plan", "Show what the next round would do, from the last known state."),
    "queue": _verb("queue", "Repair reported machines by procedures, step by step."),
    "repair": _verb("repair", "Repair broken instances as far as their tags allow."),
    "resume": _verb("control", "Remove a pause, reset the storm brake, or confirm old plans."),
    "retry": _verb("control", "Stop waiting for lost jobs and continue."),
    "roll": _verb("roll", "Reboot or upgrade nodes one after another, evacuated meanwhile."),
    "rolling": _verb("rolling", "Find groups of nodes that can be rebooted together."),
    "show": _verb("show", "Show one incident, and what it waits for."),
    "sources": _verb("sources", "Repair machines that an inventory (sabakan) reports broken."),
    "stage": _verb("stage", "Show how far maintd goes by itself, and would have gone."),
    "status": _verb("show", "Show the state of the cluster on one screen."),
    "wait": _verb("wait", "Wait until an incident is completed."),
    "what-if": _verb("what_if", "Show whether and how something could be done."),
    "why": _verb("why", "Show why something is done, or not."),
    "window": _verb("window", "Plan maintenance; maintd evacuates the nodes first."),
}
ALIASES = {"blocked": "held"}  # the glossary's word for it
_EVACUATE = "to evacuate a node now, run gnt-maint evacuate NODE --why TEXT"
_PUT_BACK = (
    "to put a node back, run gnt-maint done NODE, or gnt-maint window up NODE after a window"
)
_ROLLING = "to reboot nodes one after another, run gnt-maint roll start --run reboot-node NODE..."
_FENCED = "for a dead machine that is switched off, run gnt-maint fenced NODE"
HINTS = {
    **dict.fromkeys(("drain", "empty", "cordon", "standby", "migrate"), _EVACUATE),
    **dict.fromkeys(("undrain", "uncordon", "unstandby", "return", "restore", "online"), _PUT_BACK),
    **dict.fromkeys(("reboot", "restart", "upgrade", "patch"), _ROLLING),
    **dict.fromkeys(("fence", "stonith", "kill"), _FENCED),
}
"""Commands that people try first, and what does it here."""
