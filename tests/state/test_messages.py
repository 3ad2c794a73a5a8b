"""A log made by hand and read back, through the public names alone."""

from coterie import messages, scan


def test_a_log_made_by_hand_is_read_and_replayed():
    key = {"version": 1, "data": {"group": "g", "topic": "t", "partition": 3}}
    data = {"offset": 42, "leaderEpoch": -1, "metadata": "m", "commitTimestamp": 1000}
    value = {"version": 3, "data": data}
    record = (7, 1000, messages.encode_key(key), messages.encode_value(1, value))
    log = messages.encode_batch([record], 7, base_sequence=0)
    ((found,),) = (batch.records for batch in messages.LogReader(log))
    assert messages.decode_key(found.key)["data"] == key["data"]
    assert messages.decode_value(1, found.value) == value
    ((group),) = scan(log, partition=messages.partition_for("g")).groups()
    assert (group["group_id"], group["offsets_partition"]) == ("g", 3)
    assert group["offsets"][0]["offset"] == 42


def test_a_transaction_made_by_hand_counts_once_its_marker_says_commit():
    key = messages.encode_key({"version": 1, "data": {"group": "g", "topic": "t", "partition": 0}})
    data = {"offset": 5, "metadata": "", "commitTimestamp": 1000}
    value = messages.encode_value(1, {"version": 2, "data": data})
    pending = messages.encode_batch(
        [(0, 1000, key, value)], producer_id=9, producer_epoch=0, transactional=True
    )
    for commit, offsets in ((True, [5]), (False, [])):
        marker = messages.encode_marker(commit, 9, 0, timestamp_ms=1001, base_offset=1)
        groups = scan(pending + marker).groups()
        assert [row["offset"] for group in groups for row in group["offsets"]] == offsets
