"""Series to series, frame to frame: what the pandas UDFs compute. Imports no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import coterie
from coterie.coordinator.sessions import session_expirations as ended_sessions

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["expired", "select_protocol", "session_expirations"]


def expired(
    commit_ms: pd.Series, expire_ms: pd.Series, now_ms: pd.Series, retention_ms: pd.Series
) -> pd.Series:
    """Tell which offsets have expired: :func:`coterie.expired`; a null expiry is none.

    ``now_ms`` and ``retention_ms`` may change from row to row.
    """
    import pandas as pd

    commits, explicit = commit_ms.to_numpy("int64"), expire_ms.fillna(-1).to_numpy("int64")
    out = pd.Series(False, index=commit_ms.index)
    settings = pd.DataFrame({"now": now_ms, "retention": retention_ms})
    for (now, retention), rows in settings.groupby(["now", "retention"]).indices.items():
        out.iloc[rows] = coterie.expired(commits[rows], explicit[rows], int(now), int(retention))
    return out


def select_protocol(protocols: pd.Series) -> pd.Series:
    """Return each group's protocol; a row holds its members' lists. Null where there is none."""

    def selected(lists: Iterable[Iterable[str]]) -> str | None:
        try:
            return coterie.select_protocol([list(names) for names in lists])
        except coterie.CoterieError:
            return None

    return protocols.map(selected)


def session_expirations(events: pd.DataFrame) -> pd.DataFrame:
    """Return which sessions ended when, of rows (member, heartbeat_ms, timeout_ms)."""
    import pandas as pd

    member, ended_ms = ended_sessions(
        events["member"].to_numpy(),
        events["heartbeat_ms"].to_numpy("int64"),
        events["timeout_ms"].to_numpy("int64"),
    )
    return pd.DataFrame({"member": member, "ended_ms": ended_ms})
