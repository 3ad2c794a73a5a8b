"""Copies of a partition as brokers would have them: a history that elections split, cut, cleaned.

A history is a list of (base offset, leader epoch, records), a record (offset, time, key, value).
"""

from coterie._core.codec.batch import encode_batch
from coterie.insight.records.comparison import compare
from coterie.log.folders import find_segments
from coterie.state.replay_engine import Silent
from support import log_writer as write


def commit(offset, time, group=b"g", value=7):
    key, data = write.commit(time, value, group=group)[1:]
    return offset, time, key, data


def generation(offset, time, number, group=b"g"):
    return offset, time, write.group_key(group), write.group_value(number, [b"m"])


def history(begin, epoch, count, *, size=1, time=0, group=b"g"):
    """``count`` batches of ``size`` commits each, from an offset on."""
    batches = []
    for base in range(begin, begin + count * size, size):
        records = [commit(base + i, time + base, group, base + i + time) for i in range(size)]
        batches.append((base, epoch, records))
    return batches


def encoded(batch, removed=frozenset(), **options):
    """A batch as bytes; ``removed`` are offsets that compaction took."""
    base, epoch, records = batch
    left = [record for record in records if record[0] not in removed]
    if not left:
        return b""
    return encode_batch(
        left, base, leader_epoch=epoch, last_offset_delta=records[-1][0] - base, **options
    )


def write_copy(
    folder,
    batches,
    *,
    partition=0,
    cuts=(),
    removed=frozenset(),
    epochs=None,
    topic_id=None,
    **options,
):
    """Write a copy; a segment begins at offset 0 and at each batch with a base offset in ``cuts``.

    ``removed`` are offsets that the cleaner took; ``epochs`` are the lines of the broker's
    checkpoint, (epoch, first offset) each; ``topic_id`` is that of its ``partition.metadata``.
    """
    target = folder / f"__consumer_offsets-{partition}"
    target.mkdir(parents=True)
    segments = {batches[0][0] if batches else 0: b""}
    for batch in batches:
        if batch[0] in cuts:
            segments.setdefault(batch[0], b"")
        segments[max(segments)] += encoded(batch, removed, **options)
    for base, data in segments.items():
        (target / f"{base:020}.log").write_bytes(data)
    if epochs is not None:
        lines = ["0", str(len(epochs)), *(f"{epoch} {offset}" for epoch, offset in epochs)]
        (target / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
    if topic_id is not None:
        (target / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return str(folder)


def records_in(batches, removed=frozenset()):
    """The records of a copy, by offset, each with its leader epoch."""
    return {
        record[0]: (epoch, *record[1:])
        for _, epoch, records in batches
        for record in records
        if record[0] not in removed
    }


def end_of(batches):
    return batches[-1][2][-1][0] + 1 if batches else 0


def epochs_in(batches, removed=frozenset()):
    """The leader epoch of each offset of the batches that a cleaner left, if only in part."""
    return {
        record[0]: epoch
        for _, epoch, records in batches
        for record in records
        if any(other[0] not in removed for other in records)
    }


def common_until(copies, ends):
    """The slow model: the offset after the common history of two copies, (batches, removed)."""
    one, other = (records_in(*copy) for copy in copies)
    limits = [*ends, *(o for o in one if o in other and one[o] != other[o])]
    epochs = [epochs_in(*copy) for copy in copies]
    for here, there in (epochs, epochs[::-1]):
        limits += [o for o in here for p in there if p >= o and there[p] < here[o]]
    return min(limits)


def compared(*copies):
    """The rows of one partition, by copy, without the path above."""
    (rows,) = compare({copy: find_segments([copy]) for copy in copies}, Silent())
    return {row["copy"].rpartition("/")[2]: row for row in rows}
