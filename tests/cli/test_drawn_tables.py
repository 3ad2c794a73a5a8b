"""What the tables of the questions' commands show, of rows that are made by hand."""

from types import SimpleNamespace

import pytest

from coterie.base.times import format_time
from coterie.cli import compare, expire, explain, growth, lag, undo
from coterie.cli import lag_notes as lagnotes
from coterie.insight.questions import expire as expiry
from coterie.insight.questions import explain as of_explain
from coterie.insight.questions import growth as of_growth
from coterie.insight.questions import lag as of_lag
from coterie.insight.questions import undo as of_undo
from coterie.insight.questions.undo_notes import CREATED_AGAIN
from coterie.insight.records import comparison
from support.drawn import cells, of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 100 * DAY


# ---- expire


def offset(group, number, status, **values):
    blank = {"group_id": group, "topic": "t", "partition": number, "status": status, "what_if": []}
    return of(expiry.FIELDS) | blank | values


def what_if(*times_and_gone):
    return [{"expires_at": ms, "expired": gone} for ms, gone in times_and_gone]


ROWS = [
    offset("late", 0, "kept", rule="members", expires_at=None, what_if=what_if((None, 0), (7, 1))),
    offset("soon", 0, "removed", rule="deleted", removed_at=5, expires_at=11, idle_since=3_000),
    offset("soon", 1, "due", rule="standalone", expires_at=NOW + HOUR + MINUTE, idle_since=3_000,
           remaining_ms=HOUR + MINUTE, what_if=what_if((NOW - 1, 1), (NOW + 2, 0))),
    offset("soon", 2, "due", rule="empty_since", expires_at=NOW + DAY, idle_since=3_000,
           remaining_ms=DAY, what_if=what_if((NOW - 3, 1), (NOW - 4, 1))),
    offset("over", 0, "expired", rule="standalone", expires_at=NOW - 2 * MINUTE, idle_since=4_000,
           remaining_ms=-2 * MINUTE, what_if=what_if((NOW - 5, 1), (None, 0))),
]  # fmt: skip
ASK = expiry.Parameters(NOW, 7 * DAY, (HOUR, 3 * DAY))
STATES = {"late": "Stable", "soon": "Empty"}


def test_a_line_of_expire_has_a_groups_offsets_by_status_and_what_goes_next():
    (table,) = expire.draw_groups(ROWS, ASK, STATES)
    assert table.title == f"3 groups at {format_time(NOW)}, retention 7d"
    over, soon, late = cells(table)  # what goes first stands first, what never goes last
    assert over == {
        "GROUP": "over", "STATE": "gone", "IDLE-SINCE": format_time(4_000), "OFFSETS": "1",
        "REMOVED": "0", "EXPIRED": "1", "DUE": "0", "KEPT": "0",
        "NEXT-AT": format_time(NOW - 2 * MINUTE), "NEXT-IN": "-2m", "RULES": "standalone",
        "GONE-AT-1H": "1", "GONE-AT-3D": "0",
    }  # fmt: skip
    assert soon == {
        "GROUP": "soon", "STATE": "Empty", "IDLE-SINCE": format_time(3_000), "OFFSETS": "2",
        "REMOVED": "1", "EXPIRED": "0", "DUE": "2", "KEPT": "0",
        "NEXT-AT": format_time(NOW + HOUR + MINUTE), "NEXT-IN": "1h1m",
        "RULES": "deleted, empty_since, standalone", "GONE-AT-1H": "2", "GONE-AT-3D": "1",
    }  # fmt: skip
    assert (late["STATE"], late["OFFSETS"], late["KEPT"]) == ("Stable", "1", "1")
    assert (late["NEXT-AT"], late["NEXT-IN"], late["IDLE-SINCE"]) == ("-", "-", "-")
    assert (late["GONE-AT-1H"], late["GONE-AT-3D"]) == ("0", "1")


