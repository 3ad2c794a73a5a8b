"""Each question of the library once, with arguments that let short logs give answers."""

from coterie.insight.brokerlogs.server_log import LOADED, BrokerLogLine
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import audit, expire, explain, growth, lag, metrics, undo


def loaded(at_ms):
    """The line of a server log after the broker has loaded the partition."""
    return BrokerLogLine("", LOADED, at_ms, "server log", generation=0)


def asks(at_ms, later_ms, ends):
    return [
        (undo, undo.Ask(at_ms)),
        (expire, expire.Ask(later_ms, 60_000)),
        (audit, audit.Ask(no_progress=2, metadata_bytes=0)),
        (growth, growth.Ask(interval_ms=400)),
        (growth, growth.Ask(every_ms=1000)),
        (metrics, metrics.Ask(ends=ends)),
        (metrics, metrics.Ask()),
        (lag, lag.Ask(ends)),
        (explain, explain.Ask(flap_count=2)),
        (explain, explain.Ask(told=tuple(map(loaded, (at_ms, at_ms + 9000, later_ms))))),
    ]


def samples(times):
    return tuple(Sample(ms, 3) for ms in sorted(set(times)))


def ends_at(times):
    return EndOffsets(True, {("t", 0): samples(times), ("u", 1): samples(times[:1])})
