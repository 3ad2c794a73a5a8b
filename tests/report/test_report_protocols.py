"""The timeline of a group that changes its protocol goes on with the same lanes."""

import json

import pytest

from support.golden_data import GOLDEN
from support.insight import trace_causes
from support.report.pages import report

pytest.importorskip("jinja2")
FOLDER = GOLDEN / "incidents" / "protocols"


@pytest.fixture(scope="module")
def truth():
    return json.loads((FOLDER / "truth.json").read_text())


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report(tmp_path_factory.mktemp("protocols"), FOLDER)


def lanes(page, group):
    """Client id -> its bars as (start, end, assignment), a lane each."""
    timeline = page.detail(group)["timeline"]
    found = {}
    for member, start, end, _, assignment, _ in timeline["bars"]:
        client = timeline["members"][member][0]
        found.setdefault(client, []).append((start, end, timeline["assignments"][assignment][1]))
    assert len(found) == len(timeline["members"])  # no client has two lanes
    return found


def test_each_client_has_one_lane_over_an_upgrade_and_a_downgrade(page, truth):
    clients = {event["name"] for event in truth if event["what"] == "assigned"}
    assert set(lanes(page, "moved")) == {name for name in clients if name.startswith("app-")}


@pytest.mark.parametrize(("client", "over"), [("app-1", "app-3"), ("app-2", "app-3")])
def test_a_lane_has_no_gap_where_the_group_is_upgraded(page, truth, client, over):
    began = next(e["at_ms"] for e in truth if (e["what"], e["name"]) == ("start", over))
    bars = lanes(page, "moved")[client]
    (at,) = (n for n, (start, end, _) in enumerate(bars) if start <= began < end)
    assert bars[at][1] == bars[at + 1][0]
    before, after = (text.removeprefix("orders: ") for _, _, text in bars[at : at + 2])
    assert bars[at + 1][2].startswith("orders: ")  # by name, as before
    assert set(after) <= set(before)  # app-3 gets some of them


def test_a_lane_of_a_consumer_group_names_the_partitions_that_its_member_has_to_give_up(tmp_path):
    """A owns all partitions, has to give up three at 1 s, and is fenced at 21 s: B gets all."""
    log = trace_causes.log_of(tmp_path / "log", "scenarios/rebalance-timeout")
    bars = lanes(report(tmp_path, log), "g")
    start_ms = trace_causes.START_MS
    assert bars["c-a"] == [
        (start_ms, start_ms + 1_000, "t: 0-5"),
        (start_ms + 1_000, start_ms + 21_000, "t: 0-2; to give up t: 3-5"),
    ]
    assert bars["c-b"][-1] == (start_ms + 21_000, start_ms + 21_000, "t: 0-5")
