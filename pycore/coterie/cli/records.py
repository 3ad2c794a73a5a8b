"""``coterie records``: every record of a log, one JSON object a line."""

from __future__ import annotations

import sys

import click

from coterie.cli.failures import say
from coterie.cli.params import group_option, logs_argument
from coterie.log.folders import find_segments, left_alone, read_segment
from coterie.log.records import JsonLines, TellFault, segment_records

LINES_AT_ONCE = 2_000


def teller(path: str) -> TellFault:
    """Return what prints a fault of the segment at ``path``."""

    def tell(
        position: int, base_offset: int | None, kind: str, offset: int | None, detail: str
    ) -> None:
        place = f"byte {position}" if offset is None else f"byte {position}, offset {offset}"
        say(f"coterie: {path}: {place}: {kind}: {detail}")

    return tell


@click.command("records")
@group_option
@logs_argument
def command(logs: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Print the records of a log, decoded, one JSON object a line.

    In order of partition, segment and place in the log. Bytes are base64; a key or value that
    cannot be read keeps its bytes as "raw". What cannot be read at all is left out, and said so
    on standard error.
    """
    listing = find_segments(logs)
    only = frozenset(groups) or None
    out = sys.stdout.buffer  # JSON is UTF-8, whatever the locale says
    for segment in listing.segments:
        lines: list[str] = []
        to_line = JsonLines().line
        for row in segment_records(
            read_segment(segment),
            partition=segment.partition,
            segment=segment.log_name,
            groups=only,
            tell=teller(segment.path),
        ):
            lines.append(to_line(row))
            if len(lines) == LINES_AT_ONCE:
                out.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
                lines.clear()
        if lines:
            out.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    for path in listing.passed_over:
        say(f"coterie: {left_alone(path)}")
