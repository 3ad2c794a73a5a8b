"""A log, or a live cluster, as Arrow tables: ``coterie.read``. Needs the extra ``arrow``."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.base.arguments import path_names, string, walked
from coterie.base.extras import missing_module
from coterie.base.progress_bar import ProgressBar
from coterie.base.times import Time, epoch_ms, format_time, time_ms
from coterie.errors import ArgumentError, shown
from coterie.insight import answering
from coterie.insight.fields import arrow_table
from coterie.insight.offsets.end_offsets import EndOffsets, Sample, read_end_offsets
from coterie.insight.question_engine import (
    QuestionRequest,
    Row,
    fields_of,
    find_question,
    missing_groups,
    question_request,
)
from coterie.insight.questions import audit, explain, explain_removals, group_names, time_range
from coterie.log.folders import Listing, find_segments, is_url, local_path, read_segment
from coterie.log.trust import trusted_from
from coterie.state.decoded import arrow_schema, record_batches
from coterie.state.local_replay import scan_state
from coterie.state.partial import PartialState, ScanOptions
from coterie.state.several_partitions import lines_of

if TYPE_CHECKING:
    import pyarrow as pa

LogPath = str | os.PathLike[str]
Groups = str | Iterable[str] | None
Ends = LogPath | EndOffsets | Mapping[tuple[str, int], int]
SERVERS = re.compile(r"[^/\\:\s]+:\d{1,5}(,[^/\\:\s]+:\d{1,5})*")


def read(
    log: LogPath | Iterable[LogPath],
    group: Groups = None,
    at: Time = None,
    *,
    command_config: LogPath | None = None,
) -> OffsetsTopic:
    """Return a log whose tables and answers are read when they are first used.

    Parameters
    ----------
    log
        A folder with ``__consumer_offsets-N`` folders, one such folder, a segment file, a list of
        these, or a cluster as ``HOST:PORT[,...]``, from which the topic is copied at once into a
        temporary folder (extra ``cluster``).
    group
        Only this group, or these groups; None: all. Of a cluster, only their partitions are
        copied.
    at
        The state as of this time, and no later events: epoch ms, ISO 8601 with a zone, or a
        datetime with a zone. None: the end of the log.
    command_config
        For a cluster: a file with Kafka's client properties.

    Raises
    ------
    CoterieError
        The log cannot be read, or the cluster not be reached.

    Examples
    --------
    >>> import coterie
    >>> log = coterie.read("tests/golden/logs/basic", group="grp-java-sticky")
    >>> log.groups.select(["group_id", "state"]).to_pylist()
    [{'group_id': 'grp-java-sticky', 'state': 'Empty'}]
    >>> log.explain().column("event").to_pylist()[:3]
    ['generation', 'commits', 'generation']
    """
    groups = None
    if group is not None:
        several = (
            [group] if isinstance(group, str) else walked(group, "group", "a group, or several")
        )
        groups = frozenset(string(name, "group") for name in several)
    if isinstance(log, str) and SERVERS.fullmatch(log) and not os.path.exists(log):
        at_ms, folder = time_ms(at), Path(tempfile.mkdtemp(prefix="coterie-"))
        try:
            _copy(log, command_config, groups or (), folder)
            found = OffsetsTopic([os.fspath(folder)], groups, at_ms, log)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
        return found
    if command_config is not None:
        raise ArgumentError("command_config is for a cluster, HOST:PORT")
    names = list(map(local_path, path_names(log, "log")))
    if any(map(is_url, names)):
        raise ArgumentError("URLs are read by Spark: coterie_spark.replay, coterie_spark.explain")
    return OffsetsTopic(names, groups, time_ms(at), ", ".join(names))


class OffsetsTopic:
    """A log of the offsets topic: tables, and answers to questions, as Arrow tables.

    Made by :func:`read`. Tables are read once, answers at each call. Both have the columns that
    the commands write with ``--format parquet``, times as ``timestamp[ms, UTC]``.

    Attributes
    ----------
    source : str
        The paths, or the cluster.
    notes : list of str
        What a reader has to know about what was read so far, a line each.
    """

    def __init__(
        self,
        paths: Iterable[str],
        groups: frozenset[str] | None,
        at_ms: int | None,
        source: str,
    ) -> None:
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        self.source = source
        self.notes: list[str] = []
        self._listing = find_segments(tuple(paths))
        self._groups, self._at_ms = groups, at_ms

    def __repr__(self) -> str:
        of = "" if self._groups is None else f", groups {', '.join(sorted(self._groups))}"
        at = "" if self._at_ms is None else f", at {format_time(self._at_ms)}"
        count = len(self._listing.partitions())
        partitions = "1 partition" if count == 1 else f"{count} partitions"
        size = f"{self._listing.size:,} bytes"
        return f"<OffsetsTopic {self.source}: {partitions}, {size}{of}{at}>"

    # ---- tables

    @property
    def groups(self) -> pa.Table:
        """The groups: id, state, protocol, generation and so on, one row each."""
        return self._tables["groups"]

    @property
    def members(self) -> pa.Table:
        """The members of the groups, one row each."""
        return self._tables["members"]

    @property
    def offsets(self) -> pa.Table:
        """The committed offsets, one row for each group, topic and partition."""
        return self._tables["offsets"]

    @property
    def generations(self) -> pa.Table:
        """One row for each group metadata record: what changed since the one before."""
        return self._tables["generations"]

    @cached_property
    def commits(self) -> pa.Table:
        """Every commit in the log."""
        return self._scan(history=True).to_arrow()["commits"]

    @property
    def faults(self) -> pa.Table:
        """The corrupt places, which were left out."""
        return self._tables["faults"]

    @cached_property
    def records(self) -> pa.Table:
        """Every record of every batch that can be read, with the columns of Spark's data source.

        Neither ``group`` nor ``at`` selects among them.
        """
        import pyarrow as pa

        batches = (
            record_batches(read_segment(one), partition=one.partition, segment=one.log_name)
            for one in self._listing.segments
        )
        return pa.Table.from_batches(itertools.chain.from_iterable(batches), arrow_schema())

    @property
    def trusted_from(self) -> dict[int | None, int]:
        """Partition -> epoch ms since when its state is complete; only of compacted partitions."""
        since = {n: trusted_from(self._state.fold(n).segments) for n in self._state.numbers()}
        return {number: ms for number, ms in since.items() if ms is not None}

    @cached_property
    def _state(self) -> PartialState:
        return self._scan(history=False)

    @cached_property
    def _tables(self) -> dict[str, pa.Table]:
        state = self._state
        orders = state.in_several_partitions()
        self.notes.extend(lines_of(orders, state.partition_count))
        tables = state.to_arrow()
        if self._groups is not None and not self._groups <= {
            *tables["groups"]["group_id"].to_pylist()
        }:
            names = group_names.NAME, group_names.Parameters()
            self._ask(QuestionRequest(*names, self._listing, self._groups, self._at_ms))
        return tables

    def _scan(self, *, history: bool) -> PartialState:
        options = ScanOptions(at_ms=self._at_ms, groups=self._groups, history=history)
        with _Progress(self.notes) as progress:
            return scan_state(self._listing, options, progress)

    # ---- questions

    def explain(self, group: Groups = None, **parameters: Any) -> pa.Table:
        """Return what rebalanced a group, and why; one row an event (docs/explain.md)."""
        return self._answer("explain", group, parameters)

    def audit(self, group: Groups = None, **parameters: Any) -> pa.Table:
        """Return what looks wrong, the most severe findings first (docs/audit.md)."""
        return self._answer("audit", group, parameters)

    def undo(self, at: Time, group: Groups = None, **parameters: Any) -> pa.Table:
        """Return where groups were at a time, beside where they are (docs/undo.md)."""
        return self._answer("undo", group, parameters, at=at)

    def expire(self, group: Groups = None, **parameters: Any) -> pa.Table:
        """Return which offsets are gone, and which go when (docs/expire.md)."""
        return self._answer("expire", group, parameters)

    def growth(self, group: Groups = None, **parameters: Any) -> pa.Table:
        """Return who fills the topic, and what compaction would free (docs/growth.md)."""
        return self._answer("growth", group, parameters)

    def lag(self, ends: Ends, group: Groups = None, **parameters: Any) -> pa.Table:
        """Return the lag at each time with known end offsets (docs/lag.md).

        ``ends``: a file as for ``--end-offsets``, or (topic, partition) -> end offset.
        """
        return self._answer("lag", group, {"ends": _ends(ends), **parameters})

    def _answer(
        self, name: str, group: Groups, parameters: Mapping[str, Any], at: Time = None
    ) -> pa.Table:
        """Answer a question; ``parameters``: fields of its ``Parameters``."""
        request = question_request(
            name,
            lambda: self._listing,
            self._newest_ms,
            groups=self._groups if group is None else group,
            at=at,
            since=None,
            until=self._at_ms,
            parameters=parameters,
        )
        rows = self._ask(request)
        if name == audit.NAME:
            rows = audit.in_order(rows)
        elif name == explain.NAME:
            explain_removals.compare_partitions(rows)
        return arrow_table(fields_of(find_question(name)), rows)

    def _newest_ms(self, listing: Listing) -> int | None:
        ask = QuestionRequest(time_range.NAME, time_range.Parameters(), listing, frozenset())
        times = [row["newest_timestamp"] for row in self._ask(ask)]
        return max((time for time in times if time is not None), default=None)

    def _ask(self, request: QuestionRequest) -> list[Row]:
        """Return the rows of all partitions; raise if a group is missing."""
        with _Progress(self.notes) as progress:
            parts = list(answering.answer(request, progress))
        present = frozenset().union(*(part.present_groups for part in parts))
        missing = missing_groups(request.groups, present, request.at_ms)
        if missing is not None:
            raise missing
        return [row for part in parts for row in part.rows]


class _Progress(ProgressBar):
    """A bar; notices become notes, once each."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.notes = notes

    def notice(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)


