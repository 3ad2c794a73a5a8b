"""Incidents of groups that rebalance: rolling restarts, members that go, loops.

`record_incidents.py` runs them; each docstring is the page beside the recording.
"""

import threading
from time import sleep

from recorders.native_members import NativeMember
from recorders.observing import traffic

STICKY = "cooperative-sticky"
GROUPS = {"coop": STICKY, "eager": "range"}


def rolling_restarts(run):
    """A rolling restart of eight members, with cooperative-sticky and with range.

    The groups `coop` (cooperative-sticky) and `eager` (range) have eight members each, which read
    the 16 partitions of `orders`. Each member in turn is closed in order and started again a second
    later; the next follows three seconds after the new one has its partitions. Both groups are
    restarted at the same time, each on its own. Before and after, nobody comes or goes.

    In `truth.json`, `restarts` has when each group's restart began and ended, and `ownerless` has,
    by group and partition, the intervals of that time in which no client owned the partition:
    from the callback that took it from its owner to the callback that gave it to the next one.
    `partition_ms_without_owner` is their sum.
    """
    run.topics(orders=16)
    with traffic(run, orders=(16, 2)):
        members = {
            group: [
                run.start(f"{group}-{n}", group, ["orders"], assignor=assignor, **QUICK)
                for n in range(1, 9)
            ]
            for group, assignor in GROUPS.items()
        }
        for member in run.members:
            member.await_("assigned")
        sleep(15)
        begun = run.note("rolling restarts begin")
        both = [
            threading.Thread(target=restart_all, args=(run, group, members[group]))
            for group in GROUPS
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        sleep(10)
    ends = {e["group"]: e["at_ms"] for e in run.events if e["what"] == "rolling restart ended"}
    assert ends.keys() == GROUPS.keys()
    run.more["restarts"] = {group: [begun["at_ms"], end] for group, end in ends.items()}
    ownerless = {group: gaps(run, group, begun["at_ms"], ends[group] + 5000) for group in GROUPS}
    run.more["ownerless"] = ownerless
    run.more["partition_ms_without_owner"] = {
        group: sum(until - since for spans in found.values() for since, until in spans)
        for group, found in ownerless.items()
    }
    run.copy("log")


QUICK = {"auto_commit_s": 5, "session_s": 10}


def restart_all(run, group, members):
    for member in members:
        run.leave(member)
        sleep(1)
        run.member(member.name, group, ["orders"], assignor=GROUPS[group], **QUICK)
        sleep(3)
    run.note("rolling restart ended", group=group)


def gaps(run, group, since_ms, until_ms):
    """The intervals in which no client owned a partition, from the clients' callbacks."""
    steps = []
    for number, member in enumerate(run.members):
        if member.what["group"] == group:
            for event in member.seen:
                if event["event"] in ("assigned", "revoked", "lost"):
                    gains = event["event"] == "assigned"
                    steps += [(event["at_ms"], gains, p, number) for p in event["partitions"]]
    owners, free_since, found = {}, {}, {}
    for at_ms, gains, place, number in sorted(steps):
        if gains:
            if place in free_since:
                found.setdefault(place, []).append([free_since.pop(place), at_ms])
            owners[place] = number
        elif owners.get(place) == number:
            del owners[place]
            free_since[place] = at_ms
    within = {
        place: [[max(a, since_ms), min(b, until_ms)] for a, b in spans]
        for place, spans in sorted(found.items())
    }
    return {place: [span for span in spans if span[0] < span[1]] for place, spans in within.items()}


def departures(run):
    """Members that go in different ways, each way several times.

    Every group has a second member that stays all the time; the topic `orders` has 4 partitions.
    All members commit by themselves every second.

    - `slow`: `slow-1` takes 9 s to process what a poll returned, and its `max.poll.interval.ms` is
      6 s: it leaves the group each time and comes back at its next poll. In the end it is killed.
    - `closing`: `closing-1` is closed in order, six times, and started again.
    - `killed`: `killed-1` is killed, six times; its session (6 s) ends; it is started again 8 s
      later.
    - `static`: `static-1` has an instance id and is closed in order, three times: it does not leave
      the group, and its session (6 s) ends. It is started again 9 s later.

    `departures` in `truth.json` has each one: group, member, its member id, how it went, when the
    client was stopped (a poll timeout: when the callback came, at the poll after it).
    """
    run.topics(orders=4)
    run.more["departures"] = []
    with traffic(run, orders=(4, 4)):
        for group in ("slow", "closing", "killed", "static"):
            more = {"instance": f"{group}-2"} if group == "static" else {}
            run.member(f"{group}-2", group, ["orders"], **SHORT, **more)
        slow = run.member("slow-1", "slow", ["orders"], slow_s=9, poll_interval_s=6, **SHORT)
        ways = [
            threading.Thread(target=go, args=(run, "closing", run.leave, 6, 4)),
            threading.Thread(target=go, args=(run, "killed", run.kill, 6, 8)),
            threading.Thread(target=go, args=(run, "static", run.leave, 3, 9)),
        ]
        for thread in ways:
            thread.start()
        for thread in ways:
            thread.join()
        sleep(10)
        went(run, slow, "killed", run.kill(slow)["at_ms"])
    for event in slow.seen:
        if event["event"] == "lost":
            went(run, slow, "poll timeout", event["at_ms"])
    run.copy("log")


SHORT = {"auto_commit_s": 1, "session_s": 6}


def go(run, group, stop, times, away_s):
    """Start and stop the first member of a group so many times."""
    name = f"{group}-1"
    more = {"instance": name} if group == "static" else {}
    for _ in range(times):
        member = run.member(name, group, ["orders"], **SHORT, **more)
        sleep(6)
        stopped = stop(member)
        went(run, member, HOW[group], stopped["at_ms"])
        sleep(away_s)


HOW = {"closing": "closed in order", "killed": "killed", "static": "static, closed in order"}


def went(run, member, how, at_ms):
    ids = [event["member_id"] for event in member.seen if event["event"] == "assigned"]
    earlier = [
        event["member_id"]
        for event in member.seen
        if event["event"] == "assigned" and event["at_ms"] <= at_ms
    ]
    who = {"group": member.what["group"], "member": member.name, "member_id": (earlier or ids)[-1]}
    run.more["departures"].append({**who, "how": how, "at_ms": at_ms})


def loops(run):
    """Two loops of rewinds and two of crashes, beside a group in which nothing happens.

    - `rewinding`: its one member reads `orders-0` to 200, commits, and seeks back to 100, again and
      again; `orders-1` goes forward as usual.
    - `restarting`: its one member is killed again and again. A new one starts three seconds later
      at an offset of its own, 60, and commits from there on: the offsets of both partitions go
      back each time.
    - `crashing`: `crashing-1` is killed two seconds after it got its partitions and started again a
      second later, twelve times; `crashing-2` stays. Sessions of 6 s.
    - `steady`: one member, all the time.

    `findings` in `truth.json` has one row for each loop: how often, first, last, the lowest and
    the highest offset.
    """
    run.topics(orders=2, clicks=4)
    run.produce(orders=[260, 200], clicks=[100] * 4)
    options = {"commit_s": 1, "session_s": 6}
    with traffic(run, orders=(2, 2), clicks=(4, 2)):
        run.member("steady-1", "steady", ["clicks"], commit_s=2)
        rewind = {"orders-0": [200, 100]}
        rewinding = run.start(
            "rewinding-1", "rewinding", ["orders"], rewind=rewind, records=4, loop_s=0.25, **options
        )
        run.member("crashing-2", "crashing", ["clicks"], **options)
        second = threading.Thread(target=restart_elsewhere, args=(run, options))
        second.start()
        killed_ms = []
        for _ in range(12):
            crashing = run.member("crashing-1", "crashing", ["clicks"], **options)
            sleep(2)
            killed_ms.append(run.kill(crashing)["at_ms"])
            sleep(1)
        second.join()
        sleep(8)
    details = {"times": len(killed_ms), "first_ms": killed_ms[0], "last_ms": killed_ms[-1]}
    run.finding("crash loop", "crashing", member="crashing-1", **details)
    sought = [event for event in rewinding.seen if event["event"] == "sought"]
    details = {"times": len(sought), "first_ms": sought[0]["at_ms"], "last_ms": sought[-1]["at_ms"]}
    details |= {"lowest": 100, "highest": max(event["before"] for event in sought)}
    run.finding("rewind loop", "rewinding", topic="orders", partition=0, **details)
    run.copy("log")


def restart_elsewhere(run, options):
    """Kill a member and start the next at an offset of its own, ten times."""
    backs = []
    for number in range(10):
        member = run.member("restarting-1", "restarting", ["orders"], records=10, **options)
        if number:
            member.await_("first record")
            backs += [member.order(f"seek orders-{n} 60", "sought") for n in (0, 1)]
        sleep(4)
        run.kill(member)
        sleep(3)
    for partition in (0, 1):
        sought = [event for event in backs if event["partition"] == f"orders-{partition}"]
        times = {"first_ms": sought[0]["at_ms"], "last_ms": sought[-1]["at_ms"]}
        times |= {"lowest": 60, "highest": max(event["before"] or 0 for event in sought)}
        where = {"topic": "orders", "partition": partition, "times": len(sought)}
        run.finding("rewind loop", "restarting", **where, **times)
    run.finding("crash loop", "restarting", member="restarting-1", times=10)


OPTIONS = {"kind": NativeMember}
INCIDENTS = {
    "rolling-restarts": (rolling_restarts, OPTIONS),
    "departures": (departures, OPTIONS),
    "departures-4": (departures, {**OPTIONS, "version": "4.1.1"}),
    "loops": (loops, OPTIONS),
}
