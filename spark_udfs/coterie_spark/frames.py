"""The computations of the pandas UDFs, from series to series or batches to batches.

They work on whole columns, without a Python call for each row. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import coterie
from coterie.coordinator.sessions import session_expirations as ended_sessions
from coterie.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

__all__ = ["ended_in_order", "expired", "expired_arrays", "select_protocol", "session_expirations"]

NO_EXPIRY = -1
TRUNCATE = "of a timestamp, give date_trunc('MILLISECOND', ...)"
EXACT = 2**53  # up to here each int64 is a float64
NONE = -1  # of winners: none; of an array: its last element, which is None


def expired(
    commit_ms: pd.Series, expire_ms: pd.Series, now_ms: pd.Series, retention_ms: pd.Series
) -> pd.Series:
    """Compute which offsets have expired: :func:`coterie.expired`.

    A null in ``expire_ms`` means no expiry of its own; the other columns must not have nulls.
    ``now_ms`` and ``retention_ms`` may differ between rows, but constant ones cost least.
    """
    import pandas as pd

    columns = {"commit_ms": commit_ms, "now_ms": now_ms, "retention_ms": retention_ms}
    commits, now, retention = (_whole(name, column) for name, column in columns.items())
    explicit = _expiries(expire_ms, now)
    return pd.Series(_expired(commits, explicit, now, retention), index=commit_ms.index)


def expired_arrays(
    commit_ms: pa.Array, expire_ms: pa.Array, now_ms: pa.Array, retention_ms: pa.Array
) -> pa.Array:
    """Compute the same as :func:`expired` from Arrow arrays, which have exact nulls and times.

    All but ``retention_ms`` may be timestamps with a time zone; a fraction of a millisecond is an
    error.
    """
    import pyarrow as pa

    commits = _array_ms("commit_ms", commit_ms)
    explicit = _array_ms("expire_ms", expire_ms, NO_EXPIRY)
    now = _array_ms("now_ms", now_ms)
    if pa.types.is_timestamp(retention_ms.type):
        raise ArgumentError("retention_ms must be a number of milliseconds, not a timestamp")
    return pa.array(_expired(commits, explicit, now, _array_ms("retention_ms", retention_ms)))


def _expired(
    commits: np.ndarray[Any, Any],
    explicit: np.ndarray[Any, Any],
    now: np.ndarray[Any, Any],
    retention: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    import numpy as np

    out = np.empty(len(commits), dtype=bool)
    for rows in _runs(now, retention):
        at = rows.start
        out[rows] = coterie.expired(commits[rows], explicit[rows], int(now[at]), int(retention[at]))
    return out


def _array_ms(name: str, array: pa.Array, null: int | None = None) -> np.ndarray[Any, Any]:
    """Return an array of numbers or timestamps as int64; ``null`` stands for a null."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise ArgumentError(f"{name} must be a timestamp with a time zone, or milliseconds")
        try:
            array = array.cast(pa.timestamp("ms", kind.tz))
        except pa.ArrowInvalid:
            raise ArgumentError(f"{name} must be whole milliseconds: {TRUNCATE}") from None
    elif not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise ArgumentError(f"{name} must be whole milliseconds or a timestamp, not {kind}")
    array = array.cast(pa.int64())
    if array.null_count:
        if null is None:
            raise ArgumentError(f"{name} must not be null")
        array = array.fill_null(null)
    numbers: np.ndarray[Any, Any] = array.to_numpy()
    return numbers


def _whole(name: str, column: pd.Series) -> np.ndarray[Any, Any]:
    """Return a column as int64."""
    if column.dtype.kind == "M":
        raise ArgumentError(f"{name} must be milliseconds here: give unix_millis({name})")
    if column.dtype != "int64" and column.hasnans:
        raise ArgumentError(f"{name} must not be null")
    if column.dtype.kind == "f":
        _refuse_fractions(name, column.to_numpy())
    whole: np.ndarray[Any, Any] = column.to_numpy("int64")
    return whole


def _refuse_fractions(name: str, floats: np.ndarray[Any, Any]) -> None:
    if (floats % 1 != 0).any():
        raise ArgumentError(f"{name} must be whole milliseconds")


