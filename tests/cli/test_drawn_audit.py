"""What ``coterie audit`` shows, of findings that are made by hand."""

import pytest

from coterie.base.times import format_time
from coterie.cli import audit
from coterie.insight.questions import audit as of_audit
from support.commandline import coterie_ok
from support.drawn import cells, of
from support.log_writer import batch, commit


def finding(group, kind, severity, **values):
    blank = {"group_id": group, "kind": kind, "severity": severity, "log_offset": 5}
    return of(of_audit.FIELDS) | blank | values


FINDINGS = [
    finding(
        "g",
        of_audit.DIVERGENCE,
        of_audit.DATA,
        timestamp=70,
        first=50,
        last=90,
        file="b",
        position=7,
    ),
    finding(
        "h", of_audit.REWIND, of_audit.DATA, timestamp=1, first=30, last=40, file="x", position=1
    ),
    finding(
        "g",
        of_audit.DIVERGENCE,
        of_audit.DATA,
        timestamp=60,
        first=20,
        last=30,
        file="a",
        position=9,
    ),
    finding("g", of_audit.STALL, of_audit.PROGRESS, timestamp=3, file="y", position=2),
    finding(
        "i", of_audit.REWIND, of_audit.DATA, timestamp=2, first=4, last=6, file="z", position=3
    ),
]


def test_the_findings_of_a_group_are_counted_with_their_first_and_last_time():
    summary, table, first = audit.draw(FINDINGS, FINDINGS, {})
    lines = {line["GROUP-ID"]: line for line in cells(summary)}
    assert list(lines) == ["g", "h", "i"]
    assert (lines["g"]["FIRST"], lines["g"]["LAST"]) == (format_time(20), format_time(90))
    lost, stopped = (
        of_audit.SEVERITIES[each].upper() for each in (of_audit.DATA, of_audit.PROGRESS)
    )
    assert [(line[lost], line[stopped]) for line in lines.values()] == [
        ("2", "1"), ("1", "-"), ("1", "-"),
    ]  # fmt: skip
    assert (lines["h"]["FIRST"], lines["h"]["LAST"]) == (format_time(30), format_time(40))
    assert len(cells(table)) == 5
    assert table.title is None
    assert first == f"first differing record: a, byte 9, offset 5, {format_time(60)}"


def test_the_first_differing_record_is_one_that_is_there_and_may_have_no_time():
    there = FINDINGS[0]
    missing = there | {"timestamp": 10, "log_offset": None}
    *_, first = audit.draw([there, missing], [there, missing], {})
    assert first == f"first differing record: b, byte 7, offset 5, {format_time(70)}"
    untimed = there | {"timestamp": None, "log_offset": 8, "file": "c", "position": 4}
    *_, first = audit.draw([there, untimed], [there, untimed], {})
    assert first == "first differing record: c, byte 4, offset 8, -"
    assert [isinstance(piece, str) for piece in audit.draw([missing], [missing], {})] == [False] * 2


@pytest.mark.parametrize(("top", "left_out"), [(1, "2 more groups"), (2, "1 more group")])
def test_of_the_first_findings_the_groups_are_whole_and_the_others_counted(top, left_out):
    summary, rest, table, _ = audit.draw(FINDINGS[:top], FINDINGS, {})
    assert table.title == f"the first {top} of 5 findings"
    assert [line["GROUP-ID"] for line in cells(summary)] == ["g", "h"][:top]
    assert len(cells(table)) == top
    assert rest == f"and {left_out} with findings\n"


@pytest.mark.parametrize(
    ("trusted", "since"),
    [({}, ""), ({1: 70, 3: 90, 4: 80}, f" since {format_time(90)}; compacted before")],
)
def test_nothing_is_found_since_all_partitions_are_whole(trusted, since):
    assert list(audit.draw([], [], trusted)) == [f"nothing found{since}"]


@pytest.mark.parametrize(
    ("partitions", "may_lack"), [((0,), False), ((0, 1), False), ((1,), True), ((0, 2), True)]
)
def test_a_log_that_may_lack_partitions_cannot_miss_a_live_group(tmp_path, partitions, may_lack):
    for number in partitions:
        folder = tmp_path / "log" / f"__consumer_offsets-{number}"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(batch(0, [commit(5, group=b"g%d" % number)]))
    (tmp_path / "live.json").write_text('{"groups": []}')
    ask = ("audit", tmp_path / "log", "--only", "rewind")
    assert coterie_ok(*ask).stderr == ""
    err = coterie_ok(*ask, "--live", tmp_path / "live.json").stderr
    assert ("the log has not all partitions of the topic" in err) == may_lack
    assert bool(err) == may_lack
