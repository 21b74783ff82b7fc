"""Query answers as values; whatever is not as it should be is named."""

from typing import Any

import pytest

from nodeagent.cluster.backend import Submission
from nodeagent.cluster.ganeti import decode, jobqueue, opcodes
from nodeagent.cluster.ganeti.luxi import Refusal, refused
from nodeagent.cluster.ganeti.opcodes import SOURCE
from nodeagent.errors import MessageError
from nodeagent.model.action import Drain, Guarded, MovePrimary, Retag, Scope
from nodeagent.model.ledger import Outcome, Removal, Result, RoleChange, Trail
from nodeagent.model.snapshot import Capacity, Group, Instance, Node, Running, Size
from nodeagent.model.units import Ms, Nanoseconds
from tests.cluster.ganeti.answers import DRBD, GROUP, INFO, NODE, PLAIN, answer, put


def nodes(*rows: list[Any]) -> list[decode.Row]:
    return decode.table("node", decode.NODE, answer(*rows))


def instances(*rows: list[Any]) -> list[decode.Row]:
    return decode.table("instance", decode.INSTANCE, answer(*rows))


def groups(*rows: list[Any]) -> list[decode.Row]:
    return decode.table("group", decode.GROUP, answer(*rows))


def test_rows_of_a_real_cluster() -> None:
    (node,) = map(decode.node, nodes(NODE))
    assert node == Node(
        "n1", "u1", "10.0.0.1", "g1", tags=frozenset({"a:b"}), candidate=True, vm_capable=True
    )
    first, second = map(decode.instance, instances(DRBD, PLAIN))
    assert first == Instance("i1", "n1", "n2", "drbd", 128, 384, hypervisor="kvm", disks=1)
    assert second == Instance(
        "i2",
        "n1",
        None,
        "plain",
        128,
        256,
        running=False,
        tags=frozenset({"t"}),
        vcpus=2,
        auto_balance=False,
        spindle_use=3,
        spindles=3,
        always_failover=True,
        hypervisor="lxc",
        disks=2,
    )
    group = Group("g1", "default", allocation="preferred", policy='{"vcpu-ratio":4}')
    assert [decode.group(row) for row in groups(GROUP)] == [group]


@pytest.mark.parametrize("told", ["2001:DB8:0::3", "2001:db8::3", "2001:0db8:0:0::3"])
def test_a_nodes_address_has_one_form(told: str) -> None:
    """Schedules, entries and inventories name machines by it."""
    (node,) = map(decode.node, nodes(put(NODE, 2, told)))
    assert node.address == "2001:db8::3"


def test_a_forthcoming_instance_is_not_there_yet() -> None:
    unplaced = ["i3", "", None, "plain", *[None] * 4, True, *[None] * 6]
    placed = put(put(PLAIN, 0, "i4"), 8, True)
    rows = instances(PLAIN, unplaced, placed)
    seen = decode.snapshot(INFO, nodes(NODE), rows, groups(GROUP))
    assert (set(seen.instances), set(seen.forthcoming)) == ({"i2"}, {"i4"})


