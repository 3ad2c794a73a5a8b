"""One of each class, and for each parameter a value that fits: what ``hostile`` sets out from."""

import dataclasses
import mmap
from functools import partial
from zlib import crc32

import numpy as np
from coterie._core.coordinator.consumer.assignors import GroupSpec, Subscriber
from coterie._core.coordinator.consumer.protocol import ConsumerProtocol

import coterie
import coterie.testing
from coterie import GroupCoordinator, ScanOptions, messages, values, wire
from coterie._core.codec.compression import compress
from coterie._core.coordinator.classic.protocol import Joins, Rebalances
from coterie._core.coordinator.consumer.group import ReplayedGroup, parse_record
from coterie._core.coordinator.consumer.values import Assignment, MetadataImage, TopicId
from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.offsets import LoadFilter
from coterie._core.coordinator.runtime import AppendOp, OffsetStore, Runtime
from coterie._core.fold.fold import PartitionFold, dump
from coterie._core.fold.history import GroupLog
from coterie._core.fold.record_scan import RecordScan
from coterie._core.mapping_guard import MappingGuard
from coterie._core.structures.offsets import Offset
from coterie._core.structures.schedule import Future, Schedule, Waiter
from coterie._core.structures.votes import ProtocolCounts
from coterie._core.testing.clients import (
    AssignedPartitions,
    Connection,
    Host,
    LogEnds,
    PartitionState,
    Sent,
)
from coterie._core.wire.codec import Codec
from coterie.coordinator.clock import SharedClock
from coterie.coordinator.config import coordinator_config
from coterie.testing import (
    Cluster,
    Consumer,
    ConsumerGroupMetadata,
    History,
    Member,
    Producer,
)
from support import golden_data
from support.log_writer import batch, commit_key, commit_value, group_key

MAPPING = mmap.mmap(-1, mmap.PAGESIZE)
KEY = {"version": 1, "data": {"group": "g", "topic": "t", "partition": 0}}
COMMIT = {"offset": 5, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 0}
VALUE = {"version": 3, "data": COMMIT}
SUBSCRIPTION = {"version": 0, "data": {"topics": ["t"], "userData": None}}
ASSIGNMENT = {"version": 0, "data": {"assignedPartitions": [], "userData": None}}
RECORD = (0, 0, messages.encode_key(KEY), messages.encode_value(1, VALUE))
LOG = messages.encode_batch([RECORD], base_sequence=0)
TRACE = ('{"format": "coterie-trace", "version": 1, "name": "t"}',
         '{"at": 5000, "op": "offset_commit", "id": 1, "group_id": "g", '
         '"offsets": [{"topic": "t", "partition": 0, "offset": 5}]}')  # fmt: skip


def a_group():
    group = coterie.GroupMetadata("g")
    group.add(a_member())
    group.transition_to("PreparingRebalance", 1)
    return group


def a_member(member_id="m", instance="i"):
    return coterie.MemberMetadata(member_id, instance, "c", "/h", 1, 1, "consumer",
                                  [("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")])  # fmt: skip


def a_map():
    offsets = coterie.OffsetMap()
    offsets.commit({("t", 0): 5}, 7)
    offsets.prepare_offset_commit({("t", 1): 5})
    offsets.prepare_txn_offset_commit(3, {("t", 2): 5})
    return offsets


def a_wheel():
    wheel = coterie.TimerWheel(3)
    wheel.add_many(np.arange(5, 2000), np.arange(5, 2000))
    return wheel


def a_coordinator(**options):
    coordinator = GroupCoordinator(now_ms=1000, **options)
    coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    coordinator.offset_commit("h", {("t", 0): 5})
    coordinator.txn_offset_commit("h", {("t", 1): 5}, producer_id=3, producer_epoch=0)
    return coordinator


def a_client():
    """One that has joined, and has not synced."""
    client = Member(a_coordinator(), "k", client_id="c", topics=["t"])
    client.join()
    client.coordinator.advance_by(3000)
    client._take_join()
    return client


