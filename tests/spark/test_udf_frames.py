"""What the pandas UDFs compute, against the shortest that is true. No session is started."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import coterie
from coterie.errors import ArgumentError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("coterie_spark.frames")
from coterie_spark import frames  # noqa: E402

NEVER = 2**63 - 1
MS = st.integers(-9, 9)
EXPIRY = MS | st.integers(-(2**63), NEVER) | st.sampled_from([NEVER, NEVER - 512, 2**53, 2**53 + 1])
OFFSETS = st.lists(st.tuples(MS, st.none() | EXPIRY, MS, MS), max_size=12)
NAMES = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=3)
BEATS = st.lists(st.tuples(st.sampled_from(["m", "n", None]), MS, st.integers(-2, 6)), max_size=12)


def is_expired(commit, expire, now, retention):
    return now - commit >= retention if expire in (None, -1) else now >= expire


@given(OFFSETS, st.booleans())
def test_offsets_expire_row_by_row_whatever_changes(rows, ext):
    columns = zip(*rows, strict=True) if rows else [()] * 4
    commit, expire, now, retention = (pa.array(column, pa.int64()) for column in columns)
    as_spark_asks = {"types_mapper": {pa.int64(): pd.Int64Dtype()}.get} if ext else {}
    series = [column.to_pandas(**as_spark_asks) for column in (commit, expire, now, retention)]
    assert frames.expired(*series).tolist() == [is_expired(*row) for row in rows]


@pytest.mark.parametrize(
    ("expire", "now"),
    [
        (NEVER, NEVER - 1),
        (-(2**53) - 1, -(2**53) - 1),
        (2**53 + 1, 2**53),
        (-(2**53) - 1, -(2**53)),
    ],
)
def test_an_expiry_that_a_null_has_rounded_is_no_answer_where_it_could_be_wrong(expire, now):
    columns = ([0, 0], [None, expire], [now, now], [1, 1])
    series = [pa.array(column, pa.int64()).to_pandas() for column in columns]
    with pytest.raises(ArgumentError, match=r"beyond 2\*\*53.*coalesce\(expire_ms, -1\)"):
        frames.expired(*series)


@given(OFFSETS, st.sampled_from(["ms", "us", "ns"]), st.sets(st.sampled_from(["c", "e", "n"])))
def test_arrays_of_numbers_and_of_timestamps_expire_alike(rows, unit, as_times):
    scale = {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
    columns = dict(zip("cenr", zip(*rows, strict=True) if rows else [()] * 4, strict=True))
    assume(all(abs(ms or 0) < 2**40 for ms in columns["e"]))
    kind = pa.timestamp(unit, "Europe/Berlin")
    arrays = [
        pa.array([None if ms is None else ms * scale for ms in column], pa.int64()).cast(kind)
        if name in as_times
        else pa.array(column, pa.int64())
        for name, column in columns.items()
    ]
    assert frames.expired_arrays(*arrays).to_pylist() == [is_expired(*row) for row in rows]


@pytest.mark.parametrize("name", ["commit_ms", "expire_ms", "now_ms", "retention_ms"])
def test_a_fraction_of_a_millisecond_is_refused_in_every_column(name):
    columns = {"commit_ms": 0, "expire_ms": 0, "now_ms": 0, "retention_ms": 0}
    series = {key: pd.Series([value]) for key, value in columns.items()} | {name: pd.Series([1.5])}
    with pytest.raises(ArgumentError, match=f"{name} must be whole milliseconds"):
        frames.expired(**series)


def test_a_fraction_of_a_millisecond_and_a_time_without_a_zone_are_refused():
    numbers = {name: pa.array([5]) for name in ("commit_ms", "expire_ms", "now_ms", "retention_ms")}
    for name in ("commit_ms", "expire_ms", "now_ms"):
        times = pa.array([1001]).cast(pa.timestamp("us", "UTC"))
        with pytest.raises(ArgumentError, match=f"{name} must be whole milliseconds"):
            frames.expired_arrays(**numbers | {name: times})
        with pytest.raises(ArgumentError, match=f"{name} must be a timestamp with a time zone"):
            frames.expired_arrays(**numbers | {name: pa.array([1]).cast(pa.timestamp("us"))})
        with pytest.raises(ArgumentError, match=f"{name} must be whole milliseconds or"):
            frames.expired_arrays(**numbers | {name: pa.array([1.5])})
        series = {key: pd.Series([5]) for key in numbers}
        with pytest.raises(ArgumentError, match=rf"unix_millis\({name}\)"):
            frames.expired(**series | {name: pd.Series([pd.Timestamp(0)])})
    with pytest.raises(ArgumentError, match="retention_ms must be a number"):
        frames.expired_arrays(**numbers | {"retention_ms": times})


@pytest.mark.parametrize("name", ["commit_ms", "now_ms", "retention_ms"])
def test_a_null_that_means_nothing_is_named(name):
    columns = {"commit_ms": 0, "expire_ms": 0, "now_ms": 0, "retention_ms": 0}
    series = {key: pd.Series([value, value]) for key, value in columns.items()}
    series[name] = pa.array([0, None], pa.int64()).to_pandas()
    with pytest.raises(ArgumentError, match=f"{name} must not be null"):
        frames.expired(**series)


def chosen(members):
    try:
        return coterie.select_protocol(members)
    except coterie.CoterieError:
        return None


@given(st.lists(st.lists(NAMES, max_size=3), max_size=6))
def test_the_protocol_of_each_group_is_that_of_its_members_alone(groups):
    arrow = pa.array(groups, pa.list_(pa.list_(pa.string())))
    found = frames.select_protocol(arrow.to_pandas())
    assert list(found) == [chosen(members) for members in groups]


def sessions(beats):
    """One member after another; a heartbeat goes over those of its own millisecond."""
    ended = []
    for who in dict.fromkeys(member for member, _, _ in beats):
        own = [(time, timeout) for member, time, timeout in beats if member == who]
        for (time, timeout), (later, _) in zip(own, [*own[1:], (None, 0)], strict=True):
            if later is None or (later > time and later >= time + timeout):
                ended.append((who, time + timeout))
    return ended


@given(BEATS, st.integers(1, 5))
def test_sessions_end_in_order_whatever_the_batches(beats, size):
    beats = sorted(beats, key=lambda beat: (beat[0] is None, beat[0] or "", beat[1]))
    columns = list(zip(*beats, strict=True)) if beats else [()] * 3
    kinds = {"member": pa.string(), "heartbeat_ms": pa.int64(), "timeout_ms": pa.int64()}
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
    table = pa.Table.from_arrays(arrays, names=list(kinds))
    found = frames.ended_in_order(table.to_batches(max_chunksize=size))
    rows = [tuple(row.values()) for batch in found for row in batch.to_pylist()]
    assert rows == sessions(beats)


def test_answers_have_the_index_of_the_rows():
    index = [7, 3]
    columns = ([0, 0], [None, 5], [4, 4], [9, 9])
    gone = frames.expired(*(pd.Series(column, index=index, dtype="Int64") for column in columns))
    chosen_by = frames.select_protocol(pd.Series([[["a"]], [["b"]]], index=index))
    assert list(gone.index) == list(chosen_by.index) == index
    assert gone.tolist() == [False, False]


@given(BEATS)
def test_the_table_function_of_sql_ends_the_same_sessions(beats):
    """Spark calls it for one member at a time, in order of time."""
    udfs = pytest.importorskip("coterie_spark.udfs", reason="needs the extra spark")
    make, names = udfs.table_function(), ("member", "heartbeat_ms", "timeout_ms")
    ended = []
    beats = sorted(beats, key=lambda beat: (beat[0] is None, beat[0] or "", beat[1]))
    for who in dict.fromkeys(member for member, _, _ in beats):
        of_member = make()
        for beat in beats:
            if beat[0] == who:
                ended += of_member.eval(dict(zip(names, beat, strict=True)))
        ended += of_member.terminate()
    assert ended == sessions(beats)
    assert list(make().terminate()) == []
