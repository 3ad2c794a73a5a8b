"""``coterie records``: every record of a log, one JSON object a line."""

from __future__ import annotations

import os

import click

from coterie.cli.failures import say
from coterie.cli.params import group_option, logs_argument
from coterie.logdir import find_segments, read_segment
from coterie.records import segment_records, to_json

LINES_AT_ONCE = 2_000


@click.command("records")
@logs_argument
@group_option
def command(logs: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Print the records of a log, decoded, one JSON object a line.

    In order of partition, segment and place in the log. Bytes are base64; a key or value that
    cannot be read keeps its bytes as "raw". What cannot be read at all is left out, and said so
    on standard error.
    """
    listing = find_segments(logs)
    only = frozenset(groups) or None
    out = click.get_text_stream("stdout", encoding="utf-8", errors="surrogatepass")
    for segment in listing.segments:

        def tell(
            position: int,
            base_offset: int | None,
            kind: str,
            offset: int | None,
            detail: str,
            path: str = segment.path,
        ) -> None:
            place = f"byte {position}" if offset is None else f"byte {position}, offset {offset}"
            say(f"coterie: {path}: {place}: {kind}: {detail}")

        name = os.path.basename(segment.path)
        if segment.compression is not None:
            name = name[: -len(segment.compression) - 1]
        lines: list[str] = []
        for row in segment_records(
            read_segment(segment), partition=segment.partition, segment=name, groups=only, tell=tell
        ):
            lines.append(to_json(row))
            if len(lines) == LINES_AT_ONCE:
                out.write("\n".join(lines) + "\n")
                lines.clear()
        if lines:
            out.write("\n".join(lines) + "\n")
    for path in listing.passed_over:
        say(f"coterie: {path}: left alone, Kafka has set it aside")
