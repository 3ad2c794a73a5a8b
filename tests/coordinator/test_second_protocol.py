"""Groups of another protocol on the same runtime: who decides, and what both share.

The other protocol (second_protocol.pyx) is compiled here, against the core's declarations.
"""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from coterie import Append, Batch, CoterieError, Error, GroupCoordinator
from coterie.messages import partition_for

TESTS = Path(__file__).parents[1]
CONFIG = {"offsets.topic.num.partitions": 4}
NEWER_KEY = b"\0\3\0\5other"  # ConsumerGroupMetadataKey, of version 3


@pytest.fixture(scope="module")
def second_protocol(tmp_path_factory):
    """The compiled module; skipped where the core's declarations or a compiler are missing."""
    compiler = (sysconfig.get_config_var("LDSHARED") or "cc -shared").split()
    if importlib.util.find_spec("Cython") is None or not shutil.which(compiler[0]):
        pytest.skip("needs Cython and a C compiler")
    if not (TESTS.parent / "src").is_dir():
        pytest.skip("needs the sources of the core")
    folder = tmp_path_factory.mktemp("second")
    code, library = folder / "second_protocol.c", folder / "second_protocol.so"
    include = [f"-I{path}" for path in (sysconfig.get_path("include"), TESTS.parent / "src/c")]
    for command in (
        [sys.executable, "-m", "cython", "-3", "-I", TESTS.parent / "src",
         TESTS / "support/second_protocol.pyx", "-o", code],
        [*compiler, "-fPIC", "-O0", *include, code, "-o", library],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location("second_protocol", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def both(second_protocol):
    """A coordinator with a classic group, and the other protocol with one, its timer at 5000."""
    coordinator = GroupCoordinator(CONFIG)
    other = second_protocol.ConsumerProtocol(coordinator._core)
    coordinator.offset_commit("classic", {("t", 0): 7})
    other.add("other", 1, 5000)
    coordinator.take_events()
    return coordinator, other


def tombstones(coordinator):
    """The keys of the records without a value since the last call."""
    events = [event for event in coordinator.take_events() if isinstance(event, Append)]
    return [(event.group_id, event.key) for event in events if event.value is None]


def test_a_timer_of_another_protocol_fires_on_the_same_clock(both):
    coordinator, other = both
    coordinator.advance(4999)
    assert other.calls == []
    coordinator.advance(6000)
    assert other.calls == [("fired", 1, "other", 5000)]


def test_an_operation_goes_to_the_component_of_the_groups_type(both):
    coordinator, _ = both
    assert coordinator.heartbeat("other", 1, "m").error is Error.NONE
    assert coordinator.heartbeat("other", 2, "m").error is Error.REBALANCE_IN_PROGRESS
    assert coordinator.heartbeat("classic", 1, "m").error is Error.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("unknown", 1, "m").error is Error.UNKNOWN_MEMBER_ID


def test_an_operation_without_a_component_for_the_type_sees_no_group(both):
    coordinator, other = both
    assert coordinator.snapshot("other") is None
    assert coordinator._core.all_groups() == [coordinator._core.group("classic")]
    assert coordinator.describe_group("other").state == "Dead"
    assert coordinator.sync_group("other", 1, "m").response.error is Error.UNKNOWN_MEMBER_ID
    (left,) = coordinator.leave_group("other", ["m"]).members
    assert left.error is Error.UNKNOWN_MEMBER_ID
    with pytest.raises(CoterieError, match="'other' is a group of another protocol"):
        coordinator.join_group("other", protocol_type="consumer", protocols={"range": b""})
    assert other.group_ids() == ["other"]


@pytest.mark.parametrize(
    "op", ["heartbeat", "join_group", "offset_commit", "offset_fetch", "delete_groups"]
)
def test_a_second_component_for_an_operation_and_a_type_is_refused(both, op):
    _, other = both
    with pytest.raises(CoterieError, match=f"{op} of group type 0 has a component already"):
        other.register_again(op, 0)
    if op != "delete_groups":  # it concerns no single group
        with pytest.raises(CoterieError, match=f"{op} of group type 1 has a component already"):
            other.register_again(op, 1)
    if op not in ("delete_groups", "join_group"):
        with pytest.raises(CoterieError, match=f"{op} of group type 2 has a component already"):
            other.register_again(op, 2)


def test_a_second_protocol_of_a_type_is_refused(both):
    _, other = both
    with pytest.raises(CoterieError, match="group type 2 has a protocol already"):
        other.register_protocol_again()


def test_groups_of_every_type_use_the_same_offsets(both):
    coordinator, _ = both
    offset = {("t", 0): 8}
    (stale,) = coordinator.offset_commit("other", offset, generation_id=2).response.partitions
    assert stale.error is Error.REBALANCE_IN_PROGRESS
    assert coordinator.offset_fetch("other").partitions == ()
    (stored,) = coordinator.offset_commit("other", offset, generation_id=1).response.partitions
    assert stored.error is Error.NONE
    assert coordinator.offset_fetch("other").partitions[0].offset == 8
    coordinator.txn_offset_commit("other", {("t", 1): 9}, producer_id=5, producer_epoch=0,
                                  generation_id=1)  # fmt: skip
    assert len(coordinator.offset_fetch("other").partitions) == 1
    coordinator.end_txn(5, committed=True)
    assert [row.offset for row in coordinator.offset_fetch("other").partitions] == [8, 9]
    assert coordinator.offset_fetch("classic").partitions[0].offset == 7


def test_each_protocol_decides_when_offsets_expire_and_groups_end(both):
    coordinator, other = both
    coordinator.offset_commit("other", {("t", 0): 8, ("u", 0): 9}, generation_id=1)
    coordinator.take_events()
    coordinator.advance(1000)  # classic offsets live a week
    coordinator.cleanup()
    assert [group_id for group_id, _ in tombstones(coordinator)] == ["other"] * 2
    assert coordinator.offset_fetch("other").partitions == ()
    assert [group.group_id for group in coordinator.list_groups().groups] == ["classic", "other"]
    coordinator.offset_commit("other", {("t", 0): 8}, generation_id=1)
    coordinator.take_events()
    coordinator.delete_partitions([("t", 0)])  # the only offset: the classic group ends
    assert [group_id for group_id, _ in tombstones(coordinator)] == ["classic", "other"]
    assert other.group_ids() == ["other"]
    assert [group.group_id for group in coordinator.list_groups().groups] == ["other"]


def test_a_deleted_group_of_another_protocol_ends_with_its_offsets_and_its_own_records(both):
    coordinator, other = both
    coordinator.offset_commit("other", {("t", 0): 8}, generation_id=1)
    coordinator.take_events()
    (deleted,) = coordinator.delete_groups(["other"]).groups
    assert deleted.error is Error.NONE
    assert [key for _, key in tombstones(coordinator)][1:] == [NEWER_KEY]
    assert other.group_ids() == []
    assert coordinator.offset_fetch("other").partitions == ()


@pytest.mark.parametrize("partition", [None, *range(4)])
def test_each_protocol_gives_up_its_own_groups(both, partition):
    coordinator, other = both
    coordinator.offset_commit("other", {("t", 0): 8}, generation_id=1)
    coordinator.resign(partition)
    for group_id, left in (
        ("other", other.group_ids()),
        ("classic", coordinator._core.all_groups()),
    ):
        gone = partition in (None, partition_for(group_id, 4))
        assert len(left) == (not gone)
        assert (coordinator._core.offsets_of(group_id) is None) == gone
    assert other.calls == [("resigned", -1 if partition is None else partition)]


def test_each_protocol_reads_the_same_folded_log(second_protocol):
    coordinator = GroupCoordinator(CONFIG)
    coordinator.offset_commit("classic", {("t", 0): 7})
    log = [*coordinator.log, Batch(50, records=((NEWER_KEY, b"\0\0\0\0\0\1"),))]
    coordinator = GroupCoordinator(CONFIG, log=log)
    other = second_protocol.ConsumerProtocol(coordinator._core)
    coordinator.failover()
    assert other.calls == [("resigned", -1), ("loaded", {3: 1}, True)]
    assert coordinator.offset_fetch("classic").partitions[0].offset == 7
    partition = partition_for("classic", 4)
    coordinator.resign(partition), coordinator.begin_load(partition)
    coordinator.finish_load(partition)
    assert other.calls[-1] == ("loaded", {}, partition_for("other", 4) == partition)


def test_a_log_that_does_not_load_is_loaded_by_no_protocol(second_protocol):
    broken = Batch(0, records=((b"\0\2\0\1g", b"\0\x09"),))
    coordinator = GroupCoordinator(CONFIG, log=[broken])
    other = second_protocol.ConsumerProtocol(coordinator._core)
    coordinator.failover()
    assert coordinator.load_error is not None
    assert other.calls == [("resigned", -1)]
