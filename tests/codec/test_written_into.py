"""What a caller can write into the core's own structures, case by case: each of these ended the
process, or read and wrote where it must not, before it was looked at."""

import numpy as np
import pytest

import coterie
from coterie import (
    ArgumentError,
    Batch,
    CoterieError,
    GroupCoordinator,
    GroupMetadata,
    MemberMetadata,
    OffsetMap,
    PartialState,
    messages,
    wire,
)
from coterie._core.coordinator.runtime import AppendOp
from coterie._core.fold import fold as apply_records
from coterie._core.fold import fold as dump
from coterie._core.fold import fold as merge
from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.fold_state import Producer
from coterie._core.structures.offsets import Offset
from coterie._core.wire.codec import Codec
from coterie.coordinator.config import coordinator_config
from support.hostile import Writer
from support.log_writer import batch, commit_key, commit_value, marker

NAMES = ["range", "roundrobin"]
JOIN = ("consumer", (("range", b""),), 10_000, 10_000, "c", "/h", False, False)


def a_member(member_id="m", protocols=(("range", b"x"),)):
    return MemberMetadata(member_id, None, "c", "/h", 1, 1, "consumer", protocols)


def a_log(count, metadata=b"x" * 5000):
    value = commit_value(5, -1, metadata, 0)
    return batch(0, [(0, commit_key(1, b"g", b"t", n), value) for n in range(count)])


def offsets_of(state):
    (group,) = state.groups()
    return {(o["topic"], o["partition"]): (o["offset"], o["metadata"]) for o in group["offsets"]}


def test_names_in_place_of_pairs_are_no_protocols():
    group, member = GroupMetadata("g"), a_member()
    group.add(member)
    for wrong in (NAMES, [("range",)], [("range", "x")], [(5, b"")], "range", {"range": b""}, 5):
        with pytest.raises(ArgumentError, match="protocols must be"):
            a_member("n", wrong)
        with pytest.raises(ArgumentError, match="protocols must be"):
            group.update_member(member, wrong, 5, 5)
        with pytest.raises(ArgumentError, match="protocols must be"):
            member.matches(wrong)
    assert (member.protocols, member.rebalance_timeout_ms) == ((("range", b"x"),), 1)
    assert group.supported_protocols == {"range": 1}


def test_a_member_belongs_to_one_group_and_once():
    one, other, member = GroupMetadata("g"), GroupMetadata("h"), a_member()
    one.add(member)
    for group in (one, other):
        with pytest.raises(CoterieError, match="'m' is a member of 'g'"):
            group.add(member)
    with pytest.raises(CoterieError, match="'m' is not a member of 'h'"):
        other.update_member(member, [("x", b"")], 1, 1)
    with pytest.raises(CoterieError, match="already"):
        member.__init__("n", None, "c", "/h", 1, 1, "consumer", [])
    one.remove("m")
    other.add(member)
    assert (one.supported_protocols, other.supported_protocols) == ({}, {"range": 1})


def test_what_a_coordinator_holds_is_made_once():
    coordinator = GroupCoordinator()
    coordinator.offset_commit("g", {("t", 0): 5})
    core, loaded_core = coordinator._core, GroupCoordinator(log=coordinator.log)._core
    group, loaded = core.group("g"), loaded_core.group("g")
    for held in (group, loaded, GroupMetadata("g")):
        with pytest.raises(CoterieError, match="'g' is a group already"):
            held.__init__("h", 7)
        assert (held.group_id, held.current_state_timestamp) == ("g", 0)
    for held in (core.offsets_of("g")["t", 0], loaded_core.offsets_of("g")["t", 0], Offset(5)):
        with pytest.raises(CoterieError, match="make another one"):
            held.__init__(7)
        assert held.offset == 5


def test_an_offset_that_could_not_be_made_is_made_when_it_is_asked_for_again():
    offset = Offset.__new__(Offset)
    with pytest.raises(ArgumentError, match="position"):
        offset.__init__(5, position="x")
    offset.__init__(6)
    assert offset == Offset(6)


