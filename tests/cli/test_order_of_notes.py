"""The lines beside an answer: what was not read, then what the times mean, then what is gone."""

import pytest

from coterie.base.times import format_time
from support.commandline import coterie_ok
from support.log_writer import commit, each

LATE = 1_796_133_900_123
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "command", [("explain",), ("growth",), ("report", "--format", "markdown")], ids=lambda c: c[0]
)
def test_corrupt_places_come_before_times_that_go_back_and_what_was_compacted(tmp_path, command):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    data = [*each(0, commit(LATE)), *each(9, commit(LATE - HOUR_MS)), b"\xff" * 40]
    (folder / f"{0:020}.log").write_bytes(b"".join(data))
    name, *options = command
    assert coterie_ok(name, tmp_path, *options).stderr.splitlines() == [
        "coterie: 1 corrupt place was left out; `coterie verify` lists them",
        "coterie: times go back in partition 0, by up to 1h: rows are in log order; "
        "`coterie verify` lists each place",
        f"coterie: partition 0: trusted since {format_time(LATE)}; compacted before",
    ]
