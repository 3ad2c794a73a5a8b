"""What a record of a group changed, for each way in which two records can differ."""

import pickle

import pytest

from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.history import GroupLog
from coterie.messages import encode_value
from support.log_writer import batch, group_key


def member(member_id, instance=None, subscription=b"s", **others):
    return {
        "memberId": member_id, "groupInstanceId": instance, "clientId": "c", "clientHost": "/h",
        "rebalanceTimeout": 7, "sessionTimeout": 9, "subscription": subscription,
        "assignment": b"", **others,
    }  # fmt: skip


def life(*members, leader="a", protocol="range", generation=1, version=3):
    data = {
        "protocolType": "consumer", "generation": generation, "protocol": protocol,
        "leader": leader, "currentStateTimestamp": 5, "members": list(members),
    }  # fmt: skip
    return encode_value(2, {"version": version, "data": data})


def log_of(*values):
    log = GroupLog()
    for number, value in enumerate(values):
        log.add(number, 1_000 + 7 * number, value)
    return log


A, B, STATIC = member("a"), member("b"), member("x-1", "x")
FIELDS = ("joined", "left", "replaced", "subscription_changed", "leader_changed",
          "protocol_changed", "previous_generation")  # fmt: skip
CASES = {
    "the same again": (life(A, B), life(A, B), [], [], [], [], False, False),
    "in another order": (life(A, B), life(B, A), [], [], [], [], False, False),
    "one joined": (life(A), life(A, B), ["b"], [], [], [], False, False),
    "one left": (life(A, B), life(A), [], ["b"], [], [], False, False),
    "one for another": (life(B), life(A), ["a"], ["b"], [], [], False, False),
    "an id that begins alike": (life(A), life(member("ab")), ["ab"], ["a"], [], [], False, False),
    "a static member came again": (
        life(STATIC), life(member("x-2", "x")), [], [], [("x", "x-1", "x-2")], [], False, False),
    "with another subscription": (
        life(STATIC), life(member("x-2", "x", b"other")), [], [], [("x", "x-1", "x-2")], ["x-2"],
        False, False),
    "a static member beside it": (
        life(STATIC), life(STATIC, member("x-2", "x")), ["x-2"], [], [], [], False, False),
    "another static member": (
        life(STATIC), life(member("y-1", "y")), ["y-1"], ["x-1"], [], [], False, False),
    "an empty instance id is none": (
        life(member("a", "")), life(member("b", "")), ["b"], ["a"], [], [], False, False),
    "an instance id for the same": (
        life(A), life(member("a", "i")), [], [], [], [], False, False),
    "a subscription changed": (
        life(A, B), life(A, member("b", None, b"t")), [], [], [], ["b"], False, False),
    "a subscription that begins alike": (
        life(A), life(member("a", None, b"so")), [], [], [], ["a"], False, False),
    "another assignment": (
        life(A), life(member("a", assignment=b"x")), [], [], [], [], False, False),
    "another leader": (life(A, B), life(A, B, leader="b"), [], [], [], [], True, False),
    "a leader that begins alike": (life(A), life(A, leader="ab"), [], [], [], [], True, False),
    "no leader any more": (life(A), life(A, leader=None), [], [], [], [], True, False),
    "an empty leader for none": (
        life(A, leader=None), life(A, leader=""), [], [], [], [], True, False),
    "another protocol": (life(A), life(A, protocol="rr"), [], [], [], [], False, True),
    "a protocol for none": (life(A, protocol=None), life(A), [], [], [], [], False, True),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_generation_says_what_its_record_changed(case):
    before, after, *expected = CASES[case]
    log = log_of(before, after)
    whole = log.generations()
    found = [getattr(whole[1], name) for name in FIELDS]
    assert found == [*expected, 1]
    assert (whole[1].since_previous_ms, whole[1].timestamp, whole[1].tombstone) == (7, 1_007, False)
    joined = log_of(before)
    joined.absorb(pickle.loads(pickle.dumps(log_of(after))))  # the second record's own piece
    others = [*whole[1][2:-1]]
    assert [*joined.generations()[1][2:-1]] == others
    for travelled in (log, joined):
        again = pickle.loads(pickle.dumps(travelled))
        assert again.generations() == travelled.generations()


def test_a_group_that_is_gone_has_no_generation_and_begins_anew():
    log = log_of(life(A, generation=4), None, None, life(B, leader="b", generation=1))
    rows = log.generations()
    assert [row.tombstone for row in rows] == [False, True, True, False]
    assert [row.generation for row in rows] == [4, None, None, 1]
    assert [row.previous_generation for row in rows] == [None, 4, None, None]
    assert [(row.joined, row.left) for row in rows] == [
        (["a"], []), ([], ["a"]), ([], []), (["b"], [])]  # fmt: skip
    assert [row.leader_changed for row in rows] == [False, True, False, False]
    assert [row.protocol_changed for row in rows] == [False, True, False, False]
    assert [row.member_count for row in rows] == [1, 0, 0, 1]
    assert [row.since_previous_ms for row in rows] == [None, 7, 7, 7]
    again = pickle.loads(pickle.dumps(log))
    assert again.generations() == rows


def test_a_time_since_the_record_before_needs_both_times():
    times = (6_000, -1, 9_000, 8_500, 0, 0)
    values = [(group_key(b"g"), life(A, version=version)) for version in (0, 3, 3, 3, 3, 3)]
    fold = PartitionFold()
    for number, (ms, record) in enumerate(zip(times, values, strict=True)):
        fold.scan(batch(number, [(ms, *record)]))
    rows = fold.groups[b"g"].generations()
    assert [row.timestamp for row in rows] == [6_000, None, 9_000, 8_500, 0, 0]
    assert [row.since_previous_ms for row in rows] == [None, None, None, -500, -8_500, 0]
    assert [row.current_state_timestamp for row in rows] == [None, 5, 5, 5, 5, 5]


def test_a_copy_of_a_log_goes_its_own_way():
    log = log_of(life(A), life(A, B))
    copied = log.copy()
    copied.add(2, 2_000, None)
    assert [len(one.generations()) for one in (log, copied)] == [2, 3]
    assert copied.generations()[:2] == log.generations()
    with pytest.raises(TypeError, match="later must be a GroupLog"):
        log.absorb(log.generations())
