"""What a command learns while it copies, and what it makes of the samples and states beside it."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

pytest.importorskip("aiokafka")

from coterie.cli import copying
from coterie.cli import live_state as livestate
from coterie.cli import watched_cluster as watchedcluster
from coterie.cli.clusters import cluster_of
from coterie.cli.logs import Logs
from coterie.cli.watched_cluster import CLUSTER, Reporting
from coterie.live.cluster_errors import ClusterError
from coterie.live.copying import CopyObserver, CopyPlan, CopyResult
from coterie.live.end_offsets import LATEST
from coterie.log.folders import Listing
from support.log_writer import batch, commit

CONNECTED = object()  # a cluster
BATCH = batch(0, [commit(1_000, topic=b"orders")])


class Recorded(CopyObserver):
    def __init__(self):
        self.told = []

    def progress(self, done, total):
        self.told.append(("progress", done, total))

    def waiting(self, reasons):
        self.told.append(("waiting", dict(reasons)))

    def complete(self, at_ms):
        self.told.append(("complete", at_ms))


@pytest.fixture
def copied(monkeypatch, tmp_path):
    """Copy by a script; return the results, the number of runs, and the samples' topics."""
    runs, sampled = [], []

    async def partitions(cluster, plan, *, now_ms, observer, stop):
        runs.append(plan)
        await observer.begun((0, 1))
        observer.progress(3, 10)
        observer.appended(0, memoryview(BATCH))
        observer.waiting({"t-1": "no leader"})
        observer.complete(61_001)
        observer.notice("a note")
        if plan.follow:
            while not sampled and not stop.is_set():
                await asyncio.sleep(0)
        found = range(len(runs))  # one partition more with each run
        return [CopyResult(number, 9, 100 * len(runs) + number, None) for number in found]

    async def ends(cluster, topics, skipped, timestamp=LATEST):
        assert cluster is CONNECTED
        if timestamp == LATEST:
            sampled.append(set(topics))
        return {("orders", 0): 7 if timestamp == LATEST else 3}

    monkeypatch.setattr(copying, "copy_partitions", partitions)
    monkeypatch.setattr("coterie.live.end_offsets.end_offsets", ends)

    def run(sample_s=None, groups=None, observer=None, **plan):
        work = copying.copy(
            CONNECTED, asyncio.Event(), CopyPlan(tmp_path, **plan), sample_s, groups, observer
        )
        results = asyncio.run(work)
        return [(one.partition, one.fetched_bytes) for one in results], len(runs), sampled

    return run


def test_a_copy_that_ends_is_sampled_once_and_then_completed_until_after_the_sample(copied):
    # What both runs have fetched counts; the second one has a partition more.
    assert copied(sample_s=1) == ([(0, 300), (1, 201)], 2, [{"orders"}])


def test_a_copy_without_samples_is_made_once(copied):
    assert copied() == ([(0, 100)], 1, [])


def test_only_the_topics_of_the_groups_are_sampled(copied):
    assert copied(sample_s=1, groups={"other"})[2] == [set()]


def test_a_copy_that_is_followed_is_sampled_from_when_it_is_complete(copied, capfd):
    assert copied(sample_s=3_600, follow=True) == ([(0, 100)], 1, [{"orders"}])
    err = capfd.readouterr().err.splitlines()
    assert err == [
        "coterie: complete until 1970-01-01T00:01:01.001Z; following",
        "coterie: a note",
    ]


def test_a_copy_that_is_followed_is_sampled_every_so_many_seconds(copied, monkeypatch):
    every = []

    async def repeat(self, cluster, every_s):
        every.append((cluster, every_s))
        await self.sample(cluster)

    monkeypatch.setattr(copying.EndSampler, "repeat", repeat)
    copied(sample_s=3_600, follow=True)
    assert every == [(CONNECTED, 3_600)]


def test_an_observer_learns_all_and_people_only_notes(copied, capfd):
    observer = Recorded()
    copied(observer=observer)
    assert observer.told == [
        ("progress", 3, 10),
        ("waiting", {"t-1": "no leader"}),
        ("complete", 61_001),
    ]
    assert capfd.readouterr().err == "coterie: a note\n"


def test_a_watcher_knows_what_its_copy_waits_for_and_how_far_it_is_behind():
    watcher, complete = SimpleNamespace(), asyncio.Event()
    reporting = Reporting(watcher, complete)
    reporting.waiting({})
    first = {CLUSTER: "the first copy is not complete yet"}
    assert watcher.source_failures == first
    reporting.waiting({"t-1": "no leader"})
    assert watcher.source_failures == first | {"t-1": "no leader"}
    reporting.progress(30, 100)
    assert watcher.behind_offsets == 70
    reporting.complete(5)
    assert (watcher.source_failures, complete.is_set()) == ({"t-1": "no leader"}, True)
    reporting.waiting({"t-2": "no leader"})
    assert watcher.source_failures == {"t-2": "no leader"}


def test_a_watcher_keeps_its_copy_and_its_samples_for_the_time_that_it_is_given(
    monkeypatch, tmp_path
):
    copies = []

    async def copy(cluster, stop, plan, sample_s, *, observer):
        copies.append((cluster, stop, plan, sample_s))
        observer.complete(5)

    monkeypatch.setattr(watchedcluster, "copy", copy)
    monkeypatch.setattr(watchedcluster, "cluster_of", lambda *named: contextlib.nullcontext(named))
    watcher, ended, complete = SimpleNamespace(source_failures={}), asyncio.Event(), asyncio.Event()
    follow = watchedcluster.following("h:1", "client", tmp_path, 60, 86_400_123, watcher)
    asyncio.run(follow(ended, complete))
    plan = CopyPlan(tmp_path, follow=True, keep_ms=86_400_123)
    assert copies == [(("h:1", "client"), ended, plan, 60)]
    assert complete.is_set()