def _expiries(expire_ms: pd.Series, now: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return expiries as int64, ``NO_EXPIRY`` for null.

    A null turns the column of a batch into floats before it comes here, and a float beyond
    ``EXACT`` is rounded. It remains beyond ``EXACT``, so the result is right for every ``now``
    below that.
    """
    import numpy as np

    if expire_ms.dtype.kind == "M":
        return _whole("expire_ms", expire_ms)
    floats: np.ndarray[Any, Any] = expire_ms.to_numpy()
    if floats.dtype == np.int64:
        return floats
    if floats.dtype.kind != "f":
        return _whole("expire_ms", expire_ms.fillna(NO_EXPIRY))
    _refuse_fractions("expire_ms", floats[~np.isnan(floats)])
    rounded = np.abs(floats) >= EXACT
    if rounded.any():
        unsure = rounded & ((now >= EXACT) | (now <= -EXACT))
        if unsure.any():
            raise ArgumentError(
                f"now_ms {now[unsure][0]} and an expiry are both beyond 2**53, where a null in the"
                " same batch has rounded the expiry; give coalesce(expire_ms, -1)"
            )
        # No float is the greatest int64; the next one is beyond it, and would wrap.
        floats = np.clip(floats, -EXACT, EXACT)
    return np.where(np.isnan(floats), NO_EXPIRY, floats).astype(np.int64)


def _runs(*columns: np.ndarray[Any, Any]) -> Iterator[slice]:
    """Yield the runs of rows in which no column changes."""
    import numpy as np

    count = len(columns[0])
    if not count:
        return
    if all((column == column[0]).all() for column in columns):
        yield slice(0, count)
        return
    changes = np.zeros(count - 1, dtype=bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), count]
    yield from map(slice, bounds[:-1], bounds[1:])


def select_protocol(protocols: pd.Series) -> pd.Series:
    """Return each group's protocol, or null; a row has the lists of the group's members."""
    import numpy as np
    import pandas as pd

    groups = [() if lists is None else lists for lists in protocols]
    members = list(chain.from_iterable(groups))
    if any(names is None for names in members):
        raise ArgumentError("a member's protocols must be a list of names, not null")
    names = np.concatenate(members) if members else np.empty(0, dtype=object)
    number, unique = pd.factorize(names)
    member_start, group_start = _starts(members), _starts(groups)
    nulls = np.flatnonzero(number < 0)
    number[nulls] = 0
    winner, _ = coterie.select_protocols(number.astype(np.int32), member_start, group_start)
    theirs = np.searchsorted(member_start, nulls, side="right") - 1
    winner[np.searchsorted(group_start, theirs, side="right") - 1] = NONE
    chosen = np.array([*unique, None], dtype=object)[winner]
    return pd.Series(chosen, index=protocols.index, dtype=object)


def _starts(lists: Iterable[Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    sizes = np.fromiter(map(len, lists), dtype=np.int64)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def session_expirations(events: pd.DataFrame) -> pd.DataFrame:
    """Return the ended sessions of rows (member, heartbeat_ms, timeout_ms)."""
    import pandas as pd

    member, ended_ms = ended_sessions(
        events["member"].to_numpy(),
        events["heartbeat_ms"].to_numpy("int64"),
        events["timeout_ms"].to_numpy("int64"),
    )
    return pd.DataFrame({"member": member, "ended_ms": ended_ms})


def ended_in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sessions that ended, from heartbeats in order of member and time.

    Columns in: member, heartbeat_ms, timeout_ms; columns out: member, ended_ms. The last heartbeat
    of a batch is carried over, because only the next batch shows whether the session goes on.
    """
    import pyarrow as pa

    last: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if last is not None:
            rows = pa.concat_tables([last, rows.cast(last.schema)])
        if rows.num_rows:
            last = rows.slice(rows.num_rows - 1).combine_chunks()
            yield _ended(rows.combine_chunks())
    if last is not None:
        yield pa.RecordBatch.from_arrays(
            [last["member"].combine_chunks(), pa.array(_deadlines(last))], ["member", "ended_ms"]
        )


def _ended(rows: pa.Table) -> pa.RecordBatch:
    """Return the sessions that end between a row and the next one.

    The next row is another member's, or comes too late. A heartbeat in the millisecond of the end
    comes too late. Of several heartbeats in one millisecond, the last counts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    deadlines = _deadlines(rows)
    heartbeat_ms = rows["heartbeat_ms"].to_numpy()
    member = rows["member"].combine_chunks()
    this, following = member[:-1], member[1:]
    differs = pc.fill_null(
        pc.not_equal(this, following), pc.xor(this.is_null(), following.is_null())
    )
    too_late = (heartbeat_ms[1:] > heartbeat_ms[:-1]) & (heartbeat_ms[1:] >= deadlines[:-1])
    ends = pc.or_(differs, pa.array(too_late))
    return pa.RecordBatch.from_arrays(
        [this.filter(ends), pa.array(deadlines[:-1]).filter(ends)], ["member", "ended_ms"]
    )


def _deadlines(rows: pa.Table) -> np.ndarray[Any, Any]:
    for name in ("heartbeat_ms", "timeout_ms"):
        if rows[name].null_count:
            raise ArgumentError(f"{name} must not be null")
    deadlines: np.ndarray[Any, Any] = (
        rows["heartbeat_ms"].to_numpy() + rows["timeout_ms"].to_numpy()
    )
    return deadlines
