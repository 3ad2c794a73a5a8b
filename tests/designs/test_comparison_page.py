"""``coterie designs compare --format html``: what the page holds, and that it fits in bounds."""

import base64
import hashlib
import itertools
import json
import re

import pytest

from coterie.designs import COSTS, DESIGNS, Comparison, Run, compare, page, read_scenario
from coterie.designs.bars import PartitionBar
from coterie.designs.shipped import path_of
from coterie.designs.timeline import Timeline
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


def comparison(events, *names, timelines=None):
    """Runs of designs of these names: only their timelines matter."""
    scenario = read_scenario({"name": "s", "events": events})
    runs = {}
    for name in names:
        timeline = Timeline()
        for entry in (timelines or {}).get(name, ()):
            timeline.add(*entry)
        runs[name] = Run([], timeline, dict.fromkeys(COSTS), {})
    return Comparison(scenario, runs)


def settle(at):
    return {"at": at, "op": "settle", "point": 1}


TOPICS = [
    {"at": 0, "op": "create_topic", "topic": name, "replicas": [[0]] * 3} for name in ("u", "t")
]
STARTS = [
    {"at": 100, "op": "start", "consumer": name, "group": "g", "subscription": {"t": 1, "u": 1}}
    for name in "abc"
]


def test_lanes_show_the_same_partitions_in_order_with_their_owners_and_rebalances():
    timelines = {
        "one": [
            *((1_500, "owns", "c", "u", 1), (1_700, "rebalance_began", "c")),
            *((2_600, "owns", "a", "u", 1), (2_600, "owns", "a", "t", 2)),
            *((2_600, "rebalance_began", "a"), (2_600, "rebalance_began", "b")),
            (3_900, "gives_up", "c", "u", 1),
        ],
        "two": [(9_900, "owns", "b", "t", 2)],
    }
    found = comparison([*TOPICS, *STARTS, settle(9_999)], *timelines, timelines=timelines)
    data = page.page_data(found)
    assert data["until_ms"] == 9_999
    assert data["partitions"] == ["t/0", "t/1", "t/2", "u/0", "u/1", "u/2"]
    one, two = data["lanes"]
    named = {
        lane["design"]: [
            [*bar[:3], lane["owners"][bar[3]]] for bar in lane["bars"] if bar[0] in (2, 4)
        ]
        for lane in (one, two)
    }
    assert named["one"] == [
        *([2, 100, 2_600, []], [2, 2_600, 9_999, ["a"]], [4, 100, 1_500, []]),
        *([4, 1_500, 2_600, ["c"]], [4, 2_600, 3_900, ["a", "c"]], [4, 3_900, 9_999, ["a"]]),
    ]
    assert named["two"] == [
        *([2, 100, 9_900, []], [2, 9_900, 9_999, ["b"]], [4, 100, 9_999, []]),
    ]
    assert one["rebalances"] == {"marks": [[1_700, 1], [2_600, 2]], "span_ms": 1}
    assert one["owners"] == [[], ["a"], ["c"], ["a", "c"]]
    assert one["tints"] == [0, 0, 1, 0]  # that of the first owner, by name
    assert data["marks"] == [[0, 2], [100, 3], [9_999, 1]]
    assert data["mark_ms"] == 1
    assert data["left_out"] == {"partitions": 0, "ops": 0}


def test_partitions_that_are_shared_longest_come_first_then_those_without_an_owner(monkeypatch):
    """Summed over the lanes; of equals the first by name."""
    timelines = {
        "one": [
            *((100, "owns", "a", "t", number) for number in range(3)),
            *((200, "owns", "b", "t", 2), (300, "owns", "b", "t", 1)),
            *((300, "owns", "a", "u", 1), (400, "owns", "a", "u", 0)),
        ],
        "two": [(500, "owns", name, "t", 1) for name in "ab"],
    }
    found = comparison([*TOPICS, *STARTS, settle(999)], *timelines, timelines=timelines)
    ranked = ["t/1", "t/2", "u/2", "u/0", "u/1", "t/0"]
    for most in range(1, 7):
        monkeypatch.setattr(page, "PARTITIONS", most)
        data = page.page_data(found)
        assert data["partitions"] == sorted(ranked[:most])
        assert data["left_out"]["partitions"] == 6 - most