def test_a_group_without_offsets_has_no_offset_and_one_group_is_no_groups():
    row = offset("g", None, "due", topic=None, rule="no_offsets", idle_since=9)
    (table,) = expire.draw_groups([row], expiry.Parameters(NOW, 7 * DAY), {"g": "Empty"})
    assert table.title.startswith("1 group at ")
    (line,) = cells(table)
    assert (line["OFFSETS"], line["DUE"], line["RULES"]) == ("0", "0", "no_offsets")
    rows = [row | {"group_id": group} for group in ("h", "g")]  # neither loses anything
    (table,) = expire.draw_groups(rows, expiry.Parameters(NOW, 7 * DAY), {})
    assert [line["GROUP"] for line in cells(table)] == ["h", "g"]


def test_a_line_of_an_offset_says_when_it_goes_under_each_retention():
    late, soon, over = expire.draw_offsets(ROWS, ASK, STATES)
    assert late.title == "group late: Stable"
    assert soon.title == f"group soon: Empty, idle since {format_time(3_000)}"
    assert over.title == f"group over: gone, idle since {format_time(4_000)}"
    removed, first, second = cells(soon)
    assert [line["IN"] for line in (removed, first, second)] == ["-", "1h1m", "1d"]
    assert [line["AT-1H"] for line in (removed, first)] == ["-", format_time(NOW - 1)]
    assert [line["AT-3D"] for line in (first, second)] == [
        format_time(NOW + 2),
        format_time(NOW - 4),
    ]
    assert cells(over)[0]["IN"] == "-2m"


@pytest.mark.parametrize(
    ("row", "idle"),
    [
        (offset("g", 0, "removed", idle_since=0, state="Stable"), True),
        (offset("g", 0, "removed", idle_since=None, state="Empty"), False),  # the group is gone
        (offset("g", 0, "due", idle_since=None, state="Empty"), True),
        (offset("g", 0, "due", idle_since=5, state="Stable"), False),
    ],
)
def test_a_group_is_idle_if_it_is_there_without_members(row, idle):
    assert expire.is_idle(row) == idle


@pytest.mark.parametrize(
    ("status", "rule", "remaining_ms", "goes"),
    [
        ("removed", "standalone", 5, False),  # it went
        ("removed", "no_offsets", None, False),
        ("due", "no_offsets", None, True),
        ("kept", "members", None, False),
    ],
)
def test_only_what_is_there_goes_within_a_time(status, rule, remaining_ms, goes):
    row = {"status": status, "rule": rule, "remaining_ms": remaining_ms}
    assert expire.goes_within(row, 1_000) == goes


# ---- growth


def grown(group, topic, size, **values):
    sums = {name: place * size for place, name in enumerate(growth.SUMMED, 2)}
    row = of(of_growth.FIELDS, group_id=group, topic=topic, kind="commits", open_transactions=[])
    return row | sums | {"bytes": size, "too_often": False} | values


def test_the_lines_of_growth_are_the_biggest_first_with_their_sums_and_shares():
    rows = [grown("a", "x", 10), grown("b", "y", 50), grown(None, None, 20)]
    rows.append(grown("a", "y", 20, too_often=True))
    whole, table = growth.draw_totals(rows, ["group"], 0)
    assert whole.splitlines()[0].startswith("100 bytes, 200 records in 500 batches, 400 tombstones")
    assert "superseded: 600 records, 700 bytes (700.0 %)" in whole
    assert "free 800 bytes now; open transactions hold 900, active segments 1,000" in whole
    shown = [(line["GROUP"], line["SHARE"], line["BYTES"], line["RECORDS"], line["REQUESTS"],
              line["TOMBSTONES"]) for line in cells(table)]  # fmt: skip
    assert shown == [
        ("b", "50.0 %", "50", "100", "250", "200"),
        ("a", "30.0 %", "30", "60", "150", "120"),
        ("(no group)", "20.0 %", "20", "40", "100", "80"),
    ]
    assert table.title == "by group"
    assert [line["TOO-OFTEN"] for line in cells(table)] == ["no", "yes", "no"]
    _, of_both = growth.draw_totals(rows, ["group", "topic"], 4)
    assert of_both.title == "by group and topic"
    assert [line["TOPIC"] for line in cells(of_both)] == ["y", "(commits)", "y", "x"]
    _, biggest = growth.draw_totals(rows, ["topic"], 2)
    assert biggest.title == "by topic: the biggest 2 of 3 (--top 0 shows all)"
    assert [line["TOPIC"] for line in cells(biggest)] == ["y", "(commits)"]
    assert growth.percent(0, 0) == "-"


