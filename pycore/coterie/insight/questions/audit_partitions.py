"""Groups with records in several partitions of the offsets topic, for the audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie._core.fold import fold as partial
from coterie.insight.groups.causes import counted
from coterie.insight.questions.audit_groups import record_of
from coterie.insight.records.partition_view import PartitionView
from coterie.log.joined import STEP_BITS
from coterie.state.several_partitions import named

SEVERAL_PARTITIONS = "several_partitions"
Row = dict[str, Any]


def groups_in_several(view: PartitionView) -> Iterator[Row]:
    """Yield each group of a joined log, with the first record that its newest partition shows."""
    if not view.is_joined:
        return
    begin = (len(view.order) - 1) << STEP_BITS  # of the newest partition
    older, first = dict.fromkeys(view.group_ids, 0), dict.fromkeys(view.group_ids, record_of(NONE))
    for (group, _, _), value in partial.offset_entries(view.fold):
        older[group] += value.batch_offset < begin
        if value.batch_offset >= begin and first[group]["log_offset"] is None:
            place = {"timestamp": value.commit_timestamp, "log_offset": value.batch_offset}
            first[group] = record_of(NONE | place)
    for group, history in view.histories.items():
        for row in history.generations:
            if row["log_offset"] >= begin:
                first[group] = record_of(row)
                break
    for group, record in first.items():
        detail = f"records in {named(view.order)}: the newest record of each key counts"
        if older[group]:
            offsets = counted(older[group], "offset")
            detail += f"; the coordinator no longer finds {offsets} of an older one"
        yield {
            "kind": SEVERAL_PARTITIONS,
            "group_id": group,
            "detail": detail,
            "count": len(view.order),
            **record,
            "always": True,
        }


NONE = dict.fromkeys(("timestamp", "log_offset", "file", "position"))
