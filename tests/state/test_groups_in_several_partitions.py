"""A group with records in several partitions is one group, by the newest records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coterie
from coterie._core.fold.fold import PartitionFold, absorb
from coterie.messages import partition_for
from coterie.state.several_partitions import (
    Times,
    explanation,
    in_order,
    in_several,
    lines_of,
    newest_ms,
)
from support.examples import examples
from support.grown_topic import (
    COUNT,
    GROUP,
    NEWER,
    OLDER,
    batches,
    committed,
    generation,
    in_transaction,
    story,
    tombstone,
)
from support.insight.lives import OF_4X

OTHERS = {OLDER: "only-older", NEWER: "only-newer"}  # stay where they are
ENDS = {"commit in a transaction": True, "abort": False, "stay open": None}
ACTS = ("commit", "commit", "remove", "generation", "delete", *ENDS)
acts = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2)), max_size=8)


def record_of(act, partition, turn):
    if act == "remove":
        return tombstone(turn, partition=partition)
    if act in ("generation", "delete"):
        return generation(turn, turn, None if act == "delete" else [b"m"] * (partition > 0))
    record = committed(turn, turn, partition=partition)
    return record if act == "commit" else in_transaction(record, commit=ENDS[act])


def modelled(history):
    """Return the offsets and the generation (None: no metadata), a record after the other."""
    offsets, last = {}, None
    for act, partition, turn in history:
        if act in ("generation", "delete"):
            last = None if act == "delete" else turn
        elif act == "remove":
            offsets.pop(partition, None)
        elif act not in ("abort", "stay open"):
            offsets[partition] = turn
    return offsets, last


def pending_in(history, of_4x):
    """Return the pending offsets of one partition, and the keys with a record that counts."""
    pending, recorded = {}, set()
    for act, partition, turn in history:
        if act == "stay open":
            pending[partition] = turn
        elif act in ("commit", "remove", "commit in a transaction"):
            recorded.add(partition)
        if act == "remove" and of_4x:
            pending.pop(partition, None)
    return pending, recorded


@settings(max_examples=examples(200))
@given(acts, acts, st.booleans())
def test_the_newest_record_of_each_key_counts(older, newer, of_4x):
    """As if the newer partition's records followed those of the older one, whatever their times."""
    older = [(*act, 1000 + turn) for turn, act in enumerate(older)]
    newer = [(*act, turn) for turn, act in enumerate(newer, 1)]
    state = coterie.PartialState()
    for number in range(COUNT):
        state.fold(number)
    for number, history in ((OLDER, older), (NEWER, newer)):
        records = [committed(5, 5, group=OTHERS[number]), *(record_of(*act) for act in history)]
        records += [OF_4X] if of_4x else []
        state.absorb(coterie.scan(batches(*records), partition=number))
    rows = state.groups()
    by_id = {row["group_id"]: row for row in rows}
    assert len(by_id) == len(rows)
    assert [by_id.pop(name)["offsets_partition"] for name in OTHERS.values()] == [OLDER, NEWER]
    offsets, last = modelled(older + newer)
    pending, _ = pending_in(older, of_4x)
    later, recorded = pending_in(newer, of_4x)
    pending = {key: turn for key, turn in pending.items() if key not in recorded} | later
    if not offsets and last is None and not pending:
        assert by_id.keys() <= {"other"}  # of the record of 4.x
        return
    row = by_id[GROUP]
    assert {offset["partition"]: offset["offset"] for offset in row["offsets"]} == offsets
    assert pending == {
        offset["partition"]: offset["offset"]
        for producer in row["pending_transactional_offsets"]
        for offset in producer["offsets"]
    }
    assert (row["generation"] if row["protocol_type"] else None) == last
    assert row["offsets_partition"] == (NEWER if newer else OLDER)