@pytest.mark.parametrize(
    ("said", "spindles"), [([], 0), ([2], 2), ([1, None], None), (None, None), ([True], None)]
)
def test_an_instances_own_disks(said: object, spindles: int | None) -> None:
    (row,) = instances(put(PLAIN, 12, said))
    assert decode.instance(row).spindles == spindles


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (put(NODE, 0, None), 'node field name is "None"; it must be a text'),
        (put(NODE, 1, ""), 'node field uuid of "n1" is ""; it must be a text'),
        (put(NODE, 4, "N"), 'node field drained of "n1" is "N"; it must be true or false'),
        (put(NODE, 5, 1), 'node field offline of "n1" is "1"; it must be true or false'),
        (put(NODE, 8, "a"), 'node field tags of "n1" is "a"; it must be a list of texts'),
        (put(NODE, 8, [1]), 'node field tags of "n1" is "[1]"; it must be a list of texts'),
        (put(NODE, 11, "1"), 'node field ndp/cpu_speed of "n1" is "1"; it must be a number'),
    ],
)
def test_a_bad_node_row_names_its_field(row: list[Any], fault: str) -> None:
    with pytest.raises(MessageError) as caught:
        decode.node(nodes(row)[0])
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    ("template", "others", "secondary", "partly_on", "disks"),
    [
        ("drbd", ["n2"], "n2", [], 1),
        ("drbd", [], None, [], 1),
        ("drbd", ["n2", "n3"], None, ["n2", "n3"], 0),
        ("mixed", ["n2"], None, ["n2"], 0),
        ("mixed", [], None, [], 1),
    ],
)
def test_where_its_disks_are(
    template: str, others: list[str], secondary: str | None, partly_on: list[str], disks: int
) -> None:
    """Ganeti moves only an instance whose disks are all of DRBD, with one secondary."""
    (row,) = instances(put(put(DRBD, 2, others), 3, template))
    found = decode.instance(row)
    assert (found.secondary, sorted(found.partly_on), found.shared) == (secondary, partly_on, False)
    assert found.nodes == {"n1", *others}
    assert found.disks == disks, "of how many are DRBD's, Ganeti says nothing"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (put(DRBD, 4, -1), "be/maxmem"),
        (put(DRBD, 4, True), "be/maxmem"),
        (put(DRBD, 5, 1.5), "disk_usage"),
        (put(DRBD, 8, None), "forthcoming"),
        (put(DRBD, 9, None), "be/vcpus"),
        (put(DRBD, 10, 1), "be/auto_balance"),
        (put(DRBD, 13, None), "be/always_failover"),
        (put(DRBD, 14, 1), "hypervisor"),
    ],
)
def test_a_bad_instance_row_names_its_field(row: list[Any], fault: str) -> None:
    with pytest.raises(MessageError, match=fault):
        decode.snapshot(INFO, nodes(NODE), instances(row), groups(GROUP))


@pytest.mark.parametrize(
    ("state", "running", "offline"),
    [("up", True, False), ("down", False, False), ("offline", False, True)],
)
def test_what_an_instances_administrator_wants_of_it(
    state: str, running: bool, offline: bool
) -> None:
    found = decode.instance(instances(put(DRBD, 6, state))[0])
    assert (found.running, found.offline) == (running, offline)


@pytest.mark.parametrize("status", [1, 2, 3, 4, 9])
def test_a_field_without_a_value_is_named(status: int) -> None:
    said = answer(NODE)
    said["data"][0][1] = [status, None]
    (row,) = decode.table("node", decode.NODE, said)
    with pytest.raises(MessageError, match=rf"field uuid of \"n1\" is missing \(status {status}\)"):
        decode.node(row)


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "data",
        {},
        {"data": None},
        {"data": [None]},
        {"data": [[[0, "n1"]]]},
        {"data": [["n1"] * len(NODE)]},
        {"data": [[[0]] * len(NODE)]},
    ],
)
def test_no_table_is_said(said: object) -> None:
    with pytest.raises(MessageError):
        decode.table("node", decode.NODE, said)


def test_a_whole_snapshot() -> None:
    two = put(put(NODE, 0, "n2"), 1, "u2")
    seen = decode.snapshot(INFO, nodes(NODE, two), instances(DRBD, PLAIN), groups(GROUP))
    assert (seen.cluster, seen.master, seen.tags) == ("c", "n1", frozenset({"x"}))
    assert (set(seen.nodes), set(seen.instances), set(seen.groups)) == (
        {"n1", "n2"},
        {"i1", "i2"},
        {"g1"},
    )
    assert seen.ganeti == ""
    info = INFO | {"software_version": "3.1.0~rc2"}
    assert decode.snapshot(info, nodes(NODE), [], groups(GROUP)).ganeti == "3.1.0~rc2"


