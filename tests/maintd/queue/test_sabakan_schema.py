"""sabakan's query beside its documented schema, by graphql-core."""

import json

from nodeagent.maintd.queue.sabakan import question
from tests import needs
from tests.maintd.queue.sabakan_answers import MAY_BE_ASKED

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


def test_each_question_is_valid_by_the_schema() -> None:
    """Also those with labels and days before retirement."""
    schema = graphql.build_schema(SCHEMA)
    document = graphql.parse(json.loads(question(""))["query"])
    assert graphql.validate(schema, document) == []
    declared = document.definitions[0].variable_definitions
    for text in MAY_BE_ASKED:
        variables = json.loads(question(text))["variables"]
        values = graphql.execution.get_variable_values(schema, declared, variables)
        assert not isinstance(values, list), (text, values)  # of errors
