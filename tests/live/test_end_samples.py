"""Samples of end offsets beside a copy: what `lag` makes of them."""

import asyncio
import csv
import json
import signal
import subprocess

import pytest

pytest.importorskip("aiokafka")

from coterie.cli.end_sampling import EndSampler, is_before
from coterie.insight.offsets.end_offsets import (
    OLD_SAMPLES_HEADING,
    SAMPLES_HEADING,
    Sample,
    read_end_offsets,
)
from coterie.live.end_offsets import EARLIEST, LATEST
from coterie.live.stopping import run_until
from coterie.server import Broker
from support.commandline import COTERIE, coterie_ok, default_sigint, fails
from support.log_writer import commit as commit_record
from support.log_writer import each
from support.server.asking import commit
from support.server.groups_of_a_broker import commit_offsets, produce
from support.server.sockets import ask, connect

SETTINGS = {"offsets.topic.num.partitions": 4}
TOPICS = {"orders": 2, "clicks": 1, "unread": 1}


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics=TOPICS) as made:
        yield made


def samples(out):
    with open(out / "end-offsets.csv", newline="") as file:
        return [(row["topic"], row["partition"], row["offset"]) for row in csv.DictReader(file)]


def fetch(broker, out, *options):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    return ("fetch", *at, "--out", out, "--sample-end-offsets", 3600, *options)


def test_a_sample_has_the_topics_that_groups_commit_to_and_lag_reads_it(broker, tmp_path):
    produce(broker, "orders", 0, 20)
    produce(broker, "unread", 0, 5)
    commit_offsets(broker, "a", 13)  # the last offset is 12
    coterie_ok(*fetch(broker, tmp_path))
    assert samples(tmp_path) == [("orders", "0", "20"), ("orders", "1", "0")]
    ends = ("--end-offsets", tmp_path / "end-offsets.csv", "--format", "json")
    rows = json.loads(coterie_ok("lag", tmp_path, *ends).stdout)
    assert [(row["partition"], row["lag"], row["status"]) for row in rows] == [(0, 8, "ok")]


