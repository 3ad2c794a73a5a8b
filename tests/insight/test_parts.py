"""Wherever a log is cut into parts, what they keep makes the answers of the log as one."""

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from compacted_logs import FIRST_MS, folders, operations, written
from hypothesis import given
from hypothesis import strategies as st

from coterie.insight import audit, expire, growth, lag, metrics, parts, reading, undo, visible
from coterie.insight.endoffsets import EndOffsets, Sample
from coterie.insight.facts import PartitionFacts
from coterie.log.folders import find_segments
from coterie.state.portable import pack, unpack
from golden_data import log
from segment_cutter import in_small_segments

WHAT = "test"


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
    ]


def sent(value):
    """What another process gets."""
    return unpack(WHAT, pack(WHAT, value))


def surveyed(part, views):
    """What a part's survey is once it came: bytes of records of groups come on their own."""
    found = parts.survey(part, views)
    came = sent(found)
    for view, (reader, _) in found.items():
        for chunk in reader.group_log.chunks():
            came[view][0].group_log.spool.append(chunk)
    return came


def answer_in_parts(segments, cuts, question, ask, options):
    """A question's rows, each part read by itself; the first segment of each is in ``cuts``."""
    facts = PartitionFacts(0, segments, **options)
    make = parts.maker_of(question)
    bounds = [0, *sorted(cuts), len(segments)]
    runs = [segments[a:b] for a, b in pairwise(bounds) if b > a]
    views = parts.views_of(facts, question, ask)
    parts.join(facts, [surveyed(tuple(run), views) for run in runs])
    begun = [sent(one) for one in parts.begins(facts, make, ask)]
    if begun:
        tallied = [sent(parts.tally(*one)) for one in zip(runs, begun, strict=True)]
        parts.finish(facts, make, ask, tallied)
    return list(question.rows(facts, ask))


def samples(times):
    return tuple(Sample(ms, 3) for ms in sorted(set(times)))


def ends_at(times):
    return EndOffsets(True, {("t", 0): samples(times), ("u", 1): samples(times[:1])})


@pytest.fixture(scope="module", autouse=True)
def little_at_once():
    """Read a batch at a time, and leave out at once what no time shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "PIECE_BYTES", 1)
        patch.setattr(visible, "AT_ONCE", 1)
        yield


def same_in_parts(segments, cuts, asked, options):
    for question, ask in asked:
        expected = list(question.rows(PartitionFacts(0, segments, **options), ask))
        found = answer_in_parts(segments, cuts, question, ask, options)
        assert found == expected, (question.NAME, cuts)


def segments_in(home):
    """The segments of the only partition there; none where there is no folder."""
    return next(iter(find_segments([home]).partitions().values())) if home.exists() else ()


@given(
    steps=operations(),
    times=st.lists(st.integers(0, 400_000), min_size=1, max_size=4),
    wanted=st.sampled_from([None, frozenset({"a"}), frozenset({"b", "c"})]),
    since=st.sampled_from([None, 0, 30_000]),
    end=st.sampled_from([None, 90_000]),
    data=st.data(),
)
def test_a_log_in_parts_gives_the_answers_of_the_log_as_one(steps, times, wanted, since, end, data):
    times = [FIRST_MS + ms for ms in times]
    options = {
        "groups": wanted,
        "since_ms": None if since is None else FIRST_MS + since,
        "at_ms": None if end is None else FIRST_MS + end,
    }
    with tempfile.TemporaryDirectory() as home:
        written_log = written(steps)
        asked = asks(times[0], written_log.now_ms, ends_at(times))
        for folder in folders(written_log, home):
            (segments,) = find_segments([folder]).partitions().values()
            if data.draw(st.booleans()):
                small = in_small_segments(folder, Path(home) / "small" / folder.name)
                segments = segments_in(small) or segments
            places = st.sets(st.integers(1, max(len(segments) - 1, 1)))
            same_in_parts(segments, data.draw(places), asked, options)


@pytest.mark.parametrize("case", ["transactions", "kip848", "old-formats", "compacted"])
def test_a_real_log_in_parts_gives_the_answers_of_the_log_as_one(case, tmp_path):
    small = find_segments([in_small_segments(log(case), tmp_path, 7)]).partitions()
    for number, segments in find_segments([log(case)]).partitions().items():
        newest_ms = PartitionFacts(0, segments).log.newest_ms
        if newest_ms < 0:
            continue
        cut = small[number]
        asked = asks(newest_ms - 10_000, newest_ms, ends_at([newest_ms - 20_000, newest_ms]))
        same_in_parts(cut, set(range(1, len(cut))), asked, {})
        same_in_parts(cut, {len(cut) // 2}, asked, {})
