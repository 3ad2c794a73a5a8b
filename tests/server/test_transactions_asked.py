"""DescribeTransactions and ListTransactions: what an admin client asks of transactions.

The rules are those of Kafka 3.9.1: TransactionCoordinator.handleDescribeTransactions, and
TransactionStateManager.listTransactionStates with its three filters.
"""

import pytest

from coterie.coordinator.transaction import State
from support.server import asking, playing

INVALID, NOT_FOUND, NOT_COORDINATOR = 42, 105, 16
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
          "Dead", "PrepareEpochFence")  # fmt: skip
# As Kafka's schemas lay them out (both flexible from version 0 on), field by field.
DESCRIBE = (
    "0041 0000 00000009 0001 63 00"  # key 65, version 0, request 9 of client "c", no tags
    "03 05 6f70656e 02 78 00"  # "open" and "x"
)
DESCRIBED = (
    "00000009 00 00000000 03"  # request 9, no tags, no throttling; two of them
    "0000 05 6f70656e 08 4f6e676f696e67 0000ea60 {start:016x} {producer:016x} 0000"
    "02 02 74 03 00000000 00000001 00 00"  # one topic, "t", with partitions 0 and 1
    "0069 02 78 01 00000000 0000000000000000 0000000000000000 0000 01 00 00"
)
LIST = (
    "0042 0001 0000000a 0001 63 0003 08 4f6e676f696e67 02 78 02 {producer:016x} 00000000000001f3 00"
)
LISTED = (
    "0000000a 00 00000000 0000 02 02 78"  # no error; "x" is no state
    "02 05 6f70656e {producer:016x} 08 4f6e676f696e67 00 00"
)


class Asking:
    """A server where "empty" began, "open" has t-0 and t-1, "done" and "gone" have ended."""

    def __init__(self):
        self.server = playing.Server(playing.BROKER)
        self.peer = self.server.connect()
        self.server.cluster.topics.create("t", 2)
        self.ask("FindCoordinator", 3, {"key": "x", "keyType": 1})
        self.ids = {}
        for name in ("empty", "done", "gone", "open"):
            body = {"transactionalId": name, "transactionTimeoutMs": 60_000}
            self.ids[name] = self.ask("InitProducerId", 4, body)["producerId"]
        self.add("done", [0])
        self.add("gone", [0])
        self.end("done", committed=True)
        self.end("gone", committed=False)
        self.server.run(1000)
        self.add("open", [1, 0])

    def ask(self, api, version, body):
        return asking.ask(self.peer, api, version, body)

    def add(self, name, numbers):
        topics = [{"name": "t", "partitions": numbers}]
        response = self.ask("AddPartitionsToTxn", 3, {
            "v3AndBelowTransactionalId": name, "v3AndBelowProducerId": self.ids[name],
            "v3AndBelowProducerEpoch": 0, "v3AndBelowTopics": topics})  # fmt: skip
        codes = [each["partitionErrorCode"]
                 for topic in response["resultsByTopicV3AndBelow"]
                 for each in topic["resultsByPartition"]]  # fmt: skip
        assert codes == [0] * len(numbers)

    def end(self, name, *, committed):
        body = {"transactionalId": name, "producerId": self.ids[name], "producerEpoch": 0}
        assert self.ask("EndTxn", 3, {**body, "committed": committed})["errorCode"] == 0

    def described(self, *names):
        response = self.ask("DescribeTransactions", 0, {"transactionalIds": names})
        assert response["throttleTimeMs"] == 0
        return response["transactionStates"]

    def listed(self, version=1, **filters):
        """Names that are listed with these filters, and the states that are unknown."""
        body = {"stateFilters": [], "producerIdFilters": [], **filters}
        response = self.ask("ListTransactions", version, body)
        assert (response["throttleTimeMs"], response["errorCode"]) == (0, 0)
        for each in response["transactionStates"]:
            assert each["producerId"] == self.ids[each["transactionalId"]]
        names = {each["transactionalId"] for each in response["transactionStates"]}
        assert len(names) == len(response["transactionStates"])
        return names, response["unknownStateFilters"]


def test_the_frames_are_those_of_kafkas_schemas():
    it = Asking()
    it.server.run(500)
    response = {"producer": it.ids["open"], "start": playing.START_MS + 1000}
    for asked, answered in ((DESCRIBE, DESCRIBED), (LIST, LISTED)):
        it.peer.send(asking.framed(bytes.fromhex(asked.format(**response))))
        assert it.peer.frame(0).hex(" ") == bytes.fromhex(answered.format(**response)).hex(" ")


