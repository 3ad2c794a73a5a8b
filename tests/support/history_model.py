"""A slow model of the history of commits: Python tuples, one after another.

An event is ("commit", key, log offset, time, producer id or None, value or None) or ("marker",
producer id, committed); a value is (offset, leader epoch, metadata, commit time, expiry time, topic
id or None).
"""

import itertools
from base64 import urlsafe_b64encode

from coterie._core.codec.layout import decode_utf8
from coterie._core.fold.fold import split_key
from coterie._core.fold.history import OUTCOMES
from support.log_writer import commit_key, marker

NUMBERS = (
    *("kind", "transactional", "outcome", "group", "topic", "partition", "offset"),
    *("leader_epoch", "commit_timestamp", "expire_timestamp", "log_offset", "timestamp"),
    *("producer_id", "topic_id"),
)


class HistoryModel:
    """The outcomes of the commits of one partition of the topic, in log order."""

    def __init__(self, number):
        self.number = number
        self.undecided = {}

    def feed(self, events):
        """Take events in log order; return rows of the table ``commits``."""
        return [self.row(*pair) for pair in self.feed_events(events)]

    def decided(self, events):
        """The commits of a whole log: (commit, outcome) each."""
        return [*self.feed_events(events), *self.left()]

    def feed_events(self, events):
        rows = []
        for event in events:
            if event[0] == "marker":
                outcome = "committed" if event[2] else "aborted"
                undecided = self.undecided.pop(event[1], ())
                rows += [(commit, outcome) for commit in undecided]
            elif event[4] is None:
                rows.append((event, "committed"))
            else:
                self.undecided.setdefault(event[4], []).append(event)
        return rows

    def finish(self):
        return [self.row(*pair) for pair in self.left()]

    def left(self):
        left = [commit for undecided in self.undecided.values() for commit in undecided]
        left.sort(key=lambda commit: commit[2])
        return [(commit, "pending") for commit in left]

    def row(self, commit, outcome):
        _, key, log_offset, time, producer_id, value = commit
        group, topic, partition = split_key(key)
        offset, epoch, metadata, committed, expires, topic_id = value or (None,) * 6
        return (
            *(decode_utf8(group), self.number, log_offset, None if time == -1 else time),
            *(decode_utf8(topic), partition, offset, epoch),
            *(None if metadata is None else decode_utf8(metadata), committed),
            *(None if expires == -1 else expires, value is None, producer_id, outcome),
            None if topic_id is None else urlsafe_b64encode(topic_id).decode().rstrip("="),
        )


def commits_of(history):
    """The rows of a fold's history as (event, outcome), bytes as the log has them."""
    columns = history.columns()

    def cut(data, bounds):
        return [data[start:end].tobytes() for start, end in itertools.pairwise(bounds)]

    groups, topics = (cut(*columns[name]) for name in ("groups", "topics"))
    metadata = cut(columns["metadata"], columns["metadata_bounds"])
    events = []
    for row in range(len(history)):
        fields = {name: int(columns[name][row]) for name in NUMBERS}
        key = commit_key(1, groups[fields["group"]], topics[fields["topic"]], fields["partition"])[
            2:
        ]
        value = None
        if not fields["kind"]:
            value = (fields["offset"], fields["leader_epoch"], metadata[row])
            value += (fields["commit_timestamp"], fields["expire_timestamp"])
            end = 16 * fields["topic_id"]
            value += (columns["topic_ids"][end - 16 : end].tobytes() if end else None,)
        producer_id = fields["producer_id"] if fields["transactional"] else None
        event = ("commit", key, fields["log_offset"], fields["timestamp"], producer_id, value)
        events.append((event, OUTCOMES[fields["outcome"]]))
    return events


def events_by_batch(pieces, options):
    """The events of a log, from its segments as bytes.

    Each batch has a fold of its own, so that no fold decides the commits of another batch.
    """
    for data in pieces:
        at = 0
        while at < len(data):
            fold = options.new_fold()
            at += fold.scan(memoryview(data)[at:], max_bytes=1)
            yield from events_of_batch(fold)
            if fold.failed or fold.cut or fold.stopped:
                return


def events_of_batch(fold):
    for producer_id, producer in fold.producers.items():
        if producer.first_seq >= 0:
            yield "marker", producer_id, producer.first_committed
        else:  # a marker makes it yield its commits in order, unless a fault has ended it
            fold.scan(marker(0, producer_id, -1, commit=True))
    for history in (fold.history, fold.history.pending()):
        yield from (event for event, _ in commits_of(history))
