"""Refusals that come while a request is handled, or a log taken in: they change nothing."""

import copy
import itertools
import pickle

import pytest

from coterie import (
    ArgumentError,
    Batch,
    CoterieError,
    Error,
    GroupCoordinator,
    OffsetAndMetadata,
    load_trace,
)  # fmt: skip
from coterie.coordinator.recording import Recording
from support.coordinator.classic_group import RANGE, join, stable

LONG = "c" * 40_000
LAST = 2**62 - 1  # the last offset that a log may begin with


def all_of(coordinator):
    """Everything that a coordinator holds, as plain values."""
    names = [group.group_id for group in coordinator.list_groups().groups]
    coordinator.take_events()
    return (
        [coordinator.snapshot(name) for name in names],
        coordinator.log,
        coordinator.now_ms,
        coordinator.next_deadline_ms(),
        [(append.kind, append.records) for append in coordinator.appends],
        coordinator._core.open_transactions,
        coordinator._outbox.waiting,
    )


# ---- a log to begin with

OFFSET_KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
OFFSET_VALUE = b"\0\3" + bytes(7) + b"\5\xff\xff\xff\xff" + bytes(10)
RECORD = (OFFSET_KEY, OFFSET_VALUE)
BATCHES = {
    "an offset beyond 64 bits": (Batch(2**63, records=(RECORD,)), "base_offset must fit 64 bits"),
    "an offset below 0": (Batch(-5, records=(RECORD,)), "base_offset -5 does not"),
    "the last offset of all": (Batch(2**63 - 1, records=(RECORD,)), "base_offset 922337"),
    "no room for what follows": (Batch(LAST, records=(RECORD,) * 2), "of 2 records"),
    "an offset of text": (Batch("1"), "base_offset must be an integer, not '1'"),
    "an offset of a bool": (Batch(True), "base_offset must be an integer, not True"),
    "an epoch beyond 16 bits": (Batch(0, producer_epoch=2**20), "producer_epoch must fit 16 bits"),
    "a producer beyond 64 bits": (
        Batch(0, producer_id=-(2**63) - 1),
        "producer_id must fit 64 bits",
    ),
    "a producer of a float": (Batch(0, producer_id=1.0), "producer_id must be an integer"),
    "transactional of text": (Batch(0, transactional="no"), "transactional must be true or false"),
    "control of a number": (Batch(0, control=1), "control must be true or false, not 1"),
    "records of a number": (Batch(0, records=5), "records must be a list, not 5"),
    "records of bytes": (Batch(0, records=b"ab"), "records must be a list"),
    "a record of one": (Batch(0, records=((b"k",),)), "records must be pairs of key and value"),
    "a record of three": (Batch(0, records=((b"k", b"v", ()),)), "records must be pairs"),
    "a record of bytes": (Batch(0, records=(b"kv",)), "records must be pairs"),
    "a key of text": (Batch(0, records=(("k", b"v"),)), "key must be bytes, not 'k'"),
    "a value of a number": (Batch(0, records=((b"k", 5),)), "value must be bytes, not 5"),
    "no batch": ((0, ()), "log must hold coterie.Batch objects"),
}


@pytest.mark.parametrize("what", BATCHES)
def test_a_batch_that_no_log_can_have_is_refused(what):
    batch, says = BATCHES[what]
    with pytest.raises(ArgumentError) as caught:
        GroupCoordinator(log=[Batch(0, records=(RECORD,)), batch])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_batches_that_lie_in_one_place_are_refused():
    with pytest.raises(ArgumentError, match="base_offset 1 lies within the batch at 0"):
        GroupCoordinator(log=[Batch(0, records=(RECORD,) * 2), Batch(1, records=(RECORD,))])
    with pytest.raises(ArgumentError, match="base_offset 0: a batch stands at 0 already"):
        GroupCoordinator(log=[Batch(0, records=(RECORD,)), Batch(0, records=(RECORD,))])


def test_after_the_last_offset_that_a_log_may_begin_with_appends_go_on():
    coordinator = GroupCoordinator(log=[Batch(LAST, records=(RECORD,))])
    assert coordinator.offset_fetch("g")["t", 0].offset == 5
    coordinator.offset_commit("g", {("t", 0): 6})
    assert [batch.base_offset for batch in coordinator.log] == [LAST, LAST + 1]
    coordinator.failover()
    assert coordinator.offset_fetch("g")["t", 0].offset == 6


