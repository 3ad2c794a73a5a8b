"""What a watcher knows of a growing log, and what a command reads from it anew."""

import functools
from collections import Counter

from coterie.insight.questions import audit, metrics
from coterie.live.watcher import Watcher
from coterie.log.folders import find_segments
from support.insight.models import question_rows


def watcher_of(log, data=None, lines=None):
    """A watcher of a log; ``lines``: the list of what it prints for the operator."""
    say = (lines if lines is not None else []).append
    return Watcher(functools.partial(find_segments, [log.home]), data, say)


def watched_rows(watcher):
    """The rows of ``metrics``, as a watcher has them."""
    return [row for answer in watcher.answers() for row in answer.rows]


def watched_findings(watcher):
    """The number of findings by group and kind, as a watcher has them."""
    return sum((answer.findings for answer in watcher.answers()), Counter())


def watched_totals(watcher):
    """The totals of all partitions, by kind."""
    totals = {}
    for answer in watcher.answers():
        for kind, counts in answer.totals.items():
            totals.setdefault(kind, Counter()).update(counts)
    return totals


def fresh_rows(folder):
    """The rows of ``coterie metrics``."""
    rows = question_rows(folder, metrics, metrics.Parameters())
    return [{name: row[name] for name in metrics.FIELDS} for row in rows]


def fresh_findings(folder):
    """The number of findings of ``coterie audit``, by group and kind."""
    rows = question_rows(folder, audit, audit.Parameters())
    return Counter((row["group_id"], row["kind"]) for row in rows)
