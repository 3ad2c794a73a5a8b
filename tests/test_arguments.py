"""Wrong use: every wrong argument is one ArgumentError, which names it, and changes nothing."""

import asyncio

import numpy as np
import pytest

from coterie import (
    ArgumentError,
    CoterieError,
    Error,
    GroupCoordinator,
    OffsetAndMetadata,
    OffsetMap,
    TimerWheel,
    aio,
    expired,
    load_trace,
    select_protocol,
    select_protocols,
)
from coterie.base import arguments
from coterie.coordinator.sessions import session_expirations
from coterie.server import Broker
from coterie.server.api.faults import Fault
from coterie.testing import Cluster, Member, assignment, subscription

COORDINATOR = {
    "time back": (lambda c: c.advance(999), "now_ms 999 < 1000"),
    "ms back": (lambda c: c.advance_by(-1), "ms must not be negative, not -1"),
    "text for a time": (lambda c: c.advance("x"), "now_ms must be an integer, not 'x'"),
    "text for ms": (lambda c: c.advance_by("x"), "ms must be an integer, not 'x'"),
    "a fraction": (lambda c: c.advance(1007.9), "now_ms must be an integer, not 1007.9"),
    "ms as a bool": (lambda c: c.advance_by(True), "ms must be an integer, not True"),
    "beyond any time": (lambda c: c.advance(2**61), "now_ms must be from 0 to"),
    "time of a dict": (lambda c: c.handle({"op": "advance", "at": 7.9}), "now_ms must be an int"),
    "nothing pending": (lambda c: c.run_until(5, limit_ms=9), "pending must be what a request"),
    "no limit": (lambda c: c.run_until(5), "limit_ms"),
    "unknown op": (lambda c: c.handle({"op": "nope"}), "op 'nope' is none; the ops are advance"),
    "no op": (lambda c: c.handle({}), "op None is none"),
    "op of a list": (lambda c: c.handle({"op": []}), "is none"),
    "no request": (lambda c: c.handle("x"), "request must be a mapping with an op, not 'x'"),
    "a field is missing": (
        lambda c: c.handle({"op": "join_group", "group_id": "g", "protocols": []}),
        "protocol_type",
    ),
    "sugar": (
        lambda c: c.handle(
            {"op": "leave_group", "group_id": "g", "members": [{"member_id_of": 1}]}
        ),
        "member_id_of stands in traces alone",
    ),
    "sugar above": (
        lambda c: c.handle({"op": "heartbeat", "group_id": "g", "member_id_of": 1}),
        "member_id_of stands in traces alone",
    ),
    "no trace": (lambda c: c.play("x"), "trace must come from coterie.load_trace, not 'x'"),
    "missing keyword": (lambda c: c.join_group("g", protocols={}), "protocol_type"),
    "unknown keyword": (lambda c: c.heartbeat("g", generation=1), "generation"),
    "missing producer": (lambda c: c.txn_offset_commit("g", {}), "producer_id"),
    "wrong generation": (lambda c: c.heartbeat("g", "1", "m"), "generation_id must be an integer"),
    "wrong group": (lambda c: c.heartbeat(5, 1, "m"), "group_id must be a string, not 5"),
    "wrong member": (lambda c: c.heartbeat("g", 1, b"m"), "member_id must be a string"),
    "big generation": (lambda c: c.heartbeat("g", 2**31, "m"), "generation_id must fit 32 bits"),
    "unknown error": (lambda c: c.fail_append("nonsense"), "error must be the name of one"),
    "error of a float": (lambda c: c.fail_append(1.5), "error must be one of Kafka's errors"),
    "text for groups": (lambda c: c.delete_groups("g"), "group_ids must be a list, not 'g'"),
    "text for members": (lambda c: c.leave_group("g", "abc"), "members must be a list, not 'abc'"),
    "a short pair": (lambda c: c.leave_group("g", [("m",)]), "members must be a list of objects"),
    "a wrong pair": (lambda c: c.leave_group("g", [(1, 2)]), "member_id must be a string, not 1"),
    "text for states": (lambda c: c.list_groups(states="Stable"), "states must be a list"),
    "a number for states": (lambda c: c.list_groups(5), "states must be a list, not 5"),
    "partitions": (lambda c: c.offset_delete("g", 5), "partitions must be a list, not 5"),
    "a partition": (lambda c: c.offset_delete("g", [("t",)]), "list of objects, not of"),
    "fetched numbers": (lambda c: c.offset_fetch("g", {"t": 5}), "partitions must be a list"),
    "protocols": (
        lambda c: c.join_group("g", protocol_type="consumer", protocols=5),
        "protocols must be a list, not 5",
    ),
    "a protocol without bytes": (
        lambda c: c.join_group("g", protocol_type="consumer", protocols={"range": None}),
        "needs metadata",
    ),
    "an assignment of a number": (
        lambda c: c.sync_group("g", 1, "m", assignments={5: b""}),
        "member_id must be a string, not 5",
    ),
    "an offset of a float": (lambda c: c.offset_commit("g", {("t", 0): 1.5}), "offset must be"),
    "a commit's epoch": (
        lambda c: c.offset_commit("g", {("t", 0): OffsetAndMetadata(1, "x")}),
        "leader_epoch must be an integer",
    ),
    "a view of a number": (lambda c: c.snapshot(5), "group_id must be a string, not 5"),
}
MADE = {
    "appends": (lambda: GroupCoordinator(appends="x"), "appends must be 'immediate' or"),
    "now_ms": (lambda: GroupCoordinator(now_ms="x"), "now_ms must be an integer, not 'x'"),
    "now_ms of a fraction": (lambda: GroupCoordinator(now_ms=1.5), "now_ms must be an integer"),
    "now_ms below 0": (lambda: GroupCoordinator(now_ms=-1), "now_ms must be from 0"),
    "member_ids": (lambda: GroupCoordinator(member_ids="x"), "member_ids must be callable"),
    "on_event": (lambda: GroupCoordinator(on_event=5), "on_event must be callable, not 5"),
    "log": (lambda: GroupCoordinator(log=5), "log must be a list, not 5"),
    "log of text": (lambda: GroupCoordinator(log=["x"]), "log must hold coterie.Batch"),
    "keyword": (lambda: GroupCoordinator(configuration={}), "configuration"),
    "lines": (lambda: load_trace(5), "lines must be"),
    "a trace as one text": (lambda: load_trace("{}"), "lines must be"),
    "subscription": (lambda: subscription("orders"), "topics must be a list of names"),
    "version": (lambda: subscription(["t"], 4), "version must be from 0 to 3, not 4"),
    "partition": (lambda: assignment({"t": [2**31]}), "a partition must fit 32 bits"),
    "awaited": (lambda: asyncio.run(aio.wait(5)), "pending must be what a request returned"),
    "assignor": (
        lambda: Member(GroupCoordinator(), "g", client_id="c", topics=["t"], assignor="stickier"),
        "assignor 'stickier' is not known",
    ),
}
COLUMNS = {
    "wheel of a fraction": (lambda: TimerWheel(1.5), "now_ms must be an integer, not 1.5"),
    "deadline of a fraction": (lambda: TimerWheel().add(1.9, 2), "deadline_ms must be an integer"),
    "key of text": (lambda: TimerWheel().add(5, "key"), "key must be an integer, not 'key'"),
    "key of a bool": (lambda: TimerWheel().add(5, True), "key must be an integer, not True"),
    "key of several": (lambda: TimerWheel().add(5, np.arange(3)), "key must be an integer"),
    "big handle": (lambda: TimerWheel().cancel(2**70), "handle must fit 64 bits"),
    "rearm": (lambda: TimerWheel().rearm(1, 2.5), "deadline_ms must be an integer, not 2.5"),
    "advance back": (lambda: TimerWheel(5).advance(4), "now_ms 4 < 5"),
    "advance by a fraction": (lambda: TimerWheel().advance(7.9), "now_ms must be an integer"),
    "add_many lengths": (lambda: TimerWheel().add_many([1, 2], [1]), "2 deadlines_ms, but 1 keys"),
    "add_many floats": (lambda: TimerWheel().add_many([1.0], [1]), "deadlines_ms must be a column"),
    "add_many ragged": (lambda: TimerWheel().add_many([[1], [1, 2]], [1]), "deadlines_ms must be"),
    "add_many beyond": (
        lambda: TimerWheel().add_many(np.array([2**63], np.uint64), [1]),
        "deadlines_ms must fit 64 bits",
    ),
    "rearm_many lengths": (lambda: TimerWheel().rearm_many([1], []), "1 handles, but 0 deadlines"),
    "cancel_many of text": (lambda: TimerWheel().cancel_many("abc"), "handles must be a column"),
    "starts": (lambda: select_protocols([0], [0, 2], [0, 1]), "member_start must start with 0"),
    "names of floats": (lambda: select_protocols([0.5], [0, 1], [0, 1]), "names must be a column"),
    "names beyond": (lambda: select_protocols([2**31], [0, 1], [0, 1]), "names must fit 32 bits"),
    "names that are none": (lambda: select_protocol([[5]]), "a name must be a string, not 5"),
    "no list of names": (lambda: select_protocol(5), "protocols must be a list, not 5"),
    "expiry lengths": (lambda: expired([1, 2], [1], 5, 5), "expire_ms must be a column of 2"),
    "expiry of a fraction": (lambda: expired([1], None, 5.5, 5), "now_ms must be an integer"),
    "a null": (lambda: expired([1, None], None, 5, 5), "commit_ms has no value in row 1: fill"),
    "a text is no list of votes": (lambda: select_protocol(["ab"]), "names must be a list"),
    "expiry base": (lambda: expired([1], None, 5, 5, base_ms=1.5), "base_ms must be a"),
    "expiry keep": (lambda: expired([1], None, 5, 5, keep=[1]), "keep must be a column of 1 bools"),
    "offset of text": (lambda: OffsetMap().commit({("t", 0): "5"}, 0), "offset must be an integer"),
    "offsets of a list": (lambda: OffsetMap().commit([1], 0), "offsets must be {(topic"),
    "key of an offset": (lambda: OffsetMap().commit({"t": 1}, 0), "a partition is"),
    "position": (lambda: OffsetMap().commit({("t", 0): 5}, 1.5), "position must be an integer"),
    "fetched": (lambda: OffsetMap().fetch("t", "0"), "a partition must be an integer"),
    "kept topics": (lambda: OffsetMap().expire(1, 1, keep="t"), "keep must be a list of strings"),
    "sessions": (lambda: session_expirations(["a"], [1, 2], 5), "heartbeat_ms must be a column"),
}  # fmt: skip


