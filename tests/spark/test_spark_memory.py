"""A worker returns freed memory to the system, because its next task runs in the same process."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
from coterie.base import malloc_trim
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.memory import give_back

BLOCKS, BLOCK_BYTES = 100_000, 1_000  # beyond the sizes for which Python has arenas of its own


def anonymous_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def freed_under_a_block_that_lives():
    """Free a hundred megabytes of the heap below a block that stays allocated."""
    blocks = [bytes([number & 255]) * BLOCK_BYTES for number in range(BLOCKS)]
    return blocks[-1]


@pytest.fixture
def glibc():
    if sys.platform != "linux" or not malloc_trim.can_trim():
        pytest.skip("no glibc")


def test_the_heap_that_was_freed_goes_back(glibc):
    give_back()
    before = anonymous_bytes()
    top = freed_under_a_block_that_lives()
    assert anonymous_bytes() > before + BLOCKS * BLOCK_BYTES // 2, "it would go back by itself"
    give_back()
    assert anonymous_bytes() < before + BLOCKS * BLOCK_BYTES // 4
    assert len(top) == BLOCK_BYTES


def test_a_task_gives_back_when_it_ends_and_when_it_fails(monkeypatch):
    calls = []
    monkeypatch.setattr("coterie_spark.replay_job.memory.give_back", lambda: calls.append(1))
    assert list(shipped(iter)([1, 2])) == [1, 2]
    assert len(calls) == 1
    with pytest.raises(ZeroDivisionError):
        list(shipped(lambda numbers: (1 // number for number in numbers))([0]))
    assert len(calls) == 2
