"""The groups that ``--group`` stands for: ids as they are, patterns by what the log has."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from coterie.cli.failures import Failed
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, Log
from coterie.replay.engine import HERE, Where

SPECIAL = re.compile(r"[*?\[]")


def chosen_groups(given: Iterable[str], log: Log, where: Where = HERE) -> frozenset[str] | None:
    """Return the ids of the groups that are asked for; None: all.

    ``*``, ``?`` and ``[...]`` make a pattern, which is matched with whole ids, case counting. A
    group whose id is the very text of a pattern is meant by it, and nothing else. The log is read
    once more only where there is a pattern.

    Raises
    ------
    Failed
        No group of the log matches a pattern.
    """
    wanted = tuple(dict.fromkeys(given))
    if not wanted:
        return None
    if not any(SPECIAL.search(name) for name in wanted):
        return frozenset(wanted)
    if not isinstance(log, Listing):
        raise Failed("patterns for --group need a log on plain paths; give the ids themselves")
    known = known_groups(log, where)
    chosen: set[str] = set()
    for name in wanted:
        found = {name} if name in known or not SPECIAL.search(name) else matching(name, known)
        if not found:
            raise Failed(
                f"the log has no record of a group that matches {name!r}; "
                "`coterie groups LOG --list` names those it has"
            )
        chosen |= found
    return frozenset(chosen)


def known_groups(log: Log, where: Where) -> set[str]:
    """Return the ids of all groups that a log has any record of."""
    from coterie.insight.asking import QuestionRequest, find_asker
    from coterie.insight.questions import (
        group_names,  # whoever gives no pattern does not wait for numpy
    )

    with TerminalProgress() as progress:
        engine, master, conf = where
        request = QuestionRequest(
            group_names.NAME, group_names.Parameters(), log, master=master, conf=conf
        )
        parts = find_asker(engine)(request, progress)
        return {row["group_id"] for part in parts for row in part.rows}


def matching(pattern: str, known: Iterable[str]) -> set[str]:
    """Return the ids that match a pattern."""
    matches = re.compile(fnmatch.translate(pattern)).match
    return {name for name in known if matches(name)}
