"""What `coterie groups --at` says of a log that was compacted after that time."""

import subprocess

import pytest

from coterie.base.times import format_time
from coterie.messages import partition_for
from support.commandline import COTERIE, coterie, coterie_ok
from support.log_writer import commit, each

LATE = 1_796_133_900_123  # far from 0, where a unit shows
WHOLE = LATE + 3_000  # since then nothing is missing
NAMES = [f"gone{number}" for number in range(20)]


def log_of(folder, *partitions):
    """Write a log of which only the first partition was compacted: it lacks the offsets 1 to 8."""
    gap = [*each(0, commit(LATE)), *each(9, commit(WHOLE))]
    for number in partitions:
        place = folder / f"__consumer_offsets-{number}"
        place.mkdir()
        data = gap if number == partitions[0] else each(0, commit(LATE, group=b"h"))
        (place / f"{0:020}.log").write_bytes(b"".join(data))
    return folder


def in_partition(number):
    """The id of a group that is in a partition of two, but has no record."""
    return next(name for name in NAMES if partition_for(name, 2) == number)


@pytest.mark.parametrize(("at_ms", "is_whole"), [(WHOLE - 1, False), (WHOLE, True)])
def test_a_partition_is_named_before_the_time_since_which_it_is_whole(tmp_path, at_ms, is_whole):
    err = coterie_ok("groups", log_of(tmp_path, 0, 1), "--list", "--at", at_ms).stderr
    line = f"coterie: partition 0: trusted since {format_time(WHOLE)}; compacted before\n"
    assert err == line * (not is_whole)


def test_the_note_of_a_list_comes_after_it_in_one_stream(tmp_path):
    program, *command = COTERIE
    command += ["groups", str(log_of(tmp_path, 0)), "--list", "--at", str(WHOLE - 1)]
    done = subprocess.run(
        [program, "-u", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["g", "coterie:"]


@pytest.mark.parametrize(
    ("partitions", "name", "at_ms", "may_be_lost"),
    [
        ((0, 1), in_partition(0), WHOLE - 1, True),
        ((0, 1), in_partition(1), WHOLE - 1, False),  # its partition is whole
        ((0, 1), in_partition(0), WHOLE, False),
        ((0, 2), in_partition(0), WHOLE - 1, True),  # of how many partitions is not known,
        ((0, 2), in_partition(1), WHOLE - 1, True),  # and so not in which the group is
        ((0, 2), in_partition(1), WHOLE, False),
    ],
)
def test_a_group_without_a_record_may_be_lost_where_its_partition_was_compacted(
    tmp_path, partitions, name, at_ms, may_be_lost
):
    log = log_of(tmp_path, *partitions)
    ran = coterie("groups", log, "--describe", "--group", name, "--at", at_ms)
    assert ran.returncode == 1
    lost = (
        f"coterie: group '{name}': no record of it up to {format_time(at_ms)} is left; the log "
        "was compacted, so whether it existed then is not known"
    )
    missing = f"Error: Consumer group '{name}' does not exist."
    assert (lost if may_be_lost else missing) in ran.stderr
    assert (missing if may_be_lost else lost) not in ran.stderr
