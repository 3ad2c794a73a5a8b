"""The output of a command as text, with the log read whole or in the smallest pieces."""

import base64
import hashlib
import importlib
import json
import re
import shutil
import zlib
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq

from support.arrow_numbers import in_numbers
from support.commandline import coterie

BYTES_AT_ONCE = (  # sizes of reads; an answer must not depend on them
    *("insight.records.log_reader.READ_PIECE_BYTES", "insight.records.group_log.MEMORY_BYTES"),
    *("cli.verify.PIECE_BYTES", "state.parallel_scan.SCAN_PIECE_BYTES"),
    "state.parallel_scan.HISTORY_PIECE_BYTES",
)
ROWS_AT_ONCE = (
    *(
        "insight.offsets.at_times.PRUNE_EVENTS",
        "insight.questions.growth.PAIRS_AT_ONCE",
        "report.charts.CELLS_AT_ONCE",
    ),
)
ROW_BYTES = 150  # of a log, roughly
PIECES = 6  # of a log; small logs are read byte by byte
SMALL_BYTES = 6000
INTERRUPTED = (130, 143)  # the command got a signal meant for the check
DIGEST_LETTERS = 4  # of 6 bits
MODES = ("whole", "pieces", "threads")
SECONDS = re.compile(r"; [\d.]+ s, [\d,]+ records/s, [\d.]+ .?B/s$", re.MULTILINE)
OUT, PAGE = "out", "page.html"


def digest(text):
    """Return the digest of an answer."""
    raw = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return base64.urlsafe_b64encode(raw).decode()[:DIGEST_LETTERS]


def limits_of(mode, size):
    """Return the settings for a log of ``size`` bytes: dotted name -> value."""
    if mode == "whole":
        return {}
    piece = 1 if size < SMALL_BYTES else size // PIECES
    limits = dict.fromkeys(BYTES_AT_ONCE, piece)
    limits |= dict.fromkeys(ROWS_AT_ONCE, max(piece // ROW_BYTES, 1))
    if mode == "threads":  # even the smallest log is read by three
        limits |= {
            "state.parallel_scan.cores": lambda: 3,
            "state.parallel_scan.UNIT_BYTES_MIN": size // 7 + 1,
        }
        limits |= {
            "state.parallel_scan.CUT_BYTES": 1,
            "state.parallel_scan.CUT_OFF_BYTES_MIN": size // 20,
        }
        limits |= {"insight.records.threads.LARGE_BYTES": 1}
    return limits


@contextmanager
def cut(mode, size):
    """Make commands read a log of ``size`` bytes as in ``mode``."""
    with ExitStack() as after:
        for name, value in limits_of(mode, size).items():
            module, _, attribute = f"coterie.{name}".rpartition(".")
            place = importlib.import_module(module)
            after.enter_context(patch.object(place, attribute, value))
        yield


def command_output(home, log, size, mode, line):
    """Return the status of a command, both streams, and the files that it wrote.

    It runs in ``home`` on the relative path ``log``, so no path of this machine is in the output.
    """
    name, *options = line
    if name == "replay":
        options = ["--out", OUT, *options]
    with cut(mode, size):
        done = coterie(name, log, *options, cwd=home)
    if done.returncode in INTERRUPTED:
        raise KeyboardInterrupt
    lines = [f"status {done.returncode}", done.stdout, SECONDS.sub("", done.stderr)]
    for place in (home / OUT, home / PAGE):
        if place.exists():
            lines += written(place)
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    return "\n".join(lines)


def written(place):
    """Yield the lines of a command's files: those of a folder, or the data of a page."""
    if place.name == PAGE:
        data = page_data(place)
        yield from (f"{name}: {json.dumps(data[name])}" for name in data)
    for path in sorted(place.rglob("*")) if place.is_dir() else ():
        yield f"== {path.relative_to(place).as_posix()}"
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            yield str(table.schema)
            yield from map(str, in_numbers(table).to_pylist())
        elif path.is_file():
            yield path.read_text(encoding="utf-8")


def page_data(path):
    """Return the data of a page, unpacked."""
    text = Path(path).read_text(encoding="utf-8")
    data = json.loads(re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", text, re.S)[1])
    details = (zlib.decompress(base64.b64decode(packed)).decode() for packed in data["details"])
    return data | {"details": list(details)}
