"""Handmade logs of a group: its members over time, and its commits.

The message schemas encode the values; other tests check the schemas against Kafka.
"""

from coterie.messages import encode_value
from coterie.testing import assignment, subscription
from support.log_writer import (
    batch,
    commit_key,
    commit_value,
    end_of_transaction,
    group_key,
)


def member(member_id, **fields):
    """A member of a classic group: its ``topics``, and ``held``, topic -> partitions."""
    topics, assigned = fields.pop("topics", ["t"]), fields.pop("held", {"t": [0]})
    return {
        "memberId": member_id,
        "groupInstanceId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 9_000,
        "sessionTimeout": 7_000,
        "subscription": subscription(topics),
        "assignment": assignment(assigned),
    } | fields


def life(at_ms, generation, *members, group=b"g", protocol="range", state_ms=-1):
    """A metadata record of a group; a tombstone if ``generation`` is None."""
    if generation is None:
        return at_ms, group_key(group), None
    data = {
        "protocolType": "consumer",
        "generation": generation,
        "protocol": protocol if members else None,
        "leader": members[0]["memberId"] if members else None,
        "currentStateTimestamp": state_ms,
        "members": list(members),
    }
    return at_ms, group_key(group), encode_value(2, {"version": 3, "data": data})


def commit(at_ms, offsets, group=b"g", topic=b"t", topic_id=None):
    """The records of one request: partition -> offset, None for a tombstone.

    Brokers since 4.2 write the topic's id with a commit.
    """

    def value(offset):
        if topic_id is None:
            return commit_value(offset, -1, b"", at_ms)
        data = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": at_ms}
        return encode_value(1, {"version": 4, "data": {**data, "topicId": topic_id}})

    return [
        (
            at_ms,
            commit_key(1, group, topic, partition),
            None if offset is None else value(offset),
        )
        for partition, offset in offsets.items()
    ]


PRODUCER = {"producer_id": 7, "transactional": True}
EPOCH = encode_value(3, {"version": 0, "data": {"epoch": 1, "metadataHash": 1}})
OF_4X = -1, b"\0\3\0\5other", EPOCH  # a record that only Kafka 4.x writes


def in_transaction(records):
    """The records of a request as a transaction's batch, for `written`."""
    return PRODUCER | {"records": records}


def transaction_end(at_ms, *, commit):
    """The end of that transaction."""
    return PRODUCER | {"records": [end_of_transaction(at_ms, commit=commit)], "control": True}


def written(folder, *appends, number=0, epochs=None, first_offset=0):
    """Write a batch for each record or list of records as a partition; return the topic's folder.

    A dict has all arguments of ``batch``. ``epochs`` has the leader epoch of each batch. A log with
    a ``first_offset`` above 0 has lost what was before it.
    """
    place = folder / f"__consumer_offsets-{number}"
    place.mkdir(parents=True)
    offset, data = first_offset, b""
    for index, append in enumerate(appends):
        fields = {"records": [append]} if isinstance(append, tuple) else append
        fields = {"records": fields} if isinstance(fields, list) else fields
        data += batch(offset, leader_epoch=0 if epochs is None else epochs[index], **fields)
        offset += len(fields["records"])
    (place / f"{first_offset:020}.log").write_bytes(data)
    return folder
