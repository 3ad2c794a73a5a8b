"""What an incident needs of a report: broker's logs, flapping, trust, and a summary in Markdown."""

import json
import re

import pytest

from support.commandline import coterie, coterie_ok, fails
from support.golden_data import log, records
from support.insight.broker_session import REQUESTS, SERVER, made_log
from support.insight.lives import commit, life, member, written
from support.report.pages import report
from support.report.report_logs import HOSTILE, compacted, crash_loop, hostile_log

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return made_log(tmp_path_factory.mktemp("session"))


def test_a_brokers_logs_tell_in_the_report_what_they_tell_in_explain(session, tmp_path):
    page = report(tmp_path, session, "--server-log", SERVER, "--request-log", REQUESTS)
    rows = {row["Generation"]: row for row in page.section("orders-app", "causes")}
    assert rows[4]["Cause"].startswith("o3 (127.0.0.1) evicted [server log]")
    assert rows[5]["Cause"].startswith("o2 (127.0.0.1) left [")
    # From "Preparing" at 05:40:47,694 to the assignment at 05:40:47,900.
    assert rows[2]["No assignment"] == "0.206 s"


def test_a_group_without_members_is_not_said_to_wait_for_an_assignment(tmp_path):
    lives = [life(1000, 1, member("a")), life(2000, 2), life(22_700, 3, member("b"))]
    lives += [commit(23_000, {0: 1}), life(30_000, 4, member("b"), state_ms=29_930)]
    page = report(tmp_path, written(tmp_path / "log", *lives))
    rows = {row["Generation"]: row for row in page.section("g", "causes")}
    assert rows[2]["Event"] == "empty"
    assert rows[2]["No assignment"] is None
    assert rows[2]["Cause"].endswith("no members for 20.700 s")
    assert rows[3]["No assignment"] == "< 20.700 s"
    assert rows[4]["No assignment"] is None


def test_clients_that_flap_are_counted_in_the_overview(tmp_path):
    page = report(tmp_path, crash_loop(tmp_path / "log"))
    assert page.overview["g"]["flapping"] == 1
    assert page.overview["calm"]["flapping"] is None  # three of one client that start are no loop
    (finding,) = [row for row in page.section("g", "findings") if row["Finding"] == "flapping"]
    assert finding["Detail"] == "c (h) is flapping: 8 joins and leaves in 35.0 s"


def test_a_static_member_has_one_lane_through_its_takeovers(tmp_path):
    lives = [
        life(1000 * at, 1, member(f"i-{at}", groupInstanceId="i"), member("d")) for at in range(4)
    ]
    page = report(tmp_path, written(tmp_path / "log", *lives, commit(9000, {0: 1})))
    timeline = page.detail("g")["timeline"]
    # The records keep the first client and host: whose the lane is later is not known.
    lanes = timeline["members"]
    assert sorted(lanes, key=str) == [["c", "/h", None, "d"], [None, None, "i", "i-0"]]
    theirs = [bar for bar in timeline["bars"] if lanes[bar[0]][2] == "i"]
    assert [timeline["ids"][bar[5]] for bar in theirs] == ["i-0", "i-1", "i-2", "i-3"]
    assert [bar[1:3] for bar in theirs[:3]] == [[0, 1000], [1000, 2000], [2000, 3000]]


def requests_by_hand(case, group):
    """How many batches have a commit of a group."""
    return len(
        {
            (record["partition"], record["batch"]["position"])
            for record in records(case)
            if record["value"] and record["key"]["type"] == "offset_commit"
            if record["key"]["data"]["group"] == group
        }
    )


def test_commits_are_requests_where_batches_tell_and_offsets_stand_beside(tmp_path):
    page = report(tmp_path, log("basic"))
    for group, row in list(page.overview.items())[::6]:
        assert row["requests"] == requests_by_hand("basic", group)
        assert row["commits"] >= row["requests"]
    # Newer groups: their coordinator may append what several requests bring as one batch.
    page = report(tmp_path, log("kip848"))
    newer = {view for view, row in page.overview.items() if row["type"] == "consumer"}
    assert newer
    assert {page.overview[group]["requests"] for group in newer} == {None}


def test_batches_that_no_single_request_made_are_not_counted_as_requests(tmp_path):
    both = commit(5, {0: 1}) + commit(6, {0: 2})
    log = written(tmp_path / "log", commit(1, {0: 0}), both)
    assert report(tmp_path, log).overview["g"]["requests"] is None
    shown = coterie_ok("explain", log).stdout
    assert "3 offsets committed to 1 partition of t" in shown
    assert "0 rebalances, 3 offsets committed" in shown


