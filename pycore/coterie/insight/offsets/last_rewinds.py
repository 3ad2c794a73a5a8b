"""The keys whose last commit up to a time is a rewind: to go back to that time restores it.

State: two numbers for each key.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coterie.insight.offsets.outside_spans import TakenBack
from coterie.insight.records.key_index import Key, Keys, Table
from coterie.insight.records.record_columns import COMMIT, RecordColumns

NONE = -1


class LastRewinds:
    """Collects whether each key's last commit up to a time is a rewind, as ``audit`` finds them."""

    COLUMNS: ClassVar = frozenset({"previous_offset"})

    def __init__(self, taken_back: TakenBack, at_ms: int) -> None:
        self.taken_back, self.at_ms = taken_back, at_ms
        self.keys = Keys()
        self.last = Table(rewound_from=(np.int64, NONE), timestamp=(np.int64, NONE))

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan = commits.scan
        self.last.fit(len(self.keys))
        if not len(self.keys):
            return
        back = (commits.previous == COMMIT) & ~commits.tombstone
        back &= commits.offset < commits.previous_offset
        back &= ~self.taken_back.take(commits, len(self.keys))
        rows = np.flatnonzero(commits.effective & (commits.timestamp <= self.at_ms))
        keys = commits.key[rows]
        rewound_from = np.where(back[rows], commits.previous_offset[rows], NONE)
        self.last["rewound_from"][keys], self.last["timestamp"][keys] = (
            rewound_from,
            commits.timestamp[rows],
        )

    def of_last_commits(self) -> dict[Key, tuple[int, int]]:
        """Return the offset before such a rewind, and its time (epoch ms)."""
        last = self.last
        rows = np.flatnonzero((last["rewound_from"] != NONE) & (last["timestamp"] >= 0)).tolist()
        return {
            key: (int(last["rewound_from"][number]), int(last["timestamp"][number]))
            for number, key in self.keys.items(rows)
        }