def a_consumer_member():
    coordinator = a_coordinator(config={"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 1})
    return Member(coordinator, "c", client_id="c", topics=["t"], protocol="consumer")


def a_cluster():
    cluster = Cluster({"t": 2})
    cluster.schedule.run_until(5000)
    return cluster


def a_connection_with_a_request():
    """A connection that is cut, and what has stalled on it."""
    host = Host("a")
    host.cut_ms = 0
    settings = {"request.timeout.ms": 5}
    connection = Connection(a_cluster(), host, Waiter(Schedule(), "a"), settings)
    connection.send("find_coordinator", print)
    return connection, host.stalled[0]


def an_assignment():
    assignment = AssignedPartitions()
    assignment.assigned["t", 0] = PartitionState()
    return assignment


def a_consumer():
    """One with a position, that reads a partition of its own choice."""
    consumer = Consumer(a_cluster(), {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([("t", 0)])
    assert consumer.poll(1000)
    return consumer


def a_transaction():
    """A producer in a transaction."""
    producer = Producer(a_cluster(), {"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    return producer


class AnApplication:
    """What a history runs."""

    def __init__(self, consumer, store):
        self.store = store

    def process(self, records):
        self.store["records"] = self.store.get("records", 0) + len(list(records))


def a_history():
    """One that has run."""
    history = History(members=1, topics={"t": 1}, minutes=1)
    assert not history.run(AnApplication).lost
    return history


def answered():
    return GroupCoordinator().offset_commit("g", {("t", 0): 5})


def an_append():
    return a_coordinator(appends="deferred").appends[0]


def a_value(kind):
    """One of a class of ``coterie.values``."""
    fitting = {"str": "x", "int": 1, "bytes": b"", "bool": False, "Error": coterie.Error.NONE,
               "str | None": None}  # fmt: skip
    return kind(*(fitting.get(field.type, ()) for field in dataclasses.fields(kind)))


BEAT = {"groupId": "g", "generationId": 1, "memberId": "m"}
BEAT_FRAME = wire.encode_request(12, 4, BEAT)
CONSUMER_BEAT_FRAME = wire.encode_request(68, 1, {"groupId": "c", "memberEpoch": 1})


def a_result():
    future = Future()
    future.set(5)
    return future


MAKERS = {
    **{name: partial(a_value, getattr(values, name)) for name in values.__all__},
    "coterie.wire.Request": lambda: wire.decode_request(BEAT_FRAME),
    "coterie.wire.Response": lambda: wire.decode_response(12, 0, bytes(6)),
    "TimerWheel": a_wheel,
    "OffsetMap": a_map,
    "GroupMetadata": a_group,
    "MemberMetadata": a_member,
    "GroupCoordinator": a_coordinator,
    "PartialState": lambda: coterie.scan(LOG, partition=0),
    "ScanOptions": ScanOptions,
    "Pending": answered,
    "PendingAppend": an_append,
    "TraceOutput": lambda: GroupCoordinator().play(coterie.load_trace(TRACE)),
    "Member": a_client,
    "ClassicMember": a_client,
    "ConsumerMember": a_consumer_member,
    "Cluster": a_cluster,
    "Consumer": a_consumer,
    "Producer": a_transaction,
    "History": a_history,
    "LogReader": lambda: messages.LogReader(LOG * 2),
    "Append": lambda: coterie.Append(0, "g", RECORD[2], RECORD[3], 0),
    "Batch": lambda: coterie.Batch(0),
    "OffsetAndMetadata": lambda: coterie.OffsetAndMetadata(5),
    "Response": lambda: a_coordinator().events[-1],
    "Transition": lambda: next(
        e for e in a_coordinator().events if isinstance(e, coterie.Transition)
    ),
    "Unanswered": lambda: coterie.Unanswered(0, 1, "join_group", "dropped"),
}
# What no object above is ready for: a load that has begun, a protocol that was elected.
CONSUMER_METHODS = {"consumer_group_heartbeat", "consumer_group_describe", "set_topics"}  # from 4.1
# A member of the consumer protocol has no SyncGroup.
# A producer in a transaction has begun; without one it could neither send, commit nor abort.
UNREADY = {
    "finish_load", "current_member_metadata", "sync", "init_transactions", "begin_transaction",
    "play",  # with real clients
    *CONSUMER_METHODS,
}  # fmt: skip
CORE_UNREADY = {  # Python cannot make a subscriber with an id
    *UNREADY, "range_order", "subscriber_order",
}  # fmt: skip
GOOD = {  # parameter, perhaps with its function and class -> a value, or what makes one
    "IdentifiedPartitionError.topic_id": "A" * 22,
    "TypedGroupOverview.type": "consumer", "play.broker": 5, "play.client": AnApplication,
    "group_id": "g", "member_id": "m", "group_instance_id": "i", "old_member_id": "m",
    "new_member_id": "n", "client_id": "c", "client_host": "/h", "protocol_type": "consumer",
    "protocol": "range", "protocols": [("range", b"")], "select_protocol.protocols": [["a"]],
    "candidates": ["range"], "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
    "update_member.member": lambda group: group.all_members[0],
    "add.member": lambda group: a_member("n", None), "state": "Dead",
    "names": ["range"], "select_protocols.names": [0], "member_start": [0, 1],
    "group_start": [0, 1], "now_ms": 5000, "ms": 5, "limit_ms": 9000, "until_ms": 9000,
    "deadline_ms": 7000, "deadlines_ms": [7000], "key": 5, "keys": [5], "remove.keys": [("t", 0)],
    "get.key": ("t", 0), "default": None,
    "handle": 5, "handles": [5], "offsets": {("t", 0): 5}, "position": 9, "scan.position": 0,
    "producer_id": 3, "producer_epoch": 0, "is_commit": True, "commit": True, "topic": "t",
    "partition": 0, "retention_ms": 5, "commit_ms": [5], "expire_ms": [-1],
    "error": coterie.Error.REQUEST_TIMED_OUT, "request": {"op": "cleanup"},
    "trace": lambda: coterie.load_trace(TRACE), "lines": list(TRACE), "data": LOG,
    "read_subscription.data": coterie.testing.subscription(["t"]),
    "read_assignment.data": coterie.testing.assignment({"t": [0]}),
    "decode_subscription.data": coterie.testing.subscription(["t"]),
    "decode_assignment.data": coterie.testing.assignment({"t": [0]}),
    "from_bytes.data": coterie.scan(LOG).to_bytes(),
    "partials": lambda: [coterie.scan(LOG)], "later": lambda: coterie.scan(LOG),
    "pending": answered, "coordinator": a_coordinator, "topics": ["t"],
    "offset_fetch.topics": {"t": [0]}, "partitions": {"t": [0]},
    "offset_delete.partitions": [("t", 0)], "partition_for.partitions": 50,
    "delete_partitions.partitions": [("t", 0)],
    "PartialState.partitions": lambda: {0: ScanOptions().new_fold()},
    "decode_key.key": RECORD[2], "encode_key.key": KEY, "key_version": 1, "value": VALUE,
    "decode_value.value": RECORD[3], "subscription": SUBSCRIPTION, "assignment": ASSIGNMENT,
    "MemberMetadata.assignment": b"", "records": [RECORD], "magic": 1, "timestamp_ms": 5,
    "committed": True, "id": 1, "op": "x", "request_id": 1,
    "PendingAppend.op": lambda: an_append()._op, "on_complete": lambda: an_append()._on_complete,
    "clock": lambda: SharedClock(), "at": 5, "base_offset": 0,
    "outputs": lambda: MAKERS["TraceOutput"]()._outputs, "Append.key": RECORD[2],
    "Append.value": RECORD[3], "offset": 5, "from_": "Empty", "to": "Dead", "generation_id": 1,
    "cause": coterie.Cause.JOIN, "why": "dropped", "response": None, "metadata": "",
    "groups": (), "members": (), "leader": "m", "skip_assignment": False,
    "protocol_name": "range", "api_key": 12, "api_version": 4, "frame": BEAT_FRAME, "body": BEAT,
    "decode_response.frame": bytes(12), "correlation_id": 1, "encode_response.body": {},
    "Cluster.create_topic.name": "new", "Cluster.create_topic.partitions": 1, "total": 3,
    **{f"Cluster.{name}.name": "t" for name in (
        "add_partitions", "delete_topic", "produce", "delete_records")},
    "interval_ms": 1000, "before_offset": 1, "Cluster.call.op": "list_groups",
    "cluster": a_cluster, "Consumer.settings": {"group.id": "g"}, "Producer.settings": {},
    **{f"Consumer.{name}.partitions": [("t", 0)] for name in (
        "assign", "beginning_offsets", "committed", "end_offsets", "pause", "resume")},
    **{f"Consumer.{name}.partition": ("t", 0) for name in ("current_lag", "position", "seek")},
    "read.log": lambda: golden_data.log("basic"),
    "timeout_ms": 5, "times_ms": {("t", 0): 0}, "seed": 1,
    "group_metadata": ConsumerGroupMetadata("g", -1, "", None), "application": AnApplication,
}  # fmt: skip

# The compiled modules, private ones too.
RAW_KEY = commit_key(1, b"g", b"t", 0)
RAW_VALUE = commit_value(5, -1, b"", 0)
RAW_GROUP = messages.encode_value(2, {"version": 3, "data": {
    "protocolType": "consumer", "generation": 2**31 - 1, "protocol": "range", "leader": "m",
    "currentStateTimestamp": 0, "members": [
        {"memberId": "m", "groupInstanceId": "i", "clientId": "c", "clientHost": "/h",
         "rebalanceTimeout": 10_000, "sessionTimeout": 10_000, "subscription": b"",
         "assignment": b""}]}})  # fmt: skip
RAW_LOG = (
    batch(0, [(0, RAW_KEY, RAW_VALUE), (0, group_key(b"g"), RAW_GROUP)])
    + batch(2, [(0, commit_key(1, b"g", b"u", 0), RAW_VALUE)], producer_id=3, transactional=True)
    + batch(3, [(0, b"\0\5\0\1n\0\1m", None)])
)
ROWS = ((0, 3, 0, False, False, ((RAW_KEY, RAW_VALUE), (group_key(b"g"), RAW_GROUP))),)
JOIN = ("consumer", (("range", b""),), 10_000, 10_000, "c", "/h", False, False)


def a_fold():
    fold = PartitionFold(history=True)
    fold.scan(RAW_LOG, file="f")
    return fold


def a_core():
    core = Coordinator(coordinator_config({"coterie.cleanup": "periodic"}), 1000, None, True)
    core.import_log(ROWS)
    core.call(1, 1, "k", -1, "", None, JOIN)
    core.call(5, 2, "h", -1, "", None, (((("t", 0), 5, -1, "", None, -1),), -1, -1))
    return core


def appends_of(core):
    """Take the appends that have been begun since the last taking."""
    taken = []
    core.take_appends(taken)
    return taken


def a_trace():
    return coterie.load_trace(
        ['{"format": "coterie-trace", "version": 1}', '{"at": 5, "op": "cleanup"}']
    )


def a_log():
    log = GroupLog()
    log.add(5, 0, RAW_GROUP)
    log.add(6, 0, None)
    log.add(7, 0, RAW_GROUP)
    return log


def a_producer():
    return next(iter(a_fold().producers.values()))


def outputs():
    core = a_core()
    core.advance(500_000)
    return core.take_outputs()


BEAT_FIELDS = [("groupId", "string", 0, 9, 1, 0, -1, None, []),
               ("tagged", "[]struct", 0, 9, 1, 0, 3, None, [])]  # fmt: skip


def a_layout(*_):
    return wire.CODEC.layout(12, 4, "request")


def a_protocol():
    """The consumer protocol of a coordinator that has no group."""
    settings = coordinator_config({"coterie.behaviour": "4.1"})
    runtime = Runtime(settings, 1000, False, None)
    rebalances = Rebalances(runtime, settings)
    joins = Joins(runtime, rebalances, settings, None)
    return ConsumerProtocol(runtime, OffsetStore(), rebalances, joins, settings)


def a_topic_id():
    return TopicId(bytes(16))


def member_tombstone():
    key = messages.encode_key({"version": 5, "data": {"groupId": "g", "memberId": "m"}})
    return parse_record(key, None, MetadataImage(), False)[1]


CORE_MAKERS = {
    **{name: make for name, make in MAKERS.items() if name in (
        "TimerWheel", "OffsetMap", "GroupMetadata", "MemberMetadata", "LogReader")},
    "ReplayedGroup": ReplayedGroup,
    "Coordinator": a_core,
    "Schedule": Schedule,
    "Call": lambda: Schedule().call_later(1, int),
    "Timer": lambda: Waiter(Schedule(), "w").call_later(1, int),
    "End": lambda: Waiter(Schedule(), "w").call_later(1, int),
    "Future": Future,
    "Waiter": lambda: Waiter(Schedule(), "w"),
    "Host": lambda: Host("a"),
    "Sent": Sent,
    "ClientRequest": lambda: a_connection_with_a_request()[1],
    "Loss": lambda: Waiter(Schedule(), "w").call_later(1, int),
    "Connection": lambda: a_connection_with_a_request()[0],
    "LogEnds": lambda: LogEnds("t", 0),
    "PartitionState": PartitionState,
    "AssignedPartitions": an_assignment,
    "Trace": a_trace,
    "AppendOp": lambda: appends_of(a_core())[0],
    "Outputs": outputs,
    "PartitionFold": a_fold,
    "History": lambda: a_fold().history,
    "GroupLog": a_log,
    "Producer": a_producer,
    "Offset": lambda: Offset(5),
    "ProtocolCounts": ProtocolCounts,
    "RecordScan": RecordScan,
    "MappingGuard": lambda: MappingGuard(MAPPING),
    "Codec": lambda: Codec(wire.APIS.values(), wire._layout),  # another than all use
    "Layout": a_layout,
    "Request": MAKERS["coterie.wire.Request"],
    "Response": MAKERS["coterie.wire.Response"],
    "ConsumerProtocol": a_protocol,
    "Assignment": Assignment,
    "GroupSpec": lambda: GroupSpec({}, {}),
}  # fmt: skip
EMPTY_MAP, EMPTY_WHEEL = b"[[],[],[]]", bytes(16) + b"\xff" * 8  # as they are pickled

CORE_GOOD = {
    **GOOD,
    "_map_of.version": 1, "_map_of.state": EMPTY_MAP, "_map_of.check": crc32(EMPTY_MAP),
    "_wheel_of.version": 1, "_wheel_of.state": EMPTY_WHEEL, "_wheel_of.check": crc32(EMPTY_WHEEL),
    "leader_epoch": -1, "metadata": "", "commit_timestamp": 5, "expire_timestamp": -1,
    "_offset_of.topic_id": "00" * 16,
    "within.least": 0, "within.most": 5, "MappingGuard.data": MAPPING,
    "tracks.fold": lambda: PartitionFold(tracking=(None, None, None)), "tail": [],
    "direction": "request", "fill": True, "tags": True, "apis": [], "make": lambda: a_layout,
    "fields": BEAT_FIELDS, "flexible": True, "of_4x": True,
    "layout_of.version": 4, "below.name": "groupId", "first": 0, "last": 4, "longest": 100,
    "with_events": True, "payload": None,
    "encode_sized.records": b"\0\0\0\1\xff\xff\xff\xffk",
    "answer_quick.data": b"".join(
        len(frame).to_bytes(4, "big") + frame for frame in (BEAT_FRAME, CONSUMER_BEAT_FRAME)),
    "answer_quick.host_of": lambda: lambda: "/h",
    "answer_quick.coordinator": a_core, "answer_quick.position": 0, "answer_quick.topics": {},
    "text": "g", "what": "x", "codec": 1, "decompress.data": compress(1, b"x"),
    "decode_share_key.key": b"\0\0\0\1g" + bytes(16) + b"\0\0\0\7",
    "decode_utf8.data": b"\xff", "header": {}, "at_ms": 5, "line": 1, "instance": None,
    "details": JOIN, "op": 1, "call.member_id": "", "settings": coordinator_config(None),
    "batches": [], "batch": ROWS[0], "error": 0, "complete.base_offset": -1,
    "complete.op": lambda core: [*appends_of(core), made_bare()][0],
    "group": MAKERS["GroupMetadata"],
    "group.group_id": "k", "fold": a_fold, "absorb.later": a_fold,
    "go_back.keys": lambda scan: scan.keys(), "go_back.number": 0,
    "GroupLog.absorb.later": lambda log: a_log(), "take.records": [(9, 0, RAW_KEY, RAW_VALUE)],
    "call_at.function": int, "call_later.function": int, "call_soon.function": int,
    "schedule": Schedule, "future": a_result, "spend.items": 3,
    "Host.name": "a", "host": lambda: Host("a"), "process": lambda: Waiter(Schedule(), "p"),
    "sent": Sent, "request": lambda connection: connection.host.stalled[0],
    "sees_ms": 5, "committed": True,
    "then.function": int, "handler": int, "send.op": "find_coordinator", "kind": "fail",
    "send_to_coordinator.op": "find_coordinator", "take.op": "heartbeat",
    "deadline_ms": 5, "until_ms": 5, "failure": ValueError,
    "log": ROWS, "values": [5], "name": "x", "count": 1, "empty": True, "stable": True,
    "since_ms": 5, "topics_known": True, "split_key.key": RAW_KEY[2:], "index": 0,
    "within.value": 5, "read_group.value": RAW_GROUP,
    "set_image.brokers": (), "set_image.deleted": (), "set_image.topics": (),
    "restore.fold": lambda: PartitionFold(history=True), "restore.state": lambda: dump(a_fold()),
    "max_bytes": 10, "subscriptions": [b""], "members": 1, "scan.data": RAW_LOG, "log_offset": 9,
    "timestamp": 0, "add.value": RAW_GROUP, "only": ["g"], "Coordinator.now_ms": 0,
    "load.now_ms": 0, "read_group_value.value": RAW_GROUP,
    "events": [],
    "fresh": [], "key_type.version": 3, "write": lambda: lambda *batch: 0,
    "CallerLog.rows": lambda: lambda: (), "DirectLog.rows": lambda: lambda: (),
    "rows_of_partitions.rows": ROWS, "batches_of_4x.rows": ROWS,
    "load_filter": lambda: LoadFilter(4, 0, False, {}), "others": False, "exceptions": {},
    "ConsumerProtocol.load.rows": ROWS,
    "parse_record.key": RAW_KEY, "parse_record.value": RAW_VALUE,
    "key_order.key": ("t", 0), "record": member_tombstone, "order_of.topic": a_topic_id,
    "topic_order.topic": a_topic_id,
    "with_epochs": True,
    "by_topic": lambda: {a_topic_id(): {0: 1}}, "image": lambda: MetadataImage(), "regex": "t.*",
    "regexes": ["t.*"],
    "range_order.member": Subscriber, "subscriber": Subscriber, "brokers": (), "deleted": (),
    "config": {},
    "GroupSpec.topics": {}, "GroupSpec.members": {}, "assignor": "uniform", "homogeneous": True,
    "update_metadata.topics": (("t", bytes(16), ((),)),),
    "add_classic.fields": None, "add_classic.target": None,
}  # fmt: skip


def made_bare():
    """An append that no coordinator made."""
    return AppendOp()
