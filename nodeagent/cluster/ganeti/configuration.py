"""The cluster as Ganeti's configuration file on a master candidate has it.

Ganeti's master copies the file to every candidate with each change. Root and Ganeti's daemons may
read it. It has what the small files beside it lack: UUIDs, tags, instances and their disks.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nodeagent.cluster.ganeti import filter_rule
from nodeagent.errors import Unavailable
from nodeagent.model.snapshot import Group, Instance, Node, Snapshot

T = TypeVar("T")

_MOST = 256 * 1024 * 1024
_MAJOR = 3  # of Ganeti's version, which the file has as 3010000 for 3.1


def read(path: str) -> Snapshot:
    """Read config.data, or raise Unavailable, also for one of another Ganeti than 3.

    Sizes and real states of instances are left out, and those that only have a reserved place.
    """
    return _read(path, snapshot_of)


def ledger_rule(path: str) -> str | None:
    """Return the text in the rule that keeps maintd's ledger; None without a rule.

    Unavailable as `read`.
    """
    return _read(path, ledger_rule_of)


def ledger_rule_of(document: Mapping[str, Any]) -> str | None:
    """Find the rule in the file's document; KeyError and the like if it is not one."""
    rule = document.get("filters", {}).get(filter_rule.uuid_of(document["cluster"]["uuid"]))
    return None if rule is None else filter_rule.text_in(rule["reason_trail"])


def _read(path: str, decode: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        if os.path.getsize(path) > _MOST:
            raise Unavailable(f"{path}: it has more than {_MOST} bytes")
        with open(path, "rb") as file:
            document = json.loads(file.read(_MOST))
        if (version := document["version"]) // 1_000_000 != _MAJOR:
            raise Unavailable(f"{path}: version {version}: only that of Ganeti {_MAJOR} is known")
        return decode(document)
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"{path}: {error}") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"{path}: not a configuration of Ganeti's ({error!r})") from None


def snapshot_of(document: Mapping[str, Any]) -> Snapshot:
    """Decode the file's document; KeyError and the like if it is not one."""
    cluster, rows = document["cluster"], document["nodes"]
    names = {uuid: str(row["name"]) for uuid, row in rows.items()}
    nodes = [_node(uuid, row) for uuid, row in rows.items()]
    disks = document.get("disks", {})
    rows_of_instances = document["instances"].values()
    real = [row for row in rows_of_instances if not row.get("forthcoming", False)]
    instances = [_instance(row, names, disks) for row in real]
    groups = {
        uuid: Group(uuid, row["name"], _tags(row)) for uuid, row in document["nodegroups"].items()
    }
    return Snapshot(
        str(cluster["cluster_name"]),
        {node.name: node for node in nodes},
        {instance.name: instance for instance in instances},
        groups,
        names[cluster["master_node"]],
        _tags(cluster),
    )


def _node(uuid: str, row: Mapping[str, Any]) -> Node:
    return Node(
        str(row["name"]),
        uuid,
        str(row["primary_ip"]),
        str(row["group"]),
        drained=bool(row["drained"]),
        offline=bool(row["offline"]),
        tags=_tags(row),
        candidate=bool(row["master_candidate"]),
        vm_capable=bool(row["vm_capable"]),
    )


def _instance(
    row: Mapping[str, Any], names: Mapping[str, str], disks: Mapping[str, Any]
) -> Instance:
    """Read an instance; of its disks only those of DRBD count."""
    primary, own = names[row["primary_node"]], [disks[uuid] for uuid in row["disks"]]
    mirrored = [disk for disk in own if _is_drbd(disk)]
    mirrors = {names[uuid] for disk in mirrored for uuid in disk["logical_id"][:2]} - {primary}
    whole = len(mirrors) == 1 and len(mirrored) == len(own)
    state = row["admin_state"]
    return Instance(
        str(row["name"]),
        primary,
        min(mirrors) if whole else None,
        running=state == "up",
        offline=state == "offline",
        disks=len(mirrored) if len(mirrors) <= 1 else 0,
        partly_on=frozenset() if whole else frozenset(mirrors),
    )


def _is_drbd(disk: Mapping[str, Any]) -> bool:
    return disk["dev_type"] in ("drbd", "drbd8")


def _tags(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(map(str, row.get("tags", ())))