def test_as_many_partitions_are_shown_as_there_is_room_for_their_bars(monkeypatch):
    """In the lane that has most of them."""
    timelines = {
        "one": [],
        "two": [
            *((200, "owns", "a", "t", 0), (301, "owns", "b", "t", 0)),
            *((402, "owns", "c", "t", 0), (503, "gives_up", "a", "t", 0)),
        ],
    }
    found = comparison([*TOPICS, *STARTS, settle(999)], *timelines, timelines=timelines)
    for bars, shown in ((1, 1), (5, 1), (6, 2), (9, 5), (10, 6)):
        monkeypatch.setattr(page, "BARS", bars)
        data = page.page_data(found)
        assert len(data["partitions"]) == shown
        assert [len(lane["bars"]) for lane in data["lanes"]] == [shown, min(bars, shown + 4)]
        assert [lane["left_out"] for lane in data["lanes"]] == [0, max(0, shown + 4 - bars)]


def test_the_newest_bars_are_those_with_the_latest_ends_in_their_order():
    bars = [
        PartitionBar(("g", "t", number), 0, end, ())
        for number, end in enumerate([5_900, 5_100, 9_000, 5_500])
    ]
    assert page.newest(bars, 2) == [bars[0], bars[2]]
    assert page.newest(bars, 3) == [bars[0], bars[2], bars[3]]


def test_the_ops_that_are_shown_are_the_first_ones(monkeypatch):
    monkeypatch.setattr(page, "SHOWN_OPS", 4)
    data = page.page_data(comparison([*TOPICS, *STARTS, settle(999)], "one"))
    assert [op[0] for op in data["ops"]] == [0, 0, 100, 100]
    assert data["left_out"]["ops"] == 2
    empty = page.page_data(comparison([], "one"))
    assert (empty["until_ms"], empty["ops"], empty["left_out"]["ops"]) == (0, [], 0)


def test_an_op_is_shown_by_its_name_and_the_fields_that_were_given():
    events = [
        {"op": "create_topic", "topic": "t", "replicas": [[0], [0]]},
        {"op": "start", "consumer": "c", "as": "d", "whitelist": "t", "async": True, "streams": 3},
        {"op": "start", "consumer": "e", "subscription": {"t": 1, "u": 2}, "config": {"x": "y"}},
        {"op": "produce", "topic": "t", "partition": 0, "count": 0},
        {"op": "znode_create", "path": "/a", "ephemeral": False},
        {"op": "coordinator_stop", "moment": ""},
    ]
    ops = read_scenario({"events": [{"at": 5, **event} for event in events]}).ops
    assert [page.op_text(op) for op in ops] == [
        "create_topic topic=t replicas=2 partitions",
        "start consumer=c group=group1 whitelist=t streams=3 as=d async=True",
        "start consumer=e group=group1 subscription=t:1,u:2 streams=1 config=x:y",
        "produce topic=t partition=0 count=0",
        "znode_create path=/a",
        "coordinator_stop group=group1",
    ]


def test_partitions_of_several_groups_have_the_names_of_their_groups():
    one, other = ("g", "t", 0), ("h", "t", 0)
    assert page.names_of([one]) == ["t/0"]
    assert page.names_of([one, other]) == ["g t/0", "h t/0"]


@pytest.mark.parametrize(
    ("times_ms", "most", "marks", "span_ms"),
    [
        ([1_999, 1_001, 1_999], 2, [[1_001, 1], [1_999, 2]], 1),
        ([9, 4, 5], 2, [[4, 2], [8, 1]], 2),
        ([5, 7, 9], 2, [[5, 3]], 5),
        ([1_999, 1_001, 2_000], 2, [[1_000, 2], [2_000, 1]], 1_000),
        ([1_999, 1_001, 2_000], 1, [[0, 3]], 5_000),
        ([2_999, 1_001, 2_000], 2, [[1_000, 1], [2_000, 2]], 1_000),
        ([], 2, [], 1),
    ],
)
def test_marks_are_put_together_by_1_2_5_10_ms_until_there_are_few(
    monkeypatch, times_ms, most, marks, span_ms
):
    monkeypatch.setattr(page, "MARKS", most)
    assert page.merge_marks(times_ms) == (marks, span_ms)


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