@pytest.mark.parametrize(
    ("info", "instance", "group", "fault"),
    [
        (INFO, DRBD, GROUP, "instance i1 is on node n2, which is not among the nodes"),
        (
            INFO,
            put(put(DRBD, 2, ["n3"]), 3, "mixed"),
            GROUP,
            "instance i1 is on node n3, which is not among the nodes",
        ),
        (INFO, PLAIN, put(GROUP, 0, "g2"), "node n1 is in group g1"),
        ({**INFO, "master": "n9"}, PLAIN, GROUP, "the master 'n9' is not among the nodes"),
        ({**INFO, "tags": [1]}, PLAIN, GROUP, "cluster field tags"),
        ({"name": "c"}, PLAIN, GROUP, "cluster fields"),
    ],
)
def test_parts_that_do_not_fit_are_no_snapshot(
    info: object, instance: list[Any], group: list[Any], fault: str
) -> None:
    with pytest.raises(MessageError, match=fault):
        decode.snapshot(info, nodes(NODE), instances(instance), groups(group))


def test_capacity_without_those_that_do_not_say() -> None:
    size = [[0, 1000], [0, 50], [0, 2000], [0, 8], [0, 1], [0, 2], [0, 1]]
    silent, offline = [[2, None]] * 9, [[4, None]] * 9
    nowhere = [[0, 100], [2, None], [0, 1000], [0, 50], [2, None], [0, 8], [0, 1]]
    said = {
        "data": [
            [[0, "n1"], [0, 100], [0, 200], *size],
            [[0, "n2"], *silent],
            [[0, "n3"], *offline],
            [[0, "n4"], *nowhere, [2, None], [2, None]],
            [[0, "n5"], [0, 100], [0, 200], *silent[2:]],
            [[0, "n6"], [0, 100], [0, 200], [0, 1000], [0, -50], *size[2:]],
            [[0, "n7"], [0, -1], [0, 200], *size],
            [[0, "n8"], [0, 100], [0, "much"], *size],
        ]
    }
    rows = decode.table("node", decode.CAPACITY, said)
    assert decode.capacity(rows) == {
        "n1": Capacity(100, 200, Size(1000, 50, 2000, 8, 1, 2, 1)),
        "n4": Capacity(100, 0, Size(1000, 50, 0, 8)),
        "n5": Capacity(100, 200),
        "n6": Capacity(100, 200),
    }


def test_noded_answers_though_the_hypervisor_and_the_storage_fail() -> None:
    rows = [[[0, "n1"], [0, "8a7e"]], [[0, "n2"], [2, None]], [[0, "n3"], [4, None]]]
    told = decode.answering(decode.table("node", decode.ANSWERING, {"data": rows}))
    assert told == {"n1": True, "n2": False, "n3": False}
    failing = {"mfree", "dfree", "mtotal", "mnode", "dtotal", "ctotal", "cnos"}
    assert failing.isdisjoint(decode.ANSWERING), "Ganeti would ask these as well"


def test_what_runs_and_what_may() -> None:
    said = {
        "data": [
            [[0, "i1"], [0, "running"], [0, 100]],
            [[0, "i2"], [0, "ADMIN_down"], [3, None]],
            [[0, "i3"], [0, "ERROR_nodedown"], [2, None]],
            [[0, "i4"], [2, None], [2, None]],
            [[0, "i5"], [0, "running"], [0, -1]],
        ]
    }
    assert decode.running(decode.table("instance", decode.RUNNING, said)) == {
        "i1": Running("running", 100),
        "i2": Running("ADMIN_down"),
        "i3": Running("ERROR_nodedown"),
    }


FAILED = ["OpPrereqError", ["Tag(s) 'gone' not found", "unknown_entity"]]
SKIPPED = ["OpExecError", ["Preceding opcode failed"]]
UNMET = "Dependency job 22 finished with status 'error', not one of 'success' as required"
NO_MEMORY = (
    "Not enough memory on node n2 for starting instance i: needed {} MiB, available 8000 MiB"
)


