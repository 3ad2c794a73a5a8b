"""``coterie_spark.replay`` against Kafka's own state, and against the engine of one process.

The golden logs lie in one folder here, each partition under a number of its own, so that a replay
takes one run of Spark for all of them.
"""

import gzip
import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

from coterie import CoterieError, PartialState, ScanOptions
from coterie.log.folders import find_segments
from coterie.state.document import document_groups
from coterie.state.local_replay import scan_state
from coterie.state.replay_engine import Silent
from coterie_spark import replay
from coterie_spark.replay_job import merging, plan
from coterie_spark.replay_job.driver import run
from coterie_spark.replay_job.roads import from_log
from support import golden_data

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
from support.replayed_tables import as_json, local_rows, rows_of  # noqa: E402

CLASSIC = [case for case in golden_data.cases() if case != "kip848"]
CORRUPT = [f"corrupt/{case}" for case in golden_data.corrupt_cases()]
MODES = {"load": "groups.json", "recover": "groups-recovered.json"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, golden_data.gather(folder, golden_data.cases())


@pytest.fixture(scope="module")
def corrupt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corrupt")
    return folder, golden_data.gather(folder, CORRUPT)


def groups_by_case(spark, gathered, **options):
    """Groups as ``groups.json`` has them, from the states that Spark merged."""
    folder, origin = gathered
    found = {case: [] for case, _ in origin.values()}
    road = partial(from_log, spark, find_segments([str(folder)]))
    products, _ = run(road, ScanOptions(**options), "json")
    rows = [*products.in_order(merging.STATE)]
    for number in origin:
        state = PartialState.from_bytes(b"".join(r.body for r in rows if r.partition == number))
        case, own = origin[number]
        groups = list(document_groups(state))
        found[case] += [{**group, "offsets_partition": own} for group in groups]
    products.drop()
    return {case: as_json(by_id(groups)) for case, groups in found.items()}


def by_id(groups):
    return sorted(groups, key=lambda group: group["group_id"].encode("utf-16-be"))


@pytest.fixture(scope="module")
def whole_groups(spark, whole):
    return groups_by_case(spark, whole)


@pytest.fixture(scope="module", params=MODES)
def corrupt_groups(spark, corrupt, request):
    return MODES[request.param], groups_by_case(spark, corrupt, on_fault=request.param)


@pytest.mark.parametrize("case", CLASSIC)
def test_a_replay_gives_what_kafkas_coordinator_holds(whole_groups, case):
    assert whole_groups[case] == golden_data.json_of(case, "groups.json")["groups"]


@pytest.mark.parametrize("case", CORRUPT)
def test_a_corrupt_log_gives_what_kafka_holds_after_the_same_fault(corrupt_groups, case):
    name, groups = corrupt_groups
    assert groups[case] == golden_data.json_of(case, name)["groups"]


def spark_rows(spark, paths, **options):
    replayed = replay(spark, list(map(str, paths)), **options)
    try:
        return {name: rows_of(table.toArrow()) for name, table in replayed.items()}
    finally:
        replayed.unpersist()


@pytest.fixture
def small_pieces(monkeypatch):
    """Cut every segment into pieces of some batches, and give few of them to each task."""
    for name in ("SPARK_PIECE_BYTES", "SPARK_PIECE_BYTES_MIN", "TASK_BYTES"):
        monkeypatch.setattr(plan, name, 16_000)  # of segments of 36 kB and more
    monkeypatch.setattr(plan, "TASK_BYTES_MIN", 25_000)


def test_all_tables_have_the_rows_of_the_other_engine(spark, whole):
    ours, theirs = spark_rows(spark, whole[:1], history=True), local_rows(whole[:1], history=True)
    assert ours.keys() == theirs.keys()
    for name, rows in theirs.items():
        assert ours[name] == rows, name


def test_faults_are_those_of_the_other_engine_though_segments_are_cut(spark, corrupt, small_pieces):
    ours = spark_rows(spark, corrupt[:1], on_fault="recover")
    theirs = local_rows(corrupt[:1], on_fault="recover")
    for name, rows in theirs.items():
        assert ours[name] == rows, name
    assert ours["faults"]


def test_a_url_is_read_through_hadoop(spark):
    ours = spark_rows(spark, [golden_data.log("compacted").as_uri()])
    assert ours == local_rows([golden_data.log("compacted")])


def test_partitions_are_merged_in_tasks_of_their_own(spark, tmp_path):
    """There are six tasks for two cores; eight partitions are two more than that."""
    for number in range(8):
        name = f"__consumer_offsets-{number}"
        (tmp_path / name).symlink_to(golden_data.log("basic") / name)
    found = replay(spark, tmp_path.as_uri())
    placed = found.products.selectExpr("partition", "spark_partition_id() as task")
    rows = placed.distinct().collect()
    found.unpersist()
    tasks = [row.task for row in rows]
    assert sorted(row.partition for row in rows) == list(range(8))
    assert len(set(tasks)) == 6
    assert max(map(tasks.count, tasks)) == 2


def test_a_url_is_no_pattern(spark, tmp_path):
    folder = tmp_path / "copy [1] {a,b} of* 5%20é+"
    folder.mkdir()
    (source,) = golden_data.log("corrupt/fine").glob("__consumer_offsets-*")
    (folder / source.name).symlink_to(source)
    assert replay(spark, f"file:{folder}").summary.records == 338


def test_a_folder_whose_name_is_not_utf8_is_spelled_out(spark, tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.makedirs(folder)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    log = golden_data.log("corrupt/magic-3/__consumer_offsets-1")
    os.symlink(log, folder + b"/__consumer_offsets-1")
    (fault,) = replay(spark, os.fsdecode(folder)).faults.collect()
    assert fault.file.startswith(f"{tmp_path}/caf\\udce9/__consumer_offsets-1/")


def test_faults_of_a_url_name_it(spark):
    url = golden_data.log("corrupt/magic-3").as_uri()
    (fault,) = replay(spark, url).faults.collect()
    expect = golden_data.json_of("corrupt/magic-3", "expect.json")
    assert fault.position == expect["fault_position"]
    assert fault.file.startswith("file:/")
    assert fault.file.endswith("__consumer_offsets-1/00000000000000000000.log")


@pytest.mark.parametrize(
    ("suffix", "form"),
    [
        ("gz", str),
        ("zst", Path.as_uri),
        pytest.param("gz", Path.as_uri, marks=pytest.mark.slow),
        pytest.param("zst", str, marks=pytest.mark.slow),
    ],
)
def test_segments_compressed_as_files_are_read(spark, tmp_path, suffix, form):
    import cramjam

    pack = {"gz": gzip.compress, "zst": lambda data: bytes(cramjam.zstd.compress(data))}[suffix]
    for file in golden_data.segments("transactions"):
        folder = tmp_path / file.parent.name
        folder.mkdir(exist_ok=True)
        (folder / f"{file.name}.{suffix}").write_bytes(pack(file.read_bytes()))
    ours = spark_rows(spark, [form(tmp_path)])
    assert ours == local_rows([golden_data.log("transactions")])


def test_tables_are_attributes_too_and_stay_without_the_log(spark, tmp_path):
    for file in golden_data.segments("transactions"):
        folder = tmp_path / file.parent.name
        folder.mkdir(exist_ok=True)
        (folder / file.name).write_bytes(file.read_bytes())
    replayed = replay(spark, tmp_path)
    for file in tmp_path.glob("*/*.log"):
        file.unlink()
    assert replayed.groups.count() == replayed.summary.groups == 14
    assert "commits" not in replayed
    assert repr(replayed).startswith("<Replay of ")
    assert "14 groups, 0 faults: tables groups, members, offsets" in repr(replayed)
    assert not hasattr(replayed, "commits")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"paths": "file:/no/such/log"}, "no such file"),
        ({"paths": "nowhere://host/log"}, "nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(spark, arguments, says):
    with pytest.raises(CoterieError, match=re.escape(says)) as caught:
        replay(spark, **arguments)
    assert "\n" not in str(caught.value)


def test_what_a_worker_cannot_read_is_said_in_one_line(spark, tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log.gz").write_bytes(gzip.compress(b"x" * 99)[:-4])
    with pytest.raises(CoterieError, match=r"not a whole \.gz file") as caught:
        replay(spark, tmp_path)
    assert "\n" not in str(caught.value)


def test_the_wide_log_gives_what_kafkas_coordinator_holds(spark):
    import cramjam

    folder = golden_data.wide()
    golden = cramjam.zstd.decompress((folder / "groups.json.zst").read_bytes())
    groups = json.loads(bytes(golden))["groups"]
    found = replay(spark, folder)
    assert found.groups.count() == len(groups)
    rows = found.offsets.select("group_id", "topic", "partition", "offset").collect()
    theirs = [
        (g["group_id"], o["topic"], o["partition"], o["offset"])
        for g in groups
        for o in g["offsets"]
    ]
    assert sorted(map(tuple, rows)) == sorted(theirs)
    found.unpersist()


def test_products_that_were_put_together_in_chunks_are_whole():
    from coterie_spark.replay_job import scanning

    state = scan_state((str(golden_data.log("basic")),), ScanOptions(), Silent())
    fold = state.partitions[0]
    alone = PartialState(state.options, {0: fold})
    size, scanning.CHUNK_BYTES = scanning.CHUNK_BYTES, 1000
    try:
        batches = list(scanning.state_batches(0, 0, alone))
    finally:
        scanning.CHUNK_BYTES = size
    assert len(batches) > 2
    (found,) = merging.states_in(batches)
    assert found == (0, None, alone.to_bytes())
