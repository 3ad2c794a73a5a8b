"""Incidents in which offsets and groups are removed, and a broker whose clock went back.

`record_incidents.py` runs them; each docstring is the page beside the recording.
"""

import threading
from time import sleep

from recorders.native_members import NativeMember
from recorders.observing import await_removed, offsets_of

EXPIRING = "offsets.retention.minutes=2\noffsets.retention.check.interval.ms=2000\n"
OPS = "ops"
OPTIONS = {"settings": EXPIRING, "ops": OPS, "kind": NativeMember}


def removals(run):
    """Offsets and groups that go: by an expiration, by an administrator, with their topic.

    The administrator is the user `ops` (SASL, a listener of its own, client id `ops-console`); all
    other clients are anonymous. Offsets expire two minutes after their group has become empty.

    - `steady`: one member on `orders`, all the time.
    - `live-a` (on `orders` and `temp`), `live-b` (on `temp`): one member each, all the time.
    - `idle-a` (on `orders` and `temp`), `idle-b` (on `temp`): a member commits and leaves.
      Then the topic `temp` is deleted, and made again with 2 partitions instead of 3 and other
      records. `idle-a` comes back.
    - `last`: a member on `gone` only, which leaves. `gone` is deleted and not made again.
    - `doomed`: a member leaves, and some seconds later kafka-consumer-groups deletes the group.
    - `pair-1`, `pair-2`: deleted by one call of the tool.
    - `phoenix`: deleted like `doomed`, and used again.
    - `pruned`: one member on `orders` all the time, which used to read `clicks` too. Its offsets
      of `clicks` are deleted by kafka-consumer-groups --delete-offsets.
    - `expired`: a member leaves, and its offsets expire two minutes later, and the group with them.
    - `half-expired`: one member on `orders` all the time, which used to read `clicks` too; those
      offsets expire while the group is in use.
    - The tool tries to delete `steady`, and is refused.

    `findings` in `truth.json` has each removal with its reason: the interval in which the offsets
    went, as OffsetFetch showed it, or in which the tool was at work.
    """
    run.topics(orders=3, clicks=2, temp=3, gone=1)
    run.produce(orders=[120] * 3, clicks=[60, 60], temp=[90, 90, 90], gone=[30])
    run.member("steady-1", "steady", ["orders"], commit_s=2)
    run.start("live-a-1", "live-a", ["orders", "temp"], commit_s=2)
    run.start("live-b-1", "live-b", ["temp"], commit_s=2)
    leaving = {
        group: run.start(f"{group}-1", group, topics, commit_s=2)
        for group, topics in LEAVING.items()
    }
    for member in run.members:
        member.await_("committed")
    sleep(6)
    for member in leaving.values():
        member.order("commit", "committed")
        run.leave(member)
    for group in ("pruned", "half-expired"):
        run.start(f"{group}-2", group, ["orders"], commit_s=2)
    expirations = watch_expirations(run)
    prune(run)
    delete_groups(run)
    delete_topics(run)
    remake(run)
    refused(run)
    for thread in expirations:
        thread.join()
    run.produce(orders=[30] * 3)
    sleep(6)
    run.sample("at the end")
    run.copy("log")


LEAVING = {
    "idle-a": ["orders", "temp"],
    "idle-b": ["temp"],
    "last": ["gone"],
    "doomed": ["orders"],
    "pair-1": ["orders"],
    "pair-2": ["orders", "clicks"],
    "phoenix": ["orders"],
    "pruned": ["orders", "clicks"],
    "expired": ["orders", "clicks"],
    "half-expired": ["orders", "clicks"],
}


def delete_groups(run):
    for groups in (("doomed",), ("pair-1", "pair-2"), ("phoenix",)):
        names = [word for group in groups for word in ("--group", group)]
        output, between_ms = run.timed(run.groups_tool, "--delete", *names)
        assert "successful" in output, output
        for group in groups:
            assert not offsets_of(run, group)
            run.finding("removal", group, between_ms=between_ms, why="group deleted", by=OPS)
    phoenix = run.member("phoenix-2", "phoenix", ["orders"], commit_s=2)
    phoenix.await_("committed")


def delete_topics(run):
    had = {group: offsets_of(run, group) for group in GROUPS_OF_TOPICS}
    for topic in ("temp", "gone"):
        _, between_ms = run.timed(run.topics_tool, "--delete", "--topic", topic)
        for group, offsets in had.items():
            places = sorted(place for place in offsets if place.startswith(f"{topic}-"))
            if places:
                gone = await_removed(run, group, places[0])
                between = [between_ms[0], max(gone[1], between_ms[1])]
                details = {"topic": topic, "places": {place: offsets[place] for place in places}}
                run.finding("removal", group, **details, between_ms=between, why="topic deleted")


GROUPS_OF_TOPICS = ("live-a", "live-b", "idle-a", "idle-b", "last")


def prune(run):
    had = offsets_of(run, "pruned")
    arguments = ("--delete-offsets", "--group", "pruned", "--topic", "clicks")
    output, between_ms = run.timed(run.groups_tool, *arguments)
    assert "succe" in output.lower(), output
    places = {place: at for place, at in had.items() if place.startswith("clicks")}
    assert places
    assert not places.keys() & offsets_of(run, "pruned").keys()
    details = {"topic": "clicks", "places": places, "why": "offsets deleted", "by": OPS}
    run.finding("removal", "pruned", between_ms=between_ms, **details)


def remake(run):
    """Make the topic again; some groups read it from its start."""
    arguments = ("--create", "--topic", "temp", "--partitions", "2")
    _, between_ms = run.timed(run.topics_tool, *arguments)
    run.finding("topic recreated", None, topic="temp", partitions=[3, 2], between_ms=between_ms)
    run.produce(temp=[40, 50])
    run.member("idle-a-2", "idle-a", ["orders", "temp"], commit_s=2)


def refused(run):
    output = run.groups_tool("--delete", "--group", "steady")
    assert "not empty" in output.lower() or "NonEmpty" in output, output


def watch_expirations(run):
    """Watch, in threads, until the offsets that should expire have gone; return the threads."""
    threads = [
        threading.Thread(target=watch_expiration, args=(run, *what))
        for what in (("expired", None), ("half-expired", "clicks-0"))
    ]
    for thread in threads:
        thread.start()
    return threads


def watch_expiration(run, group, place):
    import kafka

    admin = kafka.KafkaAdminClient(bootstrap_servers=run.broker.address)
    had = offsets_of(run, group, admin)
    between_ms = await_removed(run, group, place, admin)
    gone = {at: had[at] for at in had.keys() - offsets_of(run, group, admin).keys()}
    admin.close()
    details = {"places": dict(sorted(gone.items())), "why": "expired"}
    run.finding("removal", group, between_ms=between_ms, **details)


INCIDENTS = {
    "removals": (removals, OPTIONS),
    "removals-4": (removals, {**OPTIONS, "version": "4.1.1"}),
}
