from typing import Any, Final

import numpy as np
from typing_extensions import Buffer

KIND_NAMES: Final[tuple[str, ...]]
"""Names of the values of the column ``kind``."""
BATCH_DTYPE: Final[np.dtype[Any]]

def decode_columns(data: Buffer, *, raw: bool = False, check_crc: bool = True) -> dict[str, Any]:
    """Decode every record of a segment's bytes into columns, in log order.

    Parameters
    ----------
    data
        From a batch boundary. Not referenced afterwards.
    raw
        Also return the bytes of keys and values.
    check_crc
        False does not check checksums.

    Returns
    -------
    dict
        Arrays of shape (rows,): ``log_offset``, ``timestamp`` (ms, -1: none), ``offset``,
        ``commit_timestamp``, ``expire_timestamp`` (ms, -1: none), ``metadata_end`` (int64);
        ``batch`` (row of ``batches``), ``group``, ``topic`` (numbers of names, -1: none),
        ``partition``, ``leader_epoch`` (-1: none) (int32); ``key_version`` (int16, -1: none);
        ``kind`` (int8, see ``KIND_NAMES``). ``metadata`` holds the commits' metadata end to end.
        With ``raw``: ``key_at``, ``key_size``, ``value_at``, ``value_size`` (-1: null) into
        ``bytes``. ``groups`` and ``topics`` are the names, ``batches`` a structured array of
        ``BATCH_DTYPE``, ``faults`` a list of (position, base offset, kind, record offset, detail).

    Notes
    -----
    A batch that cannot be read is left out whole, as ``--on-fault skip`` does; a record that
    cannot has kind ``fault``.
    """
