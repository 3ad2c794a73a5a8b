"""Which commits have expired: one rule for arrays of times.

Times are int64 milliseconds; -1 is no time of its own. Arrays of another type are converted where
no value changes, and refused where one would.
Source: GroupMetadata.scala (getExpiredOffsets).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

def expiry_rule(
    protocol_type: str | None, empty: bool, stable: bool, since_ms: int, topics_known: bool
) -> str | None:
    """Return the rule by which a group's offsets expire; None: they do not expire.

    Parameters
    ----------
    protocol_type
        None: no member was ever added.
    empty, stable
        Whether the group is in that state.
    since_ms
        When it entered its state, -1: unknown.
    topics_known
        Whether the group's subscribed topics are known.

    Returns
    -------
    str or None
        ``standalone``: since each commit; ``empty_since``: all of them since ``since_ms``;
        ``empty_commit``: since each commit, as ``since_ms`` is unknown; ``not_subscribed``: since
        each commit, those of topics that are not subscribed to. With None, even a commit's own
        expiry is ignored. Source: GroupMetadata.removeExpiredOffsets.
    """

def expired(
    commit_ms: npt.ArrayLike,
    expire_ms: npt.ArrayLike | None,
    now_ms: int,
    retention_ms: int,
    base_ms: npt.ArrayLike | None = None,
    keep: Any = None,
) -> npt.NDArray[np.bool_]:
    """Return which offsets have expired, by Kafka's rule since 2.1, for whole columns.

    Parameters
    ----------
    commit_ms
        int64 (n,): when each offset was committed.
    expire_ms
        int64 (n,) or one value: the offset's own expiry time, -1: none; None: none at all. If
        there is one, it alone decides (``now_ms >= expire_ms``).
    now_ms, retention_ms
        The time at which to judge, and the retention, in ms.
    base_ms
        int64 (n,) or one value: when retention starts (``now_ms - base_ms >= retention_ms``);
        None: at the commit.
    keep
        bool (n,): True for an offset that never expires (a subscribed topic, a pending commit).

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    ArgumentError
        A column has another length or type.

    Notes
    -----
    Source: ``GroupMetadata.scala``, removeExpiredOffsets.

    Examples
    --------
    >>> day = 86_400_000
    >>> expired([0, 5 * day], None, now_ms=8 * day, retention_ms=7 * day)
    array([ True, False])
    """