@pytest.mark.parametrize(
    "records",
    [(), ((None, None),), ((b"", b""),), ((b"\0\0\0\1", None),), ((b"\0", b"\0"), (None, b""))],
)
@pytest.mark.parametrize("control", [False, True])
def test_a_batch_of_broken_records_is_told_as_a_load_error_or_passed_over(records, control):
    log = [Batch(0, records=(RECORD,)), Batch(5, 7, 0, control, control, records)]
    coordinator = GroupCoordinator(log=log)
    assert (coordinator.load_error is None) == (coordinator.offset_fetch("g").partitions != ())


# ---- member ids of the caller's own


class Interrupted(BaseException):
    """What no one who handles errors handles."""


def raises(error):
    def member_ids(prefix):
        raise error

    return member_ids


IDS = {
    "raises": (raises(TypeError("the caller's own")), r"member_ids\('c'\) raised TypeError"),
    "raises ours": (raises(CoterieError("odd")), "raised CoterieError"),
    "gives a number": (len, r"member_ids\('c'\) must return a member id, not 1"),
    "gives nothing": (lambda prefix: None, "must return a member id, not None"),
    "gives an empty one": (lambda prefix: "", "must return 1 to 32767 bytes of UTF-8, not ''"),
    "gives bytes": (str.encode, "must return a member id, not b'c'"),
    "gives a long one": (lambda prefix: "x" * 32_768, "1 to 32767 bytes of UTF-8"),
    "gives a long one in UTF-8": (lambda prefix: "é" * 16_384, "1 to 32767 bytes of UTF-8"),
    "gives half a character": (lambda prefix: "\ud800", "1 to 32767 bytes of UTF-8"),
}


def with_ids(member_ids, **kwargs):
    """A coordinator whose first two ids are sound, and a group with a member and a pending id."""
    first = iter(["one", "two"])
    coordinator = GroupCoordinator(
        member_ids=lambda p: next(first, None) or member_ids(p), **kwargs
    )
    stable(coordinator)
    join(coordinator, require_known_member_id=True)
    return coordinator


@pytest.mark.parametrize("what", IDS)
@pytest.mark.parametrize("group", ["g", "new"])
@pytest.mark.parametrize("fields", [{}, {"group_instance_id": "c"}, {"require_known_member_id": 1}])
def test_a_member_id_that_cannot_be_made_is_an_error_and_changes_nothing(what, group, fields):
    member_ids, says = IDS[what]
    coordinator = with_ids(member_ids)
    before = all_of(coordinator)
    fields = {name: bool(v) if v == 1 else v for name, v in fields.items()}
    with pytest.raises(CoterieError, match=says) as caught:
        coordinator.join_group(
            group, protocol_type="consumer", protocols=RANGE, client_id="c", **fields
        )
    assert "\n" not in str(caught.value)
    assert all_of(coordinator) == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_coordinator_is_not_copied_and_says_what_loads_its_groups(copied):
    coordinator = GroupCoordinator()
    stable(coordinator)
    with pytest.raises(
        TypeError, match=r"GroupCoordinator\(log=coordinator.log\) loads its groups"
    ):
        copied(coordinator)
    loaded = GroupCoordinator(log=coordinator.log)
    assert loaded.describe_group("g") == coordinator.describe_group("g")


def test_the_callers_own_exception_is_the_cause():
    coordinator = with_ids(raises(TypeError("the caller's own")))
    with pytest.raises(CoterieError) as caught:
        join(coordinator)
    assert isinstance(caught.value.__cause__, TypeError)


def test_an_interruption_of_the_callers_own_goes_through_and_changes_nothing():
    coordinator = with_ids(raises(Interrupted()))
    before = all_of(coordinator)
    for group in ("g", "new"):
        with pytest.raises(Interrupted):
            coordinator.join_group(group, protocol_type="consumer", protocols=RANGE)
    assert all_of(coordinator) == before


@pytest.mark.parametrize("repeated", ["one", "two"])
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_member_id_that_the_group_has_is_an_error_and_changes_nothing(repeated, instance):
    coordinator = with_ids(lambda prefix: repeated)
    before = all_of(coordinator)
    with pytest.raises(CoterieError, match=f"returned '{repeated}', which group 'g' has already"):
        join(coordinator, group_instance_id=instance)
    assert all_of(coordinator) == before
    other = coordinator.join_group("h", protocol_type="consumer", protocols=RANGE)
    assert coordinator.run_until(other, limit_ms=60_000).member_id == repeated


