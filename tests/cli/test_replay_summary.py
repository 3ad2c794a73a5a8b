"""The summary that `coterie replay` prints."""

from dataclasses import replace

import pytest

from coterie._core.fold.fold_state import Fault
from coterie.base.times import format_time
from coterie.cli.replay import size, summary_lines
from coterie.state.replay_engine import Summary
from support.commandline import coterie_ok
from support.golden_data import log

NOTHING = Summary(0, 0, 0, 0, 0, (), {}, 0, {})
ONE = Summary(1, 999, 1, 1, 1, (), {}, 1, {})
HOUR = 3_600_000


def fault(number):
    return Fault("a.log", number, None, "crc", None, "wrong sum")


def test_it_begins_with_what_was_read_and_how_fast():
    read = Summary(1_234, 56_000_000, 7_890, 2_000_000, 34, (fault(1), fault(2)), {}, 9, {})
    assert summary_lines(read, None, 4.0)[0] == (
        "1,234 files, 56.0 MB: 7,890 batches, 2,000,000 records, 34 groups, 2 faults; "
        "4.0 s, 500,000 records/s, 14.0 MB/s"
    )
    assert summary_lines(ONE, None, 0.5) == [
        "1 file, 999 B: 1 batch, 1 record, 1 group, 0 faults; 0.5 s, 2 records/s, 2.0 kB/s"
    ]
    assert summary_lines(NOTHING, None, 0.0)[0].endswith("; 0.0 s, 0 records/s, 0 B/s")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_900, "999.9 kB"),
        (1_000_000, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (3_500_000_000_000, "3.5 TB"),
        (4_000_000_000_000_000, "4000.0 TB"),
    ],
)
def test_sizes_have_decimal_units(size_bytes, text):
    assert size(size_bytes) == text


@pytest.mark.parametrize(("count", "rest"), [(1, None), (20, None), (21, "1"), (1_521, "1,501")])
def test_it_names_up_to_twenty_faults(count, rest):
    lines = summary_lines(replace(ONE, faults=tuple(map(fault, range(count)))), None, 1.0)[1:]
    shown = [f"fault: a.log: byte {number}: crc: wrong sum" for number in range(min(count, 20))]
    more = [f"fault: and {rest} more: see the table faults, or coterie verify"] if rest else []
    assert lines == shown + more


def test_it_names_what_it_passed_over():
    passed = replace(ONE, unknown_versions={7: 1, 99: 1_200}, passed_over=("d/a.log.swap",))
    assert summary_lines(passed, None, 1.0)[1:] == [
        "key version 7: 1 record passed over",
        "key version 99: 1,200 records passed over",
        "d/a.log.swap: left alone, set aside by Kafka",
    ]


@pytest.mark.parametrize(
    ("at_ms", "missing"),
    [
        (None, None),
        (999, "2 partitions"),
        (1_000, "1 partition"),
        (HOUR - 1, "1 partition"),
        (HOUR, None),
    ],
)
def test_a_compacted_partition_may_lack_commits_before_it_can_be_trusted(at_ms, missing):
    lines = summary_lines(replace(ONE, trusted_from_ms={0: HOUR, 5: 1_000}), at_ms, 1.0)[1:]
    trusted = [
        f"partition {number}: trusted since {format_time(ms)}; compacted before"
        for number, ms in ((0, HOUR), (5, 1_000))
    ]
    note = f"at {format_time(at_ms)} commits may be missing in {missing}" if missing else None
    assert lines == trusted + [note] * bool(note)


def test_a_whole_log_can_be_trusted_as_of_any_time():
    (line,) = summary_lines(ONE, 5, 1.0)[1:]
    assert "nothing was compacted, the state at any time can be trusted" in line


def test_it_has_the_time_from_the_start_of_the_replay_to_its_end(tmp_path, monkeypatch):
    clock = iter([100.0, 102.5])
    monkeypatch.setattr("coterie.cli.replay.perf_counter", lambda: next(clock))
    out = ("--engine", "local", "--format", "json", "--out", tmp_path / "out")
    err = coterie_ok("replay", log("compression-zstd"), *out).stderr
    assert "; 2.5 s, " in err