def test_the_open_transactions_of_each_group_and_topic_are_listed():
    opened = [{"producer_id": number, "log_offset": number + 1, "timestamp": number + 2,
               "file": "f", "position": number + 3} for number in (70, 80)]  # fmt: skip
    rows = [grown("a", "x", 1, open_transactions=opened[:1]), grown("b", "y", 9)]
    rows.append(grown("c", "z", 1, open_transactions=opened[1:]))
    *_, table = growth.draw_totals(rows, ["group"], 1)
    lines = [(line["GROUP"], line["TOPIC"], line["PRODUCER-ID"], line["LOG-OFFSET"],
              line["POSITION"]) for line in cells(table)]  # fmt: skip
    assert lines == [("a", "x", "70", "71", "73"), ("c", "z", "80", "81", "83")]


def test_over_time_each_span_has_its_sums_and_its_busiest_group_and_spans_ascend():
    rows = [
        grown("a", "x", 7, time=60_000, requests=1, records=2),
        grown("b", "x", 3, time=0, requests=5, records=6),
        grown("a", "x", 9, time=0, requests=3, records=4),
        grown("a", "y", 1, time=0, requests=3, records=8),
        grown(None, None, 99, time=None, requests=9, records=9),  # without a time, in no span
    ]
    (table,) = growth.draw_over_time(rows)
    assert cells(table) == [
        {"TIME": format_time(0), "REQUESTS": "11", "RECORDS": "18", "BYTES": "13",
         "BUSIEST-GROUP": "a", "ITS-REQUESTS": "6"},
        {"TIME": format_time(60_000), "REQUESTS": "1", "RECORDS": "2", "BYTES": "7",
         "BUSIEST-GROUP": "a", "ITS-REQUESTS": "1"},
    ]  # fmt: skip


# ---- lag


def lagging(group, number, time, amount, **values):
    row = of(of_lag.FIELDS, group_id=group, topic="t", partition=number, offsets_partition=4)
    return row | {"time": time, "lag": amount} | values


def test_the_lag_of_a_group_is_that_of_the_last_sample_of_each_partition():
    rows = [
        lagging("g", 0, 1_000, 5),
        lagging("g", 0, 3_000, 7),
        lagging("g", 1, 2_000, 20),
        lagging("g", 2, None, None),
        lagging("h", 0, None, 1),
    ]
    _, table = lag.draw(rows)
    assert table.title == "lag of each group, as of its last sample"
    g, h = cells(table)
    assert g["TIME"] == format_time(3_000)
    assert [g[name] for name in ("PARTITIONS", "LAG", "UNKNOWN")] == ["3", "27", "1"]
    assert [h[name] for name in ("TIME", "PARTITIONS", "LAG", "UNKNOWN")] == ["-", "1", "1", "0"]


@pytest.mark.parametrize(
    ("values", "shown", "behind"),
    [
        ({"lag": 0, "lag_max": None, "lag_ms_min": 0, "lag_ms_max": 0}, "0", "0s"),
        ({"lag": 9, "lag_ms_min": MINUTE, "lag_ms_max": HOUR}, "9", "1m to 1h"),
        ({"lag": 9, "lag_ms_min": MINUTE, "lag_ms_max": None}, "9", "1m to ?"),
        ({"lag": None, "lag_max": 8}, "<= 8", "-"),
        ({"lag": None, "lag_max": None}, "-", "-"),
    ],
)
def test_a_lag_has_its_upper_bound_if_it_is_not_known_and_both_bounds_of_its_age(
    values, shown, behind
):
    table, _ = lag.draw([lagging("g", 0, None, None, **values)])
    (line,) = cells(table)
    assert (line["LAG"], line["BEHIND"]) == (shown, behind)