def test_a_layout_that_no_table_made_is_refused():
    """It has no steps to read or write by."""
    bare = type(wire.CODEC.layout(12, 4, "request"))
    codec = Codec([(12, "Heartbeat", 0, 4, 4)], lambda *_: bare())
    for call in (
        lambda: codec.layout(12, 1, "request"),
        lambda: codec.encode_request(12, 1, {"groupId": "g"}),
        lambda: codec.decode_request(b"\0\x0c\0\1\0\0\0\5\xff\xff"),
        lambda: codec.decode_response(12, 1, bytes(100)),
    ):
        with pytest.raises(TypeError, match="bare Layout"):
            call()


def test_pending_offsets_are_read_only_copies():
    offsets = OffsetMap()
    offsets.prepare_offset_commit({("t", 0): 5})
    offsets.prepare_txn_offset_commit(3, {("t", 1): 5})
    for given in (offsets.pending, offsets.pending_txn, offsets.pending_txn[3]):
        with pytest.raises(TypeError):
            given[1] = 5
        assert given == Writer()  # which is handed the very dict behind the proxy, and writes to it
    assert offsets.is_pending("t", 1)
    assert not offsets.is_pending("t", 2)
    offsets.on_offset_commit_append({("t", 0): 5}, 7)
    offsets.on_txn_offset_commit_append(3, {("t", 1): 5}, 8)
    offsets.complete_pending_txn_offset_commit(3, True)
    assert [(key, offset.position) for key, offset in offsets.items()] == [
        (("t", 0), 7),
        (("t", 1), 8),
    ]


def test_a_partial_state_does_not_follow_on_itself():
    state = coterie.scan(a_log(3), partition=0)
    with pytest.raises(CoterieError, match="itself"):
        state.absorb(state)
    twin = PartialState(state.options, {0: state.partitions[0]})
    with pytest.raises(CoterieError, match="in use"):
        state.absorb(twin)
    assert offsets_of(state) == {("t", n): (5, "x" * 5000) for n in range(3)}


def test_a_producers_index_that_is_no_keys_is_refused():
    fold = PartitionFold()
    fold.scan(a_log(2))
    producer = fold.producers[3] = Producer()
    for index in (2, -1, 10**12, "x"):
        producer.pending = {index: (0, 0, 0, 0, 0, b"", None)}
        with pytest.raises(ArgumentError, match="index of a key"):
            fold.scan(marker(9, 3, 0, commit=True))
        later = PartitionFold()
        later.scan(marker(9, 3, 0, commit=True))
        with pytest.raises(ArgumentError, match="index of a key"):
            merge.absorb(fold, later)
    assert fold.key_count == 2


@pytest.mark.parametrize(
    ("column", "row", "wrong"),
    [
        *(("key_end", row, end) for row in range(3) for end in (-1, 0, 7, 2**31, 2**40, -(2**62))),
        *(("metadata_end", row, end) for row in range(3) for end in (-1, 13, 2**40, -(2**62))),
        *(("metadata_end", 2, end) for end in (0, 4, 7)),
        *(("topic_id", row, number) for row in range(3) for number in (2, 2**32 - 1)),
        *(("keys", at, byte) for at in (0, 1, 3, 4) for byte in (2, 5, 255)),
    ],
)  # keys: 10 bytes each, the sizes of "g" and "t" at 0 and 3; metadata: 4 bytes each
def test_bytes_of_a_partial_state_that_were_changed_are_refused(column, row, wrong):
    fold = PartitionFold()
    fold.scan(a_log(3, b"meta"))
    columns, *rest = dump.dump(fold)
    columns[column][row] = wrong
    with pytest.raises(CoterieError, match="partial state"):
        dump.restore(PartitionFold(), (columns, *rest))


@pytest.mark.parametrize("ids", [bytes(15), bytes(17), bytes(32)])
def test_topic_ids_that_are_cut_or_stand_twice_are_refused(ids):
    columns, *rest = dump.dump(PartitionFold())
    columns["topic_ids"] = np.frombuffer(ids, np.uint8)
    with pytest.raises(CoterieError, match="partial state"):
        dump.restore(PartitionFold(), (columns, *rest))


@pytest.mark.parametrize("committed", [(b"m" * 2**15, None), (b"", bytes(15)), (b"", bytes(17))])
def test_a_pending_commit_that_no_record_can_have_is_refused(committed):
    fold = PartitionFold()
    fold.scan(a_log(1))
    producer = fold.producers[3] = Producer()
    producer.pending = {0: (0, 0, 0, 0, 0, *committed)}
    with pytest.raises(ArgumentError, match="size of"):
        fold.scan(marker(9, 3, 0, commit=True))


