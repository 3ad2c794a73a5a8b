"""``coterie.read``: the tables of ``replay`` and the answers of the commands, as Arrow tables."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from coterie import CoterieError, read, scan
from support import golden_data
from support.commandline import coterie, coterie_ok

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

GROUP = "grp-java-sticky"
MIDDLE = "2026-11-21T05:03:01Z"
ENDS = {("clicks", 0): 5_200, ("clicks", 1): 5_200}
FILE = "".join(f"{topic}:{partition}:{end}\n" for (topic, partition), end in ENDS.items())


@pytest.fixture(scope="module")
def basic():
    return golden_data.log("basic")


@pytest.mark.parametrize("at", [None, MIDDLE])
def test_the_tables_are_those_of_replay(basic, tmp_path, at):
    options = [] if at is None else ["--at", at]
    out = tmp_path / "tables"
    coterie_ok("replay", basic, "--out", out, "--engine", "local", "--history", *options)
    log = read(basic, at=at)
    for name in ("groups", "members", "offsets", "generations", "commits", "faults"):
        table = getattr(log, name)
        expected = pq.read_table(out / f"{name}.parquet").cast(table.schema)
        if name == "commits":
            table, expected = (each.sort_by("log_offset") for each in (table, expected))
        assert table.to_pylist() == expected.to_pylist(), name


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("explain", {}, []),
        ("explain", {"flap_count": 5}, ["--flap-count", 5]),
        ("audit", {}, []),
        ("undo", {"at": MIDDLE}, ["--at", MIDDLE]),
        ("expire", {}, []),
        ("growth", {}, []),
        ("lag", {"ends": ENDS}, ["--end-offsets", "ends.txt"]),
    ],
)
def test_an_answer_is_that_of_the_command(basic, tmp_path, name, arguments, options):
    (tmp_path / "ends.txt").write_text(FILE)
    names = ["--all-groups"] if name == "undo" else []
    to = ("--format", "parquet", "--out", "answer.parquet", "--engine", "local")
    assert coterie(name, basic, *names, *options, *to, cwd=tmp_path).returncode == (name == "audit")
    table = getattr(read(basic), name)(**arguments)
    expected = pq.read_table(tmp_path / "answer.parquet")
    assert table.num_rows > 0
    assert table.to_pylist() == expected.to_pylist()
    assert table.column_names == expected.column_names


def test_groups_and_times_select(basic):
    for group in (GROUP, [GROUP]):
        log = read(str(basic), group=group)
        assert {*log.groups["group_id"].to_pylist()} == {GROUP}
        assert {*log.explain()["group_id"].to_pylist()} == {GROUP}
    moment = datetime(2026, 11, 21, 5, 3, 1, tzinfo=UTC)
    for at in (moment, MIDDLE, round(moment.timestamp() * 1000)):
        log = read(basic, group=GROUP, at=at)
        assert max(log.explain()["timestamp"].to_pylist()) <= moment
        assert log.members.num_rows == 1


def test_paths_may_be_folders_segments_lists_and_file_urls(basic):
    (folder,) = [path for path in basic.iterdir() if path.name.endswith("-28")] or [
        sorted(basic.glob("__consumer_offsets-*"))[0]
    ]
    segments = sorted(folder.glob("*.log"))
    rows = read(folder).records
    assert rows.num_rows > 0
    for log in (str(folder), segments, [str(path) for path in segments], folder.as_uri()):
        assert read(log).records.num_rows == rows.num_rows
    assert read(segments[0]).records.num_rows <= rows.num_rows


def test_a_compacted_log_says_since_when_it_is_complete_and_corrupt_places_are_rows():
    assert read(golden_data.log("basic")).trusted_from == {}
    trusted = read(golden_data.log("compacted")).trusted_from
    assert trusted
    assert all(isinstance(since_ms, int) for since_ms in trusted.values())


def test_the_source_is_shown(basic):
    shown = repr(read(basic, group=GROUP, at=0))
    assert "OffsetsTopic" in shown
    assert str(basic) in shown
    assert GROUP in shown
    assert "1970-01-01T00:00:00.000Z" in shown


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda log: read("/nowhere"), "/nowhere: no such file or folder"),
        (lambda log: read(5), "log must be a path, or a list of paths, not 5"),
        (lambda log: read("s3a://bucket/log"), "URLs are read by Spark"),
        (lambda log: read(log, command_config="x"), "command_config is for a cluster"),
        (lambda log: read(log, group=[5]), "group must be a str"),
        (lambda log: read(log, at="noon"), "'noon' is not a time"),
        (lambda log: read(log, at="2026-01-01T00:00:00"), "has no zone"),
        (lambda log: read(log, group="none").groups, "no record of group 'none'"),
        (lambda log: read(log).explain("none"), "no record of group 'none'"),
        (lambda log: read(log).explain(flaps=5), "explain has no flaps; it takes flap_"),
        (lambda log: read(log).lag(5), "ends must be a file, or"),
        (lambda log: read("127.0.0.1:1"), "127.0.0.1:1: no connection"),
        (lambda log: scan(Path(log)), "coterie.read reads paths"),
    ],
)
def test_a_mistake_is_one_line(basic, use, says):
    with pytest.raises(CoterieError) as refused:
        use(basic)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_cluster_is_copied_first():
    pytest.importorskip("aiokafka")
    from coterie.server import Broker
    from support.server.asking import commit
    from support.server.sockets import ask, connect

    with Broker(topics={"orders": 1}) as broker:
        ask(connect(broker), "OffsetCommit", 2, commit("a", "orders", {0: 7}))
        log = read(broker.bootstrap_servers, group="a")
        assert log.source == broker.bootstrap_servers
        assert log.offsets.select(["topic", "offset"]).to_pylist() == [
            {"topic": "orders", "offset": 7}
        ]
