"""List a log: plain paths on this machine, URLs by the driver's Hadoop.

URLs are object stores and HDFS (``s3a://``, ``hdfs://``, ``file:``). Spark's own listing ignores
folders that begin with ``_``, so each file is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie.base.arguments import path_names
from coterie.errors import CoterieError, LogError
from coterie.log.folders import (
    ASIDE_FILE,
    ASIDE_FOLDER,
    ASK_FOR,
    OFFSET_NAME,
    PARTITION_FOLDER,
    SEGMENT_FILE,
    TOPIC,
    Listing,
    Segment,
    find_segments,
    is_url,
    listing_of,
)
from coterie_spark.replay_job.scanning import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def listing_of_paths(spark: SparkSession, paths: Listing | Paths) -> Listing:
    """Return the segments of paths or URLs, by the rules of ``coterie.log.folders``.

    A listing is returned unchanged.
    """
    if isinstance(paths, Listing):
        return paths
    names = path_names(paths, "paths")
    if not names:
        raise CoterieError("no path to replay")
    urls = [is_url(name) for name in names]
    if not any(urls):
        return find_segments(names)
    if not all(urls):
        raise CoterieError("give either plain paths or URLs: put file: before the plain ones")
    found: dict[str, Segment] = {}
    aside: list[str] = []
    for name in names:
        for segment in _walk(spark, name, aside):
            found.setdefault(segment.path, segment)
    return listing_of(found.values(), aside)


def _entries(spark: SparkSession, url: str) -> tuple[bool, list[tuple[str, str, bool, int]]]:
    """Return whether ``url`` is a folder, and its entries: (path, name, is a folder, bytes)."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise CoterieError("URLs need a session with its own JVM, not Spark Connect")
    try:
        path = jvm.org.apache.hadoop.fs.Path(url)
        system = path.getFileSystem(spark._jsc.hadoopConfiguration())
        status = system.getFileStatus(path)
        found = system.listStatus(path) if status.isDirectory() else [status]
        rows = [
            (s.getPath().toString(), s.getPath().getName(), s.isDirectory(), s.getLen())
            for s in found
        ]
        return status.isDirectory(), rows
    except Py4JJavaError as error:
        message = str(error.java_exception.toString()).splitlines()[0]
        if "FileNotFoundException" in message:
            raise LogError(f"{url}: no such file or folder; {ASK_FOR}") from None
        raise LogError(f"{url}: cannot be read through Hadoop: {message}") from None


def _walk(spark: SparkSession, url: str, aside: list[str]) -> Iterator[Segment]:
    is_folder, entries = _entries(spark, url)
    name = url.rstrip("/").rpartition("/")[2]
    is_partition = PARTITION_FOLDER.fullmatch
    if not is_folder:
        ((path, name, _, size),) = entries
        if not SEGMENT_FILE.fullmatch(name):
            raise LogError(f"{url}: not a log segment; {ASK_FOR}")
        yield _segment(path, size)
        return
    if is_partition(name):
        yield from _folder(entries, aside)
        return
    folders = [path for path, name, is_folder, _ in entries if is_folder and is_partition(name)]
    aside.extend(path for path, name, _, _ in entries if ASIDE_FOLDER.fullmatch(name))
    if not folders:
        raise LogError(f"{url}: no {TOPIC}-N folder in it; {ASK_FOR}")
    for folder in folders:
        yield from _folder(_entries(spark, folder)[1], aside)


def _folder(entries: list[tuple[str, str, bool, int]], aside: list[str]) -> Iterator[Segment]:
    for path, name, is_folder, size in entries:
        if name.endswith(ASIDE_FILE):
            aside.append(path)
        elif SEGMENT_FILE.fullmatch(name) and not is_folder:
            yield _segment(path, size)


def _segment(path: str, size: int) -> Segment:
    """Return the segment that a path names, its partition from the folder's name."""
    _, folder, name = path.rsplit("/", 2)
    match, inside = SEGMENT_FILE.fullmatch(name), PARTITION_FOLDER.fullmatch(folder)
    assert match
    base = int(match[1]) if OFFSET_NAME.fullmatch(match[1]) else None
    return Segment(path, int(inside[1]) if inside else None, base, size, match[2])