def _ends(ends: Ends) -> EndOffsets:
    if isinstance(ends, EndOffsets):
        return ends
    if isinstance(ends, Mapping):
        return EndOffsets(False, {key: (Sample(None, end),) for key, end in ends.items()})
    if not isinstance(ends, str | os.PathLike):
        raise ArgumentError(
            f"ends must be a file, or (topic, partition) -> offset, not {shown(ends)}"
        )
    return read_end_offsets(ends)


def _copy(servers: str, command_config: LogPath | None, groups: Iterable[str], out: Path) -> None:
    """Copy the offsets topic of a cluster, in a thread: a notebook has an event loop already."""
    try:
        from coterie.live.client_config import ClientConfig, read_client_config
        from coterie.live.cluster import Cluster, addresses_of
        from coterie.live.copying import CopyPlan, copy_partitions
    except ModuleNotFoundError as error:
        raise missing_module(error) from error

    config = ClientConfig() if command_config is None else read_client_config(Path(command_config))
    not_connected = Cluster(addresses_of(servers), config)

    async def copy() -> None:
        async with not_connected as cluster:
            await copy_partitions(cluster, CopyPlan(out, groups=tuple(groups)), now_ms=epoch_ms)

    with ThreadPoolExecutor(1) as executor:
        executor.submit(partial(asyncio.run, copy())).result()
