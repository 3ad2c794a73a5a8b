"""Transactions of several producers at random, beside the shortest model of what readers may see.

Four clients share two transactional ids, so that they fence each other; time passes, so that
transactions run out. After each step, read_committed sees what was committed, and offsets show
once they are.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.messages import LogReader
from support.examples import examples
from support.server import asking, playing

TIMEOUT_MS, CHECK_MS = 25_000, 10_000
PARTITIONS = (0, 1)
TRANSACTIONAL = 0x10
NONE, INVALID_STATE, CONCURRENT, FENCED = 0, 48, 51, 90


@dataclass(eq=False)
class Open:
    """A transaction: what is in it, and how it ended, None while it has not."""

    began_ms: int
    held: set = field(default_factory=set)
    offset: tuple | None = None
    committed: bool | None = None


@dataclass
class Id:
    """A transactional id: the epoch in force, its transaction, how the last one ended."""

    epoch: int = -1
    open: Open | None = None
    last: bool | None = None

    def end(self, committed):
        self.open.committed, self.open, self.last = committed, None, committed


@dataclass
class Client:
    name: str
    producer: tuple | None = None
    sequences: dict = field(default_factory=dict)


class Model:
    """What is so: the ids, what was written in order, and the offset that shows."""

    def __init__(self, now_ms):
        self.began_ms = self.now_ms = now_ms
        self.ids = {"a": Id(), "b": Id()}
        self.written = {number: [] for number in PARTITIONS}
        self.commits = []  # transactions with their offsets, in the order of the log

    def is_current(self, client):
        return client.producer[1] == self.ids[client.name].epoch

    def init(self, name):
        own = self.ids[name]
        own.epoch += 1
        if own.open is None:
            own.last = None
            return NONE
        own.end(False)
        return CONCURRENT

    def add(self, client, what):
        own = self.ids[client.name]
        if not self.is_current(client):
            return FENCED
        own.open = own.open or Open(self.now_ms)
        own.open.held.add(what)
        return NONE

    def holds(self, client, what):
        own = self.ids[client.name].open
        return self.is_current(client) and own is not None and what in own.held

    def end(self, client, committed):
        own = self.ids[client.name]
        if not self.is_current(client):
            return FENCED
        if own.open is None:
            return NONE if own.last is committed else INVALID_STATE
        own.end(committed)
        return NONE

    def wait(self, ms):
        for now_ms in range(self.now_ms + 1, self.now_ms + ms + 1):
            if (now_ms - self.began_ms) % CHECK_MS == 0:
                for own in self.ids.values():
                    if own.open is not None and own.open.began_ms + TIMEOUT_MS < now_ms:
                        own.end(False)
                        own.epoch += 1
        self.now_ms += ms

    def readable(self, number):
        values = []
        for value, transaction in self.written[number]:
            if transaction.committed is None:
                break
            if transaction.committed:
                values.append(value)
        return values

    def offset(self):
        """The offset that shows, and whether another may come."""
        waits = any(each.committed is None for each, _ in self.commits)
        shown = [offset for each, offset in self.commits if each.committed]
        return (-1, 88) if waits else (shown[-1] if shown else -1, 0)


class Played:
    """The server beside the model: each step is done by both."""

    def __init__(self):
        self.server = playing.Server(playing.BROKER)
        self.peer = self.server.connect()
        self.server.cluster.topics.create("t", len(PARTITIONS))
        self.ask("FindCoordinator", 3, {"key": "a", "keyType": 1})
        self.ask("FindCoordinator", 3, {"key": "g", "keyType": 0})
        self.clients = [Client(name) for name in "aabb"]
        self.model = Model(self.server.cluster.now_ms)
        self.value = 0

    def ask(self, api, version, body):
        return asking.ask(self.peer, api, version, body)

    def producer(self, client):
        producer_id, epoch = client.producer
        return {
            "transactionalId": client.name, "producerId": producer_id, "producerEpoch": epoch,
        }  # fmt: skip

    def init(self, client, _):
        body = {"transactionalId": client.name, "transactionTimeoutMs": TIMEOUT_MS}
        response = self.ask("InitProducerId", 4, body)
        assert response["errorCode"] == self.model.init(client.name)
        if response["errorCode"] == NONE:
            assert response["producerEpoch"] == self.model.ids[client.name].epoch
            client.producer = response["producerId"], response["producerEpoch"]
            client.sequences = {}

    def add(self, client, number):
        producer = self.producer(client)
        body = {f"v3AndBelow{name[0].upper()}{name[1:]}": each for name, each in producer.items()}
        body["v3AndBelowTopics"] = [{"name": "t", "partitions": [number]}]
        (topic,) = self.ask("AddPartitionsToTxn", 3, body)["resultsByTopicV3AndBelow"]
        (response,) = topic["resultsByPartition"]
        assert response["partitionErrorCode"] == self.model.add(client, number)

    def produce(self, client, number):
        self.value += 1
        value, sequence = str(self.value), client.sequences.get(number, 0)
        batch = playing.play().batch(
            [[None, value, {}]], *client.producer, sequence, TRANSACTIONAL
        )  # fmt: skip
        partitions = [{"index": number, "records": batch}]
        body = {"transactionalId": client.name, "acks": -1, "timeoutMs": 1000}
        response = self.ask(
            "Produce", 7, {**body, "topicData": [{"name": "t", "partitionData": partitions}]}
        )
        error = response["responses"][0]["partitionResponses"][0]["errorCode"]
        assert (error == NONE) is self.model.holds(client, number)
        if error == NONE:
            client.sequences[number] = sequence + 1
            self.model.written[number].append((value, self.model.ids[client.name].open))

    def add_offsets(self, client, _):
        response = self.ask("AddOffsetsToTxn", 3, {**self.producer(client), "groupId": "g"})
        assert response["errorCode"] == self.model.add(client, "g")

    def commit_offset(self, client, _):
        self.value += 1
        partitions = [{"partitionIndex": 0, "committedOffset": self.value, "committedMetadata": ""}]
        body = {"groupId": "g", "topics": [{"name": "t", "partitions": partitions}]}
        response = self.ask("TxnOffsetCommit", 3, {**self.producer(client), **body})
        error = response["topics"][0]["partitions"][0]["errorCode"]
        assert (error == NONE) is self.model.holds(client, "g")
        if error == NONE:
            self.model.commits.append((self.model.ids[client.name].open, self.value))

    def end(self, client, committed):
        response = self.ask("EndTxn", 3, {**self.producer(client), "committed": bool(committed)})
        assert response["errorCode"] == self.model.end(client, bool(committed))

    def wait(self, ms):
        self.server.cluster.move(self.server.cluster.now_ms + ms)
        self.model.wait(ms)

    def check(self):
        for number in PARTITIONS:
            assert self.committed(number) == self.model.readable(number)
        groups = [{"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0]}]}]
        response = self.ask("OffsetFetch", 8, {"groups": groups, "requireStable": True})
        (found,) = response["groups"][0]["topics"][0]["partitions"]
        assert (found["committedOffset"], found["errorCode"]) == self.model.offset()

    def committed(self, number):
        """What a consumer of read_committed takes from a partition, by the rule of its fetcher."""
        values, offset, end = [], 0, 1
        while offset < end:
            found = self.fetched(number, offset)
            end, aborted = found["lastStableOffset"], found["abortedTransactions"] or ()
            firsts = sorted((each["firstOffset"], each["producerId"]) for each in aborted)
            leaving = set()
            for batch in LogReader(found["records"] or b""):
                while firsts and firsts[0][0] <= batch.last_offset:
                    leaving.add(firsts.pop(0)[1])
                if batch.is_control:
                    leaving.discard(batch.producer_id)
                elif batch.producer_id not in leaving:
                    values += [record.value.decode() for record in batch.records]
                offset = batch.last_offset + 1
        return values

    def fetched(self, number, offset):
        partitions = [{"partition": number, "fetchOffset": offset, "partitionMaxBytes": 2**20}]
        body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 2**20, "isolationLevel": 1}
        response = self.ask(
            "Fetch", 11, {**body, "topics": [{"topic": "t", "partitions": partitions}]}
        )
        (found,) = response["responses"][0]["partitions"]
        assert found["errorCode"] == NONE
        return found


CLIENT, NUMBER = st.integers(0, 3), st.sampled_from(PARTITIONS)
WORK = (["add", "produce"], ["add_offsets", "commit_offset"])
STEP = st.one_of(
    st.tuples(st.sampled_from([["init"], ["produce"], ["commit_offset"], ["add"]]), CLIENT, NUMBER),
    st.tuples(st.sampled_from(WORK), CLIENT, NUMBER),
    st.tuples(st.sampled_from(WORK), CLIENT, NUMBER),
    st.tuples(st.just(["end"]), CLIENT, NUMBER),
    st.tuples(st.just(["wait"]), st.integers(1, 30_000), st.none()),
)
START = [(["init"], 0, 0), (["init"], 2, 0)]


@settings(max_examples=examples(80))
@given(st.lists(STEP, min_size=15, max_size=50))
def test_readers_see_what_was_committed_and_nothing_else(steps):
    played = Played()
    for doings, who, number in [*START, *steps]:
        for what in doings:
            if what == "wait":
                played.wait(who)
            elif what == "init" or played.clients[who].producer is not None:
                getattr(played, what)(played.clients[who], number)
            played.check()
    assert not played.server.log_lines
