"""A Ganeti of one node that never does anything, as far as its LUXI socket shows it.

Run inside the trial's Debian: luxid.py SOCKET MASTER-FILE
"""

import json
import os
import shutil
import socket
import sys
import threading
from typing import Any

CLUSTER = "00000000-0000-4000-8000-000000000003"
GROUP = "00000000-0000-4000-8000-000000000001"
NODE = {
    "name": "node1.example.org",
    "uuid": "00000000-0000-4000-8000-000000000002",
    "pip": "127.0.0.2",
    "group.uuid": GROUP,
    "drained": False,
    "offline": False,
    "master_candidate": True,
    "vm_capable": True,
    "tags": [],
    "ndp/spindle_count": 1,
    "ndp/exclusive_storage": False,
    "ndp/cpu_speed": 1.0,
    "ndp/oob_program": "",
    **dict.fromkeys(("mfree", "dfree", "mtotal", "dtotal", "ctotal", "sptotal", "spfree"), 1000),
    **dict.fromkeys(("mnode", "cnos"), 1),
}
TABLES: dict[str, list[dict[str, Any]]] = {
    "node": [NODE],
    "group": [
        {
            "uuid": GROUP,
            "name": "default",
            "tags": [],
            "alloc_policy": "preferred",
            "ipolicy": {"vcpu-ratio": 4.0, "spindle-ratio": 32.0},
        }
    ],
}


class Filters:
    """Job filter rules, as luxid answers about them."""

    def __init__(self) -> None:
        self.rules: dict[str, list[Any]] = {}  # the reason trail of each

    def answer(self, method: str, args: list[Any]) -> object:
        if method == "ReplaceFilter":
            uuid, _, _, _, trail = args
            self.rules[uuid] = [*trail, ["luxid", "", 1]]
            return uuid
        if method == "DeleteFilter":
            del self.rules[args[0]]
            return None
        uuids, fields = args
        assert fields == ["uuid", "reason_trail"]
        return [[uuid, self.rules[uuid]] for uuid in uuids if uuid in self.rules]


FILTERS = Filters()


def answer(method: str, args: list[Any], master: str) -> object:
    if method == "QueryConfigValues":
        return [master if field == "master_node" else None for field in args[0]]
    if method == "QueryClusterInfo":
        return {"name": "cluster.example.org", "uuid": CLUSTER, "master": master, "tags": []}
    if method in ("QueryFilters", "ReplaceFilter", "DeleteFilter"):
        return FILTERS.answer(method, args)
    if method == "SubmitManyJobs":
        return [[False, "no jobs are taken here"] for _ in args[0]]
    assert method == "Query", method
    what, fields, _ = args
    return {"data": [[[0, row[field]] for field in fields] for row in TABLES.get(what, [])]}


def talk(connection: socket.socket, master_file: str) -> None:
    with connection, connection.makefile("rb") as requests:
        taken = b""
        while byte := requests.read(1):
            if byte != b"\3":
                taken += byte
                continue
            request, taken = json.loads(taken), b""
            with open(master_file) as file:
                result = answer(request["method"], request["args"], file.read().strip())
            connection.sendall(json.dumps({"success": True, "result": result}).encode() + b"\3")


def main(path: str, master_file: str) -> None:
    # As Ganeti's ensure-dirs leaves them: nobody outside the group even gets to the socket.
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    for place, mode in ((folder, 0o770), (path, 0o660)):
        shutil.chown(place, group="gnt-daemons")
        os.chmod(place, mode)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=talk, args=[connection, master_file], daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
