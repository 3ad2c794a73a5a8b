"""The feature levels of a cluster.

``group.version`` turns consumer groups on, ``transaction.version`` 2 gives each transaction its own
epoch. A change of another feature has no effect beyond what ApiVersions reports. Source:
FeatureControlManager, BrokerFeatures and MetadataVersion.
"""

from __future__ import annotations

from enum import IntEnum

from coterie.server.releases import (
    ELR_VERSION,
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    Release,
)

_MINIMUM_BOOTSTRAP_LEVEL = 4  # IBP_3_3_IV0
# The levels that changed the format of the metadata log: a downgrade below one is refused. So a
# cluster of 3.9 or later never gets below 17, the latest before its level.
_FORMAT_CHANGES = frozenset({17, 23, 30, 32, 33})


class UpgradeType(IntEnum):
    """The kinds of a feature update; any other code is unknown."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class InvalidUpdate(Exception):
    """An update that Kafka refuses with INVALID_UPDATE_VERSION; the message is Kafka's."""


class Features:
    """The finalized feature levels.

    Attributes
    ----------
    supported : mapping
        Feature -> lowest and highest supported level.
    levels : dict
        Feature -> finalized level; 0 means that the feature is off.
    epoch : int
        Increases with each change.
    """

    def __init__(self, release: Release) -> None:
        self.supported = release.features
        self.levels = {name: release.levels.get(name, 0) for name in release.features}
        self.epoch = 0

    @property
    def has_consumer_groups(self) -> bool:
        """Whether groups of the consumer protocol (KIP-848) are on."""
        return self.levels.get(GROUP_VERSION, 0) >= 1

    @property
    def elects_by_isr(self) -> bool:
        """Whether eligible leader replicas (KIP-966) are on."""
        return self.levels.get(ELR_VERSION, 0) >= 1

    @property
    def bumps_epochs(self) -> bool:
        """Whether the end of a transaction raises its producer's epoch (KIP-890)."""
        return self.levels.get(TRANSACTION_VERSION, 0) >= 2

    @property
    def transaction_log_version(self) -> int:
        """The version of the values in ``__transaction_state``."""
        return int(self.levels.get(TRANSACTION_VERSION, 0) >= 1)

    def check(self, name: str, level: int, upgrade_type: int, node_id: int) -> None:
        """Check an update of one feature by the node that is the controller."""
        reason = self._reason_to_refuse(name, level, upgrade_type, node_id)
        if reason is not None:
            raise InvalidUpdate(f"Invalid update version {level} for feature {name}. {reason}")
        if name == METADATA_VERSION:
            self._check_metadata_version(level, upgrade_type)

    def update(self, levels: dict[str, int]) -> None:
        if levels:
            self.levels.update(levels)
            self.epoch += 1

    def _reason_to_refuse(
        self, name: str, level: int, upgrade_type: int, node_id: int
    ) -> str | None:
        if upgrade_type not in list(UpgradeType):
            return "The controller does not support the given upgrade type."
        if level < 0:
            return "A feature version cannot be less than 0."
        first, last = self.supported.get(name, (0, 0))
        if not first <= level <= last:
            if last == 0:
                return f"Local controller {node_id} does not support this feature."
            return f"Local controller {node_id} only supports versions {first}-{last}"
        current = self.levels.get(name, 0)
        if level < current and upgrade_type == UpgradeType.UPGRADE:
            return (
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade."
            )
        if level > current and upgrade_type != UpgradeType.UPGRADE:
            return "Can't downgrade to a newer version."
        return None

    def _check_metadata_version(self, level: int, upgrade_type: int) -> None:
        reason = None
        current = self.levels[METADATA_VERSION]
        if level < _MINIMUM_BOOTSTRAP_LEVEL:
            reason = "Unable to set a metadata.version less than 3.3-IV0"
        elif any(level < change <= current for change in _FORMAT_CHANGES):
            reason = (
                "Unsafe metadata downgrade is not supported in this version."
                if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
                else "Refusing to perform the requested downgrade because it might delete metadata "
                "information."
            )
        if reason is not None:
            raise InvalidUpdate(f"Invalid metadata.version {level}. {reason}")
