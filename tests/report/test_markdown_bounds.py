"""The summary of a report in Markdown: what it says of a log, and which groups and rows it has."""

import json
import zlib
from base64 import b64encode

import pytest

from coterie.report import markdown
from coterie.report.gather import OVERVIEW, Gathered
from coterie.report.sections import SECTIONS, Basis

BASIS = Basis(now_ms=10_000, retention_ms=1_000)
COLUMNS = [*OVERVIEW, *(one.column.name for one in SECTIONS if one.column is not None)]


def log_text(**fields):
    return "".join(markdown.log_lines(Gathered(**fields)))


def test_a_log_is_told_with_its_records_partitions_and_times():
    text = log_text(records=1_234_567, partitions=1_050, from_ms=0, until_ms=61_001)
    assert text == (
        "\n1,234,567 records of 1,050 partitions of the topic, 1970-01-01T00:00:00.000Z to "
        "1970-01-01T00:01:01.001Z. Times are UTC.\n"
    )
    assert log_text().startswith("\n0 records of 0 partitions of the topic, - to -. ")


def test_what_was_compacted_and_what_was_left_out_stand_below():
    text = log_text(faults=1_002, compacted=[(3, 5_001), (None, 7)])
    assert r"**Compacted:** \_\_consumer\_offsets-3 is whole since 1970-01-01T00:00:05.001Z" in text
    assert "**Compacted:** The partition is whole since 1970-01-01T00:00:00.007Z" in text
    assert "\n> 1,002 corrupt places were left out" in text
    assert "corrupt" not in log_text(faults=0)


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), ("", "-"), (0, "0"), (7, "7"), ("a|b_c", r"a\|b\_c")]
)
def test_a_text_that_is_missing_is_a_dash_and_markup_is_escaped(value, shown):
    assert markdown.text(value) == shown
    assert markdown.shown("state", value) == shown


def test_cells_of_the_overview_by_their_kind():
    assert markdown.shown("group", "") == "(empty id)"
    assert markdown.shown("group", "a_b") == r"a\_b"
    assert markdown.shown("last_commit", 0) == "1970-01-01T00:00:00.000Z"
    assert markdown.shown("last_commit", None) == "-"
    assert (markdown.duration(61_000), markdown.duration(None)) == ("1m1s", "-")


def whole_of(**groups):
    """The data of groups: name -> (findings, clients that flap, rows of findings)."""
    whole = Gathered()
    for name, (findings, flapping, rows) in groups.items():
        values = {"group": name, "state": "Stable", "members": 2, "rebalances": 3, "requests": 4}
        values |= {"commits": 5, "last_commit": 6_000, "findings": findings, "flapping": flapping}
        whole.overview.append([values.get(column) for column in COLUMNS])
        table = {"rows": rows, "count": len(rows)}
        head = {"state": "Stable", "members": 2, "trusted_from_ms": None, "protocol": None}
        detail = {"head": head, "tables": {"findings": table} if rows else {}}
        whole.details.append(b64encode(zlib.compress(json.dumps(detail).encode())).decode())
    return whole


def parts(whole, **options):
    text = "".join(markdown.render(whole, "A_title", "below", BASIS, **options))
    return text, [line[9:] for line in text.splitlines() if line.startswith("## Group ")]


ROW = [5_000, "rewind", "data", "t", 0, "from 9 back to 5", 1, 40, 50, "f"]


def test_groups_with_findings_or_flapping_clients_have_parts_of_their_own():
    whole = whole_of(
        found=(1, None, [ROW]), calm=(None, None, []), flaps=(None, 2, []), zero=(0, 0, [])
    )
    text, named = parts(whole)
    assert text.startswith("# A\\_title\n\nbelow.\n")
    assert named == ["flaps", "found"]
    assert "Only groups with findings follow" in text
    row = r"| calm | Stable | 2 | 3 | 4 | 5 | 1970-01-01T00:00:06.000Z | - | - |"
    assert row in text.splitlines()
    text, named = parts(whole, named=True)
    assert named == ["calm", "flaps", "found", "zero"]
    assert "Only groups with findings follow" not in text
    text, named = parts(whole_of(found=(1, None, [ROW])))
    assert named == ["found"]
    assert "Only groups with findings follow" not in text


def group_text(rows=(), **head):
    head = {"state": "Empty", "members": 1, "trusted_from_ms": None} | head
    tables = {"findings": {"rows": list(rows), "count": len(rows)}} if rows else {}
    return "".join(markdown.group_lines("g", {"head": head, "tables": tables}, BASIS))


@pytest.mark.parametrize(
    ("head", "facts"),
    [
        ({}, "Empty, 1 member."),
        ({"members": 2, "protocol": ""}, "Empty, 2 members."),
        ({"protocol": "a_b", "trusted_from_ms": 0},
         r"Empty, 1 member; protocol a\_b; trusted since 1970-01-01T00:00:00.000Z."),
    ],
)  # fmt: skip
def test_the_facts_of_a_group_stand_below_its_heading(head, facts):
    assert group_text(**head).startswith(f"\n## Group g\n\n{facts}\n")
    limit = " That holds since 1970-01-01T00:00:00.000Z." if "trusted_from_ms" in head else ""
    assert f"\nThe audit found nothing.{limit}\n" in group_text(**head)


@pytest.mark.parametrize(("count", "left_out"), [(99, 0), (100, 0), (101, 1), (1_300, 1_200)])
def test_a_table_has_a_hundred_rows_and_says_how_many_are_left_out(count, left_out):
    text = group_text([[*ROW[:6], at, *ROW[7:]] for at in range(count)])
    rows = [line for line in text.splitlines() if "from 9 back to 5" in line]
    assert len(rows) == count - left_out
    assert (f"\n{left_out:,} less severe rows are left out.\n" in text) == bool(left_out)
    assert rows[0].split(" | ")[0] == "| 1970-01-01T00:00:05.000Z"
    assert rows[0].split(" | ")[6] == "0"
