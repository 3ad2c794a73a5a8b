"""The files of the stand-in for Spark: a local folder as Hadoop's file systems show it."""

import re
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError

MARK = b"\xef\xbb\xbf"


class HadoopError(Py4JJavaError):
    """An exception of Hadoop's, which Py4J passes on."""

    def __init__(self, text):
        Exception.__init__(self, text)
        self.java_exception = SimpleNamespace(toString=lambda: text)

    def __str__(self):
        return str(self.java_exception.toString())


class HadoopPath:
    """A path, its file system and its status, all in one."""

    def __init__(self, url):
        self.url = url
        self.local = Path(url.partition(":")[2])

    def getFileSystem(self, conf):
        if not self.url.startswith("file:"):
            raise HadoopError(f"UnsupportedFileSystemException: No FileSystem for {self.url}\n\tat")
        return self

    def getFileStatus(self, path):
        if not path.local.exists():
            raise HadoopError(f"java.io.FileNotFoundException: File {path.url} is not there\n\tat")
        return path

    def listStatus(self, path):
        return [HadoopPath(f"file:{one}") for one in sorted(path.local.iterdir(), reverse=True)]

    def isDirectory(self):
        return self.local.is_dir()

    def getPath(self):
        return self

    def toString(self):
        return self.url

    def getName(self):
        return self.local.name

    def getLen(self):
        return self.local.stat().st_size


def jvm():
    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=HadoopPath))
    return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)))


class Reader:
    """Reads files as lines, or whole; a line belongs to the split that it begins in."""

    def __init__(self, session, frame):
        self.session, self.frame, self.kind = session, frame, None

    def option(self, name, value):
        assert (name, value) == ("lineSep", "\n")
        return self

    def format(self, kind):
        assert kind == "binaryFile"
        return self

    def _of(self, schema, tables):
        return self.frame(self.session, schema, tables)

    def text(self, paths):
        schema = pa.schema(
            [("value", pa.binary()), ("_metadata_file_path", pa.string()),
             ("_metadata_file_block_start", pa.int64())])  # fmt: skip

        def tables():
            size = int(self.session.conf.get("spark.sql.files.maxPartitionBytes"))
            size = max(size, int(self.session.conf.get("spark.sql.files.openCostInBytes")))
            whole = [self._lines(unescaped(path), size, schema) for path in paths]
            return [split for table in whole for split in splits_of(table)]

        return self._of(schema, tables)

    def _lines(self, url, size, schema):
        body = Path(url.partition(":")[2]).read_bytes()
        assert body, "Spark plans no read of a file without bytes"
        at = len(MARK) if body.startswith(MARK) else 0
        rows = []
        for line in body[at:].removesuffix(b"\n").split(b"\n"):
            rows.append((line, quote(url, safe="/:+"), at // size * size))
            at += len(line) + 1
        columns = [pa.array(one, kind) for one, kind in zip(zip(*rows, strict=True), schema.types,
                                                            strict=True)]  # fmt: skip
        return pa.table(columns, schema=schema)

    def load(self, paths):
        schema = pa.schema(
            [("path", pa.string()), ("content", pa.binary()), ("length", pa.int64())]
        )

        def tables():
            made = []
            for url in map(unescaped, paths):
                body = Path(url.partition(":")[2]).read_bytes()
                made.append(pa.table([[url], [body], [len(body)]], schema=schema))
            return made

        return self._of(schema, tables)


def splits_of(table):
    """The rows of each split of a file: Spark reads them in tasks of their own."""
    starts = table["_metadata_file_block_start"]
    return [table.filter(pc.equal(starts, start)) for start in starts.unique()]


def unescaped(path):
    """A path of which Spark sees no pattern."""
    assert not re.search(r"(?<!\\)[{}\[\]*?]", path), f"a pattern: {path}"
    return re.sub(r"\\(.)", r"\1", path)
