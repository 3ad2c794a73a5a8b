"""Groups of consumers under random faults: what holds whatever happens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import Error
from coterie.testing import Consumer, KafkaError, Producer
from coterie.testing.process import Process
from support.consumers import Listener, Story
from support.examples import examples

NAMES = ("a", "b", "c")
LENGTH_MS = 300_000
REFUSALS = (
    Error.COORDINATOR_LOAD_IN_PROGRESS, Error.ILLEGAL_GENERATION, Error.NOT_COORDINATOR,
    Error.REBALANCE_IN_PROGRESS, Error.UNKNOWN_MEMBER_ID, Error.REQUEST_TIMED_OUT,
)  # fmt: skip

durations = st.sampled_from([1, 100, 3000, 30_000, 90_000])
faults = st.one_of(
    st.tuples(st.sampled_from(["crash", "pause", "cut"]), st.sampled_from(NAMES), durations),
    st.tuples(st.sampled_from(["lose_request", "lose_response"]), st.sampled_from(NAMES)),
    st.tuples(st.just("fail_over"), durations),
    st.tuples(st.just("refuse"), st.sampled_from(NAMES), st.sampled_from(REFUSALS)),
    st.tuples(st.just("slow"), st.sampled_from(NAMES), st.sampled_from([0, 10, 2000])),
    st.tuples(st.sampled_from(["add_partitions", "delete_group"])),
)
plans = st.lists(st.tuples(st.integers(0, LENGTH_MS), faults), max_size=8)
TRANSACTIONAL = (
    "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "produce",
    "txn_offset_commit", "end_txn",
)  # fmt: skip
transactional_faults = st.one_of(
    faults,
    st.tuples(
        st.sampled_from(["lose_request", "lose_response"]),
        st.sampled_from(NAMES),
        st.sampled_from(TRANSACTIONAL),
    ),
)
transactional_plans = st.lists(
    st.tuples(st.integers(0, LENGTH_MS), transactional_faults), max_size=8
)


class Group(Story):
    """Three consumers that read for ever, and are started again after an error."""

    def __init__(self, chosen, processing_ms):
        super().__init__(6, {"coterie.behaviour": "4.1"}, interval_ms=10_000)
        self._settings, self._processing_ms = dict(chosen), processing_ms
        self.delivered = set()  # (topic, partition, offset)
        for name in NAMES:
            self.begin(name)

    def begin(self, name):
        """Start a consumer's process."""
        process = self.processes[name] = Process(self.cluster.schedule, name)
        process.start(self._live, name, process)

    def _live(self, name, process):
        while True:
            consumer = Consumer(self.cluster, self._settings, process=process)
            consumer.subscribe(["orders"], Owner(name, self))
            self.consumers[name] = consumer
            try:
                self._read(consumer, process)
            except KafkaError:
                consumer.close()
                process.sleep(1000)

    def _read(self, consumer, process):
        while True:
            for record in consumer.poll(5000):
                process.sleep(self._processing_ms)
                self.delivered.add(record[:3])
            if not self._settings["enable.auto.commit"]:
                consumer.commit()

    def strike(self, what, *how):
        """Let a fault happen; it ends by itself."""
        cluster = self.cluster
        if what == "crash":
            self.processes[how[0]].kill()
            self.consumers.pop(how[0], None)
            cluster.schedule.call_later(how[1], self.begin, how[0])
        elif what == "pause":
            self.processes[how[0]].pause()
            cluster.schedule.call_later(how[1], self.processes[how[0]].resume)
        elif what == "cut":
            cluster.network.cut(how[0])
            cluster.schedule.call_later(how[1], cluster.network.heal, how[0])
        elif what == "fail_over":
            cluster.fail_over(how[0])
        elif what == "refuse":
            cluster.network.fail(how[0], "offset_commit", how[1])
        elif what == "add_partitions":
            cluster.add_partitions("orders", len(cluster.topics["orders"].logs) + 1)
        elif what == "delete_group":
            cluster.call("delete_groups", ["g"])
        else:
            getattr(cluster.network, what)(*how)

    def play(self, plan):
        """Let the faults happen, and then let the group recover and read all."""
        for at_ms, fault in sorted(plan, key=lambda one: one[0]):
            self.cluster.schedule.run_until(at_ms)
            self.strike(*fault)
        self.cluster.schedule.run_until(LENGTH_MS + 90_000)
        for name in NAMES:
            self.cluster.network.slow(name, 0)
        self.cluster.schedule.run_until(2 * LENGTH_MS)
        self.cluster.produce("orders", None)
        self.cluster.schedule.run_until(4 * LENGTH_MS)

    def check_owners(self):
        """In a generation, or among the members at the coordinator, a partition has one owner."""
        owners = {}
        for name, consumer in self.consumers.items():
            generation = self.generation(consumer._member)
            if generation is not None:
                for tp in consumer.assignment():
                    other = owners.setdefault((generation, tp), name)
                    assert other == name, f"{tp} of {other} and {name}"

    def generation(self, member):
        """What the other owners of a member's partitions would share; None: it may be out."""
        if self._settings.get("group.protocol") != "consumer":
            group = member.group
            stable = group.stable and not group.rejoin_needed
            return group.generation.generation_id if stable else None
        described = self.cluster.call("consumer_group_describe", ["g"])
        known = {one.member_id for group in described.groups for one in group.members}
        return 0 if member.group_identity()[1] in known else None


