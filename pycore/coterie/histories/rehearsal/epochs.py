"""The epochs of a consumer group, from the records that its coordinator writes in a play."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from coterie._core.codec.schema import decode_key, decode_value
from coterie.histories.rehearsal.history import Generation, Owned

EPOCH, MEMBER, TARGET_EPOCH, TARGET = 3, 5, 6, 7  # versions of keys
VERSIONS = frozenset((EPOCH, MEMBER, TARGET_EPOCH, TARGET))


class Epochs:
    """Adds a generation for each epoch, whose owners are those of the target computed for it.

    Parameters
    ----------
    generations : list of Generation
        Gets the epochs.
    name_of : function
        Returns the consumer of a member id.
    joined : function
        Called at each record of a member, with its id, and with its instance id or client id.
    topic_of : mapping
        Topic id -> name.
    """

    def __init__(
        self,
        generations: list[Generation],
        name_of: Callable[[str], str],
        joined: Callable[[str, str], None],
        topic_of: Mapping[str, str],
    ) -> None:
        self._generations, self._topic_of = generations, topic_of
        self._name_of, self._joined = name_of, joined
        self._members: set[str] = set()
        self._targets: dict[str, Owned] = {}
        self._epoch: int | None = None  # whose target may follow

    def take(self, raw_key: bytes, raw_value: bytes | None, at: int) -> None:
        """Take a record whose key has one of ``VERSIONS``."""
        decoded = decode_key(raw_key)
        version, key = decoded["version"], decoded["data"]
        value = None if raw_value is None else decode_value(version, raw_value)["data"]
        if version == EPOCH:
            self._take_epoch(value, at)
        elif version == TARGET_EPOCH:
            if value is not None and value["assignmentEpoch"] == self._epoch:
                self._generations[-1] = replace(self._generations[-1], owners=self._owners())
        elif version == MEMBER:
            if value is None:
                self._members.discard(key["memberId"])
            else:
                self._joined(key["memberId"], value["instanceId"] or value["clientId"])
                self._members.add(key["memberId"])
        elif value is None:
            self._targets.pop(key["memberId"], None)
        else:
            self._targets[key["memberId"]] = {
                self._topic_of.get(one["topicId"], one["topicId"]): sorted(one["partitions"])
                for one in value["topicPartitions"]
            }

    def _take_epoch(self, value: Mapping[str, Any] | None, at: int) -> None:
        if value is None:  # the group is gone, or of the classic protocol
            self._members.clear()
            self._targets.clear()
            self._epoch = None
        else:
            self._epoch = value["epoch"]
            self._generations.append(Generation(at, value["epoch"], self._owners()))

    def _owners(self) -> dict[str, Owned]:
        return {self._name_of(one): self._targets.get(one, {}) for one in sorted(self._members)}