def test_lags_that_are_not_known_are_counted_by_reason(capfd):
    statuses = lagnotes.Statuses("status")
    given = ["ok", "ok", "ahead", "no_commit", "ahead", None]
    assert [row["status"] for row in statuses.of({"status": one} for one in given)] == given
    statuses.say_unknown()
    assert capfd.readouterr().err == "coterie: 3 of 5 lags are not known: 1 no_commit, 2 ahead\n"
    known = lagnotes.Statuses("status")
    assert len(list(known.of([{"status": "ok"}]))) == 1
    known.say_unknown()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("timed", "at_ms", "warns"), [(False, None, True), (True, None, False), (False, 0, False)]
)
def test_end_offsets_without_a_time_are_taken_as_of_the_end_of_the_log(timed, at_ms, warns, capfd):
    lagnotes.say_untimed(SimpleNamespace(timed=timed), at_ms, 7_654_321)
    err = capfd.readouterr().err
    assert ("as of the end of the log, 1970-01-01T02:07:34.321Z;" in err) == warns
    assert bool(err) == warns


# ---- explain


def refused(group, *details):
    return [
        SimpleNamespace(what="refused", group=group, detail=detail, at_ms=at_ms)
        for at_ms, detail in enumerate(details)
    ]


@pytest.mark.parametrize(("groups", "more"), [(5, None), (6, 1), (8, 3)])
def test_groups_that_were_only_refused_are_named_up_to_five(groups, more, capfd):
    lines = refused("seen", "X; no")
    for number in range(groups):
        lines += refused(f"g{number}", "A; because", "B; of", "A; this")
    lines += refused("g0", None)
    lines.append(SimpleNamespace(what="left", group="other", detail="A; no", at_ms=1))
    explain.say_refused(lines, {"seen"})
    err = capfd.readouterr().err.splitlines()
    head = "coterie: group 'g{}' has no record, but joins to it were refused: 2 x A, 1 x B"
    span = ", 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:00.002Z"
    assert err[0] == head.format(0) + ", 1 x " + span
    assert err[1:5] == [head.format(number) + span for number in range(1, 5)]
    assert err[5:] == ([] if more is None else [f"coterie: so it is with {more} more groups"])


def test_below_a_timeline_stand_its_sum_and_then_each_other_summary():
    names = ["generation", *of_explain.SUMMARIES]
    rows = [of(of_explain.FIELDS, event=name, cause=f"a {name}", count=2) for name in names]
    first, *others = explain.sum_lines(rows, None)
    assert first.startswith("a summary")
    counts = {"client": " (2 rebalances)"}
    assert others == [f"  a {name}{counts.get(name, '')}" for name in names[1:-1]]


def test_a_line_of_a_timeline_has_how_long_there_was_no_assignment():
    exact = event(2_000, None, duration_ms=1_500, duration_source="server log")
    bound = event(3_000, None, duration_ms=2_500, duration_source="records")
    lines = cells(explain.table_of("g", [exact, bound, event(4_000, None)]))
    assert [line["NO ASSIGNMENT"] for line in lines] == ["1.500 s", "< 2.500 s", "-"]
    assert [line["GEN"] for line in lines] == ["3", "3", "3"]
    assert [line["MEMBERS"] for line in lines] == ["2", "2", "2"]


def event(ms, since_ms, **values):
    row = {"event": "generation", "timestamp": ms, "trusted_from": since_ms, "generation": 3}
    row |= {"member_count": 2, "cause": f"at {ms}", "reason": None, "duration_ms": None}
    return row | {"duration_source": None} | values


@pytest.mark.parametrize(
    ("times", "since_ms", "before"),
    [([900, 999, 1_000], 1_000, 2), ([999, None], 1_000, 1), ([1_000, 1_001], 1_000, None),
     ([0, 5], None, None)],
)  # fmt: skip
def test_a_timeline_says_where_it_begins_to_be_whole(times, since_ms, before):
    table = explain.table_of("g", [event(ms, since_ms) for ms in times])
    causes = [line["CAUSE"] for line in cells(table)]
    whole = f"from here on nothing is missing: since {format_time(1_000)}"
    expected = [f"at {ms}" for ms in times]
    if before is not None:
        expected.insert(before, whole)
    assert causes == expected
    assert table.title == "group g"