@pytest.mark.parametrize(
    ("status", "statuses", "said", "result"),
    [
        ("queued", ["queued"], [None], Result(Outcome.RUNNING, "queued")),
        ("waiting", ["waiting"], [None], Result(Outcome.RUNNING, "waiting")),
        ("running", ["running"], [None], Result(Outcome.RUNNING, "running")),
        ("canceling", ["canceling"], [None], Result(Outcome.RUNNING, "canceling")),
        ("success", ["success"], [None], Result(Outcome.SUCCESS)),
        (
            "error",
            ["error"],
            [FAILED],
            Result(Outcome.ERROR, "OpPrereqError: Tag(s) 'gone' not found"),
        ),
        (
            "error",
            ["success", "error", "error"],
            [None, FAILED, SKIPPED],
            Result(Outcome.ERROR, "OpPrereqError: Tag(s) 'gone' not found"),
        ),
        (
            "error",
            ["success", "error", "error"],
            [None, ["OpPrereqError", [NO_MEMORY.format(2**40), "insufficient_resources"]], SKIPPED],
            Result(Outcome.ERROR, "its primary node is no longer offline: nothing was done"),
        ),
        (
            "error",
            ["error"],
            [["OpPrereqError", [NO_MEMORY.format(9000), "insufficient_resources"]]],
            Result(Outcome.ERROR, f"OpPrereqError: {NO_MEMORY.format(9000)}"),
        ),
        (
            "error",
            ["error"],
            [["NoMasterError", ["/var/run/ganeti/socket/ganeti-wconfd"]]],
            Result(Outcome.LATER, "NoMasterError: /var/run/ganeti/socket/ganeti-wconfd"),
        ),
        (
            "error",
            ["error"],
            [["TimeoutError", ["Connect timed out"]]],
            Result(Outcome.ERROR, "TimeoutError: Connect timed out"),
        ),
        (
            "error",
            ["error"],
            [["OpExecError", [UNMET]]],
            Result(Outcome.LATER, f"OpExecError: {UNMET}"),
        ),
        ("error", ["error"], [["JobLost", []]], Result(Outcome.ERROR, "JobLost")),
        ("error", ["error"], ["a\n  b\x1b"], Result(Outcome.ERROR, "a b?")),
        ("error", None, None, Result(Outcome.ERROR, "the job failed and does not say why")),
        (
            "canceled",
            ["canceled"],
            [None],
            Result(Outcome.ERROR, "the job was canceled, by hand or by a job filter"),
        ),
    ],
)
def test_how_a_job_stands(status: str, statuses: object, said: object, result: Result) -> None:
    row = [7, status, True, statuses, said, [[1, 0]], []]
    rows = decode.table("job", jobqueue.RESULT, answer(row))
    assert jobqueue.results(["7"], rows) == {"7": result}


def powered(said: object, log: str = "it was unplugged") -> Result:
    """The result of a job that asked for the power of n1.example."""
    op = {"OP_ID": "OP_OOB_COMMAND", "node_names": ["n1.example"], "command": "power-status"}
    row = [7, "success", False, ["success"], said, [[1, 0]], [op]]
    rows = decode.table("job", jobqueue.RESULT, answer(row))
    assert jobqueue.failed_controls(rows) in ([], [7])
    (result,) = jobqueue.results(["7"], rows, {7: log}).values()
    assert (result.outcome is Outcome.ERROR) == (jobqueue.failed_controls(rows) == [7])
    return result


def test_the_power_of_a_node_is_what_the_opcode_says() -> None:
    said = powered([[[[0, "n1.example"], [0, {"powered": False}]]]])
    assert said == Result(Outcome.SUCCESS, code=0, said='{"powered":false}')
    assert powered([[[[0, "n1.example"], [0, None]]]]) == Result(Outcome.SUCCESS, code=0)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([[[[0, "n1.example"], [2, None]]]], id="no data: the program failed"),
        pytest.param([[[[0, "n1.example"], [3, None]]]], id="no program"),
        pytest.param([[[[0, "n2.example"], [0, {"powered": False}]]]], id="another node"),
        pytest.param([[[[0, "n1"], [0, {"powered": False}]]]], id="a short name"),
        pytest.param([[[[2, "n1.example"], [0, {}]]]], id="a name that is none"),
        pytest.param(
            [[[[0, "n1.example"], [0, {}]], [[0, "n2.example"], [0, {}]]]], id="two nodes"
        ),
        pytest.param([[]], id="no node"),
        pytest.param([], id="nothing"),
        pytest.param(None, id="null"),
        pytest.param([[[[0, "n1.example"], [0, "x" * 9000]]]], id="too much"),
        pytest.param([[[[0, "n1.example"], ["0", None]]]], id="a status that is no number"),
    ],
)
def test_a_successful_job_of_power_control_may_have_failed(said: object) -> None:
    assert powered(said).outcome is Outcome.ERROR