def test_a_static_member_does_not_come_back_under_the_id_that_it_has():
    coordinator = GroupCoordinator(member_ids=lambda prefix: "same")
    stable(coordinator, group_instance_id="i")
    before = all_of(coordinator)
    with pytest.raises(CoterieError, match="has already"):
        join(coordinator, group_instance_id="i")
    assert all_of(coordinator) == before


def test_an_id_that_another_took_meanwhile_is_not_taken_back():
    ids = iter(["old", "new", "old"])
    coordinator = GroupCoordinator(member_ids=lambda prefix: next(ids), appends="deferred")
    stable(coordinator, group_instance_id="i")
    join(coordinator, group_instance_id="i")
    join(coordinator)
    coordinator.appends[0].complete(Error.NOT_LEADER_OR_FOLLOWER)
    assert [member.member_id for member in coordinator.snapshot("g").members] == ["new", "old"]


def test_the_old_id_of_a_static_member_that_the_group_still_waits_for_is_not_made_again():
    """GroupMetadata.replaceStaticMember leaves it in pendingSyncMembers."""
    ids = iter(["leader", "old", "new", "old", "fourth"])
    coordinator = GroupCoordinator(member_ids=lambda prefix: next(ids))
    joins = [join(coordinator), join(coordinator, group_instance_id="i")]
    coordinator.run_until(joins[1], limit_ms=9_000)
    coordinator.sync_group("g", 1, "leader", assignments={})
    assert join(coordinator, group_instance_id="i").response.member_id == "new"
    assert coordinator.snapshot("g").pending_sync_members == ("old",)
    before = all_of(coordinator)
    with pytest.raises(CoterieError, match="returned 'old', which group 'g' has already"):
        join(coordinator)
    assert all_of(coordinator) == before
    join(coordinator)
    assert {member.member_id for member in coordinator.snapshot("g").members} == {
        "leader", "new", "fourth"}  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "c", "a-1", "\xfc", "\u0436" * 40, "\U0001f600"])
@pytest.mark.parametrize("static", [False, True])
def test_a_member_id_is_its_client_or_its_instance_and_a_number_of_eight_digits(prefix, static):
    """docs/rules/trace-format.md#order: the number stands for Kafka's UUID."""
    coordinator = GroupCoordinator()
    named = {"group_instance_id": prefix} if static and prefix else {"client_id": prefix}
    for number in (1, 2):
        fields = {"require_known_member_id": not static, "session_timeout_ms": 10_000} | named
        joined = coordinator.join_group(
            f"g{number}", protocol_type="consumer", protocols=RANGE, **fields
        )
        member_id = coordinator.run_until(joined, limit_ms=9_000).member_id
        assert member_id == f"{prefix}-0000000{number}"


def test_after_a_refused_member_id_the_numbers_of_a_recording_are_those_of_its_trace(tmp_path):
    made = iter(["a", "a", "b"])
    recording = Recording()
    coordinator = GroupCoordinator(member_ids=recording.numbered(lambda prefix: next(made)))
    coordinator._record_into(recording)
    join(coordinator)
    with pytest.raises(CoterieError, match="has already"):
        join(coordinator)
    join(coordinator)
    coordinator.leave_group("g", ["a"])
    coordinator.leave_group("g", ["b"])
    path = tmp_path / "it.trace.jsonl"
    recording.write(path, coordinator.config, coordinator.now_ms)
    again = GroupCoordinator()
    answers = [line for line in again.play(load_trace(path.read_text().splitlines())).lines()]
    left = [line["members"][0]["error"] for line in answers if line.get("op") == "leave_group"]
    assert left == ["NONE", "NONE"]


@pytest.mark.parametrize("asks", ["heartbeat", "advance_by"])
def test_a_maker_of_member_ids_must_not_ask_the_coordinator(asks):
    def member_ids(prefix):
        coordinator.heartbeat("g") if asks == "heartbeat" else coordinator.advance_by(1)

    coordinator = GroupCoordinator(member_ids=member_ids)
    before = all_of(coordinator)
    with pytest.raises(CoterieError, match="must not call back into the coordinator"):
        join(coordinator)
    assert all_of(coordinator) == before


