"""A sabakan of our own: its documented schema, by graphql-core behind real HTTP.

It matches states and roles; what else a query filters is between its schema and sabakan.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests import needs
from tests.maintd import answering

graphql = needs.module("graphql", least=(3, 2))

SCHEMA = """
scalar IPAddress
scalar DateTime
enum MachineState { UNINITIALIZED HEALTHY UNHEALTHY UNREACHABLE UPDATING RETIRING RETIRED }
input LabelInput { name: String! value: String! }
input MachineParams {
  labels: [LabelInput!] = null
  racks: [Int!] = null
  roles: [String!] = null
  states: [MachineState!] = null
  minDaysBeforeRetire: Int = null
}
type Label { name: String! value: String! }
type BMC { bmcType: String! ipv4: IPAddress! }
type MachineSpec {
  serial: ID!
  labels: [Label!]
  rack: Int!
  indexInRack: Int!
  role: String!
  ipv4: [IPAddress!]!
  registerDate: DateTime!
  retireDate: DateTime!
  bmc: BMC
}
type MachineStatus { state: MachineState! timestamp: DateTime! duration: Float! }
type Machine { spec: MachineSpec! status: MachineStatus! }
type Query {
  machine(serial: ID!): Machine!
  searchMachines(having: MachineParams = null, notHaving: MachineParams = null): [Machine!]!
}
"""
Json = dict[str, Any]


@dataclass
class Machine:
    """A machine as sabakan has it; `for_` is how many seconds it has been in its state."""

    serial: str
    ipv4: list[str]
    state: str = "HEALTHY"
    for_: float = 3600.0
    rack: int = 1
    role: str = "worker"
    bmc: str | None = "r640"

    def matches(self, having: Json, not_having: Json) -> bool:
        """What is empty is not a constraint."""
        return (
            self.state in (having.get("states") or [self.state])
            and self.role in (having.get("roles") or [self.role])
            and self.state not in (not_having.get("states") or [])
            and self.role not in (not_having.get("roles") or [])
        )


@dataclass
class Sabakan:
    """What it knows, what it was asked, and what is wrong with it.

    `breaks` has a machine's BMC fail to be resolved, so that there are errors beside data; it
    answers nobody while `answers` is not set.
    """

    machines: dict[str, Machine] = field(default_factory=dict)
    asked: list[Json] = field(default_factory=list)
    heads: list[Mapping[str, str]] = field(default_factory=list)
    breaks: str = ""
    answers: threading.Event = field(default_factory=threading.Event)
    kind: str = "application/json"
    port: int = 0

    def __post_init__(self) -> None:
        self.answers.set()
        self.schema = graphql.build_schema(SCHEMA)
        query = self.schema.type_map["Query"].fields
        query["searchMachines"].resolve = self._search
        query["machine"].resolve = self._machine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/graphql"

    def put(self, *machines: Machine) -> None:
        self.machines |= {machine.serial: machine for machine in machines}

    def _machine(self, _: object, __: object, serial: str) -> Json:
        if serial not in self.machines:
            raise graphql.GraphQLError("not found", extensions={"type": "MACHINE_NOT_FOUND"})
        return self._told(self.machines[serial])

    def _search(
        self, _: object, __: object, having: Json | None = None, notHaving: Json | None = None
    ) -> list[Json]:
        self.answers.wait()
        return [
            self._told(machine)
            for machine in self.machines.values()
            if machine.matches(having or {}, notHaving or {})
        ]

    def _told(self, machine: Machine) -> Json:
        bmc = machine.bmc and {"bmcType": machine.bmc, "ipv4": "10.72.0.1"}
        broken = graphql.GraphQLError(f"the BMC of {machine.serial} is unknown")
        return {
            "spec": {
                "serial": machine.serial,
                "labels": None,
                "rack": machine.rack,
                "indexInRack": 1,
                "role": machine.role,
                "ipv4": machine.ipv4,
                "registerDate": "2020-01-01T00:00:00Z",
                "retireDate": "2030-01-01T00:00:00Z",
                "bmc": broken if machine.serial == self.breaks else bmc,
            },
            "status": {
                "state": machine.state,
                "timestamp": "2026-01-01T00:00:00Z",
                "duration": machine.for_,
            },
        }

    def answer(self, head: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """The status codes are those of the library that sabakan is made with."""
        self.heads.append(head)
        kind = head.get("Content-Type", "")
        if kind.partition(";")[0] != self.kind:
            return 415, b""
        try:
            request = json.loads(body)
            document = graphql.parse(request["query"])
        except (ValueError, KeyError):
            return (
                400,
                b'{"errors":[{"message":"json request body could not be decoded"}],"data":null}',
            )
        except graphql.GraphQLSyntaxError as error:
            return 422, self._errors([error])
        self.asked.append(request)
        if wrong := graphql.validate(self.schema, document):
            return 422, self._errors(wrong)
        done = graphql.execute(self.schema, document, variable_values=request.get("variables"))
        coerced = done.data is None and done.errors and not done.errors[0].path
        return 422 if coerced else 200, json.dumps(done.formatted).encode()

    @staticmethod
    def _errors(errors: list[Any]) -> bytes:
        return json.dumps({"errors": [e.formatted for e in errors], "data": None}).encode()


@contextmanager
def serving(*machines: Machine) -> Iterator[Sabakan]:
    """Serve it on loopback until the end of the block."""
    sabakan = Sabakan()
    sabakan.put(*machines)
    with answering.serving(sabakan.answer) as port:
        sabakan.port = port
        yield sabakan
