"""The feature levels of a cluster: ``metadata.version`` and ``kraft.version``.

A change has no effect beyond what ApiVersions reports. Source: FeatureControlManager,
BrokerFeatures and MetadataVersion of Kafka 3.9.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["METADATA_VERSION", "SUPPORTED", "Features", "InvalidUpdate", "UpgradeType"]

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
# Name -> lowest and highest supported level of a broker 3.9.1; 21 is IBP_3_9_IV0.
SUPPORTED = {KRAFT_VERSION: (0, 1), METADATA_VERSION: (1, 21)}
_MINIMUM_BOOTSTRAP_LEVEL = 4  # IBP_3_3_IV0
# The levels that changed the format of the metadata log: a downgrade below one is refused.
_FORMAT_CHANGES = frozenset({3, 5, 6, 7, 8, 11, 13, 14, 15, 17})


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
    levels : dict
        Feature -> finalized level; 0 means that the feature is off.
    epoch : int
        Increases with each change.
    """

    def __init__(self) -> None:
        self.levels = {KRAFT_VERSION: 0, METADATA_VERSION: SUPPORTED[METADATA_VERSION][1]}
        self.epoch = 0

    def check(self, name: str, level: int, upgrade_type: int, node_id: int) -> None:
        """Check an update of one feature by the node that is the controller.

        Raises
        ------
        InvalidUpdate
            The update is not allowed.
        """
        reason = self._reason_to_refuse(name, level, upgrade_type, node_id)
        if reason is not None:
            raise InvalidUpdate(f"Invalid update version {level} for feature {name}. {reason}")
        if name == METADATA_VERSION:
            self._check_metadata_version(level, upgrade_type)

    def update(self, levels: dict[str, int]) -> None:
        """Set the levels of checked updates."""
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
        first, last = SUPPORTED.get(name, (0, 0))
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
