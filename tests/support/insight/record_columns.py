"""All records of a partition as one set of columns, only for tests."""

import numpy as np

from coterie.insight.records.log_reader import SurveyedLog
from coterie.insight.records.record_columns import KIND
from coterie.state.partial import ScanOptions

NAMES = (
    *("kind", "group", "topic", "partition", "offset", "log_offset", "timestamp", "number"),
    *("commit_timestamp", "producer_id", "outcome", "tombstone", "key_size", "value_size", "key"),
    *("metadata_size", "position", "decided_by", "decided_ms", "previous"),
    *("previous_offset", "previous_log_offset", "previous_timestamp"),
)


class Columns:
    """Rows of records, each column an attribute; ``groups``, ``topics`` and ``files`` are names."""

    def __init__(self, names, columns):
        self.__dict__.update(names, **columns)
        self.columns, self.names = columns, names

    def __len__(self):
        return len(self.columns["kind"])

    def only_commits(self):
        keep = self.columns["kind"] <= KIND["offset_tombstone"]
        return Columns(self.names, {name: column[keep] for name, column in self.columns.items()})


def read_records(segments, *, groups=None, at_ms=None):
    """Every record of a partition's segments."""
    options = ScanOptions(at_ms=at_ms, groups=None if groups is None else frozenset(groups))
    pieces = list(SurveyedLog(segments, options).pieces())
    columns = {
        name: np.concatenate([getattr(piece, name) for piece in pieces] or [np.empty(0, np.int64)])
        for name in NAMES
    }
    firsts = [piece.batches["first_offset"][piece.batch] for piece in pieces]
    columns["first_offset"] = np.concatenate(firsts or [np.empty(0, np.int64)])
    files = [np.full(len(piece), piece.file_number) for piece in pieces]
    columns["file"] = np.concatenate(files or [np.empty(0, np.int64)])
    names = ("groups", "topics", "files")
    return Columns({name: getattr(pieces[-1], name) if pieces else [] for name in names}, columns)
