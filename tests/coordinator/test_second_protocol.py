"""Groups of another protocol on the same runtime: no classic part touches them.

The other protocol's part (second_protocol.pyx) is compiled here, against the core's declarations.
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
    """A coordinator with a group, and the other part with one, whose timer is due at 5000."""
    coordinator = GroupCoordinator(CONFIG)
    other = second_protocol.Other(coordinator._core)
    coordinator.offset_commit("classic", {("t", 0): 7})
    other.hold("other", 1, 5000)
    coordinator.take_events()
    return coordinator, other


def test_a_timer_of_another_protocol_fires_on_the_same_clock(both):
    coordinator, other = both
    coordinator.advance(4999)
    assert other.told == []
    coordinator.advance(6000)
    assert other.told == [("fired", 1, "other", 5000)]


def test_what_goes_through_all_groups_goes_through_the_classic_ones(both):
    coordinator, other = both
    assert [group.group_id for group in coordinator.list_groups().groups] == ["classic"]
    coordinator.cleanup()
    coordinator.delete_partitions([("t", 0)])  # the only offset: the classic group ends
    assert [event for event in coordinator.events if isinstance(event, Append)]
    assert coordinator.list_groups().groups == ()
    assert other.held() == ["other"]


def test_a_group_of_another_protocol_is_none_to_who_asks_for_it(both):
    coordinator, other = both
    assert coordinator.snapshot("other") is None
    assert coordinator._core.all_groups() == [coordinator._core.group("classic")]
    assert coordinator.describe_group("other").state == "Dead"
    assert coordinator.heartbeat("other", 1, "m").error is Error.UNKNOWN_MEMBER_ID
    (deleted,) = coordinator.delete_groups(["other"]).groups
    assert deleted.error is Error.GROUP_ID_NOT_FOUND
    assert coordinator.offset_delete("other", [("t", 0)]).error is Error.GROUP_ID_NOT_FOUND
    with pytest.raises(CoterieError, match="'other' is a group of another protocol"):
        coordinator.offset_commit("other", {("t", 0): 1})
    assert other.held() == ["other"]


@pytest.mark.parametrize("partition", [None, *range(4)])
def test_each_part_gives_up_its_own_groups(both, partition):
    coordinator, other = both
    coordinator.resign(partition)
    for group_id, left in (("other", other.held()), ("classic", coordinator._core.all_groups())):
        gone = partition in (None, partition_for(group_id, 4))
        assert len(left) == (not gone)
    assert other.told == [("resigned", -1 if partition is None else partition)]


def test_each_part_reads_the_same_folded_log(second_protocol):
    coordinator = GroupCoordinator(CONFIG)
    coordinator.offset_commit("classic", {("t", 0): 7})
    log = [*coordinator.log, Batch(50, records=((NEWER_KEY, b"\0\0\0\0\0\1"),))]
    coordinator = GroupCoordinator(CONFIG, log=log)
    other = second_protocol.Other(coordinator._core)
    coordinator.failover()
    assert other.told == [("resigned", -1), ("loaded", {3: 1}, True)]
    assert coordinator.offset_fetch("classic").partitions[0].offset == 7
    partition = partition_for("classic", 4)
    coordinator.resign(partition), coordinator.begin_load(partition)
    coordinator.finish_load(partition)
    assert other.told[-1] == ("loaded", {}, partition_for("other", 4) == partition)


def test_a_log_that_does_not_load_is_loaded_by_no_part(second_protocol):
    broken = Batch(0, records=((b"\0\2\0\1g", b"\0\x09"),))
    coordinator = GroupCoordinator(CONFIG, log=[broken])
    other = second_protocol.Other(coordinator._core)
    coordinator.failover()
    assert coordinator.load_error is not None
    assert other.told == [("resigned", -1)]
