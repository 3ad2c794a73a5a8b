"""Incidents in which records are skipped, repeated, or not processed.

`record_incidents.py` runs them; each docstring is the page beside the recording.
"""

from time import sleep

from recorders.native_members import NativeMember
from recorders.observing import (
    await_removed,
    end_offsets,
    first_records,
    jumps,
    last_commit,
    offsets_of,
    traffic,
)

EXPIRING = "offsets.retention.minutes=1\noffsets.retention.check.interval.ms=5000\n"


def skipped_records(run):
    """Records that groups never read, or read twice, and a partition that stands still.

    `orders` has 4 partitions and gets 10 records a second in each; `clicks` has 2 and gets none
    after the start; `quiet` has one, with ten records. Offsets expire a minute after their group
    has become empty. Each member commits every 2 s the positions of all its partitions.

    - `steady`: one member on `orders` and `quiet`, all the time, nothing goes wrong. It has read
      all of `quiet`: that offset stands still because nobody writes.
    - `away-latest`: one member leaves, its offsets expire, it comes back with
      `auto.offset.reset=latest` and skips the records in between.
    - `away-earliest`: the same with `earliest`: it reads the records before its last commit again.
    - `set-forward`: one member leaves, kafka-consumer-groups shifts its offsets by 80 (or to the
      end, if that comes before), it returns. `set-back`: the same with -60.
    - `seeking`: a slow member, which lags, seeks forward in one partition while it works.
    - `trimmed`: one member on `clicks` leaves at 50; then the records before 120 are deleted
      from the topic, so that it resumes there (offset out of range, `earliest`).
    - `stuck`: two members; one cannot process record 40 of `orders-2`, tries it again and again,
      and commits 40 each time. All other partitions go forward.
    - `was-stuck`: one member; the same at record 60 of `orders-0`, which it goes past after a
      while.

    `findings` in `truth.json` has for each skip and repeat: the last commit before it, the first
    record that the client got after it, and how many in between it never read or read again; for
    expired offsets the interval in which they went, as OffsetFetch showed it. A finding of a stall
    has the offset, when a commit first had it, and when the client went past it.
    """
    run.topics(orders=4, clicks=2, quiet=1)
    run.produce(orders=[100] * 4, clicks=[50, 50], quiet=[10])
    options = {"commit_s": 2}
    with traffic(run, orders=(4, 10)):
        run.start("steady-1", "steady", ["orders", "quiet"], **options)
        away = {
            group: run.start(f"{group}-1", group, ["orders"], **options)
            for group in ("away-latest", "away-earliest", "set-forward", "set-back")
        }
        trimmed = run.start("trimmed-1", "trimmed", ["clicks"], **options)
        seeking = run.start("seeking-1", "seeking", ["orders"], records=2, **options)
        stuck = {"orders-2": 40}
        for n in (1, 2):
            run.start(f"stuck-{n}", "stuck", ["orders"], stuck_at=stuck, **options)
        past = {"orders-0": 60}
        was_stuck = run.start("was-stuck-1", "was-stuck", ["orders"], stuck_at=past, **options)
        for member in run.members:
            member.await_("committed")
        sleep(8)
        for member in (*away.values(), trimmed):
            member.order("commit", "committed")
            run.leave(member)
        run.produce(clicks=[100, 100])
        trim(run)
        trimmed_back = run.member("trimmed-2", "trimmed", ["clicks"], **options)
        set_by_tool(run, away)
        seek_forward(run, seeking)
        firsts = first_records(trimmed_back, 2)
        jumps(run, "skip", "trimmed", last_commit(trimmed), firsts, why="records deleted")
        sleep(5)
        run.note("told to go past", member="was-stuck-1")
        went = was_stuck.order("go past", "go past")
        expire_and_return(run, away)
        sleep(10)
    write_stalls(run, went, (("stuck", "orders-2", 40), ("was-stuck", "orders-0", 60)))
    sleep(4)
    run.sample("at the end")
    run.copy("log")


