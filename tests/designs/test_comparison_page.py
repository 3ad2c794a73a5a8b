"""``coterie designs compare --format html``: what the page holds, and that it fits in bounds."""

import base64
import hashlib
import itertools
import json
import re

import pytest

from coterie.designs import COSTS, DESIGNS, compare, page
from coterie.designs.shipped import path_of
from support.commandline import coterie_ok, fails, folder_of
from support.designs.comparison_pages import HOSTILE, data_of, large, made

pytest.importorskip("jinja2")


def shipped(name):
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def owners_at(timeline, place, at_ms):
    """The slow model: go through the whole timeline up to a moment."""
    owners = set()
    for one in timeline:
        if one.at_ms > at_ms:
            break
        if one.kind in ("closed", "crashed") or (one.kind, one.details) == ("gives_up", place):
            owners.discard(one.consumer)
        elif (one.kind, one.details) == ("owns", place):
            owners.add(one.consumer)
    return sorted(owners)


@pytest.mark.parametrize("name", ["join-and-close", "long-cut", "crash-and-return", "topics-grow"])
def test_the_bars_of_a_lane_are_the_owners_of_every_moment(name):
    found = compare(shipped(name))
    data = page.page_data(found)
    for lane in data["lanes"]:
        timeline = list(found.runs[lane["design"]].timeline)
        for row, partition in enumerate(data["partitions"]):
            topic, _, number = partition.partition("/")
            bars = [bar[1:] for bar in lane["bars"] if bar[0] == row]
            assert bars == sorted(bars)
            for (_, until, _), (start, _, _) in itertools.pairwise(bars):
                assert until <= start
            for start, until, owners in bars:
                for at_ms in {start, (start + until) // 2, until - 1}:
                    told = owners_at(timeline, (topic, int(number)), at_ms)
                    assert lane["owners"][owners] == told
            drawn = sum(until - start for start, until, owners in bars if lane["owners"][owners])
            assert drawn > 0


def test_time_with_two_owners_and_with_none_is_that_of_the_costs():
    for name in ("long-cut", "crash-and-return", "topics-grow"):
        data = page.page_data(compare(shipped(name)))
        for lane in data["lanes"]:
            lasted = {"shared_seconds": 0, "unowned_seconds": 0}
            for _, start, until, owners in lane["bars"]:
                many = len(lane["owners"][owners])
                if many != 1:
                    lasted["shared_seconds" if many else "unowned_seconds"] += until - start
            for cost, ms in lasted.items():
                assert ms / 1000 == pytest.approx(lane["costs"][cost])


def test_the_page_has_a_lane_for_each_design_costs_and_the_scenarios_ops(tmp_path):
    data = data_of(made(tmp_path, "herd"))
    assert [lane["design"] for lane in data["lanes"]] == list(DESIGNS)
    costs = {row["name"]: row["values"] for row in data["costs"]}
    assert list(costs) == list(COSTS)
    assert costs["rebalances"] == [78, 12, 12, 12]
    assert costs["watch_events"][2] is None
    assert [sum(count for _, count in lane["rebalances"]["marks"]) for lane in data["lanes"]] == [
        *(78, 12, 12, 12)
    ]
    assert [op[0] for op in data["ops"]] == [event["at"] for event in shipped("herd")["events"]]
    assert data["ops"][1][1] == "start consumer=c01 group=group1 subscription=topic1:1 streams=1"
    assert data["left_out"] == {"partitions": 0, "ops": 0}


def test_one_design_can_be_shown_alone(tmp_path):
    (lane,) = data_of(made(tmp_path, "herd", "--design", "today"))["lanes"]
    assert lane["design"] == "today"


def test_nothing_is_fetched_and_only_its_own_scripts_may_run(tmp_path):
    elements = made(tmp_path, "herd")
    (policy,) = [
        attributes["content"]
        for tag, attributes in elements.found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    assert re.search(r"script-src ([^;]*)", policy)[1].split() == [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in elements.scripts[1:]
    ]
    for _, attributes in elements.found:
        for name in ("src", "href", "action", "srcset", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))


def test_names_of_a_scenario_cannot_leave_the_data(tmp_path):
    name = HOSTILE.replace("/", "|")
    events = [
        {"at": 0, "op": "create_topic", "topic": name, "replicas": [[0]]},
        {"at": 1, "op": "start", "consumer": name, "subscription": {name: 1}},
        {"at": 90_000, "op": "settle", "point": 1},
    ]
    scenario = {"name": HOSTILE, "doc": HOSTILE, "events": events}
    (tmp_path / "s.json").write_text(json.dumps(scenario), encoding="utf-8")
    elements = made(tmp_path, tmp_path / "s.json")
    assert len(elements.scripts) == len(made(tmp_path, "herd").scripts)
    data = data_of(elements)
    assert data["partitions"] == [f"{name}/0"]
    assert [name] in data["lanes"][0]["owners"]


def test_the_same_scenario_gives_the_same_page(tmp_path):
    one, other = (made(tmp_path, "coordinator-dies-5").scripts for _ in range(2))
    assert one == other


# ---- bounds


def size(data):
    return len(json.dumps(data, separators=(",", ":")))


def test_a_thousand_consumers_on_a_thousand_partitions_fit_and_what_does_not_is_counted():
    data = page.page_data(large(1_000, 1_000, moves=20))
    assert size(data) < 3_000_000
    for lane in data["lanes"]:
        assert len(lane["bars"]) <= page.BARS
        assert lane["left_out"] == 0
        assert len(lane["rebalances"]["marks"]) <= page.MARKS
        assert sum(count for _, count in lane["rebalances"]["marks"]) == 1_000
    assert 0 < len(data["partitions"]) <= page.PARTITIONS
    assert data["left_out"] == {"partitions": 1_000 - len(data["partitions"]), "ops": 2}


def test_one_partition_and_one_consumer_fit_too():
    data = page.page_data(large(1, 1, moves=1))
    assert (data["partitions"], data["left_out"]) == (["t/0"], {"partitions": 0, "ops": 0})
    assert data["lanes"][0]["bars"] == [[0, 0, 3, 0], [0, 3, 10, 1]]
    assert data["lanes"][0]["owners"] == [[], ["c0"]]


def test_of_one_partition_with_too_many_bars_the_last_are_shown(monkeypatch):
    monkeypatch.setattr(page, "BARS", 5)
    data = page.page_data(large(1, 10, moves=1))
    for lane in data["lanes"]:
        assert [until for _, _, until, _ in lane["bars"]] == [81, 83, 91, 93, 100]
        assert lane["left_out"] == 20 - 5


def test_partitions_with_two_owners_are_shown_before_others(monkeypatch):
    """Of `long-cut` two partitions are shared, the others never."""
    monkeypatch.setattr(page, "PARTITIONS", 2)
    data = page.page_data(compare(shipped("long-cut")))
    assert data["partitions"] == ["topic1/0", "topic1/1"]
    assert data["left_out"]["partitions"] == 2


def test_of_a_bar_with_many_owners_some_names_are_told():
    many = [f"c{i}" for i in range(1_000)]
    assert page.shortened(many) == [*many[:10], "and 990 more"]
    assert page.shortened(many[:10]) == many[:10]


@pytest.mark.parametrize("step", [1, 3, 7, 1000, 86_400_000])
def test_marks_are_put_together_as_little_as_there_is_room_for(step):
    moments = [i * step for i in range(1_000) for _ in range(2)]
    marks, span_ms = page.merge_marks(moments)
    assert len(marks) <= page.MARKS
    assert sum(count for _, count in marks) == 2_000
    assert str(span_ms).rstrip("0") in ("1", "2", "5")
    assert all(at % span_ms == 0 for at, _ in marks)
    assert page.merge_marks([5, 5, 9]) == ([[5, 2], [9, 1]], 1)


# ---- the command


def test_the_page_is_written_whole_or_not_at_all(tmp_path):
    out = tmp_path / "page.html"
    out.write_text("mine")
    ask = ("designs", "compare", "herd", "--format", "html")
    assert fails(*ask, "-o", out, says="is there already")
    assert fails(*ask, "-o", tmp_path / "no/page.html", says="does not exist")
    assert fails(*ask, status=2, says="--out")
    (tmp_path / "s.json").write_text('{"events": [{"at": 0, "op": "explode"}]}')
    wrong = ("designs", "compare", tmp_path / "s.json", "--format", "html", "-o")
    assert fails(*wrong, tmp_path / "x.html", says="events[0].op: unknown op 'explode'")
    keep = (tmp_path / "s.json", "--overwrite")
    assert fails(*wrong, *keep, status=2, says="which is read")
    assert out.read_text() == "mine"
    assert folder_of(tmp_path) == ["page.html", "s.json"]


@pytest.mark.parametrize("form", ["table", "json"])
def test_costs_go_to_a_file_as_to_standard_output(form, tmp_path):
    ask = ("designs", "compare", "stale-views", "--format", form)
    told = coterie_ok(*ask)
    coterie_ok(*ask, "-o", tmp_path / "costs")
    assert (tmp_path / "costs").read_text(encoding="utf-8") == told.stdout