class ExactlyOnce(Group):
    """Writes each record to another topic, and commits its offset, in one transaction."""

    def __init__(self, chosen, processing_ms):
        self._started = 0
        super().__init__(chosen, processing_ms)
        self.cluster.create_topic("out", 1, None)

    def _read(self, consumer, process):
        self._started += 1
        chosen = {"transactional.id": f"t{self._started}", "transaction.timeout.ms": 20_000}
        producer = Producer(self.cluster, chosen, process=process)
        try:
            producer.init_transactions()
            while True:
                records = consumer.poll(5000)
                if records:
                    self._copy(records, consumer, producer, process)
        except KafkaError:
            producer.close()
            raise

    def _copy(self, records, consumer, producer, process):
        producer.begin_transaction()
        offsets = {}
        for record in records:
            process.sleep(self._processing_ms)
            producer.send("out", record[:3])
            offsets[record[:2]] = record.offset + 1
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()

    def copied(self):
        """What a consumer of committed records reads."""
        chosen = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        reader = Consumer(self.cluster, chosen)
        reader.assign([("out", 0)])
        values = []
        while records := reader.poll(100):
            values += [record.value for record in records]
        return values


class Owner(Listener):
    """Checks the owners whenever they change."""

    def __init__(self, name, group):
        super().__init__(name, group.calls)
        self._group = group

    def _called(self, what, partitions):
        super()._called(what, partitions)
        if what == "assigned":
            self._group.check_owners()


def committed(group):
    """The committed offset of each partition."""
    found = group.cluster.call("offset_fetch", "g")
    return {(one.topic, one.partition): one.offset for one in found.partitions}


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky", "consumer"])
@given(plan=plans, automatic=st.booleans(), processing_ms=st.sampled_from([0, 20, 500]))
@settings(max_examples=examples(25))
def test_one_owner_and_no_loss_and_all_is_read_in_the_end(strategy, plan, automatic, processing_ms):
    protocol = "consumer" if strategy == "consumer" else "classic"
    assignor = {} if strategy == "consumer" else {"partition.assignment.strategy": strategy}
    group = Group(
        {
            "group.id": "g",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": automatic,
            **assignor,
            "max.poll.interval.ms": 60_000,
            "max.poll.records": 50,
            "metadata.max.age.ms": 60_000,
        },
        processing_ms,
    )
    group.play(plan)
    # A commit never passes what the application has got before the poll that follows: so nothing
    # below a committed offset was missed.
    for (topic, partition), offset in committed(group).items():
        missed = [n for n in range(offset) if (topic, partition, n) not in group.delivered]
        assert not missed, (partition, missed)
    logs = group.cluster.topics["orders"].logs
    ends = {("orders", log.partition): log.end_offset(group.cluster.now_ms) for log in logs}
    assert len(group.delivered) == sum(ends.values())
    assert committed(group) == ends


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@given(plan=transactional_plans, processing_ms=st.sampled_from([0, 20, 500]))
@settings(max_examples=examples(25))
def test_transactions_copy_each_record_exactly_once(protocol, plan, processing_ms):
    group = ExactlyOnce(
        {
            "group.id": "g",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": 60_000,
            "metadata.max.age.ms": 60_000,
        },
        processing_ms,
    )
    group.play([fault for fault in plan if fault[1] != ("delete_group",)])
    copied = group.copied()
    assert len(set(copied)) == len(copied)
    logs = group.cluster.topics["orders"].logs
    ends = {("orders", log.partition): log.end_offset(group.cluster.now_ms) for log in logs}
    assert len(copied) == sum(ends.values())
    assert committed(group) == ends


@given(plan=plans)
@settings(max_examples=examples(5))
def test_the_same_faults_give_the_same_course(plan):
    courses = []
    for _ in range(2):
        group = Group({"group.id": "g", "enable.auto.commit": True}, 20)
        group.play(plan)
        courses.append((group.notes, group.calls))
    assert courses[0] == courses[1]