def test_a_later_fetch_appends_and_remembers_the_topics_of_the_copy(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    coterie_ok(*fetch(broker, tmp_path))
    produce(broker, "orders", 1, 4)
    ask(connect(broker), "OffsetCommit", 2, commit("b", "clicks", {0: 0}))
    coterie_ok(*fetch(broker, tmp_path))
    assert samples(tmp_path) == [
        *(("orders", "0", "0"), ("orders", "1", "0")),
        *(("clicks", "0", "0"), ("orders", "0", "0"), ("orders", "1", "4")),
    ]


def test_following_samples_from_when_the_copy_is_complete(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    command = [*COTERIE, *map(str, fetch(broker, tmp_path, "--follow"))]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_sigint,
    )  # fmt: skip
    assert process.stderr.readline().endswith("; following\n")
    while not (tmp_path / "end-offsets.csv").exists():
        broker.requests()
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    assert samples(tmp_path) == [("orders", "0", "0"), ("orders", "1", "0")]


def test_a_torn_last_line_is_cut_before_a_sample_is_appended(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    coterie_ok(*fetch(broker, tmp_path))
    path = tmp_path / "end-offsets.csv"
    whole = path.read_text()
    path.write_text(whole + "1796133900000,ord")
    coterie_ok(*fetch(broker, tmp_path))
    assert path.read_text().startswith(whole)
    assert samples(tmp_path) == [("orders", "0", "0"), ("orders", "1", "0")] * 2


@pytest.mark.parametrize("text", ["time,group,lag\n1,a,2\n", "a note\n", "\n"])
def test_a_file_with_another_heading_is_refused_before_anything_is_written(broker, tmp_path, text):
    commit_offsets(broker, "a", 3)
    path = tmp_path / "end-offsets.csv"
    path.write_text(text)
    fails(*fetch(broker, tmp_path), says=(str(path), "another heading", "move it away"))
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_missing_end_offsets_are_reported_again_after_a_good_sample(tmp_path, monkeypatch):
    from coterie.live import end_offsets
    from coterie.live.cluster_errors import ClusterError

    async def answer(cluster, topics, skipped, timestamp=LATEST):
        if cluster == "fails":
            skipped("orders", ClusterError("no permission"))
            return {}
        return {("orders", 0): 7}

    monkeypatch.setattr(end_offsets, "end_offsets", answer)
    lines = []
    sampler = EndSampler(tmp_path, lambda: 1_000, lines.append)

    async def run():
        for cluster in ("fails", "fails", "answers", "fails"):
            await sampler.sample(cluster)

    asyncio.run(run())
    assert lines == ["no end offsets of orders: no permission"] * 2


def test_old_samples_go_once_they_are_a_quarter_of_the_file(tmp_path, monkeypatch):
    async def answer(cluster, topics, skipped, timestamp=LATEST):
        return {("orders", n): 7 for n in range(2)}

    monkeypatch.setattr("coterie.live.end_offsets.end_offsets", answer)
    now = [0]
    sampler = EndSampler(tmp_path, lambda: now[0], print, keep_ms=900)

    def times_after(*times):
        for now[0] in times:
            asyncio.run(sampler.sample(None))
        lines = sampler.path.read_text().splitlines()
        assert f"{lines[0]}\n" == SAMPLES_HEADING
        return [int(line.split(",")[0]) for line in lines[1::2]]

    assert times_after(*range(0, 1_201, 100)) == list(range(0, 1_201, 100))
    assert times_after(1_300) == list(range(400, 1_301, 100))
    assert times_after(9_000) == [9_000]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_sample_that_the_broker_does_not_answer(broker, tmp_path, number, status):
    commit_offsets(broker, "a", 3)
    command = fetch(broker, tmp_path, "--group", "a")
    coterie_ok(*command)
    before = samples(tmp_path)
    # Requests of the copy: Metadata, ListOffsets twice, then those of the sample.
    quick = broker.fail("Metadata", delay_ms=1)
    slow = broker.fail("Metadata", delay_ms=3_600_000)
    process = subprocess.Popen(
        [*COTERIE, *map(str, command)], stderr=subprocess.PIPE, text=True,
        preexec_fn=default_sigint,
    )  # fmt: skip
    while not slow.count:
        broker.requests()
    process.send_signal(number)
    _, err = process.communicate()
    assert (quick.count, process.returncode) == (1, status)
    assert len(err.splitlines()) == 1, err
    assert samples(tmp_path) == before


def test_a_read_of_a_long_copy_can_be_cancelled(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    coterie_ok(*fetch(broker, tmp_path))
    sampler = EndSampler(tmp_path, lambda: 1_000, print)

    async def run():
        async def read():
            await sampler.read_copy((0, 1, 2, 3))
            return "all"

        stop = asyncio.Event()
        asyncio.get_running_loop().call_soon(stop.set)
        return await run_until(stop, read())

    assert asyncio.run(run()) is None


def test_samples_are_taken_at_intervals_in_seconds(tmp_path, monkeypatch):
    class Enough(Exception):
        pass

    async def sample(self, cluster):
        calls.append(cluster)

    async def sleep(seconds):
        calls.append(seconds)
        if len(calls) == 4:
            raise Enough

    calls = []
    monkeypatch.setattr(EndSampler, "sample", sample)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(Enough):
        asyncio.run(EndSampler(tmp_path, lambda: 1_000, print).repeat("cluster", 7))
    assert calls == ["cluster", 7, "cluster", 7]


def sampler_of(tmp_path, monkeypatch, found, now_ms=1_796_133_900_123, **options):
    """A sampler of a cluster that answers what was found."""

    async def answer(cluster, topics, skipped, timestamp=LATEST):
        return found

    monkeypatch.setattr("coterie.live.end_offsets.end_offsets", answer)
    return EndSampler(tmp_path, lambda: now_ms, print, **options)


@pytest.mark.parametrize("count", [0, 10, 200, 205, 5_000])  # 20 bytes each; 4096 are looked at
@pytest.mark.parametrize("torn", ["", "9", "9,orders,1,1"])
def test_a_sample_follows_the_last_whole_line_of_a_file_of_any_length(
    tmp_path, monkeypatch, count, torn
):
    before = SAMPLES_HEADING + "1234567,orders,1,2,0\n" * count
    (tmp_path / "end-offsets.csv").write_text(before + torn)
    sampler = sampler_of(tmp_path, monkeypatch, {("b", 1): 7, ("b", 0): 8, ("a", 2): 9})
    asyncio.run(sampler.sample(None))
    assert sampler.path.read_text() == before + (
        "1796133900123,a,2,9,9\n1796133900123,b,0,8,8\n1796133900123,b,1,7,7\n"
    )


def test_a_file_of_the_form_before_goes_on_with_log_start_offsets(tmp_path, monkeypatch):
    path = tmp_path / "end-offsets.csv"
    path.write_text(f"{OLD_SAMPLES_HEADING}1000,t,0,5\n2000,t,0,6\n3000,t")
    sampler = sampler_of(tmp_path, monkeypatch, {("t", 0): 7}, now_ms=4_000)
    asyncio.run(sampler.sample(None))
    asyncio.run(sampler.sample(None))
    assert path.read_text() == (
        f"{SAMPLES_HEADING}1000,t,0,5,\n2000,t,0,6,\n4000,t,0,7,7\n4000,t,0,7,7\n"
    )
    samples = read_end_offsets(path).samples["t", 0]
    assert samples == (Sample(1_000, 5), Sample(2_000, 6), Sample(4_000, 7, 7))


def test_the_start_of_a_log_is_older_than_the_time_of_its_sample(tmp_path, monkeypatch):
    """So a commit of that time below the start did lose records."""
    steps = []

    async def answer(cluster, topics, skipped, timestamp=LATEST):
        steps.append(timestamp)
        return {}

    monkeypatch.setattr("coterie.live.end_offsets.end_offsets", answer)
    sampler = EndSampler(tmp_path, lambda: steps.append("now") or 1_000, print)
    asyncio.run(sampler.sample(None))
    assert steps == [EARLIEST, "now", LATEST]


@pytest.mark.parametrize(
    ("line", "ms", "is_older"),
    [
        (b"1000,t,0,5\n", 1_000, False),
        (b"1000,t,0,5\n", 1_001, True),
        (b"999,t,0,5\n", 1_000, True),
        (b"", 1_000, False),
        (b"time,topic,partition,offset\n", 1_000, False),
    ],
)
def test_a_sample_is_older_by_its_first_field(line, ms, is_older):
    assert is_before(line, ms) == is_older


def test_only_the_topics_of_the_requested_groups_are_sampled(tmp_path):
    data = b"".join(
        each(0, *(commit_record(1_000, group=b"g%d" % at, topic=b"t%d" % at) for at in range(3)))
    )
    sampler = EndSampler(tmp_path, lambda: 1_000, print, {"g0", "g2"})
    asked = []

    async def answer(cluster, topics, skipped, timestamp=LATEST):
        asked.append(set(topics))
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.live.end_offsets.end_offsets", answer)
        sampler.take(4, memoryview(data))
        asyncio.run(sampler.sample(None))
        sampler.take(4, memoryview(b"".join(each(3, commit_record(1, group=b"g0", topic=b"u")))))
        asyncio.run(sampler.sample(None))
    assert asked[1::2] == [{"t0", "t2"}, {"t0", "t2", "u"}]