def test_a_failed_power_control_gives_ganetis_warning_and_status() -> None:
    assert powered([[[[0, "n1.example"], [2, None]]]]).why == "it was unplugged"
    absent = powered([[[[0, "n1.example"], [3, None]]]], log="")
    assert (absent.code, absent.why) == (3, "no power control is configured for it")
    log = [[1, [1, 2], "message", "begun"], [2, [1, 2], "message", "run_oob failed:\n code 1"]]
    rows = decode.table("job", jobqueue.LOG, answer([7, [log]], [8, [[]]], [9, None]))
    assert jobqueue.warnings(rows) == {7: "run_oob failed: code 1"}


STALE = (
    "Can't create block device <LogicalVolume(/dev/xenvg/2f4b.disk0_data, visible as /dev/disk/0,"
    " size=192m)> on node node2.gnt.test for instance ia.gnt.test: Can't create block device: LV"
    ' create failed (exited with exit code 5):   Logical Volume "2f4b.disk0_data" already exists in'
    ' volume group "xenvg".'
)


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        (
            STALE,
            "; volume xenvg/2f4b.disk0_data is left over on node2.gnt.test: if gnt-node volumes"
            " node2.gnt.test shows no instance for it, run gnt-cluster command -n node2.gnt.test"
            " lvremove -f xenvg/2f4b.disk0_data",
        ),
        (
            "Disk 0 is degraded or not fully synchronized on target node, aborting migration",
            "; its DRBD disks are not connected, or not in sync: run gnt-instance activate-disks"
            " INSTANCE; if that does not help, gnt-instance replace-disks -a INSTANCE",
        ),
        (
            "Node n1 has degraded storage, unsafe to replace disks for instance web1",
            "activate-disks web1; if that does not help, gnt-instance replace-disks -a web1",
        ),
    ],
)
@pytest.mark.parametrize("padding", ["", "x" * 500 + " "])
def test_an_error_that_a_command_clears_names_it_however_long_it_is(
    said: str, way_out: str, padding: str
) -> None:
    row = [7, "error", True, ["error"], [["OpExecError", [padding + said]]], [[1, 0]], []]
    rows = decode.table("job", jobqueue.RESULT, answer(row))
    result = jobqueue.results(["7"], rows)["7"]
    assert result.outcome is Outcome.ERROR
    assert result.why.endswith(way_out)
    assert len(result.why) < 1000


@pytest.mark.parametrize("letter", ["x", " ", "1", "\u0301", 'Logical Volume "a', "on node "])
def test_a_very_long_error_is_read_in_a_moment(letter: str) -> None:
    row = [7, "error", True, ["error"], [["OpExecError", [letter * 100_000]]], [[1, 0]], []]
    result = jobqueue.result(decode.table("job", jobqueue.RESULT, answer(row))[0])
    assert len(result.why) < 1000


@pytest.mark.parametrize(
    ("executed", "outcome"),
    [
        ([None, None], Outcome.LATER),
        ([[1, 0], None], Outcome.ERROR),
        ([], Outcome.ERROR),
        (None, Outcome.ERROR),
    ],
)
def test_a_job_that_ganeti_gave_up_before_it_began_is_to_be_tried_again(
    executed: object, outcome: Outcome
) -> None:
    """Luxid writes no result where it cannot start a job, or where the job's process has died."""
    row = [7, "error", True, ["error", "error"], [None, None], executed, []]
    rows = decode.table("job", jobqueue.RESULT, answer(row))
    assert jobqueue.results(["7"], rows)["7"].outcome is outcome


