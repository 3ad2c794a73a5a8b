"""What a rehearsal shows: the moments that are worse than in the history, and the page."""

import dataclasses
import json
import random
import re
from collections import Counter
from itertools import pairwise

import pytest

from coterie.designs.timeline import Timeline
from coterie.histories.rehearsal import page
from coterie.histories.rehearsal.history import LEAD_MS, Generation, LoggedHistory
from coterie.histories.rehearsal.moments import Moment, Worse, worse_moments
from coterie.histories.rehearsal.play import Play, Played
from coterie.histories.rehearsal.result import FIELDS, Outcome, _fit, outcomes, rehearse
from coterie.histories.rehearsal.variants import read_variant
from support.commandline import coterie, coterie_ok
from support.golden_data import GOLDEN
from support.histories.rehearsed import histories_of, history_of, op
from support.report.pages import Elements
from support.terminal import ESCAPES, at_terminal

RESTARTS = GOLDEN / "incidents" / "rolling-restarts" / "log"
HOUR_MS = 3_600_000


BOTH = [op("start", "a", 0), op("start", "b", 10)]


def history(*ops):
    ordered = sorted([*BOTH, *ops], key=lambda one: one["at"])
    return LoggedHistory("g", 1_700_000_000_000, {"orders": 4}, ops=ordered)


def moments_under(of, variant):
    return rehearse(of, [read_variant(variant)], plays=2, moments=99)[1]["moments"]


def test_a_crash_is_worse_by_the_longer_session_and_by_nothing_else():
    """A close beside it stays as it was; each moment names what began it, and when."""
    of = history(op("close", "b", HOUR_MS), op("start", "c", 2 * HOUR_MS))
    assert moments_under(of, "session.timeout.ms=45000") == []
    of = history(op("start", "c", HOUR_MS), op("crash", "b", 2 * HOUR_MS))
    (moment,) = moments_under(of, "session.timeout.ms=45000")
    assert moment["cause"] == "b crashed"
    assert moment["at_ms"] == 2 * HOUR_MS
    assert moment["timestamp"] == of.origin_ms + 2 * HOUR_MS
    assert moment["longest_unowned_more_ms"] == pytest.approx(35_000, abs=3_100)  # a heartbeat
    assert moment["partitions"] <= 4
    assert moment["refused"] == []


def test_a_member_that_stopped_polling_began_what_its_timeout_did():
    of = history(op("pause", "b", HOUR_MS))
    causes = [(one.cause, round(one.at / 60_000)) for one in Play(of).run().moments]
    assert causes == [("a started", 0), ("b stopped polling", 61)]


def test_who_lost_its_partitions_long_after_the_coordinator_moved_began_it_itself():
    stop = {"at": HOUR_MS, "op": "coordinator_stop", "after": 0, "slack_ms": 0, "group": "g"}
    of = history(stop, op("close", "b", 2 * HOUR_MS))
    causes = [(one.cause, round(one.at / HOUR_MS)) for one in Play(of).run().moments]
    assert causes == [("a started", 0), ("b closed", 2)]


def test_a_restart_that_is_moved_to_another_time_is_compared_with_itself():
    """Two of four at once, and one after the other: neither costs more than both together."""
    starts = [op("start", name, place) for place, name in enumerate("abcd")]
    down = [op("close", name, HOUR_MS + place) for place, name in enumerate("cd")]
    back = [op("start", name, HOUR_MS + 20_000 + place) for place, name in enumerate("cd")]
    of = LoggedHistory("g", 0, {"orders": 4}, ops=[*starts, *down, *back])
    rolling = read_variant("deploy=rolling:120s")
    assert "d closed" in [one.cause for one in Play(rolling.of(of)).run().moments]
    assert moments_under(of, rolling.name) == []


def test_a_storm_of_rebalances_fits_but_for_those_that_are_missing_or_different():
    """Of so many, a comparison of each with each would not end."""
    log = [Generation(at, at, {"a": {"t": [0]}, "b": {"t": [1]}}) for at in range(30_000)]
    swapped = Generation(9, 9, {"a": {"t": [1]}, "b": {"t": [0]}})
    alone = Generation(20_000, 20_000, {"a": {"t": [0, 1]}})
    assert _fit(log, log) == (30_000, 30_000)
    assert _fit(log, [*log[:9], swapped, *log[10:20_000], alone, *log[20_001:]]) == (29_999, 29_998)
    assert _fit(log, log[:100]) == (100, 100)
    assert _fit(log, []) == _fit([], log) == (0, 0)


def test_a_group_that_forms_waits_for_its_partitions_under_each_release():
    """Brokers of 4.x write an empty group first: its members wait all the same."""
    rows = rehearse(history(), [read_variant("kafka=3.9"), read_variant("kafka=4.4")], plays=1)
    _, older, newer = ((row["unowned_ms_most"], row["longest_unowned_ms_most"]) for row in rows)
    assert older == newer
    assert newer[1] >= 3_000  # the delay of the first rebalance