def test_tables_and_rows_have_each_group_once_and_records_where_they_are():
    state = coterie.merge(coterie.scan(data, partition=n) for n, data in story().items())
    (group,) = state.groups()
    assert (group["offsets_partition"], group["state"], group["generation"]) == (NEWER, "Empty", 2)
    assert [offset["offset"] for offset in group["offsets"]] == [502, 502]
    tables = state.to_arrow()
    assert tables["groups"]["offsets_partition"].to_pylist() == [NEWER]
    assert tables["offsets"]["offset"].to_pylist() == [502, 502]
    assert tables["members"].num_rows == 0
    generations = tables["generations"].select(["offsets_partition", "log_offset"]).to_pylist()
    places = [tuple(row.values()) for row in generations]
    assert places == [(OLDER, 0), (OLDER, 5), (NEWER, 0), (NEWER, 5)]


def test_reading_a_state_leaves_it_open_for_what_follows():
    """What the older partition's coordinator still writes stays older."""
    older, newer = story().values()
    expired = batches(generation(10**9, 6, []), tombstone(10**9), tombstone(10**9, partition=1))
    late = coterie.scan(expired, partition=OLDER)
    state = coterie.merge([coterie.scan(older, partition=OLDER)])
    state.absorb(coterie.scan(newer, partition=NEWER))
    before = state.groups()
    state.absorb(late)
    assert state.groups() == before


def test_without_all_partitions_the_newest_commit_decides():
    """Not the newest record: the older partition's coordinator removes what it has later on."""
    assert in_order(GROUP, [OLDER, NEWER], COUNT, {OLDER: Times(9, 9)}) == (OLDER, NEWER)
    assert in_order(GROUP, [OLDER, NEWER], None, {OLDER: Times(9, 9)}) == (NEWER, OLDER)
    older = [committed(1000, 1), tombstone(9000, partition=1), generation(9000, 3, [])]
    partitions = {NEWER: batches(committed(2000, 2)), OLDER: batches(*older)}
    state = coterie.merge(coterie.scan(data, partition=n) for n, data in partitions.items())
    assert state.in_several_partitions() == {GROUP: (OLDER, NEWER)}


def test_a_partition_that_no_growth_explains_is_named_and_counts_least():
    wrong = next(
        number
        for number in range(COUNT)
        if all(partition_for(GROUP, count) != number for count in range(number + 1, COUNT + 1))
    )
    order = in_order(GROUP, [OLDER, NEWER, wrong], COUNT, {})
    assert order == (wrong, OLDER, NEWER)
    text = explanation(GROUP, order, COUNT)
    assert f"leads to {wrong} for no number of partitions up to {COUNT}" in text
    assert "the topic was grown" in explanation(GROUP, (OLDER, NEWER), COUNT)


def test_groups_in_one_partition_each_are_in_none_else():
    assert in_several({0: {"a", "b"}, 1: {"c"}, None: set()}) == {}
    assert in_several({0: {"a", "b"}, 1: {"a"}, None: {"a"}}) == {"a": [0, 1, None]}
    both = in_several({0: ["b", "a"], 1: ["b", "a"]})
    assert list(both) == ["a", "b"]  # not in the order of a set, which changes from run to run


@pytest.mark.parametrize(("groups", "lines"), [(1, 1), (10, 10), (11, 11), (1500, 11)])
def test_many_groups_are_summed_up_in_a_line(groups, lines):
    orders = {f"g{number:04}": (1, 2) for number in range(groups)}
    said = list(lines_of(orders, None))
    assert len(said) == lines
    assert groups <= 10 or said[-1].startswith(f"{groups - 10:,} more")


def test_the_newest_commit_is_one_that_was_removed_since_however_a_log_is_cut_into_pieces():
    records = [committed(5, 1), tombstone(6), committed(7, 2), tombstone(8), tombstone(9)]
    records += [generation(9, 1, None), tombstone(9, partition=1)]
    ends = [len(batches(*records[:count])) for count in range(len(records) + 1)]
    data = batches(*records)
    for cut in ends:
        fold, later = PartitionFold(), PartitionFold()
        fold.scan(data[:cut])
        later.scan(data[cut:])
        absorb(fold, later)
        assert newest_ms(fold) == {GROUP: Times(7, 9)}, cut
