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
        Of the first record.
    columns
        What to return besides ``ALWAYS``: names of ``ROW_DTYPES``, and ``mixed`` of batches; None:
        all. ``decided_by`` and ``decided_ms`` come with ``number``.
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
            Arrays of shape (rows,). int64: ``log_offset``, ``timestamp`` (ms, -1: none),
            ``number`` (of the record in the partition), ``offset``, ``commit_timestamp``,
            ``decided_by`` (number of the record that made the row count: the marker, else its
            own), ``decided_ms`` (that record's time); and of the record of the same key that
            counted before, which the row replaced, ``previous_offset``,
            ``previous_log_offset`` and ``previous_timestamp``. int32: ``previous_row`` (that
            record's row; -1: it is of an earlier piece, or there is none), ``batch`` (row of
            ``batches``), ``key`` (see :meth:`keys`; -1: no commit), ``group`` (-1: none),
            ``metadata_size``, ``key_size``, ``value_size`` (bytes; -1: null). int64:
            ``disk_bytes`` (its share of its batch, by the bytes of key and value; those of all
            records of a batch add up to the batch's size). int8: ``kind`` (see
            ``coterie._core.fold.columns.KIND_NAMES``), ``outcome`` (0 committed, 1 aborted, 2
            pending) and ``previous`` (0: no record counted before, or the row does not count; 1:
            a tombstone did, 2: a commit). A commit or its tombstone counts if it is committed.
            ``newer_keys``: the keys of the rows of kind ``newer``. ``batches``: all batches that
            could be read, of ``BATCH_DTYPE``: ``position`` (byte in the segment), ``first_row``,
            ``first_number``, ``first_offset``, ``first_ms`` (of its first record; -1: it has
            none), ``size``, ``leader_epoch``, ``producer_id``, ``transactional``, ``marker`` (0,
            1; -1: none); of its records in time, of whatever group: ``records`` (how many),
            ``log_offset``, ``from_ms`` and ``group`` of the first (a number that stands for the
            name, -1: none), ``until_ms`` of the last, ``mixed`` (its commits are not those of one
            request).
        int
            Where the next piece begins.
        """
    def keys(self, start: int = 0) -> Any:
        """Return the keys from number ``start`` on, each with its last record that counts.

        ``group``, ``topic`` (numbers of names), ``partition``; ``before``, which the key's next
        row will have as ``previous``; and ``offset``, ``log_offset``, ``timestamp`` and ``row``
        (over all pieces) of the last record.
        """
