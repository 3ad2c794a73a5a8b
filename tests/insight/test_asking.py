"""The output of every question's command."""

import csv
import io

import pytest

from coterie.cli.tables import show_tables
from coterie.insight.tables import cell, cells, csv_lines, json_lines, table
from support.commandline import coterie_ok
from support.golden_data import log

FIELDS = {
    "group_id": "string",
    "at": "timestamp",
    "count": "int64",
    "sure": "bool",
    "all": ["int32"],
}
ROW = {"group_id": "a group of a long name", "at": 0, "count": 7, "sure": True, "all": [1, 2]}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(out):
    show_tables([table(FIELDS, [ROW])], out)
    return out.getvalue()


def test_where_there_is_no_terminal_no_line_is_broken_and_none_ends_in_blanks():
    lines = drawn(io.StringIO()).splitlines()
    assert any("a group of a long name" in line and "00.000Z" in line for line in lines)
    assert lines == [line.rstrip() for line in lines]


def test_control_characters_of_a_name_do_not_reach_the_terminal():
    row = {**ROW, "group_id": "a\x1b[2Jb\nc"}
    out = io.StringIO()
    show_tables([table(FIELDS, [row])], out)
    assert "a\\x1b[2Jb\\nc" in out.getvalue()


@pytest.mark.parametrize(
    ("length", "shown"), [(100, "a" * 99 + "z"), (101, "a" * 60 + "…" + "a" * 19 + "z")]
)
def test_a_name_of_more_than_a_hundred_characters_is_cut_in_its_middle(length, shown):
    text = "a" * (length - 1) + "z"
    fields = {"group_id": "string", "cause": "string", "topics": ["string"]}
    names, causes, topics = table(
        fields, [{"group_id": text, "cause": text, "topics": [text]}]
    ).columns
    assert (names, causes, topics) == ([shown], [text], [text])


def test_equal_numbers_of_a_column_are_shown_each_as_it_is():
    assert cells("interval_ms", [1, 1.0, None, 2.5], "double") == ["1", "1.0", "-", "2.5"]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("", "string", "-"),
        (0, "timestamp", "1970-01-01T00:00:00.000Z"),
        (None, "timestamp", "-"),
        ([], ["int32"], "-"),
        ([0, 7], ["int32"], "0, 7"),
        ([0, None], ["timestamp"], "1970-01-01T00:00:00.000Z, -"),
        ({"epoch": 3, "at": None}, {"epoch": "int32", "at": "timestamp"}, "3 -"),
        ([{"epoch": 3}, {"epoch": 4}], [{"epoch": "int32"}], "3, 4"),
    ],
)
def test_a_cell_shows_all_of_a_list_or_struct_and_a_dash_for_nothing(value, kind, text):
    assert cell(value, kind) == text


def test_a_name_with_any_end_of_line_comes_back_from_csv_as_it_was():
    names = ["a\rb", "a\nb", "a\r\nb", "a\r", "=1+1", 'say "hi", twice']
    text = "".join(csv_lines(FIELDS, [{**ROW, "group_id": name} for name in names]))
    assert [row["group_id"] for row in csv.DictReader(io.StringIO(text, newline=""))] == names
    assert text.startswith("group_id,at,count,sure,all\n")


def test_a_title_is_no_markup_and_stays_on_its_line():
    title = f"group pay[eu] [/b] {'x' * 200}: 1 moved"
    out = io.StringIO()
    show_tables([table(FIELDS, [ROW], title)], out)
    assert out.getvalue().splitlines()[0] == title


@pytest.mark.parametrize(
    "args", [("explain",), ("explain", "--format=csv"), ("metrics",), ("metrics", "--format=json")]
)
def test_before_the_first_record_there_is_no_group_and_that_is_reported(args):
    result = coterie_ok(*args, log("transactions"), "--at", 1000)
    assert result.stderr == "coterie: no group to show as of 1970-01-01T00:00:01.000Z\n"


def test_no_rows_are_an_empty_array_and_a_heading():
    assert "".join(json_lines([])) == "[\n]\n"
    assert "".join(csv_lines(FIELDS, [])) == "group_id,at,count,sure,all\n"


def test_rows_as_json_are_one_a_line_with_every_letter_as_it_is():
    rows = {"group_id": "é", "at": None}, {"group_id": "日", "at": 5}
    assert "".join(json_lines(rows)) == (
        '[\n{"group_id": "é", "at": null},\n{"group_id": "日", "at": 5}\n]\n'
    )


def test_rows_as_csv_leave_out_what_is_not_known():
    row = {**ROW, "at": None, "group_id": 'a,"b"'}
    (_, line) = "".join(csv_lines(FIELDS, [row])).splitlines()
    assert line == '"a,""b""",,7,true,"[1, 2]"'
