"""Changes of a newer group's members since its last epoch: which of them caused the next one.

A coordinator writes the records of one request in one batch, the change first and its epoch right
behind it: between them are only records of the same member, and tombstones. Any other change
brought no epoch, and has a row of its own.
Source: GroupMetadataManager.consumerGroupHeartbeat, consumerGroupFenceMember.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coterie.insight.groups.causes import RECORDS, in_words
from coterie.insight.records.group_log import GroupRecord
from coterie.state.consumer_protocol_groups import (
    CURRENT_KEYS,
    MEMBER_KEYS,
    REGULAR_EXPRESSION,
    TARGET_EPOCH_KEYS,
    TARGET_KEYS,
    TYPE_OF,
)

MEMBER_CHANGED, STATIC_REPLACEMENT = "member_changed", "static_replacement"
ASSIGNMENTS = TARGET_EPOCH_KEYS | TARGET_KEYS | CURRENT_KEYS
ALONE = ("joined", "replaced", "subscription_changed", "member_changed")  # may bring no epoch
Row = dict[str, Any]


class Change(NamedTuple):
    """A change: the record that shows it, its cause, and the number of members then."""

    record: GroupRecord
    cause: Row
    member_count: int


class MemberChanges:
    """Collects the changes of a group until its next epoch.

    ``rows`` gets a row for each change that brought no epoch.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.pending: list[Change] = []  # the next epoch may be theirs
        self.alone: list[Change] = []

    def add(self, change: Change) -> None:
        self.pending.append(change)

    def take_back(self, what: str, member_id: str) -> bool:
        """Remove a member's change of a kind; return whether there was one."""
        for change in self.pending:
            if (change.cause["what"], change.cause["member_id"]) == (what, member_id):
                self.pending.remove(change)
                return True
        return False

    def renew(self, member_id: str, member: Row) -> None:
        """Let a replacement name the new member as it is, not with the old one's values."""
        for place, change in enumerate(self.pending):
            cause = change.cause
            if (cause["what"], cause["member_id"]) == ("replaced", member_id):
                new = cause_of("replaced", member_id, member, cause["detail"])
                self.pending[place] = change._replace(cause=new)

    def before(self, record: GroupRecord, name: str | None) -> None:
        """Take the group's next record, whatever it is: a change may prove to have no epoch."""
        if not self.pending:
            return
        for change in [change for change in self.pending if self._ends(change, record, name)]:
            self.pending.remove(change)
            self.alone.append(change)

    def _ends(self, change: Change, record: GroupRecord, name: str | None) -> bool:
        """Whether a record belongs to another request than a change that may bring no epoch."""
        if change.cause["what"] not in ALONE:
            return False
        own = change.record
        if (record.file, record.position) != (own.file, own.position):
            return True
        if record.value is None or (record.version not in MEMBER_KEYS | ASSIGNMENTS):
            return record.value is not None and record.version == REGULAR_EXPRESSION
        if name != change.cause["member_id"]:
            return True
        # A replacing member is written as the old one was, with its assignment, then as it is.
        return record.version in ASSIGNMENTS and change.cause["what"] != "replaced"

    def settle(self, epoch: GroupRecord | None, generation: int | None) -> list[Row]:
        """Return the causes of an epoch (None: the log ends); add a row for each other change.

        Of a consumer group, a replacement brings an epoch if the new member has another
        subscription, and what else changed in a member brings none.
        """
        pending, self.pending = self.pending, []
        if epoch is None:
            self.alone += [change for change in pending if change.cause["what"] in ALONE]
            pending = []
        elif TYPE_OF[epoch.version] != "streams":
            brings = {
                change.cause["member_id"]
                for change in pending
                if change.cause["what"] in ("joined", "subscription_changed")
            }
            for change in pending:
                what, member_id = change.cause["what"], change.cause["member_id"]
                if what in ("replaced", "member_changed") and member_id not in brings:
                    self.alone.append(change)
            pending = [change for change in pending if change not in self.alone]
        self._add_rows(generation)
        return [change.cause for change in pending]

    def clear(self) -> None:
        """Forget the changes: another row has them."""
        self.pending, self.alone = [], []

    def _add_rows(self, generation: int | None) -> None:
        requests: dict[Any, list[Change]] = {}
        for change in sorted(self.alone, key=lambda change: change.record.log_offset):
            place = change.record.file, change.record.position, change.cause["member_id"]
            requests.setdefault(place, []).append(change)
        for changes in requests.values():
            causes = [change.cause for change in changes]
            is_replaced = any(cause["what"] == "replaced" for cause in causes)
            event = STATIC_REPLACEMENT if is_replaced else MEMBER_CHANGED
            head = event, generation, generation
            self.rows.append(row_of(changes[0].record, *head, causes, changes[0].member_count))
        self.alone = []


def cause_of(
    what: str, member_id: str | None = None, member: Row | None = None, detail: str | None = None
) -> Row:
    """Build a cause from a newer group's records; ``member``: the member's row."""
    names = ("client_id", "client_host", "group_instance_id")
    return {
        "what": what,
        "member_id": member_id,
        **{name: (member or {}).get(name) for name in names},
        "detail": detail,
        "source": RECORDS,
    }


def row_of(
    record: GroupRecord,
    event: str,
    epoch: int | None,
    previous: int | None,
    causes: list[Row],
    member_count: int | None,
) -> Row:
    """Build a timeline's row from the record that shows it."""
    return {
        "event": event,
        "timestamp": record.time_ms,
        "log_offset": record.log_offset,
        "generation": epoch,
        "previous_generation": previous,
        "member_count": member_count,
        "protocol": TYPE_OF[record.version],
        "cause": in_words(causes) or "the records do not tell why",
        "causes": causes,
        "file": record.file,
        "position": record.position,
    }
