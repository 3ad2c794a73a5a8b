"""Outputs, tables and warnings of commands at their limits."""

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from coterie.base.atomic_file import OutputError, OverlapError
from coterie.base.times import format_time
from coterie.cli import expire, fetch, growth, undo
from coterie.cli.logs import trust_notes
from coterie.cli.output_file import whole_file
from coterie.cli.output_folder import whole_folder
from coterie.insight.questions.undo import FIELDS, SAME
from coterie.log.copy_state import CopyState
from coterie.log.folders import Listing, Segment
from support.commandline import coterie, coterie_ok, fails
from support.log_writer import batch, commit, each, group_key, group_value

DAY = 86_400_000
NOTHING_TO_WARN_OF = dict.fromkeys(FIELDS) | {
    "group_id": "g",
    "state": "Empty",
    "change": SAME,
    "pending": False,
    "trusted_from": None,
}


def log_of(folder, *partitions):
    """Write a log with these batches in its partitions."""
    for number, batches in enumerate(partitions):
        place = folder / f"__consumer_offsets-{number}"
        place.mkdir(parents=True)
        (place / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


# ---- what is written


def filled(maker, out, work, **options):
    """Call ``work`` with the temporary file or folder of a maker."""
    with maker(str(out), **options) as path:
        work(path)


def test_a_file_that_came_there_meanwhile_is_not_replaced(tmp_path):
    out = tmp_path / "out"

    def work(path):
        path.write_text("ours")
        out.write_text("theirs")

    with pytest.raises(OutputError, match="is there already"):
        filled(whole_file, out, work, overwrite=False)
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert out.read_text() == "theirs"


def test_what_is_read_is_not_replaced_whatever_its_name(tmp_path):
    out, link = tmp_path / "log", tmp_path / "link"
    out.write_text("read")
    link.symlink_to(out)
    for name, read in ((out, link), (link, out)):
        with pytest.raises(OverlapError, match=r"would replace .*, which is read"):
            filled(whole_file, name, print, overwrite=True, inputs=[str(read)])
    assert out.read_text() == "read"


def test_folders_that_were_made_for_what_failed_go_again(tmp_path):
    def work(path):
        (path / "half").touch()
        raise KeyError

    with pytest.raises(KeyError):
        filled(whole_folder, tmp_path / "a/b/c", work, overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_that_one_stands_in_is_not_overwritten(tmp_path, monkeypatch):
    inner = tmp_path / "out" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    with pytest.raises(OutputError, match="--overwrite would delete"):
        filled(whole_folder, tmp_path / "out", print, overwrite=True)
    assert inner.is_dir()


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_folder_and_a_file_have_the_permissions_of_any_that_is_new(tmp_path, mask):
    before = os.umask(mask)
    try:
        with whole_folder(str(tmp_path / "folder"), overwrite=False) as part:
            assert part.stat().st_mode & 0o7777 == 0o700  # of this user alone until it is whole
        with whole_file(str(tmp_path / "file"), overwrite=False):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_folder_is_private_and_of_a_hidden_name_until_it_is_whole(tmp_path):
    target = tmp_path / "made" / "with" / "out"
    with whole_folder(str(target), overwrite=False) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert path.parent == target.parent
        assert path.name.startswith(".out.")
        assert not target.exists()
    assert list(target.parent.iterdir()) == [target]


def test_what_cannot_be_removed_hides_neither_the_failure_nor_the_success(tmp_path, monkeypatch):
    target = tmp_path / "out"

    def cannot(path, ignore_errors=False, **_):
        if not ignore_errors:
            raise PermissionError(path)

    monkeypatch.setattr(shutil, "rmtree", cannot)
    with pytest.raises(ZeroDivisionError), whole_folder(str(target), overwrite=False):
        raise ZeroDivisionError
    assert not target.exists()
    for text in ("old", "new"):
        with whole_folder(str(target), overwrite=True) as part:
            (part / "groups.json").write_text(text)
    assert (target / "groups.json").read_text() == "new"


def test_a_folder_that_cannot_be_replaced_is_there_as_before(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.mkdir()
    (target / "groups.json").write_text("old")
    replace, moved = Path.replace, []

    def broken(path, to):
        moved.append(path)
        if len(moved) == 2:  # the old one is aside, the new one not yet there
            raise OSError("no")
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="no"), whole_folder(str(target), overwrite=True) as part:
        (part / "groups.json").write_text("new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert (target / "groups.json").read_text() == "old"


def test_corrupt_places_of_all_partitions_are_counted(tmp_path):
    broken = [batch(0, [commit(5)]), b"\xff" * 40]
    log = log_of(tmp_path, broken, broken, [batch(0, [commit(6, group=b"h")])])
    assert "2 corrupt places were left out" in coterie("lag", log, *ends(tmp_path)).stderr


def ends(folder):
    file = folder / "ends.txt"
    file.write_text("t:0:9\n")
    return "--end-offsets", file


# ---- what is shown


def test_the_biggest_stand_first(tmp_path):
    names = [b"small", b"big", b"big", b"big"]
    commits = [commit(at, group=group) for at, group in enumerate(names)]
    shown = coterie_ok("growth", log_of(tmp_path, each(0, *commits)), "--top", 1).stdout
    assert " big " in shown
    assert " small " not in shown


def test_a_line_of_several_rows_has_the_shortest_of_their_intervals():
    row = dict.fromkeys(growth.SUMMED, 1) | {"too_often": False}
    rows = [row | {"interval_ms": ms} for ms in (700.0, None, 500.0, 900.0)]
    assert growth.line_of(["group"], ("g",), rows, {"bytes": 4})["interval"] == "0.500 s"


@pytest.mark.parametrize(("remaining_ms", "goes"), [(1001, False), (1000, True), (-5, True)])
def test_what_goes_exactly_within_a_time_goes_within_it(remaining_ms, goes):
    row = {"status": "due", "rule": "standalone", "remaining_ms": remaining_ms}
    assert expire.goes_within(row, 1000) == goes


def test_groups_that_lose_nothing_stand_last(tmp_path):
    data = [batch(0, [(1, group_key(b"a"), group_value(1, [b"m"])), commit(2, group=b"a")])]
    data += [batch(2, [commit(9, group=b"c"), commit(5, group=b"b")])]
    command = ("expire", log_of(tmp_path, data), "--now", 10, "--retention", "1d")
    lines = [line.split() for line in coterie_ok(*command).stdout.splitlines()]
    assert [line[0] for line in lines if line and line[0] in "abc"] == ["b", "c", "a"]


@pytest.mark.parametrize(("at_ms", "count"), [(999, 1), (1000, 0)])
def test_a_compacted_log_is_warned_of_before_the_time_from_which_it_is_whole(at_ms, count):
    row = NOTHING_TO_WARN_OF | {"trusted_from": 1000}
    commits = [line for line in undo.warnings([row], at_ms) if "compacted" in line]
    assert len(commits) == count


@pytest.mark.parametrize(
    ("rewound", "before_ms"),  # of the partitions of a group
    [((950_000, 990_000), 950_000), ((990_000, 950_000), 950_000), ((940_000, 990_000), 990_000)],
)
def test_the_advice_on_rewinds_names_the_first_of_the_last_minute(rewound, before_ms):
    rows = [NOTHING_TO_WARN_OF | {"rewound_at": ms} for ms in rewound]
    (line,) = undo.warnings(rows, 1_000_000)
    assert f"--before {format_time(before_ms)} gives what was before it" in line


@pytest.mark.parametrize(
    ("groups", "lines"),
    [
        (["g"], ["t,0,0", "t,1,7"]),
        (["g", "g"], ["t,0,0", "t,1,7"]),
        (["g", "h"], ["g,t,0,0", "g,t,1,7", "h,t,0,5"]),
    ],
)
def test_a_reset_names_the_group_where_there_are_two_and_offset_0_is_one(tmp_path, groups, lines):
    commits = [commit(1, 0), commit(2, 7, partition=1), commit(3, 5, group=b"h")]
    log = log_of(tmp_path, [batch(0, commits)])
    named = [word for group in groups for word in ("--group", group)]
    assert coterie_ok("undo", log, *named, "--at", 10).stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("options", "groups", "lines"),
    [
        (("--group", "g"), (b"g", b"h"), ["t,0,7"]),
        (("--group", "[gh]"), (b"g", b"h"), ["g,t,0,7", "h,t,0,7"]),
        (("--all-groups",), (b"g",), ["g,t,0,7"]),
    ],
)
def test_a_reset_names_each_group_unless_it_is_of_the_only_one_that_is_given(
    tmp_path, options, groups, lines
):
    log = log_of(tmp_path, [batch(0, [commit(1, group=group) for group in groups])])
    assert coterie_ok("undo", log, *options, "--at", 10).stdout.splitlines() == lines


@pytest.mark.parametrize(("count", "is_line"), [(2_000, False), (2_001, True)])
def test_a_reset_of_more_than_2000_partitions_shows_a_line_for_each_group(tmp_path, count, is_line):
    commits = [commit(1, partition=number) for number in range(count)]
    log = log_of(tmp_path, [batch(0, commits)])
    err = coterie_ok("undo", log, "--group", "g", "--at", 10).stderr
    assert (f"{count:,} partitions of 1 groups; --against-latest shows each" in err) == is_line


# ---- times far from 0, where a unit shows

LATE = 1_796_133_900_123


def late_log(folder):
    """Two partitions: a commit each, 5 s apart."""
    first, last = commit(LATE, 1), commit(LATE + 5_000, 2, group=b"h")
    return log_of(folder / "log", [batch(0, [first])], [batch(0, [last])])


@pytest.mark.parametrize(("until_ms", "status"), [(LATE - 1, 2), (LATE, 0), (LATE + 1, 0)])
def test_records_must_count_up_to_the_time_to_go_back_to(tmp_path, until_ms, status):
    undo = ("undo", late_log(tmp_path), "--group", "g", "--at", LATE, "--until", until_ms)
    ran = coterie(*undo)
    assert ran.returncode == status
    assert ("--until is earlier than the time to go back to" in ran.stderr) == (status == 2)


def test_a_time_before_the_first_commit_is_named_where_there_is_nothing_to_go_back_to(tmp_path):
    ran = coterie("undo", late_log(tmp_path), "--group", "g", "--before", LATE)
    assert ran.returncode == 1
    assert f"no offset was committed at {format_time(LATE - 1)}: nothing" in ran.stderr


@pytest.mark.parametrize(("shown", "is_line"), [(1, True), (2, False), (3, False)])
def test_up_to_a_number_of_partitions_a_reset_shows_each(tmp_path, monkeypatch, shown, is_line):
    monkeypatch.setattr(undo, "ROWS_SHOWN", shown)
    err = coterie_ok("undo", late_log(tmp_path), "--all-groups", "--at", LATE + 5_000).stderr
    assert ("2 partitions of 2 groups; --against-latest shows each" in err) == is_line
    assert ("group h: 1 same" in err) == (not is_line)


def test_expiry_is_judged_as_of_the_end_of_what_counts(tmp_path):
    ask = ("expire", late_log(tmp_path), "--until", LATE + 1_234)
    ran = coterie_ok(*ask)
    assert f"1 group at {format_time(LATE + 1_234)}, retention 7d" in ran.stdout
    assert "now is" not in ran.stderr
    ran = coterie_ok(*ask, "--now", LATE + 9_000, "--retention", "1h")
    assert f"1 group at {format_time(LATE + 9_000)}, retention 1h" in ran.stdout
    ran = coterie_ok(*ask[:2])
    assert f"2 groups at {format_time(LATE + 5_000)}, retention 7d" in ran.stdout
    assert f"coterie: now is {format_time(LATE + 5_000)}, the log's newest record" in ran.stderr


@pytest.mark.parametrize("option", ["--until", "--at"])
def test_a_log_is_complete_until_the_newest_record_of_any_partition(tmp_path, option):
    lag = ("lag", late_log(tmp_path), *ends(tmp_path), option, LATE + 3_000, "--format", "csv")
    (line,) = (line for line in coterie_ok(*lag).stdout.splitlines() if line.startswith("g,"))
    assert ",ok," in line  # although its own partition ends earlier


def test_partitions_of_the_groups_that_are_named_are_reported_where_they_were_compacted(tmp_path):
    gaps = [
        [*each(0, commit(LATE, group=name)), *each(9, commit(LATE + after_ms, group=name))]
        for after_ms, name in ((3_000, b"g"), (1_000, b"h"))
    ]
    log = log_of(tmp_path / "log", *gaps, each(0, commit(LATE, group=b"w")))
    lines = [
        f"coterie: partition {number}: trusted since {format_time(ms)}; compacted before"
        for number, ms in ((0, LATE + 3_000), (1, LATE + 1_000))
    ]
    for options, expected in (
        ((), lines), (("--group", "g"), lines[:1]), (("--group", "h"), lines[1:]),
        (("--group", "w"), []), (("--group", "w", "--group", "h"), lines[1:]),
    ):  # fmt: skip
        assert coterie_ok("explain", log, *options).stderr.splitlines() == expected, options
    gone = f"(compacted: what was before {format_time(LATE + 3_000)} may be gone"
    fails("explain", log, "--group", "nobody", says=gone)


@pytest.mark.parametrize(
    ("count", "hint"),
    [(0, ""), (1, "1 .deleted segment lies there"), (2, "2 .deleted segments lie there")],
)
def test_deleted_segments_that_were_not_read_are_counted_behind_the_last_compacted_partition(
    count, hint
):
    listing = Listing((), (), (Segment("0.log.deleted", 3, 0, 1, None),) * count)
    lines = [f"partition {number}: trusted since {format_time(LATE)}" for number in (3, 5)]
    more = f"; {hint}: --include-deleted reads what compaction took" if hint else ""
    assert trust_notes(listing, {3: LATE, 5: LATE}) == [
        f"{lines[0]}; compacted before", f"{lines[1]}; compacted before{more}",
    ]  # fmt: skip
    assert trust_notes(listing, {}) == []


def test_a_row_of_a_copy_has_its_offsets_its_bytes_and_until_when_it_is_complete():
    state = CopyState("t", 4, None, None, 11, 12, 13, 14, 15)
    result = {"partition": 4, "next_offset": 21, "fetched_bytes": 22}
    assert fetch.row_of(SimpleNamespace(**result, state=state)) == {
        "offsets_partition": 4, "first_offset": 11, "end_offset": 21, "fetched_bytes": 22,
        "complete_until": 14,
    }  # fmt: skip


@pytest.mark.parametrize("command", ["explain", "metrics"])
def test_a_time_without_a_group_is_named(tmp_path, command):
    err = coterie_ok(command, late_log(tmp_path), "--at", LATE - 1).stderr
    assert err == f"coterie: no group to show as of {format_time(LATE - 1)}\n"


@pytest.mark.parametrize("command", ["explain", "metrics", "groups"])
@pytest.mark.parametrize(("after_ms", "is_said"), [(0, False), (1, True), (7_000, True)])
def test_a_time_beyond_the_newest_record_of_any_partition_is_said(
    tmp_path, command, after_ms, is_said
):
    at_ms = LATE + 5_000 + after_ms
    options = ("--list",) if command == "groups" else ()
    err = coterie_ok(command, late_log(tmp_path), "--at", at_ms, *options).stderr
    note = (
        f"coterie: {format_time(at_ms)} is after the newest record of the log, "
        f"{format_time(LATE + 5_000)}: what is shown is as of that, and may have changed since\n"
    )
    assert err == note * is_said


@pytest.mark.parametrize("command", ["explain", "metrics", "groups"])
def test_a_newest_record_of_the_time_0_is_one_to_be_after(tmp_path, command):
    log = log_of(tmp_path / "log", [batch(0, [commit(0, 1)])])
    options = ("--list",) if command == "groups" else ()
    ran = coterie_ok(command, log, "--at", 1, *options)
    message = (
        "1970-01-01T00:00:00.001Z is after the newest record of the log, 1970-01-01T00:00:00.000Z: "
    )
    assert message in ran.stderr