@pytest.mark.parametrize("row", range(3))
def test_metadata_beyond_its_end_is_refused_at_its_key(row):
    fold = PartitionFold()
    fold.scan(a_log(3, b"meta"))
    columns, *rest = dump.dump(fold)
    columns["metadata_end"][row] = 13  # there are 12 bytes
    with pytest.raises(CoterieError, match=f"key {row} of a partial state's 3"):
        dump.restore(PartitionFold(), (columns, *rest))


def test_a_key_that_stands_twice_in_a_partial_state_is_refused():
    fold = PartitionFold()
    fold.scan(a_log(1))
    columns, *rest = dump.dump(fold)
    twice = {name: np.concatenate([c, c]) for name, c in columns.items()}
    for ends in ("key_end", "metadata_end"):
        twice[ends][1] *= 2
    with pytest.raises(CoterieError, match="key 1 of a partial state"):
        dump.restore(PartitionFold(), (twice, *rest))
    with pytest.raises(CoterieError, match="empty"):
        dump.restore(fold, (columns, *rest))


@pytest.mark.parametrize("data", [b"", b"x", b"\x80\x05.", "x", None, 5])
def test_what_is_no_partial_state_is_an_error_of_ours(data):
    with pytest.raises(CoterieError):
        PartialState.from_bytes(data)


def test_an_append_is_completed_by_the_coordinator_that_made_it():
    one, other = GroupCoordinator(appends="deferred"), GroupCoordinator(appends="deferred")
    commit = one.offset_commit("g", {("t", 0): 5})
    op = one.appends[0]._op
    for stranger in (op, AppendOp()):
        with pytest.raises(CoterieError, match="belongs to another coordinator"):
            other._core.complete(stranger, 0, -1)
    assert AppendOp().group_id is None
    one.appends[0].complete()
    assert commit.done


def test_a_member_that_was_put_into_a_coordinators_group_frees_no_timer_of_another():
    """Slots name the owners of timers. A stranger has slot 0, that of the clean-up."""
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 0})
    core = coordinator._core
    for name in "gh":
        coordinator.join_group(name, protocol_type="consumer", protocols={"range": b""})
        core.group(name).add(a_member(f"stranger-{name}"))
    for name in "gh":
        coordinator.leave_group(name, [f"stranger-{name}"])
        coordinator.join_group(name, protocol_type="consumer", protocols={"range": b""})
    coordinator.advance(10_000_000)
    assert [coordinator.snapshot(name).state for name in "gh"] == ["Empty", "Empty"]


def test_a_slot_that_is_freed_again_and_again_is_freed_once():
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 0})
    coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    for number in range(1000):  # more than there is room for
        coordinator._core.group("g").add(a_member(f"stranger-{number}"))
        coordinator.leave_group("g", [f"stranger-{number}"])
    assert [member.member_id for member in coordinator.snapshot("g").members] == ["-00000001"]


def test_what_is_handed_straight_to_the_core_is_looked_at():
    core = GroupCoordinator()._core
    for op, details in ((1, ("consumer", ("range",), *JOIN[2:])), (1, (None,) * 8), (1, None),
                        (4, (5,)), (4, None), (5, (5,)), (5, ((5,), -1, -1))):  # fmt: skip
        with pytest.raises((CoterieError, TypeError, ValueError, IndexError)):
            core.call(op, 1, "g", -1, "", None, details)
    trace = coterie.load_trace(['{"format": "coterie-trace", "version": 1}'])
    with pytest.raises(ArgumentError, match="member_id"):
        trace.add(1, 5, 1, 1, "g", -1, 5, None, JOIN)


def test_details_of_any_depth_end_in_an_error():
    trace = coterie.load_trace(['{"format": "coterie-trace", "version": 1}'])
    deep = ()
    for _ in range(100_000):
        deep = (deep,)
    trace.add(1, 5, 4, 1, "g", -1, "m", None, deep)
    trace.sugar = True
    with pytest.raises((RecursionError, CoterieError)):
        GroupCoordinator().play(trace)