def test_properties_without_an_effect_are_named_once_a_command(tmp_path, capfd):
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=5\nacks=all\nclient.id=x\n")
    for again in ({}, {"again": False}, {"again": True}):
        cluster_of("h:1", str(file), **again)
    line = f"coterie: {file}: no effect here: acks, linger.ms\n"
    assert capfd.readouterr().err == line * 2
    file.write_text("client.id=x\n")
    cluster_of("h:1", str(file))
    assert capfd.readouterr().err == ""


# ---- the live state of groups


def test_a_copy_that_was_completed_is_listed_anew(tmp_path):
    log = tmp_path / "__consumer_offsets-0"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(BATCH)
    logs = Logs((str(tmp_path),), servers="h:1")
    assert [segment.base_offset for segment in logs.listing.segments] == [0]
    (log / f"{1:020}.log").write_bytes(BATCH)
    assert len(logs.listing.segments) == 1
    logs.list_again()
    assert [segment.base_offset for segment in logs.listing.segments] == [0, 1]
    assert {segment.origin for segment in logs.listing.segments} == {"h:1"}
    logs.list_again()
    logs.list_again()


def group(name, state="Empty", **offsets):
    rows = [{"topic": topic, "partition": 4, "offset": at} for topic, at in offsets.items()]
    return {"group_id": name, "state": state, "members": [], "offsets": rows}


@pytest.fixture
def looked(monkeypatch, tmp_path):
    """The live state, of two looks at the groups."""

    def look(before, after):
        def on_cluster(servers, client_file, work, *, again):
            assert (servers, client_file, again, options.logs.lists) == ("h:1", "client", True, 0)
            return before, after, {("t", 0): 5}

        options = SimpleNamespace(
            groups=(),
            excluded=(),
            where=None,
            logs=SimpleNamespace(listing=Listing((), ()), lists=0),
        )
        options.logs.paths = [str(tmp_path), "other"]
        options.logs.servers, options.logs.client_file = "h:1", "client"
        options.logs.list_again = lambda: setattr(options.logs, "lists", options.logs.lists + 1)
        monkeypatch.setattr(livestate, "chosen_groups", lambda *args: None)
        monkeypatch.setattr(livestate, "known_groups", lambda *args: {"a"})
        monkeypatch.setattr(livestate, "on_cluster", on_cluster)
        found = livestate.live_state(options)
        assert options.logs.lists == 1
        assert found.log_starts == {("t", 0): 5}
        return found.groups

    return look


def test_only_what_two_looks_agree_on_is_a_live_state(looked, capfd):
    before = {name: group(name, t=1, u=2) for name in ("same", "moved", "ended", "other")}
    after = {
        "same": group("same", t=1, u=2),
        "moved": group("moved", t=1, u=3),
        "other": group("other", "Stable", t=1, u=2),
        "new": group("new"),
    }
    found = looked((before, {}), (after, {}))
    place = {"topic": "u", "partition": 4}
    expected = group("moved", t=1)
    expected["offsets"].append(place)
    assert found["same"] == group("same", t=1, u=2)
    assert found["moved"] == expected
    assert "state" not in found["other"]
    assert (found["ended"], found["new"]) == ({"group_id": "ended"}, {"group_id": "new"})
    assert capfd.readouterr().err == (
        "coterie: 4 groups changed while the copy was made; what changed is not compared with "
        "the live state\n"
    )


def test_a_group_that_failed_once_is_not_compared_and_the_first_has_its_reason(looked, capfd):
    same = {"a": group("a", t=1)}
    failed = {"z": ClusterError("z is refused")}, {"b": ClusterError("b is refused")}
    found = looked((same, failed[0]), (same | {"z": group("z")}, failed[1]))
    assert found == same | {
        name: {"group_id": name, "describe_error": f"{name} is refused"} for name in "bz"
    }
    assert capfd.readouterr().err == (
        "coterie: not compared with the live state: 2 groups; b is refused\n"
    )


def test_what_did_not_change_is_said_of_no_group(looked, capfd):
    same = {"a": group("a", t=1)}
    assert looked((same, {}), (dict(same), {})) == same
    assert capfd.readouterr().err == ""


def beside(endless, stop):
    """Run a copy that ends once it is stopped, beside other work."""

    async def copied():
        for _ in range(50):
            if stop.is_set():
                return ["result"]
            await asyncio.sleep(0)
        raise AssertionError("nothing stopped the copy")

    return asyncio.run(copying._beside(endless(), copied(), stop))


def test_a_copy_is_stopped_by_the_failure_of_what_runs_beside_it():
    async def fails():
        raise ValueError("no sample")

    with pytest.raises(ValueError, match="no sample"):
        beside(fails, asyncio.Event())


def test_what_runs_beside_a_copy_ends_with_it():
    stop, ended = asyncio.Event(), []

    async def endless():
        stop.set()
        try:
            for _ in range(100):
                await asyncio.sleep(0)
            ended.append("by itself")
        finally:
            ended.append(True)

    assert beside(endless, stop) == ["result"]
    assert ended == [True]
