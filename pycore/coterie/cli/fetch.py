"""``coterie fetch``: a topic from a running cluster, as segments on disk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.clusters import need_client_library, on_cluster
from coterie.cli.failures import say
from coterie.cli.params import FOLDER, bootstrap_options
from coterie.cli.tables import show_tables
from coterie.insight import tables
from coterie.log.folders import SHARE_STATE, TOPIC

if TYPE_CHECKING:
    from coterie.live.copying import CopyResult

FIELDS = {
    "offsets_partition": "int32",
    "first_offset": "int64",
    "end_offset": "int64",
    "fetched_bytes": "int64",
    "complete_until": "timestamp",
}


@click.command("fetch")
@bootstrap_options(required=True)
@click.option(
    "--out",
    "out",
    type=FOLDER,
    metavar="DIR",
    required=True,
    help="The copy: new, or of an earlier fetch.",
)
@click.option("--topic", default=TOPIC, show_default=True, help="The topic to copy.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    metavar="N",
    multiple=True,
    help="Only this partition; repeatable.",
)
@click.option(
    "--group",
    "groups",
    metavar="G",
    multiple=True,
    help="Only the partition that has the records of this group; repeatable.",
)
@click.option("--follow", is_flag=True, help="Go on until SIGINT, SIGTERM or SIGHUP.")
@click.option(
    "--sample-end-offsets",
    "sample_s",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="Append the end offsets of the topics that groups commit to to DIR/end-offsets.csv, which "
    "`lag` reads: with --follow every so many seconds, else once.",
)
def command(
    servers: str,
    client_file: str | None,
    out: str,
    topic: str,
    partitions: tuple[int, ...],
    groups: tuple[str, ...],
    follow: bool,
    sample_s: int | None,
) -> None:
    """Copy __consumer_offsets from a running cluster, byte for byte.

    DIR gets a folder for each partition, as a broker has it: segments with the batches as they are
    stored, and fetch.json, which says until when the copy is complete. A second run adds what is
    new. The other commands take DIR as LOG. The table has the partitions that are not empty.
    """
    if "" in groups or not topic:
        raise click.UsageError("--group and --topic need a name, not an empty text")
    if groups and topic == SHARE_STATE:
        raise click.UsageError(
            f"--group does not go with --topic {SHARE_STATE}: "
            "a group's states are in several of its partitions"
        )
    need_client_library()
    from coterie.cli.copying import copy
    from coterie.live.copying import CopyPlan

    plan = CopyPlan(Path(out), topic, partitions, groups, follow)
    results = on_cluster(
        servers,
        client_file,
        lambda cluster, stop: copy(cluster, stop, plan, sample_s),
        endless=follow,
    )
    rows = [row_of(result) for result in results if result.next_offset > result.state.first_offset]
    if rows:
        show_tables([tables.table(FIELDS, rows)], sys.stdout)
    if empty := len(results) - len(rows):
        say(f"coterie: {empty:,} {'partition is' if empty == 1 else 'partitions are'} empty")


def row_of(result: CopyResult) -> dict[str, Any]:
    """Return the row of a partition's copy."""
    return {
        "offsets_partition": result.partition,
        "first_offset": result.state.first_offset,
        "end_offset": result.next_offset,
        "fetched_bytes": result.fetched_bytes,
        "complete_until": result.state.complete_until_ms,
    }