def one_line(caught):
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("what", COORDINATOR)
def test_a_wrong_request_is_refused_and_changes_nothing(what):
    wrong, message = COORDINATOR[what]
    coordinator = GroupCoordinator(now_ms=1000)
    with pytest.raises(ArgumentError) as caught:
        wrong(coordinator)
    assert message in one_line(caught)
    assert (coordinator.now_ms, coordinator.events) == (1000, [])
    assert coordinator.list_groups().groups == ()


@pytest.mark.parametrize("what", MADE)
def test_a_wrong_argument_of_a_maker_is_refused(what):
    wrong, message = MADE[what]
    with pytest.raises(ArgumentError) as caught:
        wrong()
    assert message in one_line(caught)


@pytest.mark.parametrize("what", COLUMNS)
def test_a_wrong_argument_of_a_structure_is_refused(what):
    wrong, message = COLUMNS[what]
    with pytest.raises(ArgumentError) as caught:
        wrong()
    assert message in one_line(caught)


def test_an_argument_error_is_a_value_error_too():
    assert issubclass(ArgumentError, CoterieError)
    assert issubclass(ArgumentError, ValueError)


def test_numpys_integers_are_integers():
    coordinator = GroupCoordinator({"group.max.size": np.int32(3)}, now_ms=np.int64(5))
    coordinator.advance(np.int64(8))
    coordinator.advance_by(np.uint8(2))
    coordinator.offset_commit("g", {("t", np.int32(0)): np.int64(7)})
    assert coordinator.offset_fetch("g", {"t": np.arange(1)})["t", 0].offset == 7
    assert (coordinator.now_ms, coordinator.config["group.max.size"]) == (10, 3)
    wheel = TimerWheel(np.int16(1))
    wheel.add(np.int64(5), np.uint32(6))
    assert wheel.advance(np.int64(5)).tolist() == [6]


