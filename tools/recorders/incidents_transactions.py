"""Incidents of transactions that hold the offsets of groups.

`record_incidents.py` runs them; each docstring is the page beside the recording.
"""

from time import sleep

from recorders.members import now_ms
from recorders.native_members import NativeMember

SETTINGS = "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000\n"


def open_transactions(run):
    """Transactions that are still open at the end of the log, and some that are not.

    All offsets are of `orders` (4 partitions). A transactional id is the group's name and `-tx`.

    - `etl`: eight transactions are committed, one a second; then one sends offsets of all four
      partitions and stays open.
    - `billing`, `shipping`: one transaction of `billing-tx` sends offsets of two partitions for
      both groups, and stays open. `shipping` has committed by itself before.
    - `mixed`: a member commits by itself all the time, and a transaction with an offset of
      `orders-3` stays open.
    - `ledger`: one transaction is aborted, the next is committed.
    - `dropped`: a transaction has a time out of 4 s, nobody ends it, and the coordinator aborts it.
    - `slow`: a transaction is open for fifteen seconds and is committed then.
    - `steady`: one member, no transactions.

    `findings` in `truth.json` has each open transaction: its id, the producer id as
    kafka-transactions shows it, between which times it was begun and its offsets were sent, and the
    offsets. `events` has all other transactions with how they ended.
    """
    run.topics(orders=4)
    run.produce(orders=[300] * 4)
    run.member("steady-1", "steady", ["orders"], commit_s=2)
    run.member("mixed-1", "mixed", ["orders"], commit_s=2)
    slow = producer_of(run, "slow-tx")
    slow_begun = begin(run, slow, slow=offsets(150, 4))
    producer = producer_of(run, "etl-tx")
    for n in range(1, 9):
        begin(run, producer, etl=offsets(20 * n, 4))
        end(run, producer, "commit")
        sleep(1)
    opened = [begin(run, producer, etl=offsets(180, 4))]
    plain(run, "shipping", offsets(70, 2))
    both = producer_of(run, "billing-tx")
    opened.append(begin(run, both, billing=offsets(75, 2), shipping=offsets(80, 2)))
    sleep(1)
    opened.append(begin(run, producer_of(run, "mixed-tx"), mixed={("orders", 3): 111}))
    ledger = producer_of(run, "ledger-tx")
    for n, how in ((1, "abort"), (2, "commit")):
        begin(run, ledger, ledger=offsets(50 * n, 4))
        end(run, ledger, how)
    begin(run, producer_of(run, "dropped-tx", transaction_timeout_ms=4000), dropped=offsets(33, 4))
    sleep(max(0, 15 - (now_ms() - slow_begun["since_ms"]) / 1000))
    end(run, slow, "commit")
    sleep(8)
    ids = producer_ids(run)
    for begun in opened:
        name = begun["transactional_id"]
        run.finding("open_transaction", sorted(begun["groups"]), producer_id=ids[name], **begun)
    for group in ("etl", "shipping", "mixed", "dropped", "slow"):
        run.groups_tool("--describe", "--offsets", "--group", group)
    run.copy("log")


def offsets(at, partitions):
    return {("orders", n): at + n for n in range(partitions)}


def plain(run, group, positions):
    run.admin.alter_group_offsets(group, _structs(positions))
    run.note("committed plainly", group=group, offsets=spelled(positions))


def spelled(positions):
    return {f"{topic}-{partition}": at for (topic, partition), at in positions.items()}


def _structs(positions):
    from kafka.structs import OffsetAndMetadata, TopicPartition

    found = positions.items()
    return {TopicPartition(*place): OffsetAndMetadata(at, "", -1) for place, at in found}


def producer_of(run, name, **options):
    import kafka

    options = {"transaction_timeout_ms": 900_000, **options}
    producer = kafka.KafkaProducer(
        bootstrap_servers=run.broker.address, transactional_id=name, client_id=name, **options
    )
    producer.init_transactions()
    return producer


def begin(run, producer, **groups):
    """Begin a transaction and send the offsets of some groups."""
    since_ms = now_ms()
    producer.begin_transaction()
    for group, positions in groups.items():
        producer.send_offsets_to_transaction(_structs(positions), group)
    begun = {
        "transactional_id": producer.config["transactional_id"],
        "since_ms": since_ms,
        "until_ms": now_ms(),
        "groups": {group: spelled(positions) for group, positions in groups.items()},
    }
    run.note("offsets sent in a transaction", **begun)
    return begun


def end(run, producer, how):
    since_ms = now_ms()
    getattr(producer, f"{how}_transaction")()
    name = producer.config["transactional_id"]
    run.note("transaction ended", transactional_id=name, how=how, since_ms=since_ms)


def producer_ids(run):
    """The producer id of each transactional id, from kafka-transactions."""
    output = run.broker.tool("TransactionsCommand", "list")
    run.note("kafka-transactions", arguments=["list"], told=output)
    rows = [line.split() for line in output.splitlines()]
    return {row[0]: int(row[2]) for row in rows if len(row) == 4 and row[2].isdigit()}


OPTIONS = {"settings": SETTINGS, "kind": NativeMember}
INCIDENTS = {
    "open-transactions": (open_transactions, OPTIONS),
    "open-transactions-4": (open_transactions, {**OPTIONS, "version": "4.1.1"}),
}
