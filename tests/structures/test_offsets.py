"""The offsets of one group: the worked cases of the rules, and columns against single offsets."""

import gc
import itertools
import pickle
import random
import sys
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import CoterieError, OffsetMap, expired
from coterie._core.structures.expiry import expiry_rule
from coterie._core.structures.offsets import Offset
from coterie.errors import ArgumentError

TP = ("t", 0)
KEYS = [TP, ("t", 1), ("u", 0)]
DAY_MS = 86_400_000
TIMES = st.integers(-10, 40)


def test_a_transactional_offset_shows_by_its_position_not_by_its_marker():
    offsets = OffsetMap()
    offsets.prepare_txn_offset_commit(7, {TP: 1})
    offsets.on_txn_offset_commit_append(7, {TP: 1}, 10)
    offsets.commit({TP: 2}, 11)
    offsets.complete_pending_txn_offset_commit(7, True)
    assert offsets[TP].offset == 2


def test_a_transactional_offset_after_a_plain_one_wins_once_committed():
    offsets = OffsetMap()
    offsets.commit({TP: 2}, 10)
    offsets.prepare_txn_offset_commit(7, {TP: 1})
    offsets.on_txn_offset_commit_append(7, {TP: 1}, 11)
    assert offsets[TP].offset == 2
    with pytest.raises(CoterieError, match="unstable"):
        offsets.fetch(*TP, require_stable=True)
    offsets.complete_pending_txn_offset_commit(7, True)
    assert offsets.fetch(*TP, require_stable=True).offset == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_overlapping_commits_the_later_position_wins_in_either_order(order):
    offsets = OffsetMap()
    commits = [({TP: Offset(1)}, 5), ({TP: Offset(2)}, 6)]
    for entries, _ in commits:
        offsets.prepare_offset_commit(entries)
    offsets.on_offset_commit_append(*commits[order[0]])
    if order[0] == 0:
        assert offsets.is_pending(*TP)  # the value that the second prepared
        offsets.on_offset_commit_append(*commits[1])
        assert offsets[TP].offset == 2
    else:
        assert offsets[TP].offset == 2
        offsets.on_offset_commit_append(*commits[0])  # finds nothing pending
        assert offsets[TP].offset == 2
    assert not offsets.is_pending(*TP)


@pytest.mark.parametrize("second", ["plain", "transactional"])
@pytest.mark.parametrize("first", ["plain", "transactional"])
def test_of_two_commits_at_one_position_the_first_that_was_shown_stays(first, second):
    """Equal positions do not replace: docs/rules/offsets.md#plain-commits."""
    offsets = OffsetMap()
    for value, kind in ((1, first), (2, second)):
        if kind == "plain":
            offsets.commit({TP: value}, 5)
        else:
            offsets.prepare_txn_offset_commit(7, {TP: value})
            offsets.on_txn_offset_commit_append(7, {TP: value}, 5)
            offsets.complete_pending_txn_offset_commit(7, True)
    assert offsets[TP].offset == 1


def test_an_append_that_comes_back_after_a_removal_changes_nothing():
    offsets = OffsetMap()
    offsets.prepare_offset_commit({TP: 1})
    assert offsets.remove([TP]) == []
    offsets.on_offset_commit_append({TP: 1}, 3)
    assert TP not in offsets
    assert not offsets.has_offsets


def test_a_failed_append_leaves_a_later_commit_pending():
    """Source: GroupMetadata.failPendingOffsetWrite."""
    offsets = OffsetMap()
    offsets.prepare_offset_commit(MappingProxyType({TP: 1}))
    offsets.prepare_offset_commit({TP: 2})
    offsets.fail_pending_offset_write({TP: 1})
    assert offsets.has_offsets
    offsets.on_offset_commit_append({TP: 2}, 3)
    assert offsets[TP].offset == 2
    offsets.prepare_offset_commit({TP: 4})
    offsets.fail_pending_offset_write({TP: 4})
    assert offsets[TP].offset == 2
    assert offsets.remove([TP])
    assert not offsets.has_offsets


def test_a_failed_repeat_in_a_transaction_forgets_the_earlier_offset_too():
    offsets = OffsetMap()
    offsets.prepare_txn_offset_commit(7, {TP: 1})
    offsets.on_txn_offset_commit_append(7, {TP: 1}, 3)
    offsets.prepare_txn_offset_commit(7, {TP: 2})
    offsets.fail_pending_txn_offset_commit(7, {TP: 2})
    assert not offsets.has_offsets


