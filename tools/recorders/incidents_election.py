"""An election of a broker that lacks records, and the three copies of the log after it.

`record_incidents.py` runs it; the docstring is the page beside the recording.
"""

from time import sleep

from recorders.members import now_ms
from recorders.native_members import NativeMember
from recorders.recording import SETTINGS, TOPIC, Recording, page_of, put
from recorders.three_brokers import running_cluster
from support.broker.kafka_broker import VERSION

REPLICAS = {0: [1, 2, 3], 1: [1, 3, 2], 2: [1, 2, 3], 3: [2, 1, 3]}


def unclean_election(run):
    """Three brokers (each also a controller), and an unclean leader election.

    `__consumer_offsets` has 4 partitions; their replicas are 0: [1, 2, 3], 1: [1, 3, 2],
    2: [1, 2, 3], 3: [2, 1, 3], the first being the leader at the start. `min.insync.replicas` is 1
    and `unclean.leader.election.enable` is on. `app-0` to `app-5` are groups of one member each,
    which commit by themselves every second. `plain-0` to `plain-11` have no members: the program
    commits an offset for each in every phase, 10 in the first, 20 in the second and so on, and all
    of them were answered without an error.

    1. All brokers are in sync. Offset 10.
    2. Broker 3 is killed. Offset 20 is on 1 and 2.
    3. Broker 1 is cut off from the other brokers, not from clients and controllers: the partitions
       that it leads have no replica in sync but its own. Offset 30 of these is on 1 alone.
    4. Broker 3 is started; it cannot reach 1. Offset 40 of these is on 1 alone; so are the first
       generations of `lost-0` to `lost-3`, which have a member each.
    5. Broker 1 is killed, and 2 or 3 is elected, the first of the replicas that lives (by the
       controller itself, or by kafka-leader-election: see `events`). Partition 1
       goes to 3, which never had 20, 30 and 40, and broker 2 drops its 20 there. Offset 50.
    6. Broker 2 is cut off from 3, which falls behind in the partitions that 2 leads. Offset 60.

    `broker-1`, `broker-2`, `broker-3` are the copies at the end: that of 1 from its disk. In
    `truth.json`, `leader_epochs` has what Kafka wrote into each broker's
    `leader-epoch-checkpoint`: [epoch, first offset] by broker and partition; `leaders` what
    DescribeTopics said in each phase: leader and replicas in sync by partition; `plain_groups` the
    partition of each of these groups. There are a `server-N.log.gz` for each broker and no request
    logs.
    """
    create(run)
    for n in range(6):
        run.member(f"app-{n}-1", f"app-{n}", ["orders"], auto_commit_s=1, session_s=6)
    sleep(6)
    commit_all(run, 10, "all in sync")
    run.cluster.brokers[3].kill()
    run.note("broker killed", broker=3)
    await_leaders(run, lambda leader, isr: leader != 3 and 3 not in isr)
    commit_all(run, 20, "without 3")
    run.cluster.links[1].cut()
    run.note("broker cut off", broker=1)
    commit_all(run, 30, "1 alone")  # a replica falls out of sync only if it lacks a record
    await_leaders(run, lambda leader, isr: leader != 1 or isr == [1])
    run.cluster.brokers[3].start()
    run.note("broker started", broker=3)
    sleep(5)
    commit_all(run, 40, "1 alone, 3 is back")
    for n in range(4):
        run.member(f"lost-{n}-1", f"lost-{n}", ["orders"], auto_commit_s=1, session_s=6)
    sleep(3)
    run.cluster.brokers[1].kill()
    run.note("broker killed", broker=1)
    await_leaders(run, lambda leader, isr: leader != 1)
    if any(leader == -1 for leader, _ in leaders(run).values()):
        arguments = ("--election-type", "UNCLEAN", "--all-topic-partitions")
        told = run.broker.tool("LeaderElectionCommand", *arguments)
        run.note("kafka-leader-election", arguments=arguments, told=told)
    await_leaders(run, lambda leader, isr: leader not in (1, -1) and 1 not in isr)
    commit_all(run, 50, "after the election")
    sleep(6)
    run.cluster.links[2].cut()
    run.note("broker cut off", broker=2)
    commit_all(run, 60, "3 behind")
    await_leaders(run, lambda leader, isr: leader != 2 or isr == [2])
    sleep(4)
    for member in run.members:
        member.order("quiet", "quiet")
    sleep(2)
    run.copy_brokers()


