"""The table of served APIs: key, versions, handler and error response.

The rows have the versions of a broker 3.9.1; ``_OF_4_1`` and ``_OF_4_4`` have those of 4.1.1 and
4.4.0 that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from coterie.server.api import refusals
from coterie.server.api.refusals import Refuse, in_partitions, of_each
from coterie.server.services.authentication import API_VERSIONS

ALTER_USER_SCRAM_CREDENTIALS = 51


class Served(NamedTuple):
    """A served API; ``handler`` is ``MODULE:FUNCTION`` of ``coterie.server.api``.

    ``refuse`` builds the error response for a whole request. ``row_form``: the handler reads and
    returns rows (tuples) instead of dicts, which is faster.
    """

    key: int
    name: str
    first: int
    last: int
    handler: str
    refuse: Refuse = refusals.top
    row_form: bool = False


_RESOURCE = {"resourceType": "resourceType", "resourceName": "resourceName"}
_GROUP = {"groupId": "groupId"}
_TRANSACTION = {"transactionalId": "transactionalId"}
_NAME = {"name": "name"}

SERVED: Mapping[int, Served] = {
    row.key: row
    for row in (
        Served(0, "Produce", 0, 11, "produce:produce", refusals.produce, row_form=True),
        Served(1, "Fetch", 0, 17, "fetch:fetch", refusals.fetch, row_form=True),
        Served(2, "ListOffsets", 0, 9, "list_offsets:list_offsets",
               in_partitions(timestamp=-1, offset=-1)),
        Served(3, "Metadata", 0, 12, "metadata:metadata", refusals.metadata, row_form=True),
        Served(8, "OffsetCommit", 0, 9, "offsets:offset_commit", in_partitions(), row_form=True),
        Served(9, "OffsetFetch", 0, 9, "offsets:offset_fetch", refusals.offset_fetch,
               row_form=True),
        Served(10, "FindCoordinator", 0, 6, "groups:find_coordinator", refusals.find_coordinator),
        Served(11, "JoinGroup", 0, 9, "members:join_group", refusals.join_group, row_form=True),
        Served(12, "Heartbeat", 0, 4, "members:heartbeat"),
        Served(13, "LeaveGroup", 0, 5, "members:leave_group"),
        Served(14, "SyncGroup", 0, 5, "members:sync_group", row_form=True),
        Served(15, "DescribeGroups", 0, 5, "groups:describe_groups",
               of_each("groups", "groups", _GROUP)),
        Served(16, "ListGroups", 0, 5, "groups:list_groups"),
        Served(17, "SaslHandshake", 0, 1, "sasl:sasl_handshake"),
        Served(API_VERSIONS, "ApiVersions", 0, 4, "connection:api_versions"),
        Served(19, "CreateTopics", 0, 7, "topics:create_topics",
               of_each("topics", "topics", _NAME)),
        Served(20, "DeleteTopics", 0, 6, "topics:delete_topics", refusals.delete_topics),
        Served(21, "DeleteRecords", 0, 2, "delete_records:delete_records",
               in_partitions(lowWatermark=-1)),
        Served(22, "InitProducerId", 0, 5, "transactions:init_producer_id",
               refusals.init_producer_id),
        Served(23, "OffsetForLeaderEpoch", 0, 4, "list_offsets:offset_for_leader_epoch",
               in_partitions("partition", leaderEpoch=-1, endOffset=-1)),
        Served(24, "AddPartitionsToTxn", 0, 5, "transactions:add_partitions_to_txn",
               refusals.add_partitions),
        Served(25, "AddOffsetsToTxn", 0, 4, "transactions:add_offsets_to_txn"),
        Served(26, "EndTxn", 0, 4, "transactions:end_txn"),
        Served(27, "WriteTxnMarkers", 0, 1, "transactions:write_txn_markers", refusals.markers),
        Served(28, "TxnOffsetCommit", 0, 4, "offsets:txn_offset_commit",
               in_partitions(), row_form=True),
        Served(29, "DescribeAcls", 0, 3, "unsupported:describe_acls"),
        Served(30, "CreateAcls", 0, 3, "unsupported:create_acls"),
        Served(31, "DeleteAcls", 0, 3, "unsupported:delete_acls"),
        Served(32, "DescribeConfigs", 0, 4, "configs:describe_configs",
               of_each("resources", "results", _RESOURCE)),
        Served(33, "AlterConfigs", 0, 2, "configs:alter_configs",
               of_each("resources", "responses", _RESOURCE)),
        Served(35, "DescribeLogDirs", 0, 4, "unsupported:describe_log_dirs"),
        Served(36, "SaslAuthenticate", 0, 2, "sasl:sasl_authenticate"),
        Served(37, "CreatePartitions", 0, 3, "topics:create_partitions",
               of_each("topics", "results", _NAME)),
        Served(42, "DeleteGroups", 0, 2, "groups:delete_groups",
               of_each("groupsNames", "results", _GROUP)),
        Served(43, "ElectLeaders", 0, 2, "unsupported:elect_leaders"),
        Served(44, "IncrementalAlterConfigs", 0, 1, "configs:incremental_alter_configs",
               of_each("resources", "responses", _RESOURCE)),
        Served(46, "ListPartitionReassignments", 0, 0, "unsupported:list_partition_reassignments"),
        Served(47, "OffsetDelete", 0, 0, "offsets:offset_delete", row_form=True),
        Served(48, "DescribeClientQuotas", 0, 1, "unsupported:describe_client_quotas"),
        Served(50, "DescribeUserScramCredentials", 0, 0, "scram_users:describe_users"),
        Served(ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0,
               "scram_users:alter_users", refusals.alter_users),
        Served(55, "DescribeQuorum", 0, 2, "kraft:describe_quorum"),
        Served(57, "UpdateFeatures", 0, 1, "kraft:update_features"),
        Served(60, "DescribeCluster", 0, 1, "metadata:describe_cluster"),
        Served(61, "DescribeProducers", 0, 0, "producers:describe_producers", in_partitions()),
        Served(65, "DescribeTransactions", 0, 0, "transactions:describe_transactions",
               of_each("transactionalIds", "transactionStates", _TRANSACTION)),
        Served(66, "ListTransactions", 0, 1, "transactions:list_transactions"),
        Served(68, "ConsumerGroupHeartbeat", 0, 0, "consumer_groups:consumer_group_heartbeat"),
        Served(69, "ConsumerGroupDescribe", 0, 0, "consumer_groups:consumer_group_describe",
               of_each("groupIds", "groups", _GROUP)),
        Served(74, "ListClientMetricsResources", 0, 0, "configs:list_config_resources"),
        Served(75, "DescribeTopicPartitions", 0, 0, "metadata:describe_topic_partitions",
               of_each("topics", "topics", _NAME)),
    )
}  # fmt: skip


# The versions of a broker 4.1.1 where they differ: there are new ones, and KIP-896 dropped others.
_OF_4_1 = {
    0: (3, 13), 1: (4, 18), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 15: (0, 6), 19: (2, 7),
    20: (1, 6), 23: (2, 4), 26: (0, 5), 27: (1, 1), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3),
    32: (1, 4), 35: (1, 4), 57: (0, 2), 60: (0, 2), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1),
}  # fmt: skip
_NAMES_OF_4_1 = {74: "ListConfigResources"}
_ADDED_BY_4_1 = (
    Served(76, "ShareGroupHeartbeat", 1, 1, "unsupported:refuse_share_groups"),
    Served(77, "ShareGroupDescribe", 1, 1, "unsupported:refuse_share_groups",
           of_each("groupIds", "groups", _GROUP)),
)  # fmt: skip
# The versions of a broker 4.4.0 where they differ from those of 4.1.1, and the APIs of share and
# streams groups, which are refused: their features are off.
_OF_4_4 = {
    2: (1, 11), 8: (2, 10), 9: (1, 10), API_VERSIONS: (0, 5), 27: (1, 2), 28: (0, 6), 35: (1, 5),
    42: (0, 3),
}  # fmt: skip
_share, _streams = "unsupported:refuse_share_groups", "unsupported:refuse_streams_groups"
_ADDED_BY_4_4 = (
    Served(78, "ShareFetch", 1, 2, _share),
    Served(79, "ShareAcknowledge", 1, 2, _share),
    Served(83, "InitializeShareGroupState", 0, 0, _share, refusals.share_state),
    Served(84, "ReadShareGroupState", 0, 0, _share, refusals.share_state),
    Served(85, "WriteShareGroupState", 0, 1, _share, refusals.share_state),
    Served(86, "DeleteShareGroupState", 0, 0, _share, refusals.share_state),
    Served(87, "ReadShareGroupStateSummary", 0, 1, _share, refusals.share_state),
    Served(88, "StreamsGroupHeartbeat", 0, 1, _streams),
    Served(89, "StreamsGroupDescribe", 0, 1, _streams, of_each("groupIds", "groups", _GROUP)),
    Served(90, "DescribeShareGroupOffsets", 0, 1, _share, of_each("groups", "groups", _GROUP)),
    Served(91, "AlterShareGroupOffsets", 0, 0, _share),
    Served(92, "DeleteShareGroupOffsets", 0, 0, _share),
    Served(93, "StreamsGroupTopologyDescriptionUpdate", 0, 0, _streams),
)  # fmt: skip


def _next_release(
    served: Mapping[int, Served],
    versions: Mapping[int, tuple[int, int]],
    added: Iterable[Served],
    names: Mapping[int, str],
) -> dict[int, Served]:
    """Return the rows of a release by those of the one before it and what differs."""
    rows = dict(served) | {row.key: row for row in added}
    for key, (first, last) in versions.items():
        rows[key] = rows[key]._replace(first=first, last=last)
    for key, name in names.items():
        rows[key] = rows[key]._replace(name=name)
    return rows


_KAFKA_4_1 = _next_release(SERVED, _OF_4_1, _ADDED_BY_4_1, _NAMES_OF_4_1)
SERVED_BY: Mapping[str, Mapping[int, Served]] = {  # by the name of the release
    "3.9": SERVED,
    "4.1": _KAFKA_4_1,
    "4.4": _next_release(_KAFKA_4_1, _OF_4_4, _ADDED_BY_4_4, {}),
}


# Names and keys of the APIs of all releases.
NAMES: Mapping[int, str] = {
    row.key: row.name for rows in SERVED_BY.values() for row in rows.values()
}
KEYS: Mapping[str, int] = {
    row.name.lower(): row.key for rows in SERVED_BY.values() for row in rows.values()
}


def refusal(key: int, version: int, body: dict[str, Any], error: int) -> dict[str, Any] | None:
    """Return the error response for a whole request; None: the request has no response."""
    return SERVED_BY["4.4"][key].refuse(body, version, error)