def test_a_record_whose_bytes_nobody_else_holds_is_refused():
    """A list may be emptied, an iterator makes its bytes anew: they would be gone when used."""
    key, value = commit_key(1, b"g", b"t", 0), commit_value(5, -1, b"", 0)
    for wrong in ([9, 0, key, value], iter((9, 0, key, value))):
        fold = PartitionFold()
        with pytest.raises(TypeError):
            apply_records.take(fold, [wrong])
        assert fold.key_count == 0


def test_a_generation_goes_on_below_zero_as_javas_int():
    """GroupMetadata.initNextGeneration adds 1 to an Int."""
    group = messages.encode_value(2, {"version": 3, "data": {
        "protocolType": "consumer", "generation": 2**31 - 1, "protocol": None, "leader": None,
        "currentStateTimestamp": 0, "members": []}})  # fmt: skip
    key = messages.encode_key({"version": 2, "data": {"group": "g"}})
    coordinator = GroupCoordinator(
        {"group.initial.rebalance.delay.ms": 0}, log=[Batch(0, records=((key, group),))]
    )
    joined = coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    coordinator.advance_by(1)
    assert joined.response.generation_id == -(2**31)


def test_no_deadline_lies_beyond_an_int64():
    settings = {
        "coterie.cleanup": "periodic",
        "offsets.retention.check.interval.ms": 2**63 - 1,
    }
    coordinator = GroupCoordinator(settings, now_ms=2**59)
    assert coordinator.next_deadline_ms() > 2**60
    coordinator.advance(2**60)
    with pytest.raises(ArgumentError, match="now_ms"):
        type(coordinator._core)(coordinator_config(None), 2**63 - 1)
    deferred = GroupCoordinator(appends="deferred")
    deferred.offset_commit("g", {("t", 0): 5})
    with pytest.raises(ArgumentError, match="base_offset"):
        deferred._core.complete(deferred.appends[0]._op, 0, 2**63 - 1)


@pytest.mark.parametrize(
    "data",
    [
        np.frombuffer(a_log(2), np.uint8)[::2],
        np.frombuffer(a_log(2), np.uint8)[::-1],
        np.frombuffer(a_log(2), np.uint8).reshape(1, -1),
        np.frombuffer(a_log(2), np.uint8).astype(np.int16),
        np.array(5, np.uint8),
        np.zeros(3, "datetime64[s]"),
        np.array([object()]),
        memoryview(a_log(2))[::2],
        "text",
        None,
        5,
        [1, 2],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_scan_takes_bytes_in_a_row_and_nothing_else(data):
    with pytest.raises(ArgumentError, match="data must be bytes"):
        coterie.scan(data)
    with pytest.raises(ArgumentError, match="data must be bytes"):
        messages.LogReader(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, "array", "signed"])
def test_a_scan_takes_bytes_however_they_are_kept(kind):
    log = a_log(2)
    kept = {"array": np.frombuffer(log, np.uint8), "signed": memoryview(log).cast("b")}
    data = kept[kind] if isinstance(kind, str) else kind(log)
    assert coterie.scan(data).partitions[None].key_count == 2
    assert len(list(messages.LogReader(data))) == 1


@pytest.mark.parametrize(
    ("partials", "message"),
    [
        ([5], "partials must hold coterie.PartialState, not 5"),
        ([coterie.scan(b""), None], "not None"),
        (5, "partials must be a list, not 5"),
        ("x", "partials must be a list"),
        ({1: coterie.scan(b"")}, "partials must be a list"),
        (coterie.scan(b""), "partials must be a list"),
    ],
    ids=["a number", "None", "no list", "text", "a dict", "one"],
)
def test_only_partial_states_are_merged(partials, message):
    with pytest.raises(ArgumentError, match=message):
        coterie.merge(partials)


@pytest.mark.parametrize(
    "wrong",
    [{"position": -1}, {"position": 2**63}, {"partition": -1}, {"partition": "x"}, {"file": 5},
     {"partition": 2**31}, {"options": 5}],
    ids=str,
)  # fmt: skip
def test_a_scan_refuses_what_says_no_place(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must"):
        coterie.scan(b"", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"on_fault": "x"}, {"on_fault": 5}, {"at_ms": "x"}, {"at_ms": 2**63}, {"groups": "g"},
     {"groups": [5]}, {"history": 5}],
    ids=str,
)  # fmt: skip
def test_options_of_a_scan_are_checked_when_they_are_made(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must"):
        coterie.ScanOptions(**wrong)
