from typing import Any

def replayed_group(records: list[tuple[bytes, bytes | None]]) -> dict[str, Any]:
    """Return what the records of one consumer group make of it.

    Parameters
    ----------
    records
        (key, value or None) of key versions 3 to 8 and 16, in log order; others are ignored.

    Returns
    -------
    dict
        ``state``, ``group_epoch``, ``target_assignment_epoch``, ``assignor``,
        ``regular_expressions`` (expression -> topic names) and ``members`` (rows by member id).
        A member has the fields of a classic row too. Its assignments are pairs of a topic id of 16
        bytes and partitions; ``member_state`` is the record's number. Names, ids and partitions
        ascend.
    """
