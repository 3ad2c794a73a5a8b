"""A fold of some groups holds of them what the fold of all does, and reports every fault."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import ScanOptions, scan
from coterie._core.codec.layout import decode_utf8
from support.examples import examples
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker

# Alike in all but the last bytes, not ASCII, no UTF-8, and none: Java reads the last two alike.
NAMES = [b"a-group-1111", b"a-group-2222", b"g", b"", "gr\u00f6\u00dfe".encode(), b"\xff", b"\xfe"]
KINDS = ["commit", "gone", "odd topic", "group", "newer", "unknown", "bad value", "no value",
         "cut key"]  # fmt: skip
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES)), min_size=1, max_size=4),
        st.sampled_from([-1, 7]),  # the producer
        st.booleans(),  # whether its transaction is committed right behind
    ),
    max_size=12,
)


def record(kind, name, at):
    if kind == "commit":
        return commit(at, at, group=name)
    if kind == "odd topic":
        return commit(at, at, group=name, topic="\u00fc".encode())
    if kind == "gone":
        return at, commit_key(1, name, b"t", 0), None
    if kind == "group":
        return at, group_key(name), group_value(at, [b"m"])
    if kind == "no value":  # none of its bytes, unlike a tombstone
        return at, commit_key(1, name, b"t", 0), b""
    if kind == "cut key":
        return at, commit_key(1, name, b"t", 0)[:-1], None
    version = {"newer": 3, "unknown": 99, "bad value": at % 3}[kind]
    key = commit_key(version, name, b"t", 0) if version < 2 else group_key(name)
    # Of a newer record whose group is left out the value is not read.
    return at, version.to_bytes(2, "big") + key[2:], None if kind == "newer" else b"\0\3"


def written(batches):
    found = []
    for at, (records, producer, ends) in enumerate(batches):
        inside = producer != -1
        rows = [record(kind, name, 10 * at + n) for n, (kind, name) in enumerate(records)]
        found.append(batch(10 * at, rows, producer_id=producer, transactional=inside))
        if inside and ends:
            found.append(marker(10 * at + 9, producer, 10 * at, commit=True))
    return b"".join(found)


def scanned(data, **options):
    return scan(data, partition=0, options=ScanOptions(**options))


@settings(max_examples=examples(300))
@given(
    BATCHES,
    st.frozensets(st.sampled_from([decode_utf8(name) for name in NAMES])),
    st.sampled_from([None, 5, 35]),
)
def test_some_groups_are_as_in_the_fold_of_all_and_faults_are_those_of_all(batches, wanted, at_ms):
    data = written(batches)
    whole, some = scanned(data, at_ms=at_ms), scanned(data, at_ms=at_ms, groups=wanted)
    assert some.groups() == [row for row in whole.groups() if row["group_id"] in wanted]
    ours, theirs = some.fold(0), whole.fold(0)
    assert ours.faults == theirs.faults
    assert ours.unknown == theirs.unknown
    assert ours.segments == theirs.segments
    for name, log in theirs.groups.items():
        if decode_utf8(name) in wanted:
            assert ours.groups[name].generations() == log.generations()


def test_a_record_without_a_key_at_the_head_of_a_batch_is_a_fault_with_groups_too():
    data = batch(0, [(5, None, b"value"), commit(6, group=b"b")])
    found = []
    for groups in (None, frozenset({"a"})):
        fold = ScanOptions(groups=groups).new_fold()
        fold.scan(data)
        found.append([(fault.kind, fault.offset) for fault in fold.faults])
    assert found == [[("key", 0)], [("key", 0)]]