def test_what_others_are_at_work_on() -> None:
    ops = [
        (1, [{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "web", "reason": []}]),
        (2, [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "ours", "reason": [OURS]}]),
        (3, [{"OP_ID": "OP_TAGS_SET", "kind": "instance", "name": "tagged"}]),
        (4, [{"OP_ID": "OP_NODE_MIGRATE", "node_name": "n1"}]),
        (5, [{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n2"}]),
        (6, [{"OP_ID": "OP_INSTANCE_QUERY_DATA", "instance_name": "seen"}]),
        (7, [{"OP_ID": "OP_TEST_DELAY"}, {"OP_ID": "OP_INSTANCE_REBOOT", "instance_name": "web"}]),
        (8, None),
        (9, [None, {"OP_ID": "OP_BACKUP_EXPORT", "instance_name": "db"}]),
    ]
    rows = decode.table("job", jobqueue.BUSY, {"data": [[[0, n], [0, said]] for n, said in ops]})
    names = {"web", "ours", "tagged", "n1", "n2", "seen", "db"}
    assert jobqueue.busy(rows, names) == {"web": "1", "n1": "4", "db": "9"}


def test_the_names_of_a_waiting_job_are_read_as_ganeti_reads_them() -> None:
    """Until a job begins it has them as a person typed them (MatchNameComponent)."""
    typed = {1: "Web", 2: "web.a", 3: "db", 4: "web.a.ex", 5: "gone"}
    ops = {n: [{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": t}] for n, t in typed.items()}
    ops[6] = [{"OP_ID": "OP_NODE_EVACUATE", "node_name": "N1"}]
    ops[7] = [{"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": ""}]
    rows = decode.table(
        "job", jobqueue.BUSY, {"data": [[[0, n], [0, said]] for n, said in ops.items()]}
    )
    names = {"web.a.example", "web.b.example", "db", "db.a.example", "n1.example"}
    assert jobqueue.busy(rows, names) == {
        "web.a.example": "1",
        "web.b.example": "1",
        "db": "3",
        "n1.example": "6",
    }


OURS = [SOURCE, "maintd:7", 1]
EVENT = "01a1ee56-ac20-859f-b073-b56a6340d619"


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        (f"{EVENT}:7", EVENT),
        (f"autorepair:{EVENT}:7", EVENT),
        ("autorepair:ticket-1:7", "ticket-1"),
        ("balance:g:7", ""),
        ("maintd:7", ""),
    ],
)
def test_a_job_filter_finds_each_job_by_the_id_of_its_event(reason: str, event: str) -> None:
    swap = Retag(Scope.INSTANCE, "i", ("ganeti:watcher:autorepair:b",), ("a",))
    move = Guarded(swap, MovePrimary("i", "n1", live=True))
    body = opcodes.job(Submission(move, reason), Nanoseconds(3))
    assert isinstance(body, list)
    texts = [reason, event] if event else [reason]
    assert [op["reason"] for op in body] == [[[SOURCE, text, 3] for text in texts]] * 4
    # And it is known again by the first.
    found = jobqueue.trail(job(*body[0]["reason"]))
    assert found is not None
    assert found.reason == reason


def test_vanished_jobs_are_lost() -> None:
    gone = {"data": [[[0, 7], *[[3, None]] * 6]]}
    rows = decode.table("job", jobqueue.RESULT, gone)
    lost = jobqueue.results(["7", "8"], rows)
    assert {job: result.outcome for job, result in lost.items()} == {
        "7": Outcome.LOST,
        "8": Outcome.LOST,
    }


def job(*entries: object, op: str = "OP_NODE_SET_PARAMS") -> decode.Row:
    ops = [{"OP_ID": op, "node_name": "n1", "drained": True, "reason": list(entries)}]
    row = [
        7,
        "success",
        False,
        ["success"],
        [None],
        [[1_795_193_205, 500_000]],
        ops,
        [1_795_193_205, 444_267],
        [1_795_193_206, 1000],
    ]
    return decode.table("job", jobqueue.TRAIL, answer(row))[0]


OWN = "7b1cb7c2-0c8e-5b8e-9d55-0d4a5f6a1b2c:1.2"


@pytest.mark.parametrize(
    ("source", "text", "ours"),
    [
        ("gnt:daemon:maintd", OWN, True),
        ("gnt:daemon:maintd", "maintd:1.2", True),
        ("gnt:daemon:maintd", f"autorepair:{OWN}", True),
        ("gnt:user", OWN, False),
        ("gnt:user", "maintd:1.2", False),
        ("gnt:client:gnt-node", OWN, False),
    ],
)
def test_whose_job_it_is(source: str, text: str, ours: bool) -> None:
    found = jobqueue.trail(job(["gnt:opcode:x", "job=7;index=0", 1], [source, text, 2]))
    times = Ms(1_795_193_205_444), Ms(1_795_193_206_001)
    expected = Trail("7", text, Drain("n1"), Result(Outcome.SUCCESS), *times)
    assert found == (expected if ours else None)


def test_a_job_of_ours_that_we_cannot_order_has_no_action() -> None:
    found = jobqueue.trail(job(["gnt:daemon:maintd", OWN, 1], op="OP_NODE_POWERCYCLE"))
    assert found is not None
    assert found.action is None


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (
            ["OpPrereqError", ["no\nsuch node", "wrong_input"]],
            Refusal("OpPrereqError", "no such node"),
        ),
        (["GenericError", ["Queue drained"]], Refusal("GenericError", "Queue drained")),
        (["JobLost", ["Can't load job file"]], Refusal("JobLost", "Can't load job file")),
        (["JobLost", []], Refusal("JobLost", "JobLost")),
        (["JobLost"], Refusal("JobLost", "JobLost")),
        ("Failed to parse request: x", Refusal("", "Failed to parse request: x")),
        (None, Refusal("", "null")),
        ([7], Refusal("", "[7]")),
    ],
)
def test_how_luxid_refuses(said: object, refusal: Refusal) -> None:
    assert refused(said) == refusal


def test_what_was_done_to_nodes_roles() -> None:
    drain = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n1", "drained": True, "offline": None}
    added = {"OP_ID": "OP_NODE_ADD", "node_name": "n2", "readd": True}
    other = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n3", "drained": None, "powered": True}
    ours = {**drain, "node_name": "n4", "reason": [["gnt:daemon:maintd", "maintd:5", 1]]}
    ops = [drain, drain, added, other, drain, None]
    ends = ["success", "success", "running", "success", "error", "queued"]
    said = [[["drained", "True"]], [], None, [], ["OpPrereqError", ["no"]], None]
    rows = [
        [7, "running", False, ends, said, [], ops, [1, 2], None],
        [8, "success", True, ["success"], [[["drained", "True"]]], [], [ours], [1, 2], [3, 4]],
        [9, "success", True, None, None, [], None, None, None],
    ]
    found = decode.table("job", jobqueue.TRAIL, answer(*rows))
    assert [one for row in found for one in jobqueue.roles(row)] == [
        RoleChange("7", "n1", ours=False, changed=True),
        RoleChange("7", "n1", ours=False, changed=False),
        RoleChange("7", "n2", ours=False, changed=False),
        RoleChange("8", "n4", ours=True, changed=True),
    ]


def test_what_was_taken_off_or_away() -> None:
    untag = {"OP_ID": "OP_TAGS_DEL", "kind": "node", "name": "n1", "tags": ["a", "b"]}
    away = {"OP_ID": "OP_NODE_REMOVE", "node_name": "n2"}
    group = {"OP_ID": "OP_GROUP_REMOVE", "group_name": "g"}
    renamed = {"OP_ID": "OP_GROUP_RENAME", "group_name": "old", "new_name": "new"}
    of_all = {"OP_ID": "OP_TAGS_DEL", "kind": "cluster", "name": None, "tags": ["a"]}
    network = {**untag, "kind": "network"}
    tag = {**untag, "OP_ID": "OP_TAGS_SET"}
    ops = [untag, tag, away, group, renamed, of_all, network, None, {**untag, "name": "n3"}]
    ends = ["success"] * 5 + ["running"] * 3 + ["error"]
    (row,) = decode.table(
        "job", jobqueue.TRAIL, answer([7, "running", False, ends, [], [], ops, [1, 2], None])
    )
    assert jobqueue.removals(row) == [
        Removal("7", Scope.NODE, "n1", frozenset("ab")),
        Removal("7", Scope.NODE, "n2", None),
        Removal("7", Scope.GROUP, "g", None),
        Removal("7", Scope.GROUP, "old", None),
        Removal("7", Scope.CLUSTER, "", frozenset("a")),
    ]
