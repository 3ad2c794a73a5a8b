"""A partition that is watched: its files, its state, and the totals that are carried on."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.live.live_partition import LivePartition
from coterie.live.log_growth import Growth, PartitionFiles, up_to
from coterie.live.totals import Answer, Mark, Totals, answer_of, counted, nothing, plus
from coterie.log.folders import Segment
from coterie.log.trust import trusted_from

GONE_MS = 7 * 86_400_000  # how long totals of a group outlive it: as Kafka keeps its offsets


class WatchedPartition:
    """Follows the files of one partition.

    Parameters
    ----------
    number
        The partition's number; None: not known.
    mark
        The totals of an earlier process; None: there are none.

    Attributes
    ----------
    rebuilds : int
        How often what was read had changed, so that the log was read anew.
    """

    def __init__(self, number: int | None, mark: Mark | None) -> None:
        self.number = number
        self.mark = mark
        self.files = PartitionFiles()
        self.live: LivePartition | None = None
        self.carried: Totals = nothing()
        self.gone = {} if mark is None else mark.gone  # group -> since when, as of an answer
        self.topic_id = None if mark is None else mark.topic_id
        self.rebuilds = 0
        self._answer: Answer | None = None  # is of ``live``, unless that has taken more
        self._is_current = False

    def is_of_other(self, topic_id: str | None) -> bool:
        """Whether a topic is another than the one before; False if either is not known."""
        return None not in (topic_id, self.topic_id) and topic_id != self.topic_id

    def step(self, segments: Sequence[Segment], topic_id: str | None = None) -> int:
        """Read what is new; return its bytes. ``topic_id``: of the topic; None: not known.

        Raises
        ------
        LogError
            A file cannot be read. The next step reads the whole log.
        """
        growths: list[Growth] | None = None
        is_whole = self.live is not None
        try:
            if self.live is not None:
                growths = None if self.is_of_other(topic_id) else self.files.grown(segments)
                if growths is None:
                    self.rebuilds += 1
                    self.mark = self._mark_now()
                elif growths:
                    is_behind = self.mark and self.live.next_offset < self.mark.next_offset
                    mark = self._mark_now() if is_behind else None
                    is_whole = self._is_current = False
                    self.carried = taken(self.live, growths, mark) or self.carried
            self.topic_id = topic_id or self.topic_id
            if growths is None:
                is_whole = False
                self.mark = None if self.mark is None else self.mark.of(topic_id)
                growths = self._rebuild(segments)
        except BaseException:
            if is_whole:
                self.mark = self._mark_now()
            self.live = None  # it may have taken a part
            raise
        return sum(growth.end - growth.start for growth in growths)

    def _mark_now(self) -> Mark | None:
        try:
            return self.new_mark()
        except Exception:  # what an open transaction holds back was truncated
            return self.mark

    def _rebuild(self, segments: Sequence[Segment]) -> list[Growth]:
        self.files, self._is_current, self.live = PartitionFiles(), False, None
        growths = self.files.grown(segments) or []
        live, carried = self._read(growths, None)
        trusted_from_ms = trusted_from(live.log.fold.segments)
        if trusted_from_ms is not None:
            live, carried = self._read(growths, trusted_from_ms)
        self.live, self.carried = live, carried
        return growths

    def _read(
        self, growths: Sequence[Growth], trusted_from_ms: int | None
    ) -> tuple[LivePartition, Totals]:
        live = LivePartition(self.number, trusted_from_ms, counts_all=self.mark is not None)
        return live, taken(live, growths, self.mark) or nothing()

    def answer(self) -> Answer | None:
        """Return what is shown, after a failed step the last good answer; None: nothing yet."""
        if not self._is_current and self.live is not None:
            self._answer = self._forgetting(answer_of(self.live, self.carried))
            self._is_current = True
        return self._answer

    def _forgetting(self, answer: Answer) -> Answer:
        """Return an answer without groups that are gone for long; if they come back, from 0 on."""
        now_ms = answer.newest_ms
        gone = {group: self.gone.get(group, now_ms) for group in answer.gone_groups}
        late = {group for group, since_ms in gone.items() if now_ms - since_ms > GONE_MS}
        self.gone = {group: since_ms for group, since_ms in gone.items() if group not in late}
        if not late:
            return answer
        left = answer.without(late)
        self.carried = plus(self.carried, plus(answer.totals, left.totals, -1), -1)
        return left

    def new_mark(self) -> Mark | None:
        """Return the totals as of the last answer that could be given; None: there was none."""
        answer = self.answer()
        if answer is not None and self.live is not None:
            counted_to = 0 if self.mark is None else self.mark.of(self.topic_id).next_offset
            next_offset = max(self.live.next_offset, counted_to)
            self.mark = Mark(next_offset, answer.totals, self.topic_id, self.gone)
        return self.mark


def taken(live: LivePartition, growths: Sequence[Growth], mark: Mark | None) -> Totals | None:
    """Let a partition take what its log has grown by; return the totals to carry on.

    What a mark has counted is not counted again, as when the end of a copy was cut and is fetched
    anew. None: there is no mark.
    """
    if mark is None:
        live.take(growths)
        return None
    before, after = up_to(growths, mark.next_offset)
    live.take(before)
    carried = plus(mark.totals, counted(live, live.view()), -1)
    live.take(after)
    return carried
