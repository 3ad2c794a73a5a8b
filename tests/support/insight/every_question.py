"""Each question of the library once, with arguments that let short logs give answers."""

from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import audit, expire, explain, growth, lag, metrics, undo
from coterie.insight.questions.server_log_lines import BrokerLogLine
from coterie.insight.questions.server_log_phrases import LOADED


def loaded(at_ms):
    """The line of a server log after the broker has loaded the partition."""
    return BrokerLogLine("", LOADED, at_ms, "server log", generation=0)


def all_questions(at_ms, later_ms, ends):
    return [
        (undo, undo.Parameters(at_ms)),
        (expire, expire.Parameters(later_ms, 60_000)),
        (
            audit,
            audit.Parameters(no_progress=2, metadata_bytes=0, skip_rate=1, stall_ms=400, open_ms=0),
        ),
        (growth, growth.Parameters(interval_ms=400)),
        (growth, growth.Parameters(every_ms=1000)),
        (metrics, metrics.Parameters(ends=ends)),
        (metrics, metrics.Parameters()),
        (lag, lag.Parameters(ends)),
        (explain, explain.Parameters(flap_count=2)),
        (
            explain,
            explain.Parameters(
                broker_log_lines=tuple(map(loaded, (at_ms, at_ms + 9000, later_ms)))
            ),
        ),
    ]


def samples(times):
    return tuple(Sample(ms, 3) for ms in sorted(set(times)))


def ends_at(times):
    return EndOffsets(True, {("t", 0): samples(times), ("u", 1): samples(times[:1])})
