"""The releases of Kafka whose broker a server can be, and what differs between them.

The versions of the APIs are in ``api/table.py``, the settings of topics in
``topic_configs.py``. Source: Feature and MetadataVersion of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.coordinator.config import CLASSIC_ONLY
from coterie.errors import ArgumentError, shown

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION, TRANSACTION_VERSION = "group.version", "transaction.version"
_SHARE_VERSION, _STREAMS_VERSION = "share.version", "streams.version"


class Release(NamedTuple):
    """A release of Kafka.

    Attributes
    ----------
    name
        Its name in ``--kafka``.
    behaviours
        The values of ``coterie.behaviour`` that fit it, the default first.
    features
        Feature -> lowest and highest supported level.
    levels
        Feature -> level in a new cluster, of the features that are on.
    """

    name: str
    behaviours: tuple[str, ...]
    features: Mapping[str, tuple[int, int]]
    levels: Mapping[str, int]


DEFAULT_RELEASE = Release(
    "3.9",
    behaviours=CLASSIC_ONLY,
    features={KRAFT_VERSION: (0, 1), METADATA_VERSION: (1, 21)},  # 21 is IBP_3_9_IV0
    levels={METADATA_VERSION: 21},
)
_KAFKA_4_1 = Release(
    "4.1",
    behaviours=("4.1", "4.1.2", "4.2"),
    features={
        GROUP_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
        ELR_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (7, 27),  # IBP_3_3_IV3 to IBP_4_1_IV1
        _SHARE_VERSION: (0, 1),
    },
    levels={GROUP_VERSION: 1, TRANSACTION_VERSION: 2, ELR_VERSION: 1, METADATA_VERSION: 27},
)
# A new cluster of 4.4 has share and streams groups on, too; here they are off.
_KAFKA_4_4 = Release(
    "4.4",
    behaviours=("4.4", "4.3.1", "4.3"),
    features={
        **_KAFKA_4_1.features,
        METADATA_VERSION: (7, 33),  # to IBP_4_4_IV1
        _SHARE_VERSION: (0, 2),
        _STREAMS_VERSION: (0, 1),
    },
    levels={**_KAFKA_4_1.levels, METADATA_VERSION: 33},
)
RELEASES = {each.name: each for each in (DEFAULT_RELEASE, _KAFKA_4_1, _KAFKA_4_4)}


def release_of(name: Any) -> Release:
    if not isinstance(name, str) or name not in RELEASES:
        *first, last = map(repr, RELEASES)
        names = f"{', '.join(first)} or {last}"
        raise ArgumentError(f"kafka must be {names}, not {shown(name)}")
    return RELEASES[name]
