"""Rows, tables and documents of hand-made records at their limits."""

import json
import struct

import pytest

from coterie import CoterieError, PartialState, ScanOptions, merge, scan
from coterie._core.codec.schema import encode_value
from coterie._core.fold.fold_state import Scanned
from coterie.log.folders import find_segments, read_segment
from coterie.log.trust import trusted_from
from coterie.state import history as history_module
from coterie.state import output_files as files
from coterie.state import tables
from coterie.state.consumer_protocol_groups import newer_groups
from coterie.state.document import document_groups
from coterie.state.faults import fault_line
from coterie.state.history import COMMIT_FIELDS, commit_rows, commits_table
from coterie.state.local_replay import replay
from coterie.state.replay_engine import ReplayRequest, Silent, read_of, summarize
from support.log_writer import batch, commit, commit_key, group_key, group_value, text
from support.state.newer_records import A, B, epochs, member, put, tops

ASTRAL, LAST = "\U00010000", "\uffff"  # Java: the first of D800 DC00 stands before FFFF


def with_expiry(expires):
    """A commit of value version 1."""
    value = struct.pack(">hq", 1, 7) + text(b"") + struct.pack(">qq", 5, expires)
    return 5, commit_key(1, b"g", b"t", 0), value


def scanned(*records, partition=0, **options):
    return scan(batch(0, list(records)), partition=partition, options=ScanOptions(**options))


def opened(base_offset, producer_id, **fields):
    """A commit of a transaction without a marker."""
    return batch(base_offset, [commit(5, **fields)], producer_id=producer_id, transactional=True)


@pytest.mark.parametrize(("expires", "shown"), [(-1, None), (-2, -2), (0, 0), (9, 9)])
def test_an_expiry_is_none_only_where_it_is_minus_1(expires, shown):
    state = scanned(with_expiry(expires), history=True)
    (group,) = state.groups()
    assert [offset["expire_timestamp"] for offset in group["offsets"]] == [shown]
    (line,) = commit_rows(0, state.fold(0).history)
    assert line[10] == shown
    pa = pytest.importorskip("pyarrow")
    for table in (state.to_arrow()["offsets"], state.to_arrow()["commits"]):
        assert table["expire_timestamp"].cast(pa.int64()).to_pylist() == [shown]


def test_a_commit_at_the_time_0_has_a_time():
    pa = pytest.importorskip("pyarrow")
    state = scanned(commit(0), history=True)
    history = state.fold(0).history
    assert [row[3] for row in commit_rows(0, history)] == [0]
    assert commits_table(0, history)["timestamp"].cast(pa.int64()).to_pylist() == [0]


def test_metadata_is_each_offsets_own_in_every_chunk_of_a_table(monkeypatch):
    pytest.importorskip("pyarrow")
    texts = [b"", b"one", b"", b"three", b"four"]
    monkeypatch.setattr(tables, "ROWS_PER_CHUNK", 2)
    state = scanned(*(commit(5, partition=n, metadata=text) for n, text in enumerate(texts)))
    rows = state.to_arrow()["offsets"]
    assert rows["metadata"].to_pylist() == [text.decode() for text in texts]