def test_a_producer_whose_offsets_were_removed_still_keeps_the_group():
    offsets = OffsetMap()
    offsets.prepare_txn_offset_commit(7, {TP: 1})
    offsets.remove([TP])
    assert offsets.has_offsets
    offsets.complete_pending_txn_offset_commit(7, False)
    assert not offsets.has_offsets


def test_a_marker_before_the_append_came_back_is_an_error():
    offsets = OffsetMap()
    offsets.prepare_txn_offset_commit(7, {TP: 1})
    with pytest.raises(CoterieError, match="producer 7"):
        offsets.complete_pending_txn_offset_commit(7, True)


def test_an_explicit_expiry_decides_alone_and_a_pending_commit_protects():
    offsets = OffsetMap()
    offsets.commit({("t", 0): Offset(1, commit_timestamp=0, expire_timestamp=100 * DAY_MS)}, 1)
    offsets.commit({("t", 1): Offset(1, commit_timestamp=0)}, 2)
    offsets.commit({("u", 0): Offset(1, commit_timestamp=0)}, 3)
    offsets.commit({("t", 2): Offset(1, commit_timestamp=0)}, 4)
    offsets.prepare_offset_commit({("t", 2): 9})
    gone = offsets.expire(8 * DAY_MS, 7 * DAY_MS, keep={"u"})
    assert gone == [("t", 1)]
    assert len(offsets) == 3
    assert offsets.expire(8 * DAY_MS, 7 * DAY_MS, base_ms=2 * DAY_MS) == []


@given(st.lists(st.tuples(TIMES, TIMES, TIMES, st.booleans())), TIMES, st.integers(0, 30))
def test_the_filter_over_columns_is_the_rule_of_one_offset(rows, now_ms, retention_ms):
    commit, expire, base, keep = zip(*rows, strict=True) if rows else ((), (), (), ())
    wanted = [
        not k and (now_ms >= e if e != -1 else now_ms - b >= retention_ms) for _, e, b, k in rows
    ]
    got = expired(commit, expire, now_ms, retention_ms, base, np.array(keep, dtype=bool))
    assert got.dtype == np.bool_
    assert got.tolist() == wanted
    plain = expired(commit, None, now_ms, retention_ms)
    assert plain.tolist() == [now_ms - c >= retention_ms for c, *_ in rows]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20), TIMES, TIMES)), TIMES)
def test_a_map_expires_what_the_filter_says(rows, now_ms):
    offsets, last = OffsetMap(), {}
    for position, (topic, partition, commit_ms, expire_ms) in enumerate(rows):
        entry = Offset(1, commit_timestamp=commit_ms, expire_timestamp=expire_ms)
        offsets.commit({(topic, partition): entry}, position)
        last[topic, partition] = (commit_ms, expire_ms)
    keys = list(last)
    flags = expired([last[k][0] for k in keys], [last[k][1] for k in keys], now_ms, 10,
                    keep=np.array([k[0] == "b" for k in keys], dtype=bool))  # fmt: skip
    wanted = {key for key, flag in zip(keys, flags, strict=True) if flag}
    assert set(offsets.expire(now_ms, 10, keep={"b"})) == wanted
    assert {key for key, _ in offsets.items()} == set(keys) - wanted
    assert len(offsets) == len(keys) - len(wanted)


@pytest.mark.parametrize(
    "columns",
    [([1.5], [1]), ([1, 2], [1, 2, 3]), ([[1]], [1])],
)
def test_columns_of_the_wrong_kind_are_refused(columns):
    with pytest.raises(ValueError, match="_ms"):
        expired(*columns, 0, 0)
    for rows, keep in ((1, [1]), (2, [True]), (2, [[True, True]]), (2, [True] * 3)):
        with pytest.raises(ArgumentError, match=f"keep must be a column of {rows} bools"):
            expired([1] * rows, [1] * rows, 0, 0, keep=keep)


def test_a_single_time_stands_for_a_column_of_no_rows_too():
    nothing = np.empty(0, np.int64)
    assert expired(nothing, -1, 5, 1, base_ms=0).tolist() == []


@pytest.mark.parametrize("enabled", [True, False])
def test_expiry_leaves_the_garbage_collector_as_it_was(enabled):
    offsets = OffsetMap()
    offsets.commit({("t", 0): Offset(1, commit_timestamp=0)}, 1)
    try:
        (gc.enable if enabled else gc.disable)()
        assert offsets.expire(10, 5) == [("t", 0)]
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


@pytest.mark.parametrize("differs", [{}, *({name: value} for name, value in [
    ("offset", 2), ("leader_epoch", 2), ("metadata", "other"), ("commit_timestamp", 2),
    ("expire_timestamp", 2), ("position", 2)])])  # fmt: skip