def test_an_append_that_was_completed_wrongly_can_still_be_completed():
    coordinator = GroupCoordinator(appends="deferred")
    commits = [coordinator.offset_commit("g", {("t", 0): n}) for n in (1, 2)]
    first, second = coordinator.appends
    first.complete(base_offset=4)
    for wrong in ({"error": "REQUEST_TIMED_OUT"}, {"error": 4.5}, {"base_offset": -1},
                  {"base_offset": "5"}, {"base_offset": 4}, {"offset": 5}):  # fmt: skip
        with pytest.raises(ArgumentError):
            second.complete(**wrong)
    assert not commits[1].done
    second.complete(Error.REQUEST_TIMED_OUT)
    assert commits[1].response.partitions[0].error is Error.REQUEST_TIMED_OUT


def test_a_clock_may_be_moved_by_nothing():
    coordinator = GroupCoordinator(now_ms=5)
    coordinator.advance_by(0)
    coordinator.advance(5)
    assert (coordinator.now_ms, coordinator.events) == (5, [])


def test_the_longest_text_has_as_many_bytes_as_an_int16_counts():
    longest = "é" * 16_383 + "x"
    assert (len(longest.encode()), arguments.text(longest, "it")) == (2**15 - 1, longest)
    with pytest.raises(ArgumentError, match="at most 32767 bytes of UTF-8, not 32768"):
        arguments.text(longest + "x", "it")


