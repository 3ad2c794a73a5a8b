from typing import Any

import numpy as np
import numpy.typing as npt

def expiry_rule(
    protocol_type: str | None, empty: bool, stable: bool, since_ms: int, topics_known: bool
) -> str | None:
    """Return by which rule a group's offsets expire; None: none of them does.

    Parameters
    ----------
    protocol_type
        None: no member was ever added.
    empty, stable
        Whether the group is in that state.
    since_ms
        When it came into its state, -1: the log does not say.
    topics_known
        Whether it is known what the group is subscribed to.

    Returns
    -------
    str or None
        ``standalone``: since each commit; ``empty_since``: all of them since ``since_ms``;
        ``empty_commit``: since each commit, as ``since_ms`` is unknown; ``not_subscribed``: since
        each commit, those of topics that are not subscribed to. Where it is None, not even an
        expiry that a commit carries itself counts. Source: GroupMetadata.removeExpiredOffsets.
    """

def expired(
    commit_ms: npt.ArrayLike,
    expire_ms: npt.ArrayLike | None,
    now_ms: int,
    retention_ms: int,
    base_ms: npt.ArrayLike | None = None,
    keep: Any = None,
) -> npt.NDArray[np.bool_]:
    """Say which offsets have expired, by Kafka's rule since 2.1, for whole columns.

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
    """
