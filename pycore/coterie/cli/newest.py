"""When the newest record of a log was made: what is now, where nobody says."""

from __future__ import annotations

from coterie.cli.failures import Failed
from coterie.cli.progress import TerminalProgress
from coterie.insight import extent
from coterie.insight.asking import Request, find_asker
from coterie.log.folders import Log


def newest_ms(log: Log, engine: str = "local", master: str | None = None) -> int:
    """Return the time of the newest record, of any group; Failed where none has a time."""
    request = Request(extent.NAME, extent.Ask(), log, master=master)
    with TerminalProgress() as progress:
        times: list[int] = [
            row["newest_timestamp"]
            for part in find_asker(engine)(request, progress)
            for row in part.rows
            if row["newest_timestamp"] is not None
        ]
    if not times:
        raise Failed("the log has no record with a time; give --now TIME")
    return max(times)
