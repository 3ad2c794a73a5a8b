"""The shortest model of a load: what a coordinator has once it has read a log of `made_logs`."""

from base64 import urlsafe_b64encode
from collections import defaultdict

from support import log_writer as write


def name(raw):
    return raw.decode("utf-8", "replace")


def text_of(topic_id):
    """As Kafka prints a UUID."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def is_late(time, at_ms):
    """Whether a record is left out as of a time; one without a time never is."""
    return at_ms is not None and time > at_ms and time != -1


def events_of(log, at_ms):
    """The commits and markers of a log, for the model of its history."""
    for base, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            if not is_late(time, at_ms):
                yield "marker", producer, committed
            continue
        for offset, (kind, time, *rest) in enumerate(content, base):
            if kind == "commit" and not is_late(time, at_ms):
                _, (group, topic, partition), value = rest
                names = [name(raw).encode() for raw in (group, topic)]
                key = write.commit_key(1, *names, partition)[2:]
                yield "commit", key, offset, time, producer, value and (
                    *value[:4], -1, value[4] if value[4:] else None
                )  # fmt: skip


def model(log, at_ms, follows_4x=False):
    """GroupMetadataManager.doLoadGroupsAndOffsets in as few lines as possible.

    ``follows_4x``: OffsetMetadataManager.replay, whose tombstones remove what is pending.
    """
    offsets, pending, metadata = {}, defaultdict(dict), {}
    for base, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            if is_late(time, at_ms):
                continue
            for place, value in pending.pop(producer, {}).items():
                if committed and (place not in offsets or offsets[place][0] < value[0]):
                    offsets[place] = value
            continue
        for kind, time, *rest in content:
            if is_late(time, at_ms):
                continue
            if kind == "group":
                metadata[name(rest[0])] = rest[1]
                continue
            _, (group, topic, partition), value = rest
            place = name(group), name(topic), partition
            into = offsets if producer is None else pending[producer]
            into.pop(place, None)
            for of_producer in pending.values() if follows_4x and value is None else ():
                of_producer.pop(place, None)
            if value is not None:
                into[place] = (base, *value[:4], *map(text_of, filter(None, value[4:])))
    return offsets, pending, {group: value for group, value in metadata.items() if value}


def in_words(log, at_ms, follows_4x=False):
    """The model's answer as {group: (generation, members, offsets, pending)}."""
    offsets, pending, metadata = model(log, at_ms, follows_4x)
    found = defaultdict(lambda: [0, [], {}, {}])
    for group, (generation, members) in metadata.items():
        found[group][:2] = generation, sorted(map(name, members))
    for (group, topic, partition), value in offsets.items():
        found[group][2][topic, partition] = value
    for producer, places in pending.items():
        for (group, topic, partition), value in places.items():
            found[group][3].setdefault(producer, {})[topic, partition] = value
    return dict(found)


def offsets_of(rows):
    return {
        (row["topic"], row["partition"]): (
            row["appended_batch_offset"],
            row["offset"],
            row["leader_epoch"],
            row["metadata"].encode(),
            row["commit_timestamp"],
            *([row["topic_id"]] if "topic_id" in row else []),
        )
        for row in rows
    }


def state_in_words(state):
    """A state of the product in the words of :func:`in_words`."""
    return {
        row["group_id"]: [
            row["generation"],
            [member["member_id"] for member in row["members"]],
            offsets_of(row["offsets"]),
            {
                entry["producer_id"]: offsets_of(entry["offsets"])
                for entry in row["pending_transactional_offsets"]
            },
        ]
        for row in state.groups()
    }
