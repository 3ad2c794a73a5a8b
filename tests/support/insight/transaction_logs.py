"""Small logs of one key: plain commits, and transactions of three producers with their ends."""

from hypothesis import strategies as st

from support.log_writer import batch, commit, marker

STEPS = st.lists(
    st.tuples(
        st.sampled_from([-1, 5, 6, 7]),
        st.sampled_from(["offset", "offset", "tombstone", "commit", "abort"]),
        st.integers(0, 3),  # ms later; a record may also be older than the previous one
    ),
    min_size=4,
    max_size=14,
)


def batches_of(steps):
    """A batch for each step, with one record."""
    batches, now_ms = [], 10
    for number, (producer_id, what, ms) in enumerate(steps):
        now_ms += ms - 1
        inside = {"producer_id": producer_id, "transactional": True} if producer_id > 0 else {}
        record = commit(now_ms, number)
        if what == "tombstone":
            record = *record[:2], None
        if what in ("offset", "tombstone") or not inside:
            batches.append(batch(number, [record], **inside))
        else:
            batches.append(marker(number, producer_id, now_ms, commit=what == "commit"))
    return batches


def write(batches, folder):
    """Write a segment for each pair of offset and bytes into a new folder of partition 0."""
    home = folder / "__consumer_offsets-0"
    home.mkdir(parents=True)
    for offset, data in batches:
        (home / f"{offset:020}.log").write_bytes(data)
