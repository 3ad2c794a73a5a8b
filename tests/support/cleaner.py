"""A model of Kafka's log cleaner: slow and obvious, on the bytes of segments of magic 2.

``test_cleaner_model.py`` compares it with logs that a real broker has compacted. It does not model
cleanings that need more than 2 GiB of offsets or index; magic 0 and 1, which brokers no longer
write into the topic; and Kafka 4.0's rule of retaining the last batch, even an empty one.

Sources: LogCleaner.scala (Cleaner, CleanedTransactionMetadata), LogCleanerManager
(cleanableOffsets), MemoryRecords.filterTo, ProducerStateManager; Kafka 3.9.
"""

from coterie._core.codec.batch import CODECS, LogReader, encode_batch

DAY_MS = 86_400_000


def clean(
    segments,
    since=0,
    *,
    now_ms,
    delete_retention_ms=DAY_MS,
    segment_bytes=100 << 20,
    producer_id_expiration_ms=DAY_MS,
):
    """Return a partition's segments after one cleaning, and the offset up to which it cleaned.

    ``segments`` are (base offset, bytes), the last one active; ``since`` is the offset that the
    previous cleaning returned.
    """
    batches = {base: list(LogReader(data)) for base, data in segments}
    every = [batch for base, _ in segments for batch in batches[base]]
    end = uncleanable_from(segments, every)
    if end <= since:
        return segments, since
    aborted, _ = transactions(every)
    last = {
        record.key: record.offset
        for batch in every
        if not batch.is_control and batch.base_offset not in aborted
        for record in batch.records
        if since <= record.offset < end
    }
    stays = last_of_producers(every, now_ms - producer_id_expiration_ms)
    unfinished = set()  # producers with data, but without a marker so far
    out = []
    for group in groups([segment for segment in segments if segment[0] < end], segment_bytes):
        retained = []
        for base, data in group:
            for batch in batches[base]:
                done = is_done(batch, aborted, unfinished)
                left = records_left(batch, done, last, now_ms)
                horizon_ms = delete_horizon(batch, left, done, now_ms + delete_retention_ms)
                if left == batch.records != [] and horizon_ms == batch.delete_horizon:
                    retained.append(data[batch.position : batch.position + batch.size])
                elif left or batch.base_offset in stays:
                    retained.append(written(batch, left, horizon_ms))
        out.append((group[0][0], b"".join(retained)))
    return out + [segment for segment in segments if segment[0] >= end], end


def is_commit(batch):
    """Whether a marker commits; None if its record has been cleaned away."""
    return batch.records[0].key[3] == 1 if batch.records else None


def transactions(batches):
    """Base offsets of the batches of aborted transactions, and of open ones."""
    aborted, unfinished = set(), {}
    for batch in batches:
        if batch.is_control and batch.records:
            ended = unfinished.pop(batch.producer_id, [])
            aborted.update(() if is_commit(batch) else ended)
        elif batch.is_transactional and not batch.is_control:
            unfinished.setdefault(batch.producer_id, []).append(batch.base_offset)
    return aborted, [base for bases in unfinished.values() for base in bases]


def uncleanable_from(segments, batches):
    """Base offset of the first segment that is active or has the last stable offset."""
    _, unfinished = transactions(batches)
    limit = min([segments[-1][0], *unfinished])
    return max(base for base, _ in segments if base <= limit)


def last_of_producers(batches, expired_ms):
    """Base offsets of the batches from which the broker restores its producers.

    These are a producer's last batch of data, or the markers of a new epoch after it.
    """
    known = {}  # producer -> epoch, last batch of data, time
    for batch in batches:
        if batch.producer_id < 0:
            continue
        epoch, data, _ = known.get(batch.producer_id, (None, None, None))
        if batch.is_control:
            data = data if epoch == batch.producer_epoch else None
        else:
            data = batch.base_offset
        known[batch.producer_id] = batch.producer_epoch, data, batch.max_timestamp
    _, unfinished = transactions(batches)
    stays = set()
    for batch in batches:
        epoch, data, time_ms = known.get(batch.producer_id, (None, None, expired_ms))
        if time_ms <= expired_ms and data not in unfinished:
            continue
        if batch.base_offset == data if data is not None else is_marker_of(batch, epoch):
            stays.add(batch.base_offset)
    return stays


def is_marker_of(batch, epoch):
    return batch.is_control and batch.producer_epoch == epoch


def groups(segments, segment_bytes):
    """Join neighbouring segments up to the maximum size."""
    joined = []
    for base, data in segments:
        if joined and sum(len(other) for _, other in joined[-1]) + len(data) <= segment_bytes:
            joined[-1].append((base, data))
        else:
            joined.append([(base, data)])
    return joined


def is_done(batch, aborted, unfinished):
    """Whether a batch is obsolete: data of an aborted transaction, or a marker without data."""
    if not batch.is_control:
        if batch.is_transactional:
            unfinished.add(batch.producer_id)
        return batch.base_offset in aborted
    if batch.records and batch.producer_id in unfinished:
        unfinished.remove(batch.producer_id)
        return False
    return True


def records_left(batch, done, last, now_ms):
    """The records of a batch that remain."""
    passed = batch.delete_horizon is not None and batch.delete_horizon <= now_ms
    if batch.is_control:
        return [] if done and passed else batch.records
    if done:
        return []
    return [
        record
        for record in batch.records
        if record.key is not None
        and record.offset >= last.get(record.key, -1)
        and (record.value is not None or not passed)
    ]


def delete_horizon(batch, left, done, new_ms):
    """The time until which tombstones and markers remain; the first cleaning sets it."""
    if batch.delete_horizon is not None:
        return batch.delete_horizon
    marked = (batch.is_control and done) or any(record.value is None for record in left)
    return new_ms if marked else None


def written(batch, records, horizon_ms):
    """A batch with the remaining records; without any, only its header."""
    fields = {
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "last_offset_delta": batch.last_offset - batch.base_offset,
        "leader_epoch": batch.leader_epoch,
        "append_time_ms": batch.max_timestamp if batch.append_time else None,
    }
    if not records:
        fields["max_timestamp_ms"] = batch.max_timestamp
    else:
        fields["codec"] = CODECS.index(batch.compression)
        fields["delete_horizon_ms"] = horizon_ms
    return encode_batch(records, batch.base_offset, **fields)
