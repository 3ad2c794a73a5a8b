"""Record incidents on a real broker into tests/golden/incidents, each with its written truth.

    PYTHONPATH=tests:tools python tools/recorders/record_incidents.py [NAME ...] [--into FOLDER]

Each function is an incident, its docstring the page that lies beside the recording. They run in
real time, half an hour in all, one cluster at a time; Maven brings the brokers. The clients are
kafka-python, and librdkafka in the modules `incidents_*`, which have the incidents by subject.
Those that move a broker's clock need a C compiler. Nothing here is a test: tests read what was
recorded.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from time import sleep

from recorders import (
    incidents_clocks,
    incidents_connect,
    incidents_election,
    incidents_loss,
    incidents_rebalances,
    incidents_removals,
    incidents_transactions,
)
from recorders.recording import record

GOLDEN = Path(__file__).parents[2] / "tests/golden/incidents"
SMALL = "offsets.topic.segment.bytes={}\nlog.cleaner.delete.retention.ms={}\n"


def compaction(run):
    """A log that was compacted twice, and the same log as it was written.

    Nine groups on the topics `orders` (3 partitions) and `clicks` (2); two rounds of the cleaner,
    `delete.retention.ms` 1 s, segments of 8 KiB. Nobody commits while the cleaner works.

    - `payments`: two members, a third that joins and leaves six times before the first round,
      and twice between the rounds.
    - `billing`, `ledger`, `shipping`: one member each that commits two to four times a second,
      all the time; `billing` lags behind.
    - `nightly`: commits once, leaves, and does nothing any more.
    - `rewound`: stops between the rounds, is reset to 0 by kafka-consumer-groups, starts again.
    - `doomed`: deleted before the first round: its tombstones are gone by the second.
    - `phoenix`: deleted between the rounds, and used again.
    - `late`: deleted after the last round.

    `whole/` holds every segment as it was before its first cleaning, `compacted/` the log as it
    was copied from the running broker, `with-deleted/` that copy with the segments that the
    cleaner replaced, which Kafka keeps for a minute; a segment that both rounds replaced is there
    as the first round had left it, under the name that both have. The samples of `truth.json` are
    what kafka-get-offsets and kafka-consumer-groups said while nobody committed (from `at_ms` to
    `until_ms`), the last two of them after the copy, when the groups had gone on.
    `commits.jsonl.gz`: what each client committed, between which ms.
    """
    run.topics(orders=3, clicks=2)
    run.produce(orders=[300, 200, 400], clicks=[150, 100])
    run.member("billing-1", "billing", ["orders"], commit_s=0.3, records=3)
    run.member("ledger-1", "ledger", ["orders"], commit_s=0.25)
    run.member("shipping-1", "shipping", ["orders", "clicks"], commit_s=0.5, records=10)
    for name in ("pay-1", "pay-2"):
        run.member(name, "payments", ["orders", "clicks"], session_s=3, records=5)
    rewound = run.member("rewound-1", "rewound", ["orders"], commit_s=0.4)
    commit_and_leave(run, "nightly", "doomed", "phoenix", "late")
    for _ in range(6):
        run.leave(run.member("pay-3", "payments", ["orders", "clicks"], session_s=3))
    run.groups_tool("--delete", "--group", "doomed")
    run.sample("early")
    run.clean()

    run.produce(orders=[200, 200, 100], clicks=[50, 70])
    run.leave(rewound)
    run.groups_tool("--delete", "--group", "phoenix")
    reset = ("--reset-offsets", "--group", "rewound", "--to-earliest", "--topic", "orders")
    run.groups_tool(*reset, "--execute")
    rewound = run.member("rewound-2", "rewound", ["orders"], commit_s=0.4)
    phoenix = run.member("phoenix-2", "phoenix", ["clicks"], commit_s=0.5)
    for _ in range(2):
        run.leave(run.member("pay-3", "payments", ["orders", "clicks"], session_s=3))
    sleep(4)
    run.sample("between the rounds")
    run.clean()

    run.leave(phoenix)
    run.groups_tool("--delete", "--group", "late")
    run.produce(orders=[70, 40, 90])
    sleep(2)
    run.sample("before the copy")
    sleep(1)
    run.copy("compacted", "with-deleted")
    run.write_whole()
    for number in (1, 2):
        run.produce(orders=[150, 120, 80], clicks=[30, 10])
        sleep(3)
        run.sample(f"after the copy, {number}")


def commit_and_leave(run, *groups):
    """One member each for these groups: it commits four times (``nightly`` once) and leaves."""
    members = [run.member(f"{group}-1", group, ["clicks"], commit_s=None) for group in groups]
    for group, member in zip(groups, members, strict=True):
        for _ in range(1 if group == "nightly" else 4):
            sleep(0.3)
            member.order("commit", "committed")
        run.leave(member)


def compaction_transactions(run):
    """Offsets committed in transactions, tombstones, and six rounds of the cleaner over them.

    Each transaction commits offsets of `orders` for the groups `tx-0` to `tx-3`, which lie in
    four partitions of the offsets topic; so do `filler-0` to `filler-3`, which commit without
    members between the rounds, so that segments (2 KiB) are rolled. `delete.retention.ms` is 6 s,
    so that a round or two pass by before a tombstone or a marker goes.

    1. `first` commits three transactions, `second` aborts two, `third` commits one over which
       `tx-0` to `tx-3` commit plainly, `fourth` is aborted by the coordinator (time out 2 s);
       `doomed-0` to `doomed-3` commit and are deleted. `kept-0` to `kept-3` commit plainly, and
       later in a transaction that is aborted; `never-0` to `never-3` only in one that is.
    2. `first` commits two more.
    3. Nothing but fillers.
    4. `first` is started again (a new epoch) and commits one.
    5. Nothing but fillers.
    6. `open` sends offsets after some fillers, and has not ended when the cleaner works and when
       the copy is made: it cleans up to the segment before.

    `whole/` holds every segment as it was before its first cleaning, `compacted/` the copy.
    """
    run.topics(orders=4)
    produce = {name: producer_of(run, name) for name in ("first", "second", "third")}
    for n in range(3):
        transaction(run, produce["first"], 10 + n)
    for n in range(2):
        transaction(run, produce["second"], 20 + n, end="abort")
    commit_plainly(run, "kept", 25)
    for name in ("kept", "never"):
        transaction(run, produce["second"], 26, end="abort", groups=name)
    transaction(run, produce["third"], 30)
    commit_plainly(run, "tx", 31)
    transaction(run, producer_of(run, "fourth", transaction_timeout_ms=2000), 40, end=None)
    commit_plainly(run, "doomed", 50)
    run.admin.delete_groups([f"doomed-{n}" for n in range(4)])
    run.note("groups deleted", groups="doomed")
    sleep(4)
    for round_ in range(1, 7):
        if round_ == 2:
            transaction(run, produce["first"], 12)
            transaction(run, produce["first"], 13)
        if round_ == 4:
            transaction(run, producer_of(run, "first"), 14)
        for n in range(60 if round_ == 6 else 40):
            commit_plainly(run, "filler", round_ * 100 + n)
            if (round_, n) == (6, 20):
                transaction(run, producer_of(run, "open"), 60, end=None)
        sleep(1.2)
        run.clean(held=round_ == 6)
    run.copy("compacted")
    run.write_whole()


def producer_of(run, name, **options):
    import kafka

    found = kafka.KafkaProducer(
        bootstrap_servers=run.broker.address, transactional_id=name, client_id=name, **options
    )
    found.init_transactions()
    return found


def transaction(run, producer, offset, end="commit", groups="tx"):
    """Send offsets of four groups in one transaction; ``end`` None leaves it open."""
    from kafka.structs import OffsetAndMetadata, TopicPartition

    producer.begin_transaction()
    for n in range(4):
        offsets = {TopicPartition("orders", n): OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, f"{groups}-{n}")
    if end:
        getattr(producer, f"{end}_transaction")()
    name = producer.config["transactional_id"]
    run.note("transaction", producer=name, groups=groups, offset=offset, end=end)


def commit_plainly(run, name, offset):
    """Commit an offset for four groups, NAME-0 to NAME-3, that have no members."""
    from kafka.structs import OffsetAndMetadata, TopicPartition

    run.note("committed plainly", groups=name, offset=offset)
    for n in range(4):
        offsets = {TopicPartition("orders", n): OffsetAndMetadata(offset, "", -1)}
        run.admin.alter_group_offsets(f"{name}-{n}", offsets)


def reset_while_empty(run):
    """A group stops, is reset to 0 by kafka-consumer-groups while it is Empty, and starts again.

    `payments` has two members on `orders` (3 partitions) that commit twice a second; `billing`
    one, which goes on all the time. What the tool was asked and what it said is in `truth.json`.
    """
    run.topics(orders=3)
    run.produce(orders=[400, 300, 350])
    run.member("billing-1", "billing", ["orders"])
    members = [run.member(f"pay-{n}", "payments", ["orders"]) for n in (1, 2)]
    sleep(6)
    for member in members:
        run.leave(member)
    run.sample("before the reset")
    sleep(2)
    reset = ("--reset-offsets", "--group", "payments", "--to-earliest", "--topic", "orders")
    run.groups_tool(*reset, "--execute")
    run.sample("after the reset")
    for n in (1, 2):
        run.member(f"pay-{n}", "payments", ["orders"])
    sleep(5)
    run.sample("at the end")
    run.copy("log")


def static_fight(run):
    """Two processes share one group.instance.id, and fence each other in turn.

    The group `payments` has the static members `pay-1` and `pay-2`. `host-a` runs as `pay-1`
    from 127.0.0.2; then `host-b`, from 127.0.0.3, is started under the same instance id by
    mistake. Each is fenced by the other, ends with an error, and is started again by its
    supervisor two seconds later: three times each. `host-c` is `pay-2`, from 127.0.0.4, all the
    time.
    """
    run.topics(orders=4)
    run.produce(orders=[300, 300, 300, 300])
    run.member("host-c", "payments", ["orders"], instance="pay-2", host="127.0.0.4")
    hosts = {"host-a": "127.0.0.2", "host-b": "127.0.0.3"}
    options = {"instance": "pay-1", "session_s": 6}
    owner = run.member("host-a", "payments", ["orders"], host=hosts["host-a"], **options)
    sleep(4)
    for name in ("host-b", "host-a") * 3:
        next_ = run.member(name, "payments", ["orders"], host=hosts[name], **options)
        failure = owner.await_("failed")
        run.note("fenced", member=owner.name, by=name, error=failure["error"])
        owner = next_
        sleep(2)
    run.sample("at the end")
    run.copy("log")


def crash_loop(run):
    """A dynamic member is killed and started again and again beside a healthy one.

    `healthy` stays in the group `orders-app` all the time. `crashing` is killed (no goodbye)
    two seconds after it got its partitions and started again one second later, eight times, so
    that each time a new member joins while the session of the one before (3 s) still runs.
    """
    run.topics(orders=4)
    run.produce(orders=[300, 300, 300, 300])
    run.member("healthy", "orders-app", ["orders"], session_s=3)
    for _ in range(8):
        crashing = run.member("crashing", "orders-app", ["orders"], session_s=3)
        sleep(2)
        run.kill(crashing)
        sleep(1)
    sleep(4)
    run.sample("at the end")
    run.copy("log")


def broker_killed(run):
    """The only broker is killed with members alive, and started again 20 seconds later.

    - `steady`: two members with sessions of 10 s that connect again at once.
    - `halved`: two members with sessions of 4 s; one is killed during the outage, so that it
      is evicted when its session has ended after the broker's load.
    - `lost`: one member, killed during the outage.
    - `static`: a static member (`s-1`) that comes back, and one (`s-2`) that is killed during
      the outage; sessions of 4 s.
    """
    run.topics(orders=4)
    run.produce(orders=[400, 400, 400, 400])
    for name in ("steady-1", "steady-2"):
        run.member(name, "steady", ["orders"])
    run.member("halved-1", "halved", ["orders"], session_s=4)
    dying = [
        run.member("halved-2", "halved", ["orders"], session_s=4),
        run.member("lost-1", "lost", ["orders"], session_s=4),
        run.member("static-2", "static", ["orders"], session_s=4, instance="s-2"),
    ]
    run.member("static-1", "static", ["orders"], session_s=4, instance="s-1")
    sleep(5)
    run.broker.kill()
    run.note("broker killed")
    sleep(5)
    for member in dying:
        run.kill(member)
    sleep(15)
    run.note("broker being started")
    run.broker.start()
    run.note("broker started")
    sleep(12)
    run.sample("at the end")
    run.copy("log")


def two_applications(run):
    """Two applications with topics of their own run under one group id, by mistake.

    `billing-1` and `billing-2` (127.0.0.2, 127.0.0.3) read `orders`, `search-1` and `search-2`
    (127.0.0.4, 127.0.0.5) read `clicks`, all four as the group `shared`, with the same assignor,
    range. A start of `search-2` makes those of the other application rebalance too. The group
    `alone` is an application by itself.
    """
    run.topics(orders=4, clicks=3)
    run.produce(orders=[200, 200, 200, 200], clicks=[150, 150, 150])
    run.member("alone-1", "alone", ["clicks"])
    run.member("billing-1", "shared", ["orders"], host="127.0.0.2")
    run.member("billing-2", "shared", ["orders"], host="127.0.0.3")
    sleep(3)
    run.member("search-1", "shared", ["clicks"], host="127.0.0.4")
    sleep(3)
    for _ in range(3):
        second = run.member("search-2", "shared", ["clicks"], host="127.0.0.5")
        sleep(3)
        run.leave(second)
    run.sample("at the end")
    run.copy("log")


INCIDENTS = {
    "compaction": (compaction, {"settings": SMALL.format(8192, 1000)}),
    "compaction-transactions": (compaction_transactions, {"settings": SMALL.format(2048, 6000)}),
    "reset-while-empty": (reset_while_empty, {}),
    "static-fight": (static_fight, {}),
    "crash-loop": (crash_loop, {}),
    "broker-killed": (broker_killed, {}),
    "two-applications": (two_applications, {}),
    **incidents_loss.INCIDENTS,
    **incidents_removals.INCIDENTS,
    **incidents_clocks.INCIDENTS,
    **incidents_election.INCIDENTS,
    **incidents_connect.INCIDENTS,
    **incidents_rebalances.INCIDENTS,
    **incidents_transactions.INCIDENTS,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*INCIDENTS, []])
    parser.add_argument("--into", type=Path, default=GOLDEN)
    options = parser.parse_args()
    for name in options.names or INCIDENTS:
        incident, broker = INCIDENTS[name]
        recorder = broker.get("record", record)
        broker = {option: broker[option] for option in broker.keys() - {"record"}}
        with tempfile.TemporaryDirectory() as place:
            scratch, aside = Path(place) / "broker", Path(place) / name
            scratch.mkdir()
            aside.mkdir()
            recorder(incident, name, aside, scratch, **broker)
            shutil.rmtree(options.into / name, ignore_errors=True)
            shutil.move(aside, options.into / name)
        files = [path for path in (options.into / name).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        sys.stderr.write(f"{options.into / name}: {size / 1000:.1f} kB\n")


if __name__ == "__main__":
    main()