def test_a_variant_that_changes_nothing_is_within_the_history_and_no_worse():
    of = history_of("rolling-restarts", "coop")
    own, same = rehearse(of, [read_variant("kafka=3.9")], plays=2)
    assert own["rebalances_least"] <= same["rebalances_least"]
    assert same["rebalances_most"] <= own["rebalances_most"]
    assert same["worse_moments"] == 0


def test_clients_that_an_error_ends_come_first():
    early = Moment(0, "a closed", until=9_000, unowned_ms=900_000)
    late = Moment(500_000, "b started", until=500_000, refused=Counter(GroupMaxSizeReachedError=1))
    none = Moment(900_000, "c started", until=900_000)
    assert [one.moment for one in worse_moments([early, late, none], [[]])] == [late, early]
    same = dataclasses.replace(late, at=501_000, until=501_000)
    assert worse_moments([late], [[], [same]]) == []  # as bad in one play of the history
    assert len(worse_moments([late], [[early], []])) == 1


def test_moments_sum_up_to_what_the_play_counts():
    draw = random.Random(63)
    for _ in range(12):
        ops, live = [], {"a", "b"}
        for at in range(100_000, 1_600_000, 100_000):
            name = draw.choice("abcd")
            kind = draw.choice(["close", "crash", "pause"]) if name in live else "start"
            live ^= {name}
            ops.append(op(kind, name, at + draw.randrange(50_000)))
        variant = read_variant(draw.choice(["protocol=consumer", "static=true", "kafka=4.4"]))
        played = Play(
            variant.of(history(*ops)),
            brokers=variant.first_brokers,
            seed=draw.randrange(99),
        ).run()
        moments = played.moments
        assert sum(one.unowned_ms for one in moments) == played.unowned_ms
        assert sum(one.rebalances for one in moments) == played.rebalances
        assert max(one.longest_ms for one in moments) == played.longest_unowned_ms
        assert all(one.until <= after.at for one, after in pairwise(moments))