def test_offsets_are_equal_if_all_their_fields_are(differs):
    fields = {"offset": 1, "leader_epoch": 3, "metadata": "m", "commit_timestamp": 5,
              "expire_timestamp": 7, "position": 9}  # fmt: skip
    one, other = Offset(**fields), Offset(**fields | differs)
    assert (one == other) == (not differs)
    assert differs or hash(one) == hash(other)
    assert one != (1, 3, "m", 5, 7, 9)
    for name, value in (fields | differs).items():
        assert getattr(other, name) == value


def test_removed_offsets_are_gone_and_counted_off_and_a_topic_goes_with_its_last():
    offsets = OffsetMap()
    keys = [("t", 0), ("t", 1), ("u", 0)]
    offsets.commit({key: number for number, key in enumerate(keys)}, 1)
    assert offsets.remove([("t", 1), ("t", 2), ("v", 0)]) == [("t", 1)]
    assert [(key, entry.offset) for key, entry in offsets.items()] == [(("t", 0), 0), (("u", 0), 2)]
    assert len(offsets) == 2
    assert offsets.remove([("u", 0), ("t", 0)]) == [("u", 0), ("t", 0)]
    assert (len(offsets), offsets.items(), offsets.has_offsets) == (0, [], False)
    offsets.commit({("t", 1): 7}, 2)
    assert offsets["t", 1].offset == 7


@pytest.mark.parametrize("since_ms", [-1, 0, 1, -1000, 5_000])
@pytest.mark.parametrize("topics_known", [True, False])
@pytest.mark.parametrize("state", ["Empty", "Stable", "PreparingRebalance"])
@pytest.mark.parametrize("protocol_type", [None, "consumer", "connect"])
def test_protocol_type_and_state_select_the_rule_of_expiry(
    protocol_type, state, topics_known, since_ms
):
    """The table of docs/rules/offsets.md#expiration, row by row."""
    if protocol_type is None:
        expected = "standalone"
    elif state == "Empty":
        expected = "empty_commit" if since_ms == -1 else "empty_since"
    elif (protocol_type, state, topics_known) == ("consumer", "Stable", True):
        expected = "not_subscribed"
    else:
        expected = None
    empty, stable = state == "Empty", state == "Stable"
    assert expiry_rule(protocol_type, empty, stable, since_ms, topics_known) == expected


def test_a_topic_whose_offsets_are_gone_is_forgotten():
    offsets = OffsetMap()
    ways = {
        "removed": lambda key: offsets.remove([key]),
        "expired": lambda _: offsets.expire(10, 5),
    }
    for name, way in ways.items():
        topic = f"topic {name}"
        before = sys.getrefcount(topic)
        offsets.commit({(topic, 0): Offset(1, commit_timestamp=0)}, 1)
        assert sys.getrefcount(topic) > before
        assert way((topic, 0)) == [(topic, 0)]
        assert sys.getrefcount(topic) == before, name
        assert not offsets.has_offsets


def test_an_undecided_offset_shows_to_readers_that_do_not_ask_for_stable_ones():
    offsets = OffsetMap()
    offsets.commit({TP: 1}, 5)
    offsets.prepare_offset_commit({TP: 2})
    assert offsets.fetch(*TP).offset == 1
    assert offsets.fetch(*TP, require_stable=False).offset == 1
    with pytest.raises(CoterieError, match="t-0 is unstable"):
        offsets.fetch(*TP, require_stable=True)


def test_a_removal_takes_pending_commits_along_of_every_kind():
    offsets = OffsetMap()
    offsets.commit({TP: 1, ("t", 1): 1}, 5)
    offsets.prepare_offset_commit({TP: 2, ("t", 1): 2})
    for producer in (7, 8):
        offsets.prepare_txn_offset_commit(producer, {TP: 3, ("t", 1): 3})
    assert offsets.remove([TP]) == [TP]
    assert not offsets.is_pending(*TP)
    assert offsets.is_pending("t", 1)
    assert dict(offsets.pending) == {("t", 1): Offset(2)}
    assert {p: list(undecided) for p, undecided in offsets.pending_txn.items()} == {
        7: [("t", 1)],
        8: [("t", 1)],
    }


def test_a_failed_transactional_append_leaves_other_producers_and_partitions_alone():
    offsets = OffsetMap()
    for producer in (7, 8):
        offsets.prepare_txn_offset_commit(producer, {TP: 3, ("t", 1): 4})
    offsets.fail_pending_txn_offset_commit(7, {TP: 3})
    offsets.fail_pending_txn_offset_commit(9, {TP: 3})  # nothing is pending of that producer
    assert {p: sorted(undecided) for p, undecided in offsets.pending_txn.items()} == {
        7: [("t", 1)],
        8: [TP, ("t", 1)],
    }
    for producer, rows in ((7, {("t", 1): 4}), (8, {TP: 3, ("t", 1): 4})):
        offsets.fail_pending_txn_offset_commit(producer, rows)
    assert not offsets.has_offsets