# ---- undo


def restored(**values):
    row = of(of_undo.FIELDS, group_id="g", topic="t", partition=0, change="moved", pending=False)
    return row | {"state": "Empty", "trusted_from": None} | values


def warned(*rows, at_ms=1_000):
    return list(undo.warnings(list(rows), at_ms))


@pytest.mark.parametrize("count", [19, 20, 21, 1_055])
def test_up_to_twenty_warnings_are_printed_and_the_others_counted(count, capfd):
    rows = [restored(group_id=f"g{number}", state="Stable") for number in range(count)]
    undo.say_lines(undo.warnings(rows, 1_000))
    err = capfd.readouterr().err.splitlines()
    named = [line for line in err if " is Stable: " in line]
    assert [line.split("'")[1] for line in named] == [f"g{at}" for at in range(min(count, 20))]
    rest = {21: "1", 1_055: "1,035"}.get(count)
    assert err[20:] == (
        [f"coterie: and {rest} more warnings of this kind; --group tells"] if rest else []
    )


@pytest.mark.parametrize(("count", "more"), [(1, ""), (3, ""), (4, "; 1 more"), (6, "; 3 more")])
def test_up_to_three_places_of_a_clock_that_went_back_are_named(count, more):
    rows = [
        restored(partition=at, offset=None if at == 0 else 10 * at - 10, offset_by_record_times=-1)
        for at in range(count)
    ]
    (line,) = warned(restored(partition=9, offset=5), *rows, at_ms=61_001)
    places = ["t-0 none by log order, none by record times",
              "t-1 0 by log order, none by record times",
              "t-2 10 by log order, none by record times"]  # fmt: skip
    assert line == (
        f"group 'g': a clock went back: as of 1970-01-01T00:01:01.001Z, "
        f"{'; '.join(places[:count])}{more}; the plan is by log order"
    )


@pytest.mark.parametrize(
    ("age_ms", "fresh"), [(59_999, True), (60_000, False), (0, True), (7_200_000, False)]
)
def test_a_rewind_within_the_last_minute_is_warned_of(age_ms, fresh):
    lines = warned(restored(rewound_at=8_000_000 - age_ms), at_ms=8_000_000)
    assert [("1 partition had gone back" in line) for line in lines] == [True] * fresh


WARNED_OF = (
    "without an offset then",
    "the log has lost",
    "without an offset now",
    "an offset in an open transaction",
    "removed since 1970-01-01T00:00:04.000Z, first at 1970-01-01T00:00:05.000Z",
)


def test_each_thing_that_makes_a_reset_go_wrong_is_counted_by_its_partitions():
    changes = ["new"] * 2 + ["unknown"] * 3 + ["deleted"] * 4
    rows = [restored(change=change, partition=at) for at, change in enumerate(changes)]
    rows += [restored(pending=True, expires_at=ms) for ms in (90_000, 70_000, 80_000)]
    rows += [restored(removed_at=ms, removal="expired") for ms in (6_000, 5_000)]
    lines = warned(*rows, at_ms=4_000)
    counted = {text: number for line in lines for text, number in found(line)}
    assert counted == dict(zip(WARNED_OF, (2, 3, 4, 3, 2), strict=True))
    assert any("expire at 1970-01-01T00:01:10.000Z, counted" in line for line in lines)
    assert len(lines) == len(counted) + 1


def found(line):
    """What a warning is about, and its number of partitions."""
    for text in WARNED_OF:
        if text in line:
            yield text, int(line.split(" partition")[0].rsplit(" ", 1)[1])


def test_partitions_of_a_topic_that_was_created_again_are_counted_and_other_notes_are_not():
    notes = ("late", None, f"{CREATED_AGAIN} at 1970-01-01T00:00:00.005Z", CREATED_AGAIN)
    assert warned(*(restored(note=note) for note in notes[:2])) == []
    (line,) = warned(*(restored(note=note) for note in notes))
    assert line.startswith("group 'g': 2 partitions of a topic that was created again: ")