@pytest.fixture
def it():
    return Asking()


def test_both_are_offered_in_the_versions_of_3_9(it):
    keys = it.ask("ApiVersions", 3, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})
    spans = {each["apiKey"]: (each["minVersion"], each["maxVersion"]) for each in keys["apiKeys"]}
    assert (spans[65], spans[66]) == ((0, 0), (0, 1))


def test_a_transaction_is_described_by_its_state_its_times_and_its_partitions(it):
    (found,) = it.described("open")
    assert found == {
        "errorCode": 0, "transactionalId": "open", "transactionState": "Ongoing",
        "transactionTimeoutMs": 60_000, "transactionStartTimeMs": playing.START_MS + 1000,
        "producerId": it.ids["open"], "producerEpoch": 0,
        "topics": [{"topic": "t", "partitions": [0, 1]}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "state", "start_ms"),
    [("empty", "Empty", -1), ("done", "CompleteCommit", playing.START_MS),
     ("gone", "CompleteAbort", playing.START_MS)],
)  # fmt: skip
def test_one_that_is_not_open_has_no_partitions_and_keeps_its_start(it, name, state, start_ms):
    (found,) = it.described(name)
    assert (found["transactionState"], found["transactionStartTimeMs"]) == (state, start_ms)
    assert found["topics"] == []


def test_each_id_that_is_named_has_an_entry_in_the_order_asked_for(it):
    found = it.described("nobody", "open", "", "open")
    assert [(each["transactionalId"], each["errorCode"]) for each in found] == [
        ("nobody", NOT_FOUND), ("open", 0), ("", INVALID), ("open", 0),
    ]  # fmt: skip
    assert (found[0]["transactionState"], found[0]["producerId"], found[0]["topics"]) == ("", 0, [])
    assert it.described() == []


def test_a_broker_that_keeps_no_transactions_is_not_their_coordinator():
    peer = playing.Server(playing.BROKER).connect()
    response = asking.ask(peer, "DescribeTransactions", 0, {"transactionalIds": ["x"]})
    assert [each["errorCode"] for each in response["transactionStates"]] == [NOT_COORDINATOR]
    response = asking.ask(
        peer, "ListTransactions", 1, {"stateFilters": [], "producerIdFilters": []}
    )
    assert (response["errorCode"], response["transactionStates"]) == (0, [])


@pytest.mark.parametrize("version", [0, 1])
def test_all_are_listed_without_a_filter(it, version):
    assert it.listed(version) == ({"empty", "open", "done", "gone"}, [])


def test_a_list_by_state_says_which_states_do_not_exist(it):
    assert it.listed(stateFilters=["Ongoing", "Empty"]) == ({"open", "empty"}, [])
    assert it.listed(stateFilters=["ongoing", "Empty", "x"]) == ({"empty"}, ["ongoing", "x"])
    assert it.listed(stateFilters=["ongoing", "ongoing"]) == (set(), ["ongoing"])
    assert it.listed(stateFilters=[]) == ({"empty", "open", "done", "gone"}, [])


def test_every_state_of_kafka_is_known_to_the_filter(it):
    assert it.listed(stateFilters=STATES) == ({"empty", "open", "done", "gone"}, [])
    assert {state.title for state in State} <= set(STATES)


def test_a_list_by_producer_takes_any_of_those_named(it):
    ids = [it.ids["open"], it.ids["done"], 1 << 40]
    assert it.listed(producerIdFilters=ids) == ({"open", "done"}, [])
    assert it.listed(producerIdFilters=[1 << 40]) == (set(), [])


def test_a_list_by_duration_takes_what_has_run_longer_and_what_never_began(it):
    everything = {"empty", "open", "done", "gone"}
    assert it.listed(durationFilter=0)[0] == everything - {"open"}  # which has just begun
    it.server.run(500)  # "open" has run for 500 ms, the ended ones began 1,500 ms ago
    assert it.listed(durationFilter=-1)[0] == everything
    assert it.listed(durationFilter=499)[0] == everything
    assert it.listed(durationFilter=500)[0] == {"empty", "done", "gone"}
    assert it.listed(durationFilter=1500)[0] == {"empty"}


def test_filters_hold_together(it):
    it.server.run(500)
    both = {"stateFilters": ["Ongoing", "CompleteCommit"], "durationFilter": 500}
    assert it.listed(**both)[0] == {"done"}
    assert it.listed(**both, producerIdFilters=[it.ids["open"]])[0] == set()
