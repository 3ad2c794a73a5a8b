"""A partition's folder that changes as a broker changes it: appends, new segments, cleanings."""

import functools
from collections import Counter

from coterie.insight.questions import audit, metrics
from coterie.log.folders import find_segments
from coterie.watch.watcher import Watcher
from support.insight.models import question_rows


class GrowingLog:
    """The files of partition 0, in ``folder``."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "__consumer_offsets-0"
        self.home.mkdir(parents=True)

    def put(self, segments):
        """Let the folder have these segments: (base offset, bytes)."""
        named = {f"{base:020d}.log": data for base, data in segments}
        for path in self.home.iterdir():
            if path.name not in named:
                path.unlink()
        for name, data in named.items():
            path = self.home / name
            before = path.read_bytes() if path.exists() else b""
            if path.exists() and data.startswith(before):
                with path.open("ab") as file:
                    file.write(data[len(before) :])
            else:  # the cleaner puts another file in its place
                aside = self.home / "aside"
                aside.write_bytes(data)
                aside.replace(path)

    def watcher(self, data=None, said=None):
        """A watcher of the folder; ``said``: the list of its lines."""
        say = (said if said is not None else []).append
        return Watcher(functools.partial(find_segments, [self.folder]), data, say)


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