def test_each_chunk_of_a_history_has_its_own_rows(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(history_module, "ROWS_PER_CHUNK", 2)
    commits = [commit(5 + n, 9 - n, partition=n, metadata=b"m" * n) for n in range(5)]
    gone = [(20 + n, commit_key(1, b"g", b"t", n), None) for n in range(2)]
    history = scanned(*commits, *gone, history=True).fold(0).history
    table = commits_table(7, history)
    times = {"timestamp", "commit_timestamp", "expire_timestamp"}
    columns = [
        (table[name].cast(pa.int64()) if name in times else table[name]).to_pylist()
        for name in COMMIT_FIELDS
    ]
    assert list(zip(*columns, strict=True)) == list(commit_rows(7, history))
    assert table["partition"].to_pylist() == [0, 1, 2, 3, 4, 0, 1]
    assert table["expire_timestamp"].null_count == len(table) == 7


def test_metadata_of_a_group_that_is_asked_for_is_its_own_behind_one_that_is_not():
    state = scanned(commit(5, group=b"a", metadata=b"of a"), commit(5, group=b"b", metadata=b"b's"))
    first, second = state.groups(offsets_of={"b"})
    assert first["offsets"] == []
    assert [offset["metadata"] for offset in second["offsets"]] == ["b's"]


def test_pending_transactions_stand_by_producer_and_their_offsets_by_place():
    data = opened(0, 9) + opened(1, 5, partition=2) + opened(2, 5, partition=1)
    (group,) = scan(data, partition=0).groups()
    rows = [
        (record["producer_id"], [offset["partition"] for offset in record["offsets"]])
        for record in group["pending_transactional_offsets"]
    ]
    assert rows == [(5, [1, 2]), (9, [0])]


def test_commits_that_no_marker_decides_stand_by_their_place_in_the_log():
    data = opened(0, 9) + opened(1, 5) + opened(2, 9)
    state = scan(data, partition=0, options=ScanOptions(history=True))
    history = state.fold(0).history
    assert list(commit_rows(0, history)) == []
    assert [row[2] for row in commit_rows(0, history.pending())] == [0, 1, 2]


def test_groups_and_members_stand_as_java_sorts_them():
    names = [LAST, ASTRAL]
    values = group_value(1, [name.encode() for name in names])
    state = scanned(*((5, group_key(name.encode()), values) for name in names))
    assert [group["group_id"] for group in state.groups()] == [ASTRAL, LAST]
    for group in state.groups():
        assert [member["member_id"] for member in group["members"]] == [ASTRAL, LAST]


def test_the_first_member_leads_where_a_record_names_no_leader():
    member = {"groupInstanceId": None, "clientId": "c", "clientHost": "/h", "subscription": b""}
    member |= {"rebalanceTimeout": 1, "sessionTimeout": 2, "assignment": b""}
    data = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": None}
    data |= {"currentStateTimestamp": 3}
    data["members"] = [member | {"memberId": name} for name in ("b", "a", "c")]
    value = encode_value(2, {"version": 3, "data": data})
    (group,) = scanned((5, group_key(b"g"), value)).groups()
    assert group["leader"] == "b"  # GroupMetadata.add: the first member


def test_faults_stand_by_partition_whatever_came_first():
    pytest.importorskip("pyarrow")
    broken = [scan(b"\xff" * 20, partition=number, file=str(number)) for number in (7, 3)]
    rows = merge(broken).to_arrow()["faults"]
    assert rows["offsets_partition"].to_pylist() == [3, 7]


@pytest.mark.parametrize(
    "other",
    [
        {"on_fault": "load"},
        {"at_ms": 5},
        {"groups": frozenset("g")},
        {"history": True},
    ],
)
def test_states_that_were_scanned_with_other_options_do_not_merge(other):
    with pytest.raises(CoterieError, match="different options"):
        merge([PartialState(), PartialState(ScanOptions(**other))])


def test_a_type_is_told_where_one_partition_of_several_holds_a_newer_group():
    newer = struct.pack(">h", 3) + text(b"n"), struct.pack(">hi", 0, 1) + b"\0"
    states = [scanned(commit(5), partition=0), scanned((5, *newer), partition=1)]
    assert [group["type"] for group in document_groups(merge(states))] == ["classic", "consumer"]
    assert ["type" in group for group in document_groups(states[0])] == [False]


def test_records_of_an_unknown_version_are_counted_over_all_partitions():
    odd = (5, struct.pack(">h", 77), b"")
    states = [scanned(*[odd] * count, partition=count) for count in (1, 2)]
    assert summarize(read_of(merge(states)), 0).unknown_versions == {77: 3}


def test_unknown_versions_rise_in_the_summary_and_its_text_has_no_pieces():
    odd = [(5, struct.pack(">h", version), b"") for version in (99, 78, 77)]
    summary = summarize(read_of(scanned(*odd)), 0)
    assert list(summary.unknown_versions) == [77, 78, 99]
    assert len(summary.pieces[0]) == 1
    assert "Scanned" not in repr(summary)


@pytest.mark.parametrize("at_ms", [2**63, -(2**63) - 1])
def test_a_time_has_64_bits(at_ms):
    with pytest.raises(CoterieError, match="at_ms must fit 64 bits"):
        ScanOptions(at_ms=at_ms)
    assert ScanOptions(at_ms=min(max(at_ms, -(2**63)), 2**63 - 1)).at_ms is not None


def test_a_partition_has_31_bits():
    for number in (0, 2**31 - 1):
        assert scanned(commit(5), partition=number).numbers() == [number]
    for number in (-1, 2**31):
        with pytest.raises(CoterieError, match="partition must be from 0"):
            scanned(commit(5), partition=number)
        state = scanned(commit(5), partition=0)
        state.partitions[number] = state.partitions.pop(0)
        with pytest.raises(CoterieError, match="partition must be from 0"):
            state.numbers()


def test_a_state_keeps_what_was_asked_for_and_no_more():
    pytest.importorskip("pyarrow")
    assert "commits" not in scanned(commit(5)).to_arrow()
    assert "commits" in scanned(commit(5), history=True).to_arrow()
    assert ScanOptions().new_fold().survey is None


def test_tables_stand_by_group_as_utf8_bytes_sort():
    pytest.importorskip("pyarrow")
    names = [ASTRAL, "b", LAST, "a"]  # in UTF-8: EF BF BF stands before F0 90 80 80
    lives = [(5, group_key(name.encode()), group_value(1, [b"m"])) for name in names]
    for rows in (
        scanned(*lives, *(commit(5, group=name.encode()) for name in names)).to_arrow().values()
    ):
        if rows.num_rows:
            assert rows["group_id"].to_pylist() == ["a", "b", LAST, ASTRAL]


def test_a_fault_of_a_record_names_its_own_offset_not_its_batchs():
    (fault,) = scanned(commit(5), (6, b"\0", b"")).fold(0).faults
    assert fault_line(fault._replace(file="f")).startswith("f: byte 0, offset 1: key: ")


def test_the_active_segment_begins_with_the_first_of_its_pieces():
    def piece(file, position, first, last, since_ms, until_ms):
        return Scanned(file, position, 10, 1, 1, first, last, until_ms, False, since_ms)

    active = [piece("9", 0, 9, 9, 300, 350), piece("9", 10, 10, 12, 360, 400)]
    assert trusted_from([piece("0", 0, 0, 4, 100, 200), *active]) == 300


# ---- files


def in_folder(folder, number, *batches):
    folder = folder / f"__consumer_offsets-{number}"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def replayed(tmp_path, **options):
    (tmp_path / "out").mkdir()
    request = (str(tmp_path / "log"),), tmp_path / "out", "parquet", ScanOptions(**options)
    replay(ReplayRequest(*request), Silent())
    pq = pytest.importorskip("pyarrow.parquet")
    return {path.stem: pq.read_table(path) for path in (tmp_path / "out").iterdir()}


def test_commits_of_a_transaction_without_an_end_are_in_the_history(tmp_path):
    in_folder(tmp_path / "log", 0, opened(0, 5))
    assert replayed(tmp_path, history=True)["commits"]["outcome"].to_pylist() == ["pending"]


def test_a_history_read_in_pieces_has_each_commit_once_under_its_own_names(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from coterie.state.schemas import SCHEMAS

    names = ["a", "b", "c", "b", "d", "a"]
    commits = [
        commit(5, group=name.encode(), topic=f"of {name}".encode(), partition=at)
        for at, name in enumerate(names)
    ]
    in_folder(
        tmp_path / "log", 0, *(batch(at, commits[at : at + 2]) for at in range(0, len(names), 2))
    )
    monkeypatch.setattr("coterie.state.parallel_scan.HISTORY_PIECE_BYTES", 1)
    table = replayed(tmp_path, history=True)["commits"]
    assert table.schema == SCHEMAS["commits"]()
    rows = [(row["partition"], row["group_id"], row["topic"]) for row in table.to_pylist()]
    assert rows == [(at, name, f"of {name}") for at, name in enumerate(names)]


@pytest.mark.parametrize(("on_fault", "count"), [("skip", 2), ("recover", 0), ("load", 0)])
def test_no_generation_is_written_that_a_later_fault_takes_back(
    tmp_path, monkeypatch, on_fault, count
):
    monkeypatch.setattr(files, "GENERATIONS_BUFFERED", 0)
    monkeypatch.setattr("coterie.state.parallel_scan.SCAN_PIECE_BYTES", 1)
    lives = [batch(at, [(at, group_key(b"g"), group_value(at + 1, [b"m"]))]) for at in range(2)]
    in_folder(tmp_path / "log", 0, *lives, batch(2, [(9, b"\0", b"")]))
    rows = replayed(tmp_path, on_fault=on_fault)
    assert rows["generations"].num_rows == count
    assert rows["faults"]["kind"].to_pylist() == ["key"]


def test_a_log_is_whole_where_segments_follow_and_an_empty_one_shows_what_the_last_has_lost(
    tmp_path,
):
    pairs = [batch(at, [commit(at + 5), commit(at + 6)]) for at in (0, 2)]
    for number, last, trusted in ((0, (2, pairs[1]), {}), (1, (2, b""), {}), (2, (3, b""), {2: 6})):
        home = tmp_path / str(number)
        folder = in_folder(home / "log", number, pairs[0])
        (folder / f"{last[0]:020}.log").write_bytes(last[1])
        (home / "out").mkdir()
        request = ReplayRequest((str(home / "log"),), home / "out", "json", ScanOptions())
        summary = replay(request, Silent())
        assert (summary.files, summary.trusted_from_ms) == (2, trusted), number


def test_partitions_from_100_on_are_found_in_order_of_their_number(tmp_path):
    for number in (1000, 20, 100, 3):
        in_folder(tmp_path, number, batch(0, [commit(5)]))
    assert list(find_segments([tmp_path]).partitions()) == [3, 20, 100, 1000]


def test_all_members_of_a_gzip_file_are_read(tmp_path):
    import gzip

    data = [batch(0, [commit(5)]), batch(1, [commit(6)])]
    folder = in_folder(tmp_path, 0)
    (folder / f"{0:020}.log").unlink()
    (folder / f"{0:020}.log.gz").write_bytes(b"".join(map(gzip.compress, data)))
    (segment,) = find_segments([tmp_path]).segments
    assert bytes(read_segment(segment)) == b"".join(data)


# ---- newer groups


def newer_row(assignors, states=()):
    log = {}
    epochs(log, 1, 1)
    for number, name in enumerate(assignors):
        member(log, f"m{number}", ["t"], epoch=1, serverAssignor=name)
    for number, state in enumerate(states):
        member(log, f"s{number}", ["t"], epoch=1, state=state)
    return newer_groups(log)["g"]


def test_of_two_assignors_with_as_many_votes_the_first_by_name_is_shown():
    assert newer_row(["uniform", "range"])["protocol"] == "range"
    assert newer_row(["range", "uniform"])["protocol"] == "range"


def test_a_member_state_beyond_those_that_are_known_is_unknown():
    states = [member["member_state"] for member in newer_row([], [0, 2, 3, 127, -1])["members"]]
    known = ["stable", "unreleased_partitions"]
    assert states == [*known, "unknown", "unknown", "unknown"]


def test_what_a_member_has_yet_to_give_up_stands_beside_what_it_holds():
    log = {}
    epochs(log, 1, 1)
    record = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 1}
    record |= {"assignedPartitions": tops([A]), "partitionsPendingRevocation": tops([B])}
    put(log, 8, record, memberId="m")
    (row,) = newer_groups(log)["g"]["members"]
    assert [topic["topic_id"] for topic in row["current_assignment"]] == [A]
    assert [topic["topic_id"] for topic in row["pending_revocation"]] == [B]


def test_a_document_has_names_as_they_are(tmp_path):
    in_folder(tmp_path / "log", 5, batch(3, [commit(5, group="\u00fc".encode())]))
    (tmp_path / "out").mkdir()
    request = (str(tmp_path / "log"),), tmp_path / "out", "json", ScanOptions(history=True)
    replay(ReplayRequest(*request), Silent())
    for name in ("groups.json", "commits.jsonl"):
        assert "\u00fc" in (tmp_path / "out" / name).read_text(encoding="utf-8")


def test_a_document_says_its_numbers_as_json(tmp_path):
    """From the first record of the first segment that has any to the last one of the last."""
    batches = [batch(at, [commit(5), commit(6)]) for at in (3, 5, 8)]
    folder = in_folder(tmp_path / "log", 5)
    for base_offset, data in ((1, b""), (3, batches[0] + batches[1]), (8, batches[2]), (10, b"")):
        (folder / f"{base_offset:020}.log").write_bytes(data)
    in_folder(tmp_path / "log", 7)
    (tmp_path / "out").mkdir()
    request = (str(tmp_path / "log"),), tmp_path / "out", "json", ScanOptions()
    replay(ReplayRequest(*request), Silent())
    first, empty = json.loads((tmp_path / "out/groups.json").read_text())["partitions"]
    assert first == {
        "partition": 5,
        "log_start_offset": 3,
        "log_end_offset": 10,
        "bytes": sum(map(len, batches)),
        "messages": [],
    }
    assert empty == {
        "partition": 7, "log_start_offset": 0, "log_end_offset": 0, "bytes": 0, "messages": [],
    }  # fmt: skip
