"""What sabakan may be asked, and what it answers, machine by machine."""

import json
from typing import Any

from nodeagent.maintd.queue.sabakan import DEFAULT

Json = dict[str, Any]

# Variables of a query.
MAY_BE_ASKED = [
    DEFAULT,
    '{"having":{"states":["UNREACHABLE"]}}',
    '{"having":{"states":["UPDATING"],"labels":[{"name":"a","value":"b"}]},"notHaving":null}',
    ' {"having": {"states": ["RETIRED"], "racks": [1, 2], "roles": null,\n'
    ' "minDaysBeforeRetire": 90}, "notHaving": {"racks": []}}\n',
]


def machine(**members: Any) -> Json:
    """One machine of an answer; a member `spec_rack` replaces spec.rack."""
    found: Json = {
        "spec": {
            "serial": "S1",
            "rack": 7,
            "role": "worker",
            "ipv4": ["10.0.0.9", "10.1.0.9"],
            "bmc": {"bmcType": "r640"},
        },
        "status": {"state": "UNREACHABLE", "duration": 90.5},
    }
    for path, value in members.items():
        part, _, name = path.partition("_")
        if name:
            found[part][name] = value
        else:
            found[part] = value
    return found


def answer(*found: Any, **more: Any) -> bytes:
    return json.dumps({"data": {"searchMachines": list(found)}, **more}).encode()
