"""Resolve ``--group``: group ids, and patterns that match the ids in the log."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from coterie.cli.failures import Failed
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, Log
from coterie.replay.engine import HERE, Where

SPECIAL = re.compile(r"[*?\[]")


def chosen_groups(requested: Iterable[str], log: Log, where: Where = HERE) -> frozenset[str] | None:
    """Return the ids of the requested groups; None: all groups.

    ``*``, ``?`` and ``[...]`` make a pattern, which has to match a whole id; case matters. If a
    group's id equals the text of a pattern, the text stands for this group alone. Only a pattern
    causes an additional read of the log.

    Raises
    ------
    Failed
        No group of the log matches a pattern.
    """
    names = tuple(dict.fromkeys(requested))
    if not names:
        return None
    if not any(SPECIAL.search(name) for name in names):
        return frozenset(names)
    if not isinstance(log, Listing):
        raise Failed("patterns for --group need a log on plain paths; give the ids themselves")
    known = known_groups(log, where)
    chosen: set[str] = set()
    for name in names:
        matched = {name} if name in known or not SPECIAL.search(name) else matching(name, known)
        if not matched:
            raise Failed(
                f"the log has no record of a group that matches {name!r}; "
                "`coterie groups LOG --list` names those it has"
            )
        chosen |= matched
    return frozenset(chosen)


def known_groups(log: Log, where: Where) -> set[str]:
    """Return the ids of all groups with a record in the log."""
    from coterie.insight.asking import QuestionRequest, find_asker
    from coterie.insight.questions import group_names  # needs numpy, which is slow to import

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