def test_what_was_compacted_is_said_with_the_time_since_which_each_partition_is_whole(tmp_path):
    page = report(tmp_path, compacted(tmp_path / "log"))
    assert page.data["log"]["compacted"] == [[1, 5000]]
    assert page.detail("g")["head"]["trusted_from_ms"] == 5000
    assert page.detail("whole")["head"]["trusted_from_ms"] is None


def test_what_was_compacted_is_said_beside_the_file_too(tmp_path):
    told = coterie_ok("report", compacted(tmp_path / "log"), "-o", tmp_path / "page.html")
    line = "coterie: partition 1: trusted since 1970-01-01T00:00:05.000Z; compacted before\n"
    assert told.stderr == line
    gone = ("report", tmp_path / "log", "-o", tmp_path / "x", "--group", "nobody")
    fails(*gone, says="(compacted: what was before 1970-01-01T00:00:05.000Z may be gone")


def sections(text):
    """Heading -> what stands under it, of a text in Markdown."""
    parts = re.split(r"^(#+ .*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows_of(text):
    """The rows of a table as dicts by heading."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_summary_has_the_overview_the_timeline_and_the_findings(tmp_path):
    log_folder = crash_loop(tmp_path / "log")
    text = coterie_ok("report", log_folder, "--format", "markdown", "--title", "An incident").stdout
    parts = sections(text)
    assert list(parts) == [
        *("# An incident", "## Groups", "## Group g", "### Rebalances and their causes"),
        *("### Who has a part in them", "### What looks wrong"),
    ]
    groups = {row["Group"]: row for row in rows_of(parts["## Groups"])}
    assert groups["g"]["Flapping clients"] == "1"
    assert groups["calm"]["Rebalances"] == "3"
    causes = rows_of(parts["### Rebalances and their causes"])
    assert [row["Generation"] for row in causes] == [str(number) for number in range(1, 10)]
    assert causes[1]["Cause"] == "c (h) joined"
    (finding,) = rows_of(parts["### What looks wrong"])
    assert finding["Detail"].startswith("c (h) is flapping")


def test_the_summary_goes_into_all_groups_that_are_named(tmp_path):
    log_folder = crash_loop(tmp_path / "log")
    named = ("report", log_folder, "--format", "markdown", "--group", "calm")
    parts = sections(coterie_ok(*named).stdout)
    assert "## Group calm" in parts
    assert parts["### What looks wrong"].strip() == "The audit found nothing."
    out = tmp_path / "summary.md"
    coterie_ok(*named, "-o", out)
    assert out.read_text() == coterie_ok(*named).stdout
    fails("report", log_folder, "--format", "markdown", "--overwrite", status=2, says="--out FILE")


def test_the_summary_says_what_was_compacted(tmp_path):
    text = coterie_ok("report", compacted(tmp_path / "log"), "--format", "markdown").stdout
    banner = r"> **Compacted:** \_\_consumer\_offsets-1 is whole since 1970-01-01T00:00:05.000Z"
    assert text.count(banner) == text.count("**Compacted:**") == 1
    assert "trusted since 1970-01-01T00:00:05.000Z" in sections(text)["## Group g"]
    # What lies before that may have been a rewind too.
    (finding,) = rows_of(sections(text)["### What looks wrong"])
    assert finding["Detail"] == "from 11 back to 2, by 9"


def test_names_of_a_log_stand_in_the_summary_as_text(tmp_path):
    text = coterie_ok("report", hostile_log(tmp_path), "--format", "markdown").stdout
    assert not re.search(r"(?<!\\)<", text)
    assert "\u202e" not in text
    assert "\x00" not in text
    groups = rows_of(sections(text)["## Groups"])
    assert len(groups) == len(HOSTILE)


def test_an_id_of_hundreds_of_characters_is_cut_in_tables_and_whole_in_data(tmp_path):
    name = "group-" + "x" * 300 + "-end"
    log = written(
        tmp_path / "log",
        commit(1, {0: 5}, group=name.encode()),
        commit(2, {0: 3}, group=name.encode()),
    )
    for command in ("explain", "audit", "metrics"):
        (row, *_) = json.loads(coterie(command, log, "--format", "json").stdout)
        assert row["group_id"] == name
    for command in (("explain", log), ("audit", log), ("report", log, "--format", "markdown")):
        shown = coterie(*command).stdout
        way_back = [line for line in shown.splitlines() if "coterie undo" in line]
        assert all(name in line for line in way_back)  # a command to paste is whole
        assert shown.count(name) == len(way_back)
        assert name[:60] + "…" + name[-20:] in shown