# ---- texts that no record holds

TEXTS = {
    "group_id": lambda c, text: c.join_group(text, protocol_type="consumer", protocols=RANGE),
    "client_id": lambda c, text: join(c, client_id=text),
    "client_host": lambda c, text: join(c, client_host=text),
    "member_id": lambda c, text: join(c, text),
    "group_instance_id": lambda c, text: join(c, group_instance_id=text),
    "protocol_type": lambda c, text: c.join_group("g", protocol_type=text, protocols=RANGE),
    "name": lambda c, text: join(c, protocols={text: b""}),
    "reason": lambda c, text: join(c, reason=text),
    "topics": lambda c, text: join(c, protocols=[{"name": "range", "topics": [text]}]),
    "a sync's member_id": lambda c, text: c.sync_group("g", 1, "one", assignments={text: b""}),
    "a sync's protocol_name": lambda c, text: c.sync_group("g", 1, "one", protocol_name=text),
    "a leave's member_id": lambda c, text: c.leave_group("g", [text]),
    "a heartbeat's group_id": lambda c, text: c.heartbeat(text, 1, "one"),
    "topic": lambda c, text: c.offset_commit("g", {(text, 0): 1}),
    "a transaction's topic": lambda c, text: c.txn_offset_commit(
        "new", {(text, 0): 1}, producer_id=1, producer_epoch=0
    ),
    "a fetch's topic": lambda c, text: c.offset_fetch("g", {text: [0]}),
    "a deletion's topic": lambda c, text: c.offset_delete("g", [(text, 0)]),
    "states": lambda c, text: c.list_groups([text]),
    "group_ids": lambda c, text: c.delete_groups(["g", text]),
    "a deleted partition's topic": lambda c, text: c.delete_partitions([(text, 0)]),
}
WRONG_TEXTS = {
    "of 40,000 characters": (LONG, "must have at most 32767 bytes of UTF-8, not 40000"),
    "of 32,768 bytes": ("é" * 16_384, "must have at most 32767 bytes of UTF-8, not 32768"),
    "of half a character": ("a\udc00", "must be text, but has a surrogate that stands alone"),
}


@pytest.mark.parametrize("text", WRONG_TEXTS)
@pytest.mark.parametrize("field", TEXTS)
def test_a_text_that_the_wire_cannot_carry_is_refused_and_changes_nothing(field, text):
    given, says = WRONG_TEXTS[text]
    coordinator = with_ids(str)
    before = all_of(coordinator)
    with pytest.raises(ArgumentError) as caught:
        TEXTS[field](coordinator, given)
    assert f"{field.split()[-1]} {says}" in str(caught.value)
    assert len(str(caught.value)) < 250
    assert all_of(coordinator) == before


@pytest.mark.parametrize("longest", ["c" * 32_767, "é" * 16_383])
def test_the_longest_texts_go_through_a_generation_a_failover_and_all_requests(longest):
    coordinator = GroupCoordinator(member_ids=lambda prefix: longest)
    given = {"client_id": longest, "client_host": longest, "group_instance_id": longest}
    given |= {"protocol_type": longest, "protocols": {longest: b""}}
    joined = coordinator.join_group(longest, **given)
    coordinator.run_until(joined, limit_ms=60_000)
    asked = {"protocol_type": longest, "protocol_name": longest, "group_instance_id": longest}
    sync = coordinator.sync_group(longest, 1, longest, assignments={longest: b"x"}, **asked)
    assert sync.response.error.name == "NONE"
    commit = coordinator.offset_commit(longest, {(longest, 0): 5}, generation_id=1,
                                       member_id=longest)  # fmt: skip
    assert commit.response.partitions[0].error.name == "NONE"
    before = coordinator.describe_group(longest)
    coordinator.failover()
    assert coordinator.load_error is None
    assert coordinator.describe_group(longest) == before
    assert coordinator.offset_fetch(longest)[longest, 0].offset == 5


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_client_id_of_which_no_member_id_can_be_made_is_refused(instance):
    coordinator = GroupCoordinator()
    before = all_of(coordinator)
    # Kafka appends "-" and a UUID of 36 characters (GroupMetadata.generateMemberId); what comes of
    # it fits neither its answer nor its record.
    client_id = "c" * (32_767 - 36)
    if instance is None:
        with pytest.raises(ArgumentError, match="give 32730 at most"):
            join(coordinator, client_id=client_id)
        assert all_of(coordinator) == before
        client_id = client_id[1:]
    joined = join(coordinator, client_id=client_id, group_instance_id=instance)
    coordinator.run_until(joined, limit_ms=60_000)
    sync = coordinator.sync_group("g", 1, joined.response.member_id)
    assert sync.response.error.name == "NONE"


