"""One table of operations: what stands elsewhere by name or number is what the table says."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import coterie.consumer_groups
import coterie.values
from coterie import CoterieError, Error, GroupCoordinator, TraceError, load_trace, run_trace
from coterie.base.operations import ABSENT, ALONE, DETAILS, NUMBER, OPERATIONS, REQUESTS
from coterie.coordinator.config import CLASSIC_ONLY, REPLAYING
from coterie.coordinator.requests import OPS, compile_request, compile_values, show_request
from coterie.events import Cause

CORE = Path(__file__).parents[2] / "src/coterie/_core/coordinator"


def enum(file, name):
    """The members of an enum of the core, by name."""
    text = (CORE / file).read_text(encoding="utf-8")
    body = re.search(rf"cdef enum {name}:.*?\n((?:    .*\n)+)", text)[1]
    return {m[1]: int(m[2]) for m in re.finditer(r"^    (\w+) = (-?\d+)", body, re.M)}


METHODS = [op for op, row in OPERATIONS.items() if row.method]


@pytest.mark.parametrize("op", METHODS)
def test_a_method_takes_the_fields_of_its_operation(op):
    parameters = inspect.signature(getattr(GroupCoordinator, op)).parameters
    fields = OPERATIONS[op].fields
    assert {field.name for field in fields} == {*parameters} - {"self"}
    defaults = {field.name: field.default for field in fields if field.default is not ABSENT}
    assert {name: parameters[name].default for name in defaults} == defaults


def test_a_join_has_a_consumers_timeouts_by_default_and_time_begins_at_0():
    coordinator = GroupCoordinator()
    assert coordinator.now_ms == 0
    coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    (member,) = coordinator.snapshot("g").members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (45_000, 300_000)


def test_by_default_one_append_fails():
    coordinator = GroupCoordinator()
    coordinator.fail_append("NOT_ENOUGH_REPLICAS")
    errors = [
        coordinator.offset_commit("g", {("t", 0): 5}).response.partitions[0].error.name
        for _ in range(2)
    ]
    assert errors == ["COORDINATOR_NOT_AVAILABLE", "NONE"]


@pytest.mark.parametrize("op", METHODS)
def test_a_method_hands_on_its_fields_in_the_order_of_the_table(op, monkeypatch):
    asked = []
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    answer = SimpleNamespace(response=None)
    monkeypatch.setattr(coordinator, "_ask", lambda *given: asked.append(given) or answer)
    names = [field.name for field in OPERATIONS[op].fields]
    getattr(coordinator, op)(**{name: name for name in names})
    assert asked == [(op, *names)]


def test_an_operation_needs_no_method_to_be_asked_for(monkeypatch):
    monkeypatch.setitem(
        OPERATIONS, "describe_group", OPERATIONS["describe_group"]._replace(method=False)
    )
    monkeypatch.delattr(GroupCoordinator, "describe_group")
    coordinator = GroupCoordinator()
    coordinator.offset_commit("g", {("t", 0): 5})
    answer = coordinator.handle({"op": "describe_group", "group_id": "g"}).response
    assert answer.state == "Empty"
    with pytest.raises(CoterieError, match="describe_group: group_id must be a string"):
        coordinator.handle({"op": "describe_group", "group_id": 5})


SINCE_4_1 = {"consumer_group_heartbeat", "consumer_group_describe", "metadata", "group_config",
             "run_tasks", "hold_commits", "release_commits", "append_raw"}  # fmt: skip


def ask(coordinator, op, request_id=1):
    """Ask the core for an operation, its fields as in GIVEN."""
    given = GIVEN | OF_OTHERS.get(op, {})
    values = tuple(given.get(field.name) for field in OPERATIONS[op].fields)
    coordinator._core.call(NUMBER[op], request_id, *compile_values(op, values))


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_component_of_the_core_decides_each_operation(op):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1" if op in SINCE_4_1 else "3.9"})
    if op == "finish_load":
        coordinator.resign()
        coordinator.begin_load()
    if op in REQUESTS:
        coordinator.resign()  # so that each is answered at once
        ask(coordinator, op)
        (answer,) = (event for event in coordinator._core.take_outputs().events()
                     if getattr(event, "id", None) == 1)  # fmt: skip
        assert answer.op == op
    else:
        ask(coordinator, op)


@pytest.mark.parametrize("number", [-1, len(NUMBER), 63, 64, 1 << 30])
def test_an_operation_that_does_not_exist_is_an_error(number):
    with pytest.raises(CoterieError, match=f"the coordinator has no operation {number}$"):
        GroupCoordinator()._core.call(number, 1, None, -1, None, None, None)


LEAST = {  # what an event needs besides `at`, `op` and `id`
    "join_group": {"protocol_type": "consumer", "client_id": "c", "client_host": "/h",
                   "session_timeout_ms": 10_000, "rebalance_timeout_ms": 1},
    "txn_offset_commit": {"producer_id": 1, "producer_epoch": 0},
    "end_txn": {"producer_id": 1},
    "fail_append": {"error": "NOT_ENOUGH_REPLICAS", "count": 1},
    "group_config": {"group_id": "g"},
    "consumer_group_describe": {"group_ids": ["a", "b"]},
}  # fmt: skip


@pytest.mark.parametrize("behaviour", [*CLASSIC_ONLY, *REPLAYING])
@pytest.mark.parametrize("op", [name for name, row in OPERATIONS.items() if row.traced])
def test_each_operation_of_a_trace_runs_under_each_behaviour_or_needs_a_later_one(op, behaviour):
    header = {"format": "coterie-trace", "version": 2, "name": "t",
              "config": {"coterie.behaviour": behaviour}}  # fmt: skip
    event = {"at": 0, "op": op, **LEAST.get(op, {})} | ({"id": 1} if op in REQUESTS else {})
    if behaviour in CLASSIC_ONLY and op in ("hold_commits", "release_commits", "append_raw"):
        with pytest.raises(TraceError, match=f"^line 2: {op} needs coterie.behaviour 4.1 or later"):
            list(run_trace([header, event]))
        return
    came = [line for line in run_trace([header, event, {"at": 9000, "op": "advance"}])
            if line["event"] == "response"]  # fmt: skip
    assert [line["id"] for line in came] == [1] * (op in REQUESTS)
    if behaviour in CLASSIC_ONLY and op.startswith("consumer_group_"):
        # KafkaApis refuses each group: ConsumerGroupDescribeRequest.getErrorResponse
        refused = came[0].get("groups", came)
        assert {one["error"] for one in refused} == {"UNSUPPORTED_VERSION"}
        assert len(refused) == len(event.get("group_ids", "1"))


def test_the_settings_of_a_group_need_its_id():
    header = {"format": "coterie-trace", "version": 2, "name": "t"}
    with pytest.raises(TraceError, match="line 2: group_config: needs group_id"):
        load_trace([header, {"at": 0, "op": "group_config"}])


@pytest.mark.parametrize("op", sorted(REQUESTS))
def test_a_request_is_answered_with_the_response_of_its_name(op):
    """Or with that of the first operation whose answer has this shape."""
    first = next(one for one, row in OPERATIONS.items() if row.answer is OPERATIONS[op].answer)
    name = f"{first.title().replace('_', '')}Response"
    response = getattr(coterie.values, name, None) or getattr(coterie.consumer_groups, name)
    made = OPERATIONS[op].answer(Error.NOT_COORDINATOR, None)
    assert type(made) is response
    assert made.error is Error.NOT_COORDINATOR


@pytest.mark.parametrize("op", ["resign", "begin_load", "finish_load"])
def test_what_a_trace_has_no_op_for_is_refused_there(op):
    header = {"format": "coterie-trace", "version": 1, "name": "t"}
    with pytest.raises(TraceError, match=f"'{op}' is no op"):
        load_trace([header, {"at": 0, "op": op}])
    with pytest.raises(CoterieError, match=f"op '{op}' is none"):
        GroupCoordinator().handle({"op": op})


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_details_of_an_operation_have_one_place_each(op):
    places = [field.place for field in OPERATIONS[op].fields if field.place >= DETAILS]
    if op == "offset_commit":  # its producer has the places of a txn_offset_commit, and is none
        places[1:1] = [DETAILS + 1, DETAILS + 2]
        assert compile_request(op, {"offsets": []})[DETAILS][1:3] == (-1, -1)
    assert places == [DETAILS + number for number in range(len(places))]
    alone = [field for field in OPERATIONS[op].fields if field.place == ALONE]
    assert len(alone) + bool(places) <= 1
    heads = [field.place for field in OPERATIONS[op].fields if 0 <= field.place < DETAILS]
    assert len(set(heads)) == len(heads)


GIVEN = {
    "group_id": "g",
    "generation_id": 3,
    "member_id": "m-1",
    "group_instance_id": "i",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": "AAE="}],
    "session_timeout_ms": 6000,
    "rebalance_timeout_ms": 7000,
    "client_id": "c",
    "client_host": "/h",
    "require_known_member_id": True,
    "supports_skipping_assignment": True,
    "protocol_name": "range",
    "assignments": [{"member_id": "m-1", "assignment": "AAE="}],
    "members": [{"member_id": "m-1", "group_instance_id": "i"}],
    "offsets": [
        {
            "topic": "t",
            "partition": 1,
            "offset": 5,
            "leader_epoch": 0,
            "metadata": "x",
            "expire_timestamp": 9,
        }
    ],
    "producer_id": 8,
    "producer_epoch": 2,
    "committed": True,
    "topics": [{"topic": "t", "partitions": [0, 1]}],
    "require_stable": True,
    "partitions": [{"topic": "t", "partition": 1}],
    "states": ["Empty"],
    "group_ids": ["g"],
    "error": "NETWORK_EXCEPTION",
    "count": 2,
    "partition": 3,
    "member_epoch": 4,
    "retention_time_ms": 77,
    "types": ["consumer"],
    "version": 7,
    "instance_id": "i",
    "rack_id": "r",
    "subscribed_topic_names": ["t"],
    "subscribed_topic_regex": "t.*",
    "server_assignor": "range",
    "topic_partitions": [{"topic_id": "AAAAAAAAQACAAAAAAAAAAQ", "partitions": [0, 1]}],
    "brokers": [{"id": 1, "rack": "a"}],
    "delete_topics": ["x"],
    "config": {"consumer.session.timeout.ms": 46000},
    "key": "AAIAAWc=",
    "value": "AAE=",
}
OF_OTHERS = {  # fields that have another form in this operation
    "metadata": {"topics": [{"topic": "t", "topic_id": "AAAAAAAAQACAAAAAAAAAAQ",
                             "partitions": 2, "replicas": [[0, 1], [1]]}]},
}  # fmt: skip


UNSHOWN = {"metadata": {"brokers", "delete_topics", "topics"}, "append_raw": {"key", "value"}}


@pytest.mark.parametrize("op", OPS)
def test_a_request_is_shown_as_it_was_given(op):
    names = {field.name for field in OPERATIONS[op].fields} - {"reason"}
    names -= UNSHOWN.get(op, set())
    given = {n: v for n, v in (GIVEN | OF_OTHERS.get(op, {})).items() if n in names}
    assert set(given) == names
    assert show_request(op, compile_request(op, given)) == given


def test_the_codes_of_the_core_are_kafkas_errors():
    # Compiled code needs constants, and Python an enum: neither can be made from the other.
    codes = enum("codes.pxd", "Code")
    assert len(codes) > 25
    assert {name: Error[name].value for name in codes} == codes


def test_the_causes_of_the_core_are_those_of_events():
    causes = {name.removeprefix("BY_"): n for name, n in enum("runtime.pxd", "CauseCode").items()}
    assert causes == {cause.name: cause.value for cause in Cause}


def test_the_states_of_the_core_have_kafkas_names():
    text = (CORE / "runtime.pyx").read_text(encoding="utf-8")
    names = re.findall(r'"(\w+)"', re.search(r"^STATE_NAMES = \((.*)\)", text, re.M)[1])
    states = enum("runtime.pxd", "State")
    assert states.pop("MAX_STATES") == len(states)
    assert {state.title().replace("_", ""): n for state, n in states.items()} == {
        name: n for n, name in enumerate(names)
    }
