"""The topics behind the offsets of a key: an id that changed is another topic of the same name.

Commits have the id since Kafka 4.2. State: two ids for each key.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coterie.insight.records.key_index import Key, Keys, Table
from coterie.insight.records.record_columns import Array, RecordColumns

HALVES = ("topic_id_high", "topic_id_low")
THEN, LAST = "then", "last"


class TopicIds:
    """Collects the topic id of each key's last commit up to a time, and of its last commit.

    Commits without an id change nothing.
    """

    COLUMNS: ClassVar = frozenset({"decided_ms", *HALVES})

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.keys = Keys()
        names = [f"{when}_{half}" for when in (THEN, LAST) for half in HALVES]
        self.ids = Table(**dict.fromkeys(names, (np.int64, 0)))

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan = commits.scan
        self.ids.fit(len(self.keys))
        known = (commits.topic_id_high | commits.topic_id_low) != 0
        rows = np.flatnonzero(commits.effective & known)
        in_time = np.maximum(commits.timestamp[rows], commits.decided_ms[rows]) <= self.at_ms
        for when, some in ((THEN, rows[in_time]), (LAST, rows)):
            for half in HALVES:
                self.ids[f"{when}_{half}"][commits.key[some]] = commits.columns[half][some]

    def changed(self) -> set[Key]:
        """Return the keys whose last commit is of another topic than the one up to the time."""
        differs = has_id(self.ids, THEN)
        differs &= np.any(
            [self.ids[f"{THEN}_{half}"] != self.ids[f"{LAST}_{half}"] for half in HALVES], axis=0
        )
        return {key for _, key in self.keys.items(np.flatnonzero(differs).tolist())}


def has_id(ids: Table, when: str) -> Array:
    """Return which keys have an id; bool."""
    known: Array = np.any([ids[f"{when}_{half}"] != 0 for half in HALVES], axis=0)
    return known
