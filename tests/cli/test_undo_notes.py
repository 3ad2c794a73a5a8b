"""What `undo` says if it has no offset to restore."""

from types import SimpleNamespace

import pytest

from coterie.cli.undo import nothing_planned
from coterie.log.clock_notes import ClockNotes


@pytest.mark.parametrize(
    ("trusted_from_ms", "since"),
    [
        ({}, None),
        ({0: 2000}, None),
        ({0: 2001}, "1970-01-01T00:00:02.001Z"),
        ({0: 500, 3: 9000, 7: 3000}, "1970-01-01T00:00:09.000Z"),
    ],
)
def test_a_compacted_log_may_have_lost_the_offsets_and_a_whole_one_never_had_them(
    trusted_from_ms, since
):
    options = SimpleNamespace(trusted_from_ms=trusted_from_ms, clocks=ClockNotes())
    note = str(nothing_planned([], 2000, options))
    assert "1970-01-01T00:00:02.000Z" in note
    if since is None:
        assert "no offset was committed" in note
    else:
        assert f"it is trusted since {since}" in note