@pytest.mark.parametrize(
    ("state", "warns"), [("Empty", False), (None, False), ("Stable", True), ("Dead", True)]
)
def test_a_group_with_members_is_warned_of(state, warns):
    assert [
        line.startswith(f"group 'g' is {state}:") for line in warned(restored(state=state))
    ] == ([True] * warns)


def test_beside_many_partitions_stands_a_line_for_each_group():
    rows = [restored(change=change) for change in ("same", "moved", "moved", "new")]
    rows += [restored(group_id="h", change=change) for change in ("deleted", "unknown", "deleted")]
    (table,) = undo.draw_groups(rows)
    assert table.title == "7 partitions of 2 groups; --against-latest shows each"
    counts = [[line[name] for name in ("GROUP", "SAME", "MOVED", "NEW", "DELETED", "UNKNOWN")]
              for line in cells(table)]  # fmt: skip
    assert counts == [["g", "1", "2", "1", "0", "0"], ["h", "0", "0", "0", "2", "1"]]


def test_each_group_has_a_table_that_counts_its_changes():
    rows = [restored(change="new"), restored(group_id="h", change="same", note="late")]
    rows += [restored(change="moved", trusted_from=77), restored(change="new")]
    g, h = undo.draw(rows)
    assert (g.title, h.title) == ("group g: 1 moved, 2 new", "group h: 1 same")
    assert [line["NOTE"] for line in cells(h)] == ["late"]
    assert [line["TRUSTED-FROM"] for line in cells(g)] == ["-", format_time(77), "-"]
    assert len(cells(g)) == 3
    (plain,) = undo.draw([restored()])
    assert not {"NOTE", "TRUSTED-FROM"} & set(plain.headings)


# ---- compare


def copied(number, copy, status, **values):
    row = of(comparison.FIELDS, offsets_partition=number, copy=copy, status=status, epochs=[])
    return row | values


def test_a_partition_counts_as_what_its_worst_copy_is():
    kinds = [
        ("best", "same", "same"), ("same", "best", "missing"), ("behind", "best", "missing"),
        ("behind", "same", "best"),
    ]  # fmt: skip
    rows = [
        copied(number, copy, status)
        for number, some in enumerate(kinds)
        for copy, status in zip("abc", some, strict=True)
    ]
    whole, table = compare.draw(rows)
    assert whole == "3 copies; partitions: 1 same, 1 missing, 2 behind"
    assert [line["OFFSETS-PARTITION"] for line in cells(table)] == [*"111222333"]


def test_what_each_of_two_diverged_copies_has_alone_stands_under_its_name():
    def group(name, records):
        return of(compare.GROUP_FIELDS, group_id=name, records=records, generations=[])

    rows = [
        copied(3, "a", "best", epochs=[{"epoch": 8, "offset": 90}]),
        copied(3, "b", "diverged", common_until=70, epochs=[{"epoch": 7, "offset": 60}],
               only_here=[group("mine", 2)], lacking=[group("theirs", 3)],
               records_only_here=1, epoch_here=7, records_lacking=2_000, epoch_there=None),
        copied(3, "c", "same"),
    ]  # fmt: skip
    _, _, text, epochs, groups = compare.draw(rows)
    assert text == (
        "partition 3: b and a have the same history up to offset 70; then b has 1 record, the "
        "first of epoch 7, and a has 2,000 records"
    )
    assert epochs.title == "partition 3: epochs"
    assert [(line["COPY"], line["EPOCH"], line["OFFSET"]) for line in cells(epochs)] == [
        ("a", "8", "90"),
        ("b", "7", "60"),
    ]
    assert groups.title == "partition 3: what only one copy has"
    lines = [(line["COPY"], line["FROM-OFFSET"], line["GROUP-ID"], line["RECORDS"])
             for line in cells(groups)]  # fmt: skip
    assert lines == [("b", "70", "mine", "2"), ("a", "70", "theirs", "3")]