def test_the_worst_moments_are_chosen_and_the_others_counted():
    ask = "rehearse", RESTARTS, "--group", "eager", "--to", "protocol=consumer", "--format", "json"
    first, row = json.loads(coterie_ok(*ask, "--moments", "1").stdout)
    assert first["worse_moments"] is None
    assert first["moments"] == []
    (_, whole) = json.loads(coterie_ok(*ask, "--moments", "1000").stdout)
    assert whole["worse_moments"] == len(whole["moments"]) == row["worse_moments"] > 1
    assert row["moments"] == whole["moments"][:1]
    more = [one["unowned_more_ms"] for one in whole["moments"]]
    assert more == sorted(more, reverse=True)
    assert all(one["at_ms"] >= LEAD_MS // 2 for one in whole["moments"])


def page_of(of, *variants):
    """The data of a page, and the outcomes that it shows."""
    chosen = [read_variant(text) for text in variants]
    found = list(outcomes(of, chosen, plays=2, timelines=True))
    return page.page_data(of, found), found


def test_the_lanes_of_a_page_have_what_each_play_counts():
    of = history(op("crash", "b", 100_000), op("start", "c", 150_000), op("close", "a", 200_000))
    data, found = page_of(of, "protocol=consumer", "static=true", "static=true")
    log, *plays = data["lanes"]
    assert [lane["design"] for lane in plays] == [
        *("as it was", "protocol=consumer", "static=true", "static=true")
    ]
    assert log["costs"]["unowned_seconds"] is None
    for lane, outcome in zip(plays, found, strict=True):
        nobody = [end - at for _, at, end, who in lane["bars"] if not lane["owners"][who]]
        assert sum(nobody) == outcome.shown.unowned_ms > 0
        assert lane["costs"]["unowned_seconds"] == outcome.shown.unowned_ms / 1000
        assert data["until_ms"] >= max(end for _, _, end, _ in lane["bars"])
    (before, after) = (lane["rebalances"]["marks"] for lane in plays[:2])
    assert before
    assert after
    assert "worse" not in plays[0]
    worse = [[one["at_ms"], one["cause"]] for one in found[1].row["moments"]]
    assert [[at, cause] for at, _, cause in plays[1]["worse"]] == worse
    assert worse[0][1] == "b crashed"


def test_the_lane_of_the_log_has_the_assignments_of_its_generations():
    (of,) = histories_of(RESTARTS, "eager")
    data, _ = page_of(of)
    lane = data["lanes"][0]
    for one in of.generations:
        there = {
            data["partitions"][row]: lane["owners"][who]
            for row, at, end, who in lane["bars"]
            if at <= one.at < end
        }
        assert there == {
            f"{topic}/{number}": [consumer]
            for consumer, owned in one.owners.items()
            for topic, numbers in owned.items()
            for number in numbers
        }


def test_the_page_of_a_large_group_is_bounded_and_says_what_is_left_out():
    members, partitions, rounds = 500, 1_000, 60
    of = LoggedHistory("g", 0, {"orders": partitions}, ops=[dict(BOTH[0]) for _ in range(2_000)])
    timeline = Timeline()
    for at in range(rounds):
        timeline.add(at * 60_000, "rebalance_began", "")
        for number in range(partitions):
            timeline.add(at * 60_000, "gives_up", f"c{(at + number) % members}", "orders", number)
            timeline.add(at * 60_000, "unowned", "", "orders", number)
        for number in range(partitions):
            timeline.add(at * 60_000 + 3_000, "counted", "", "orders", number)
            owner = f"c{(at + 1 + number) % members}"
            timeline.add(at * 60_000 + 3_000, "owns", owner, "orders", number)
    moments = [Worse(Moment(at, "a closed"), 1, 1, 1, Counter()) for at in range(900)]
    row = dict.fromkeys(FIELDS) | {"variant": "x=y", "moments": [], "worse_moments": 900}
    data = page.page_data(of, [Outcome(row, Played(timeline=timeline), moments)])
    assert data["left_out"] == {
        "partitions": partitions - len(data["partitions"]), "ops": 1_000, "moments": 900,
    }  # fmt: skip
    assert 0 < len(data["partitions"]) <= 200
    assert all(len(lane["bars"]) <= 20_000 for lane in data["lanes"])
    assert len(data["lanes"][1]["worse"]) == 200
    assert len(json.dumps(data)) < 2_000_000


def test_the_command_writes_a_page_of_one_group(tmp_path):
    ask = "rehearse", RESTARTS, "--plays", "1", "--to", "static=true", "--format", "html"
    out = tmp_path / "page.html"
    done = coterie(*ask, "--group", "eager")
    assert (done.returncode, "--out FILE" in done.stderr) == (2, True)
    done = coterie(*ask, "--group", "*", "-o", out)
    assert (done.returncode, "one group" in done.stderr) == (2, True)
    assert not out.exists()
    coterie_ok(*ask, "--group", "eager", "-o", out)
    data = json.loads(Elements(out.read_text(encoding="utf-8")).scripts[0])
    assert [row["variant"] for row in data["results"]] == ["as it was", "static=true"]


def test_a_terminal_of_80_columns_has_each_variant_and_moment_as_a_block():
    ask = "rehearse", RESTARTS, "--group", "eager", "--plays", "1", "--to", "static=true"
    shown = ESCAPES.sub("", at_terminal(80, *ask).stdout)
    wide = coterie_ok(*ask).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "as it was   REBALANCES 17   UNOWNED" in shown
    assert "static=true   REBALANCES 1   UNOWNED" in shown
    times = re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z", wide)
    assert times
    assert re.findall(r"static=true   TIME (\S+)", shown) == times


def committed(of, every_ms, step, until_ms):
    """A history whose log has a commit of each partition every so often."""
    times = list(range(0, until_ms, every_ms))
    offsets = [number * step for number in range(len(times))]
    return dataclasses.replace(of, commits={("orders", n): (times, offsets) for n in range(4)})


def test_what_is_read_again_is_bound_by_the_commits_around_each_loss():
    """Only a member that dies or is evicted loses partitions without a commit."""
    closes = committed(history(op("close", "b", HOUR_MS)), 5_000, 30, 2 * HOUR_MS)
    (row,) = rehearse(closes, [], plays=1)
    assert (row["uncommitted_most"], row["read_again_most"]) == (0, 0)
    for kind in ("crash", "pause"):
        of = history(op(kind, "b", HOUR_MS + 2_000))
        (row,) = rehearse(committed(of, 5_000, 30, 2 * HOUR_MS), [], plays=1)
        assert (row["uncommitted_most"], row["unbounded_most"]) == (2, 0)
        assert row["read_again_most"] == 2 * 30
        (row,) = rehearse(committed(of, 5_000, 30, HOUR_MS), [], plays=1)  # none after it
        assert (row["read_again_most"], row["unbounded_most"]) == (0, 2)
        (row,) = rehearse(of, [], plays=1)
        assert (row["read_again_most"], row["unbounded_most"]) == (None, 2)


def test_the_commits_of_a_history_are_those_of_the_log():
    log = GOLDEN / "incidents" / "departures" / "log"
    (of,) = histories_of(log, "killed")
    whole = {}
    for line in coterie_ok("records", log, "--group", "killed").stdout.splitlines():
        record = json.loads(line)
        key, value = record["key"], record["value"]
        if key["type"] == "offset_commit":
            place = key["data"]["topic"], key["data"]["partition"]
            times, offsets = whole.setdefault(place, ([], []))
            times.append(record["timestamp"] - of.origin_ms)
            offsets.append(value["data"]["offset"])
    assert of.commits == whole
    assert len(whole) == 4