@pytest.mark.parametrize(
    ("limit", "size", "answer"),
    [
        (4096, 4096, "NONE"),
        (4096, 40_000, "OFFSET_METADATA_TOO_LARGE"),
        (40_000, 32_767, "NONE"),
        (40_000, 40_001, "OFFSET_METADATA_TOO_LARGE"),
        (40_000, 32_768, None),
        (40_000, 40_000, None),
    ],
)
def test_metadata_is_too_large_by_the_setting_or_refused_by_the_record(limit, size, answer):
    coordinator = GroupCoordinator({"offset.metadata.max.bytes": limit})
    before = all_of(coordinator)
    given = {("t", 0): 1, ("t", 1): OffsetAndMetadata(1, metadata="m" * size)}
    if answer is None:
        with pytest.raises(ArgumentError, match="a record holds 32767 at most"):
            coordinator.offset_commit("g", given)
        assert all_of(coordinator) == before
        return
    partitions = coordinator.offset_commit("g", given).response.partitions
    assert [one.error.name for one in partitions] == ["NONE", answer]


@pytest.mark.parametrize("limit", [10_922, 10_923, 32_767])
def test_metadata_of_characters_that_take_three_bytes_is_refused_where_it_does_not_fit(limit):
    coordinator = GroupCoordinator({"offset.metadata.max.bytes": limit})
    fits, too_long = "\uffff" * 10_922, "\uffff" * 10_923
    metadata = OffsetAndMetadata(1, metadata=fits)
    assert coordinator.offset_commit("g", {("t", 0): metadata}).response.partitions[0].error == 0
    given = {("t", 0): OffsetAndMetadata(2, metadata=too_long)}
    if limit < 10_923:
        answer = coordinator.offset_commit("g", given).response
        assert answer.partitions[0].error.name == "OFFSET_METADATA_TOO_LARGE"
    else:
        with pytest.raises(ArgumentError, match="32769 bytes"):
            coordinator.offset_commit("g", given)
    assert coordinator.offset_fetch("g")["t", 0].offset == 1


def test_numbers_that_the_wire_cannot_carry_are_refused():
    coordinator = GroupCoordinator()
    for bits, ask in itertools.chain(
        [(32, lambda n: coordinator.heartbeat("g", n, "m"))],
        [(32, lambda n: join(coordinator, rebalance_timeout_ms=n))],
        [(64, lambda n: coordinator.offset_commit("g", {("t", 0): n}))],
        [(16, lambda n: coordinator.txn_offset_commit("g", {}, producer_id=0, producer_epoch=n))],
    ):
        for wrong in (2 ** (bits - 1), -(2 ** (bits - 1)) - 1, 10**5000):
            with pytest.raises(ArgumentError, match=f"must fit {bits} bits"):
                ask(wrong)
    assert all_of(coordinator)[0] == []


def test_a_group_whose_name_grew_too_long_in_reading_stops_no_clean_up():
    """Bytes that are no UTF-8 become three each; Kafka's scheduler outlives what that throws."""
    name = b"\xff" * 11_000
    key = b"\0\1" + len(name).to_bytes(2, "big") + name + b"\0\1t\0\0\0\0"
    config = {"coterie.cleanup": "periodic", "offsets.retention.check.interval.ms": 1000}
    config |= {"offsets.retention.minutes": 1}
    coordinator = GroupCoordinator(config, log=[Batch(0, records=((key, OFFSET_VALUE),))])
    coordinator.offset_commit("a", {("t", 0): 1})
    coordinator.advance(200_000)
    assert coordinator.load_error is None
    assert coordinator.snapshot("a") is None
    assert [batch.records[0][0][:7] for batch in coordinator.log[1:]] == [b"\0\1\0\1a\0\1"] * 2
