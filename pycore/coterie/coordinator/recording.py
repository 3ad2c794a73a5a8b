"""Record the requests of a coordinator as a trace that can be run.

A trace has an op for a failover, but none for its parts. It has no delayed appends and no initial
log. The trace's ``doc`` lists what it cannot represent. A request that cannot be part of the trace
is put into an ``advance``, under ``left_out``, which runs of the trace ignore.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.base.atomic_file import atomic_write
from coterie.base.operations import NUMBER, OPERATIONS, REQUESTS
from coterie.coordinator.config import CLASSIC_ONLY, DEFAULTS
from coterie.coordinator.requestlog import MemberIds
from coterie.coordinator.requests import Compiled, show_request

if TYPE_CHECKING:
    from coterie._core.coordinator.offsets import Trace

Event = dict[str, Any]
_NAMES = {number: op for op, number in NUMBER.items()}
# Ops that have an effect even without an owned partition: they concern the log, not a group.
_TO_THE_LOG = {"end_txn", "fail_append", "advance", "metadata", "group_config"}
_ELECTIONS = {"failover", "resign", "begin_load", "finish_load"}
_LATE = "appends came back when the test said so; here each finishes at once"
_LOADED = "the coordinator began with a log; here it begins with none"
_RHYTHM = "the clock began at {} ms and with it the rhythm of the clean-up; here it begins at 0"
_STAMPED = "a commit_timestamp was given with a commit; here it is the time of the commit"
_PLAYED = "a trace was played after other requests; its events are not here"
_PARTITION = (
    "one partition of the offsets topic was given up or loaded, for which a trace has no op"
)
_AWAY = (
    "from {} to {} ms the coordinator had resigned or was loading, for which a trace has no op: "
    "a failover stands for it{}, and {} requests in between are left out"
)
_REPEAT_MS = 5000  # a failover begins every session anew; below the least that brokers allow, 6 s
_MOST_REPEATS = 1000  # for so long the trace has no session that ends while nobody coordinates


def _is_first_image(event: Event) -> bool:
    """Whether an event sets the topics that a header has."""
    return event["op"] == "metadata" and "delete_topics" not in event


class Recording:
    """The requests of one coordinator, in order, as events of a trace.

    Attributes
    ----------
    events : list of dict
        The trace without its header.
    lost : list of str
        Facts that the events do not represent, a clause each.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lost: list[str] = []
        self._ids = MemberIds()
        self._custom_ids = False
        self._offered: list[tuple[str, str]] = []  # ids of no recorded request yet
        self._away_ms: int | None = None
        self._left_out = self._repeats = 0

    def begin(self, *, now_ms: int, deferred: bool, loaded: bool, periodic: bool) -> None:
        """Record the options of the coordinator that a trace cannot represent."""
        if deferred:
            self._lose(_LATE)
        if loaded:
            self._lose(_LOADED)
        if periodic and now_ms:
            self._lose(_RHYTHM.format(now_ms))

    def numbered(self, member_ids: Callable[[str], str]) -> Callable[[str], str]:
        """Wrap a member id factory, whose ids become PREFIX-N in the trace."""
        self._custom_ids = True

        def recorded(prefix: str) -> str:
            member_id = member_ids(prefix)
            self._offered.append((member_id, prefix))
            return member_id

        return recorded

    def ask(self, at_ms: int, op: str, request_id: int, compiled: Compiled) -> None:
        self._take_ids()
        self._repeat(at_ms)
        if op in _ELECTIONS:
            details = compiled[-1] or (None,)
            self._elect(at_ms, op, details[0])
            return
        if not OPERATIONS[op].traced:
            self._lose(f"a trace has no op for {op}")
            return
        event = self._event(at_ms, op, request_id, compiled)
        if self._away_ms is not None and op not in _TO_THE_LOG:
            del event["at"]
            self._left_out += 1
            event = {"at": at_ms, "op": "advance", "left_out": event}
        self.events.append(event)

    def advance(self, at_ms: int) -> None:
        self._repeat(at_ms)
        self.events.append({"at": at_ms, "op": "advance"})

    def _elect(self, at_ms: int, op: str, partition: int | None) -> None:
        """Record a failover, or a part of one."""
        if partition is not None:
            self._lose(_PARTITION)
            self._away_ms = None  # later requests are recorded; some responses may differ
            return
        if op == "failover":
            self.events.append({"at": at_ms, "op": op})
        elif op == "resign" and self._away_ms is None:
            self.events.append({"at": at_ms, "op": "failover"})
            self._away_ms, self._left_out, self._repeats = at_ms, 0, 0
        elif op == "finish_load" and self._away_ms not in (None, at_ms):
            self.events.append({"at": at_ms, "op": "failover"})
        if op in ("failover", "finish_load"):
            self._back(at_ms)

    def _repeat(self, at_ms: int) -> None:
        """Repeat the failover while the coordinator is away: no session ends meanwhile."""
        while self._away_ms is not None and self._repeats < _MOST_REPEATS:
            next_ms = self._away_ms + (self._repeats + 1) * _REPEAT_MS
            if next_ms >= at_ms:
                break
            self._repeats += 1
            self.events.append({"at": next_ms, "op": "failover"})

    def refuse(self) -> None:
        """Forget the member id that was made for a refused request."""
        self._offered.clear()

    def _take_ids(self) -> None:
        for member_id, prefix in self._offered:
            self._ids.hand_out(member_id, prefix)
        self._offered.clear()

    def play(self, trace: Trace, count: int) -> None:
        """Record the first events of a trace that was played, if no other request was recorded."""
        if any("id" in event for event in self.events):
            self._lose(_PLAYED)
            return
        image = {name: trace.header.get(name) for name in ("brokers", "topics")}
        takes_image = all(event["op"] == "advance" for event in self.events)  # as the core does
        if trace.header.get("version") == 2 and any(image.values()) and takes_image:
            at_ms = self.events[-1]["at"] if self.events else 0
            self.events.append(
                {"at": at_ms, "op": "metadata"} | {k: v for k, v in image.items() if v}
            )
        for _, at_ms, op, request_id, *compiled in islice(trace.requests(), count):
            self.ask(at_ms, _NAMES[op], request_id, compiled)  # type: ignore[arg-type]

    def lines(self, name: str, settings: Mapping[str, Any], now_ms: int) -> list[Event]:
        """Return the lines of the trace; settings with Kafka's default are omitted.

        ``settings`` and ``now_ms`` are those of the coordinator at the end.
        """
        if self._away_ms is not None:
            self._back(now_ms)
        version = 1 if settings["coterie.behaviour"] in CLASSIC_ONLY else 2
        header: Event = {"format": "coterie-trace", "version": version, "name": name}
        if self.lost:
            header["doc"] = f"Not all that happened: {'; '.join(self.lost)}."
        header["config"] = {k: v for k, v in settings.items() if v != DEFAULTS[k]}
        events = self.events
        if version == 1:  # topics that a trace brought, without effect; no such op can be run
            events = [event for event in events if event["op"] != "metadata"]
        elif events and _is_first_image(events[0]):
            header |= {k: v for k, v in events[0].items() if k in ("brokers", "topics")}
            events = events[1:]
        return [header, *events]

    def write(
        self,
        path: Path,
        settings: Mapping[str, Any],
        now_ms: int,
        last_check: Callable[[], object] = lambda: None,
    ) -> None:
        """Write the trace to a file, and name the trace after it.

        ``last_check`` runs before a file is replaced, and may raise to prevent it.
        """
        events = self.lines(path.name.split(".")[0], settings, now_ms)
        lines = [json.dumps(line, ensure_ascii=False) for line in events]
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(Path(os.path.realpath(path)), last_check) as part:
            part.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _lose(self, what: str) -> None:
        if what not in self.lost:
            self.lost.append(what)

    def _back(self, at_ms: int) -> None:
        """End the time without a partition; add it to ``lost`` unless it was a plain failover."""
        if self._away_ms is not None and (at_ms != self._away_ms or self._left_out):
            ends = "" if at_ms == self._away_ms else " at either end"
            if self._repeats:
                ends += f" and every {_REPEAT_MS} ms"
            self._lose(_AWAY.format(self._away_ms, at_ms, ends, self._left_out))
        self._away_ms = None

    def groups_and_members(self) -> dict[int, tuple[str | None, str | None]]:
        """Return the group and the member of each request, by the id of the request."""
        own = {name: member_id for member_id, name in self._ids.trace_ids.items()}
        requests = [event.get("left_out", event) for event in self.events]
        return {
            event["id"]: (
                event.get("group_id"),
                own.get(event.get("member_id"), event.get("member_id")),
            )
            for event in requests
            if "id" in event
        }

    def _event(self, at_ms: int, op: str, request_id: int, compiled: Compiled) -> Event:
        event: Event = {"at": at_ms, "op": op} | ({"id": request_id} if op in REQUESTS else {})
        event |= show_request(op, compiled)
        details = compiled[-1] or ()
        if op.endswith("offset_commit") and any(row[4] is not None for row in details[0]):
            self._lose(_STAMPED)
        return self._ids.map(event) if self._custom_ids else event