def stalls(run):
    """Partitions that stand still for more than a minute, while others of their topic go forward.

    `orders` has 4 partitions and gets 10 records a second in each; `seldom` has 2 and gets records
    in the first of them only, after half a minute. Each member commits every 2 s the positions of
    all its partitions.

    - `steady`: one member on both topics; nothing goes wrong.
    - `stuck`: two members; one cannot process record 500 of `orders-2`, tries it again and again,
      and commits 500 each time, until the end.
    - `was-stuck`: one member; the same at record 500 of `orders-0`, which it goes past after
      80 s.

    `findings` in `truth.json` has for each stall the offset, when a commit first had it, when the
    client went past it, and the member that owned the partition.
    """
    run.topics(orders=4, seldom=2)
    run.produce(orders=[100] * 4, seldom=[10, 10])
    options = {"commit_s": 2}
    with traffic(run, orders=(4, 10)):
        run.start("steady-1", "steady", ["orders", "seldom"], **options)
        for n in (1, 2):
            stuck = {"orders-2": 500}
            run.start(f"stuck-{n}", "stuck", ["orders"], stuck_at=stuck, **options)
        past = {"orders-0": 500}
        was_stuck = run.start("was-stuck-1", "was-stuck", ["orders"], stuck_at=past, **options)
        sleep(30)
        run.produce(seldom=[100, 0])
        while last_commit(was_stuck).get("orders-0") != 500:
            sleep(1)
        sleep(80)
        run.note("told to go past", member="was-stuck-1")
        went = was_stuck.order("go past", "go past")
        sleep(20)
    write_stalls(run, went, (("stuck", "orders-2", 500), ("was-stuck", "orders-0", 500)))
    sleep(4)
    run.copy("log")


def trim(run):
    """Delete the records before 120 of `clicks`."""
    from kafka.structs import TopicPartition

    before = {TopicPartition("clicks", n): 120 for n in (0, 1)}
    run.admin.delete_records(before)
    run.note("records deleted", topic="clicks", before=120)


def set_by_tool(run, away):
    for group, shift in (("set-forward", 80), ("set-back", -60)):
        reset = ("--reset-offsets", "--group", group, "--shift-by", shift, "--topic", "orders")
        run.groups_tool(*map(str, reset), "--execute")
        member = run.member(f"{group}-2", group, ["orders"], commit_s=2)
        kind = "skip" if shift > 0 else "repeat"
        committed, firsts = last_commit(away[group]), first_records(member, 4)
        jumps(run, kind, group, committed, firsts, why="kafka-consumer-groups")


def seek_forward(run, member):
    """Tell a member that lags to seek forward in the partition in which it lags most."""
    ends = end_offsets(run, "orders")
    committed = last_commit(member)
    place = min(committed, key=committed.get)
    target = committed[place] + 80
    partition = int(place[-1])
    assert target < ends[partition], "it does not lag enough"
    sought = member.order(f"seek {place} {target}", "sought")
    before = sought["before"]
    found = {"committed": committed[place], "resumed": target, "records": target - before}
    where = {"topic": "orders", "partition": partition, "position": before}
    run.finding("skip", "seeking", **where, **found, at_ms=sought["at_ms"], why="seek")


def expire_and_return(run, away):
    for group, kind, reset in (
        ("away-latest", "skip", "latest"),
        ("away-earliest", "repeat", "earliest"),
    ):
        committed = last_commit(away[group])
        assert offsets_of(run, group) in (committed, {}), "the tool and the client disagree"
        between_ms = await_removed(run, group)
        member = run.member(f"{group}-2", group, ["orders"], commit_s=2, reset=reset)
        details = {"why": "offsets expired", "reset": reset, "removed_between_ms": between_ms}
        jumps(run, kind, group, committed, first_records(member, 4), **details)


def write_stalls(run, went, stalled):
    """Record two stalls: since when the commits have the offset, and until when."""
    for group, place, at in stalled:
        same = [
            (event["at_ms"], member.name)
            for member in run.members
            if member.what["group"] == group
            for event in member.seen
            if event["event"] == "committed" and event["offsets"].get(place) == at
        ]
        until_ms = went["at_ms"] if group == "was-stuck" else None
        times = {"since_ms": min(same)[0], "until_ms": until_ms, "commits": len(same)}
        where = {"topic": "orders", "partition": int(place[-1]), "offset": at}
        run.finding("stall", group, **where, **times, member=max(same)[1])


INCIDENTS = {
    "stalls": (stalls, {"kind": NativeMember}),
    "skipped-records": (skipped_records, {"settings": EXPIRING, "kind": NativeMember}),
    "skipped-records-4": (
        skipped_records,
        {"settings": EXPIRING, "kind": NativeMember, "version": "4.1.1"},
    ),
}
