"""Records of a partition as columns: the outcome of each commit, and the record that it replaced.

A question names the columns that it needs. A scan holds a few megabytes at a time; keys have
numbers, so that no text is compared.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final, final

import numpy as np
from typing_extensions import Buffer

BATCH_DTYPE: Final[np.dtype[Any]]
KEY_DTYPE: Final[np.dtype[Any]]
ROW_DTYPES: Final[dict[str, Any]]
ALWAYS: Final[set[str]]
"""Columns that are always returned."""

@final
class RecordScan:
    """The records of a partition as columns, in log order, with outcomes; piece by piece.

    Parameters
    ----------
    groups
        Return only rows of these groups; None: all rows, also those of no group (markers).
    at_ms
        Leave out records whose own timestamp (ms) is after this; those without one stay.
    number
        The number of the first record.
    columns
        What to return besides ``ALWAYS``: names of ``ROW_DTYPES``, and ``mixed`` of batches; None:
        all. ``decided_by``, ``decided_ms`` and ``number`` come together, and so do ``disk_bytes``,
        ``key_size`` and ``value_size``.
    check_crc
        False does not check checksums.

    Attributes
    ----------
    groups, topics : list of str
        The names that the columns ``group`` and ``keys`` number, of all pieces so far.
    number : int
        The number of the next record, and so of all records in readable batches so far.

    Notes
    -----
    Faults are left out, as with ``--on-fault skip``. A concurrent call raises a CoterieError.
    """

    def __new__(
        cls,
        *,
        groups: Collection[str] | None = None,
        at_ms: int | None = None,
        number: int = 0,
        columns: Collection[str] | None = None,
        check_crc: bool = True,
    ) -> RecordScan: ...
    @property
    def groups(self) -> list[str]: ...
    @property
    def topics(self) -> list[str]: ...
    @property
    def number(self) -> int: ...
    @property
    def key_count(self) -> int:
        """How many keys (group, topic, partition) were seen."""
    def scan(
        self,
        data: Buffer,
        *,
        position: int = 0,
        max_bytes: int | None = None,
        tail: Iterable[tuple[int, tuple[int, int, int]]] = (),
    ) -> tuple[dict[str, Any], int]:
        """Read the records of a segment's batches, from a position on.

        Parameters
        ----------
        data
            A whole segment, decompressed. Not referenced afterwards.
        position
            Where to begin: a batch boundary.
        max_bytes
            Stop at the first batch that begins this many bytes after ``position`` or later; None:
            at the end.
        tail
            The next marker of each producer whose transaction is open at the end of the piece:
            (producer id, (0 for ABORT or 1 for COMMIT, number of the marker, its time in ms)).

        Returns
        -------
        dict
            Arrays of shape (rows,), and ``newer_keys`` and ``batches``. A commit or its tombstone
            *counts* if it is committed.

            - int64: ``log_offset``, ``timestamp`` (ms, -1: none), ``number`` (of the record in the
              partition), ``offset``, ``commit_timestamp``, ``expire_timestamp``;
            - int64: ``decided_by``, the number of the record that made the row count (the marker,
              or else the row's own), and ``decided_ms``, the time of that record;
            - int64: ``previous_offset``, ``previous_log_offset`` and ``previous_timestamp`` of the
              replaced record: the last one of the same key that counted;
            - int64: ``topic_id_high`` and ``topic_id_low``, the halves of the topic id, if a commit
              has one, as those of Kafka 4.2 and later have; else 0;
            - int64: ``disk_bytes``, the row's share of its batch, by the bytes of key and value;
              the shares of all records of a batch add up to its size;
            - int32: ``previous_row``, the row of the replaced record (-1: none, or in an earlier
              piece), ``batch`` (row of ``batches``), ``key`` (see :meth:`keys`; -1: no commit),
              ``group`` (-1: none), ``metadata_size``, ``key_size``, ``value_size`` (-1: null);
            - int8: ``kind`` (see ``coterie._core.fold.columns.KIND_NAMES``), ``outcome`` (0
              committed, 1 aborted, 2 pending), ``previous`` (the replaced record: 0 none, 1 a
              tombstone, 3 a commit; 2 and 4: the same, of another topic of the same name: the id
              changed since the last commit that has one).

            ``newer_keys`` are the keys of the rows of kind ``newer``. ``batches`` has all readable
            batches, of ``BATCH_DTYPE``: ``position`` (byte in the segment), ``first_row``,
            ``first_number``, ``first_offset``, ``first_ms`` (of the first record; -1: none),
            ``size``, ``leader_epoch``, ``producer_id``, ``producer_epoch``, ``transactional``,
            ``marker`` (0, 1; -1: none). Further fields are about its records in time, of any group:
            ``records`` (how many); ``log_offset``, ``from_ms`` and ``group`` of the first (a number
            that stands for the name; -1: none); ``until_ms`` of the last; ``mixed`` (the commits
            are not those of one request).
        int
            Where the next piece begins.
        """
    def keys(self, start: int = 0) -> Any:
        """Return the keys from number ``start`` on, each with its last record that counts.

        ``group``, ``topic`` (numbers of names), ``partition``; ``before``, which the key's next
        row will have as ``previous``; and ``offset``, ``log_offset``, ``timestamp`` and ``row``
        (over all pieces) of the last record; and ``topic_id_high`` and ``topic_id_low`` of the last
        one with an id (-1: none has one).
        """

    def go_back(self, keys: Any, number: int) -> None:
        """Forget what records since a state did: ``keys`` and ``number`` are those of then.

        Keys and names that were new since then keep their numbers, as keys without a record.
        """