def test_a_type_error_of_the_callers_own_comes_through_as_it_is():
    def on_event(event):
        raise TypeError("the caller's own")

    coordinator = GroupCoordinator(on_event=on_event)
    with pytest.raises(TypeError, match="the caller's own") as caught:
        coordinator.offset_commit("g", {("t", 0): 5})
    assert not isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize("path", ["a\0b", "\udc80\ud800", b"bytes", 5, None])
def test_what_no_file_can_be_called_is_no_path(path):
    with pytest.raises(ArgumentError, match="path"):
        arguments.file_path(path, "it")


def lose(op):
    Cluster({"t": 1}).network.lose_response("consumer", op)


def refuse(op, error):
    Cluster({"t": 1}).network.fail("consumer", op, error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Fault("OffsetComit", error=22), "'OffsetComit' .*; did you mean 'OffsetCommit'"),
        (lambda: Fault("join_grup", error=22), "'join_grup' .*; did you mean 'JoinGroup'"),
        (lambda: Fault("xyz", error=22), "'xyz' is no API that is served; they are Produce, "),
        (lambda: Fault("Fetch", error="IllegalGeneration"), "; did you mean 'ILLEGAL_GENERATION'"),
        (lambda: Fault("Fetch", error="xyz"), "one of Kafka's errors, not 'xyz'$"),
        (lambda: Broker(topic={"t": 1}), "argument 'topic'; did you mean 'topics'"),
        (lambda: Broker().fail("Fetch", eror=22), "argument 'eror'; did you mean 'error'"),
        (lambda: Broker().wait_for("g", member=1), "argument 'member'; did you mean 'members'"),
        (lambda: GroupCoordinator().fail_append("NOT_ENOUGH"), "mean 'NOT_ENOUGH_REPLICAS'"),
        (lambda: GroupCoordinator().handle({"op": "join"}), "'join' is none; did you mean 'join_"),
        (lambda: lose("OffsetCommit"), "'OffsetCommit' is no op; did you mean 'offset_commit'"),
        (lambda: lose("xyz"), "'xyz' is no op; the ops are join_group, "),
        (lambda: refuse("list_ofsets", Error.NOT_COORDINATOR), "did you mean 'list_offsets'"),
        (lambda: refuse("produce", "NOT_COORDINATR"), "did you mean 'NOT_COORDINATOR'"),
    ],
)
def test_a_wrong_name_comes_with_the_one_that_is_nearest(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
