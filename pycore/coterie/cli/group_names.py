"""Resolve ``--group`` and ``--group-exclude``: ids, and patterns that match the ids in the log."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Container, Iterable

from coterie.cli.failures import Failed
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, Log
from coterie.state.replay_engine import HERE, Where

SPECIAL = re.compile(r"[*?\[]")


def chosen_groups(
    requested: Iterable[str],
    log: Log,
    where: Where = HERE,
    excluded: Iterable[str] = (),
    known_in: Callable[[Log, Where], set[str]] | None = None,
) -> frozenset[str] | None:
    """Return the ids of the requested groups that are not excluded; None: all groups.

    ``*``, ``?`` and ``[...]`` make a pattern, which has to match a whole id; case matters. If a
    group's id equals the text of a pattern, the text stands for this group alone. Only patterns
    and ``excluded`` cause an additional read of the log, by ``known_in`` in place of
    :func:`known_groups` if it is given.

    Raises
    ------
    Failed
        No group of the log matches a pattern of ``requested``, or all are excluded.
    """
    names, without = tuple(dict.fromkeys(requested)), tuple(dict.fromkeys(excluded))
    if not names and not without:
        return None
    if not without and not any(SPECIAL.search(name) for name in names):
        return frozenset(names)
    if not isinstance(log, Listing):
        raise Failed(
            "patterns for --group, and --group-exclude, need a log on plain paths; "
            "give the ids themselves with --group"
        )
    known = (known_in or known_groups)(log, where)
    chosen = set() if names else known
    for name in names:
        matched = {name} if name in known or not SPECIAL.search(name) else matching(name, known)
        if not matched:
            raise Failed(
                f"the log has no record of a group that matches {name!r}; "
                "`coterie groups --list` names those it has"
            )
        chosen |= matched
    left = remaining(chosen, known, without)
    if not left:
        raise all_excluded(without)
    return left


def all_excluded(excluded: Iterable[str]) -> Failed:
    """Return the error if ``--group-exclude`` leaves no group."""
    return Failed(f"--group-exclude leaves out every group: {', '.join(map(repr, excluded))}")


def remaining(
    chosen: Iterable[str], known: Container[str], excluded: Iterable[str]
) -> frozenset[str]:
    """Return the ids that no id or pattern of ``excluded`` names."""
    left = frozenset(chosen)
    for name in excluded:
        left -= {name} if name in known else matching(name, left)
    return left


def check_present(
    requested: Iterable[str],
    chosen: frozenset[str] | None,
    present: Iterable[str | None],
    at_ms: int | None = None,
) -> None:
    """Raise for a requested group, neither a pattern nor excluded, without a record up to a time.

    ``chosen``: as of :func:`chosen_groups`.
    """
    if chosen is None:
        return
    from coterie.insight.question_engine import (
        missing_groups,  # with numpy, which is slow to import
    )

    missing = chosen.intersection(requested).difference(present)
    error = missing_groups(missing, frozenset(), at_ms)
    if error is not None:
        raise error


def known_groups(log: Log, where: Where, at_ms: int | None = None) -> set[str]:
    """Return the ids of all groups with a record in the log, up to a time."""
    from coterie.insight.question_engine import QuestionRequest, find_asker
    from coterie.insight.questions import group_names  # needs numpy, which is slow to import

    with TerminalProgress() as progress:
        engine, master, conf = where
        request = QuestionRequest(
            group_names.NAME, group_names.Parameters(), log, at_ms=at_ms, master=master, conf=conf
        )
        parts = find_asker(engine)(request, progress)
        return {row["group_id"] for part in parts for row in part.rows}


def matching(pattern: str, known: Iterable[str]) -> set[str]:
    """Return the ids that match a pattern."""
    matches = re.compile(fnmatch.translate(pattern)).match
    return {name for name in known if matches(name)}
