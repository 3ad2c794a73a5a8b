"""How the members of a newer group get the assignment of an epoch: since when, who was last."""

from __future__ import annotations

from typing import Any

from coterie.insight.records.group_log import GroupRecord

MEMBER = {
    "member_id": "string",
    "client_id": "string",
    "client_host": "string",
    "group_instance_id": "string",
}
LISTED = 20  # members in a row
Row = dict[str, Any]


class Reconciliation:
    """Fills in the rows of epochs when the target is computed, and when each member has it.

    A row has ``target_at`` and ``until``: the times, None: not before the next epoch or the end of
    the log; ``unreconciled``: the number of members that had not reached the epoch by then;
    ``last_members``: these members, or the last that did.
    """

    def __init__(self) -> None:
        self.row: Row | None = None  # of the last epoch, until all members have reached it
        self.waiting: dict[str, Row] = {}

    def begin(self, row: Row, members: dict[str, Row]) -> None:
        """Begin with an epoch; ``members``: by id."""
        self.row, self.waiting = row, dict(members)

    def end(self) -> None:
        """End with the next epoch or the log."""
        if self.row is not None:
            late = list(self.waiting.values())[:LISTED]
            self.row["unreconciled"] = len(self.waiting)
            self.row["last_members"] = [member_fields(member) for member in late]
        self.row = None

    def replace(self, old: str | None, new: Row) -> None:
        """Let a static member take the place of its former member id."""
        if old in self.waiting:
            del self.waiting[old]
            self.waiting[new["member_id"]] = new

    def left_for_now(self, member: Row) -> None:
        """Let a static member that is away get the assignment when it is back."""
        if self.row is not None:
            self.waiting[member["member_id"]] = member

    def target_computed(self, record: GroupRecord) -> None:
        """Take the record that ends the computation of a target."""
        if self.row is not None:
            self.row.setdefault("target_at", record.time_ms)

    def reached(self, record: GroupRecord, member: Row) -> None:
        """Take the record of a member that has the assignment of the epoch."""
        self.waiting.pop(member["member_id"], None)
        if not self.waiting and self.row is not None:
            self.row |= {
                "until": record.time_ms,
                "unreconciled": 0,
                "last_members": [member_fields(member)],
            }
            self.row = None


def member_fields(member: Row) -> Row:
    return {name: member[name] for name in MEMBER}