def create(run):
    """Create the topics with their replicas, that of the offsets as a broker would."""
    from kafka.admin import NewTopic

    settings = {"cleanup.policy": "compact", "compression.type": "producer"}
    orders = {n: [1 + n % 3, 1 + (n + 1) % 3, 1 + (n + 2) % 3] for n in range(3)}
    admin = admin_of(run)
    admin.create_topics(
        [
            NewTopic(TOPIC, -1, -1, replica_assignments=REPLICAS, topic_configs=settings),
            NewTopic("orders", -1, -1, replica_assignments=orders),
        ]
    )
    admin.close()
    run.note("topics created", topics={TOPIC: REPLICAS, "orders": orders})
    run.produce(orders=[200] * 3)


def admin_of(run):
    import kafka

    return kafka.KafkaAdminClient(bootstrap_servers=run.broker.address)


def partition_of(group):
    """The partition of a group: Java's hash of the name, as Kafka's Utils.abs takes it."""
    number = 0
    for letter in group:
        number = (31 * number + ord(letter)) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return abs(signed) % len(REPLICAS)


def commit_all(run, offset, phase):
    """Commit an offset for each of the groups without members, again until it is answered."""
    from kafka.structs import OffsetAndMetadata, TopicPartition

    admin = admin_of(run)
    since_ms, answered = now_ms(), {}
    for n in range(12):
        group = f"plain-{n}"
        positions = {TopicPartition("orders", 0): OffsetAndMetadata(offset, "", -1)}
        for _ in range(30):
            if attempt(admin, group, positions):
                answered[group] = now_ms()
                break
            sleep(1)
            admin.close()
            admin = admin_of(run)  # which does not know the old coordinator
    admin.close()
    assert len(answered) == 12, answered
    groups = {group: partition_of(group) for group in answered}
    run.more["plain_groups"] = groups
    run.note("committed", phase=phase, offset=offset, since_ms=since_ms, answered_ms=answered)


def attempt(admin, group, positions):
    from kafka.errors import KafkaError

    try:
        answer = admin.alter_group_offsets(group, positions)
    except KafkaError:
        return False
    return all(error is None or error.__name__ == "NoError" for error in answer.values())


def leaders(run):
    """Leader and replicas in sync of each partition of the offsets topic."""
    for _ in range(30):
        rows = described(run)
        if rows:
            return {row["partition_index"]: [row["leader_id"], row["isr_nodes"]] for row in rows}
        sleep(1)
    raise AssertionError("no broker describes the topic")


def described(run):
    """The partitions of the offsets topic, or None if the client came upon a dead broker."""
    from kafka.errors import KafkaError

    try:
        admin = admin_of(run)
        (topic,) = admin.describe_topics([TOPIC])
    except KafkaError:
        return None
    admin.close()
    return topic["partitions"]


def await_leaders(run, holds):
    for _ in range(90):
        found = leaders(run)
        if all(holds(leader, isr) for leader, isr in found.values()):
            run.more.setdefault("leaders", []).append({"at_ms": now_ms(), "partitions": found})
            return
        sleep(1)
    raise AssertionError(f"no such leaders: {found}")


class ClusterRecording(Recording):
    """A recording of three brokers; ``broker`` is the second, which lives all the time."""

    def __init__(self, name, folder, cluster):
        self.cluster = cluster
        super().__init__(name, folder, cluster.brokers[2], NativeMember, cluster.address)

    def copy_brokers(self):
        self.note("copied", into=[f"broker-{node}" for node in self.cluster.brokers])
        self.more["leader_epochs"] = epochs = {}
        for node, broker in self.cluster.brokers.items():
            epochs[node] = {}
            for path in sorted(broker.logs.glob(f"{TOPIC}-*/*.log")):
                put(
                    self.folder / f"broker-{node}" / path.parent.name / path.name, path.read_bytes()
                )
                lines = (path.parent / "leader-epoch-checkpoint").read_text().splitlines()[2:]
                epochs[node][path.parent.name[-1]] = [list(map(int, row.split())) for row in lines]

    def write_server_log(self, broker, name):
        for node, broker in self.cluster.brokers.items():
            super().write_server_log(broker, f"server-{node}.log.gz")
        return []


def record_cluster(incident, name, folder, scratch):
    """Record an incident of three brokers into a folder."""
    with running_cluster(scratch, version=VERSION, settings=SETTINGS) as cluster:
        run = ClusterRecording(name, folder, cluster)
        try:
            incident(run)
            run.write(page_of(incident, name, VERSION))
        finally:
            run.close()


INCIDENTS = {"unclean-election": (unclean_election, {"record": record_cluster})}
