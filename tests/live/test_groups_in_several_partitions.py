"""The monitor shows a group once that has records in several partitions of the topic."""

import pytest

from coterie.live import exposition
from coterie.live.watcher import Watcher
from coterie.log.folders import find_segments
from support.grown_topic import COUNT, GROWN_MS, MINUTE, NEWER, OLDER, committed, story, write
from support.log_writer import batch


def samples(watcher):
    """Every sample of /metrics; no series is there twice."""
    answers = list(watcher.answers())
    lines = [
        *exposition.log_lines(answers),
        *exposition.watch_lines(answers, watcher.health(), GROWN_MS),
    ]
    text = [line for line in "".join(lines).splitlines() if line and not line.startswith("#")]
    pairs = [line.rpartition(" ")[::2] for line in text]
    assert len({series for series, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize("numbers", [range(COUNT), ()], ids=["copy of all", "copy of two"])
def test_each_series_is_there_once_and_goes_on_in_the_newer_partition(tmp_path, numbers):
    log = write(tmp_path / "log", story(older_only=True), numbers)
    watcher = Watcher(lambda: find_segments([log]), None, print)
    watcher.step()
    found = samples(watcher)
    offset = (
        'kafka_consumergroup_current_offset{{consumergroup="payments",topic="t",partition="{}"}}'
    )
    assert [found[offset.format(partition)] for partition in range(3)] == ["502", "502", "77"]
    assert found['kafka_consumergroup_members{consumergroup="payments"}'] == "0"
    commits = 'kafka_consumer_group_commits_total{{group="payments",topic="t",partition="{}"}}'
    assert [found[commits.format(partition)] for partition in range(3)] == ["4", "4", "1"]
    findings = {series: n for series, n in found.items() if 'kind="several_partitions"' in series}
    assert list(findings.values()) == ["1"]
    assert [segment.partition for segment in watcher.listing_of("payments").segments] == [
        OLDER,
        NEWER,
    ]
    # What follows counts on.
    file = log / f"__consumer_offsets-{NEWER}" / f"{0:020}.log"
    with file.open("ab") as segment:
        segment.write(batch(6, [committed(GROWN_MS + MINUTE, 503)]))
    watcher.step()
    found = samples(watcher)
    assert (found[offset.format(0)], found[commits.format(0)]) == ("503", "5")