class PlainOffsets:
    """GroupMetadata's three maps in the fewest lines. Values are numbers that no two commits share.

    Source: GroupMetadata.scala.
    """

    def __init__(self):
        self.shown, self.pending, self.of_producer = {}, {}, {}  # shown: (value, position)

    def show(self, key, value, position):
        if key not in self.shown or self.shown[key][1] < position:
            self.shown[key] = value, position

    def appended(self, commits, position):
        for key, value in commits.items():
            if key in self.pending:
                self.show(key, value, position)
                if self.pending[key] == value:
                    del self.pending[key]

    def failed(self, commits):
        for key, value in commits.items():
            if self.pending.get(key) == value:
                del self.pending[key]

    def appended_txn(self, producer, commits, position):
        undecided = self.of_producer.get(producer, {})
        for key, value in commits.items():
            if undecided.get(key, [None])[0] == value:
                undecided[key] = value, position

    def failed_txn(self, producer, commits):
        if producer in self.of_producer:
            for key in commits:
                self.of_producer[producer].pop(key, None)
            if not self.of_producer[producer]:
                del self.of_producer[producer]

    def complete(self, producer, committed):
        for key, (value, position) in self.of_producer.pop(producer, {}).items():
            if committed:
                self.show(key, value, position)

    def remove(self, keys):
        for of in (self.pending, *self.of_producer.values()):
            for key in keys:
                of.pop(key, None)
        return [key for key in keys if self.shown.pop(key, None)]


def assert_equal_maps(offsets, model):
    assert {k: (one.offset, one.position) for k, one in offsets.items()} == model.shown
    assert len(offsets) == len(model.shown)
    assert {key: one.offset for key, one in offsets.pending.items()} == model.pending
    assert {
        producer: {key: (one.offset, one.position) for key, one in undecided.items()}
        for producer, undecided in offsets.pending_txn.items()
    } == model.of_producer
    assert offsets.has_offsets == any((model.shown, model.pending, model.of_producer))
    undecided = {key for of in (model.pending, *model.of_producer.values()) for key in of}
    for key in KEYS:
        assert (key in offsets) == (key in model.shown)
        assert offsets.is_pending(*key) == (key in undecided)


@pytest.mark.parametrize("seed", range(10))
def test_commits_in_flight_end_as_in_plain_maps(seed):
    rng = random.Random(seed)
    offsets, model = OffsetMap(), PlainOffsets()
    numbers, flights = itertools.count(100), []
    for _ in range(240):
        commits = {key: next(numbers) for key in rng.sample(KEYS, rng.randint(1, 3))}
        producer = rng.choice([7, 8])
        flight = rng.choice(flights) if flights else None
        match rng.randrange(7):
            case 0 | 1:
                offsets.prepare_offset_commit(commits)
                model.pending.update(commits)
                flights.append((None, commits))
            case 2 | 3:
                offsets.prepare_txn_offset_commit(producer, commits)
                undecided = model.of_producer.setdefault(producer, {})
                undecided.update({key: (value, -1) for key, value in commits.items()})
                flights.append((producer, commits))
            case 4 | 5 if flight:
                flights.remove(flight)
                producer, commits = flight
                plain, fails, position = producer is None, rng.random() < 0.3, rng.randrange(50)
                if plain and fails:
                    offsets.fail_pending_offset_write(commits)
                    model.failed(commits)
                elif plain:
                    offsets.on_offset_commit_append(commits, position)
                    model.appended(commits, position)
                elif fails:
                    offsets.fail_pending_txn_offset_commit(producer, commits)
                    model.failed_txn(producer, commits)
                else:
                    offsets.on_txn_offset_commit_append(producer, commits, position)
                    model.appended_txn(producer, commits, position)
            case 6 if rng.random() < 0.5:
                keys = list(commits)
                assert offsets.remove(keys) == model.remove(keys)
            case _:
                waits = any(one[1] < 0 for one in model.of_producer.get(producer, {}).values())
                committed = not waits and rng.random() < 0.6
                offsets.complete_pending_txn_offset_commit(producer, committed)
                model.complete(producer, committed)
        if rng.random() < 0.2:
            offsets = pickle.loads(pickle.dumps(offsets))
        assert_equal_maps(offsets, model)
