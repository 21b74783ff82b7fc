"""The right result of each case in `../shared/cases`: inputs from public bug reports.

A case is a script. It prints lines of the form `TITLE: RESULT`; a row gives the right result of one
of them as a regular expression.
"""

from dataclasses import dataclass

OK = r'"status": "Ok"'
CALL = r'"command": "call-operator"'
EVACUATE = r'"status": "evacuate"'

# Waits of at least 60 s (settle), 590 s (return-after) and 180 s (unreachable-after).
_WAITS = (
    r"first job after (none|([6-9]\d|\d{3,}) s).*"
    r"back in service after (drained|(59\d|[6-9]\d\d|\d{4,}) s).*"
    r"'unreachable' after (none|(1[89]\d|[2-9]\d\d|\d{4,}) s)"
)


@dataclass(frozen=True)
class Row:
    """One line of a case: the number of the case, how the line begins, and the right result."""

    case: str
    title: str
    right: str


COMMANDS = (
    Row("c01", "container + healthy volume", OK),
    Row("c02", "raid6, both holes being filled", OK),
    Row("c03", "raid6, one of two holes being filled", f'{CALL}.*"missing_slots": \\[5\\]'),
    Row("c05", "raid5, a planned replacement", OK),
    Row("c06", "resync=PENDING", OK),
    Row("c06", "recovery DELAYED", OK),
    Row("c07", "(J)(F) journal failed", CALL),
    Row("c07", "(J) journal gone, array read-only", f"{CALL}.*read-only"),
    Row("c07", "(W) healthy, (S) spare, linear, raid0", OK),
    Row("c08", "half-assembled leftover", f"{CALL}|{OK}"),
    Row("c09", "logical disk refused, 2 good physical disks", OK),
    Row("c10", "SAS disk too hot", f"{OK}|{CALL}"),
    Row("c11", "failing SAS disk of smartctl 7.3", f'"model_name": "[^"]+".*{EVACUATE}'),
    Row("c12", "NVMe without error log", OK),
    Row("c13", "NVMe past its endurance, warning 0x04", CALL),
    Row("c14", "7.1", OK),
    Row("c14", "7.3", OK),
    Row("c15", "USB bridge + good disk", f"not_asked.*/dev/sdb.*{OK}"),
    Row("c16", "sat+megaraid", OK),
    Row("c17", "sync with details", OK),
    Row("c17", "8.3 after a lost peer", OK),
    Row("c17", "Outdated secondary, peer away", OK),
    Row("c17", "Outdated and Connected, nothing syncs", OK),
    Row("c17", "Primary suspended (s)", OK),
    Row("c17", "three nodes? minor 41, gaps, Unconfigured", f"{CALL}.*StandAlone"),
    Row("c18", "split brain", f"{CALL}.*StandAlone"),
    Row("c18", "loser of a split: Connecting", OK),
    Row("c18", "tiebreaker", OK),
    Row("c18", "quorum lost, I/O suspended", OK),
    Row("c18", "paused sync", OK),
    Row("c19", "a clustered VG beside xenvg", OK),
    Row("c19", "a missing PV", EVACUATE),
    Row("c19", "duplicate PVs", OK),
    Row("c20", "dimm layout", OK),
    Row("c20", "rank layout", OK),
    Row("c20", "csrow only, one UE", EVACUATE),
    Row("c20", "millions of corrected errors at the first run", OK),
    Row("c20", "500 more a minute later", EVACUATE),
    Row("c20", "noinfo storm, first run", OK),
    Row("c21", "healthy", OK),
    Row("c21", "cut off for two days", CALL),
    Row("c21", "PPS", OK),
    Row("c21", "never synchronised", CALL),
    Row("c21", "leap second pending", OK),
    Row("c21", "31,801 s behind, stepping not allowed", CALL),
    Row("c22", "it8728", OK),
    Row("c22", "nct6793", OK),
    Row("c22", "acpitz crit 20.8, reads 16.8", OK),
    Row("c22", "acpitz crit 20.8, reads 27.8", OK),
    Row("c22", "nvme", OK),
    Row("c22", "it8665 negative limits", OK),
    Row("c25", "10G + 1G active-backup", OK),
    Row("c26", "with the slash", r"remount-rw"),
    Row("c26", "without", r"remount-rw"),
    Row("c45", "same short names, uname web.rack2.example", r"probes 192\.0\.2\.2"),
    Row("c46", "code 3 -> plug-in returned 3 (UNKNOWN)", r"no verdict"),
    Row("c46", "code 255 -> plug-in returned 255", r"no verdict"),
    Row("c47", "lost md0 beside md1 that vanishes as it is read", f"not_asked.*{EVACUATE}"),
    Row("c47", "dead minor 0 beside a line of unknown form", f"not_asked.*{EVACUATE}"),
)
BEHAVIOURS = (
    Row("c27", "after evacuation", r"COMPLETED offline"),
    Row("c27", "after done", r"drained incidents \[\]"),
    Row("c29", "30 min cut off", r"\{\}"),
    Row("c29", "10 min later", r"\{\}"),
    Row("c30", "30s/30s for a day", r"jobs \{\}"),
    Row("c30", "90s/90s for a day", r"'Drain': 1,.*'SetOffline': 1"),
    Row("c30", "900s/900s for a day", r"'Drain': 1,.*'SetOffline': 1"),
    Row("c31", "Status.COMPLETED", r"offline .*'MovePrimary': 2"),
    Row("c32", "Status.COMPLETED", r"offline"),
    Row("c34", "lost with the queue", r"Drain"),
    Row("c36", "no jump", _WAITS),
    Row("c36", "master +140 s", _WAITS),
    Row("c36", "master -140 s", _WAITS),
    Row("c36", "master +1 d", _WAITS),
    Row("c36", "all nodes +1 d", _WAITS),
    Row("c36", "all nodes -1 d", _WAITS),
    Row("c37", "3 h", r"'Guarded': 3,.*:failure:|its agent answers"),
    Row("c40", "Status.COMPLETED", r"drained"),
    Row("c40", "then evacuate again", r"'Drain': 1,"),
    Row("c43", "re-added", r"\[\] in service"),
    Row("c44", "Status.COMPLETED", r"onto the sick: \[\]"),
    Row("c48", "10 min later", r"^10 min later: \{\}"),
    Row("c50", "details change every 90 s", r"offline .*'Drain': 1,"),
    Row("c50", "evacuate / live-repair in turns", r"offline .*'Drain': 1,"),
    Row("c50", "a counter every 30 s, settle 60 s, 66 min", r"'Drain': 1|change"),
    Row("c52", "3 are well again", r"in service"),
)
