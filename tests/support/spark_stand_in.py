"""A stand-in for a session of Spark: frames are Arrow tables of this process, no JVM is started.

It has what ``coterie_spark`` calls, and its rules: a frame is computed when its rows are needed;
a shuffle brings rows into another order; work for workers must name nothing of coterie, and yields
batches with the columns that were declared.
"""

import io
import itertools
import pickle
import re
import zlib
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from inspect import signature
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pyspark.sql
from pyspark import cloudpickle
from pyspark.sql import Row, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DataType, StructType

from coterie_spark.replay_job.tasks import spark_hash
from support.spark_stand_in_files import Reader, jvm

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
KINDS = {
    "int": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "short": pa.int16(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string, double>": pa.map_(pa.string(), pa.float64()),
    "array<string>": pa.list_(pa.string()),
}
ZONE = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}  # 4.3
FIELD = re.compile(r"(\w+) ((?:map|array)<[^>]*>|\w+)(?:, |$)")


def arrow_of(schema):
    """The Arrow schema of columns as text, or as Spark's type."""
    if isinstance(schema, StructType):
        return to_arrow_schema(schema, **ZONE)
    return pa.schema([(name, KINDS[kind]) for name, kind in FIELD.findall(schema)])


class Column:
    """A value of each row; ``kind`` is its Arrow type, None: that of the values."""

    def __init__(self, of, name="column", kind=None, total=None, source=None):
        self.of, self.name, self.kind, self.total, self.source = of, name, kind, total, source

    def alias(self, name):
        return Column(self.of, name, self.kind, self.total, self.source)

    def cast(self, kind):
        """Cast numbers and texts; a time is one already."""
        to = {"int": int, "long": int, "bigint": int, "double": float}.get(kind, lambda one: one)
        arrow = arrow_of(StructType().add("x", kind))[0].type if isinstance(
            kind, DataType
        ) else KINDS[kind]  # fmt: skip
        return Column(self._then(to).of, self.name, arrow)

    def _then(self, work):
        return Column(lambda row: None if (value := self.of(row)) is None else work(value))

    def _with(self, other, work):
        other = lit(other)

        def of(row):
            values = self.of(row), other.of(row)
            return None if None in values else work(*values)

        return Column(of)

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __mod__(self, other):
        return self._with(other, lambda a, b: a % b)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    def __eq__(self, other):
        return self._with(other, lambda a, b: a == b)

    def __ne__(self, other):
        return self._with(other, lambda a, b: a != b)

    def __ge__(self, other):
        return self._with(other, lambda a, b: a >= b)

    def __gt__(self, other):
        return self._with(other, lambda a, b: a > b)

    def __lt__(self, other):
        return self._with(other, lambda a, b: a < b)

    __hash__ = None

    def __and__(self, other):
        return Column(lambda row: bool(self.of(row)) and bool(other.of(row)))

    def __or__(self, other):
        return Column(lambda row: bool(self.of(row)) or bool(other.of(row)))

    def __invert__(self):
        return self._then(lambda one: not one)

    def isin(self, *values):
        among = values[0] if isinstance(values[0], list) else values
        return self._then(lambda one: one in among)

    def startswith(self, text):
        return self._then(lambda one: one.startswith(text))

    def isNotNull(self):
        return Column(lambda row: self.of(row) is not None)

    def when(self, condition, value):
        return when(condition, value, before=self)

    def otherwise(self, value):
        value = lit(value)

        def of(row):
            is_chosen, chosen = self.branch(row)
            return chosen if is_chosen else value.of(row)

        return Column(of, kind=value.kind)


def lit(value):
    return value if isinstance(value, Column) else Column(lambda row: value)


def col(name):
    return name if isinstance(name, Column) else Column(lambda row: row[name], name, source=name)


def when(condition, value, before=None):
    value = lit(value)

    def branch(row):
        if before is not None and (known := before.branch(row))[0]:
            return known
        return (True, value.of(row)) if condition.of(row) else (False, None)

    made = Column(lambda row: branch(row)[1])
    made.branch = branch
    return made


def coalesce(*columns):
    columns = [col(one) for one in columns]
    values = lambda row: (one.of(row) for one in columns)  # noqa: E731
    return Column(lambda row: next((one for one in values(row) if one is not None), None))


def kind_name(value):
    """Spark's name of a value's type."""
    names = {int: "bigint", float: "double", datetime: "timestamp", str: "string"}
    return names.get(type(value), "void")


def refuse(text):
    raise ValueError(text)


FUNCTIONS = {
    "col": col,
    "lit": lit,
    "when": when,
    "coalesce": coalesce,
    "element_at": lambda array, at: lit(array)._with(at, lambda some, n: some[n - 1]),
    "pmod": lambda one, other: col(one)._with(other, lambda a, b: a % b),
    "array_position": lambda array, one: lit(array)._with(
        one, lambda some, value: some.index(value) + 1 if value in some else 0
    ),
    "floor": lambda one: col(one)._then(lambda value: value // 1),
    "unix_millis": lambda one: Column(
        col(one)._then(lambda time: (time - EPOCH) // MILLISECOND).of, kind=pa.int64()
    ),
    "unix_micros": lambda one: col(one)._then(lambda time: (time - EPOCH) // timedelta.resolution),
    "typeof": lambda one: Column(lambda row: kind_name(one.of(row))),
    "raise_error": lambda text: Column(lambda row: refuse(text)),
    "try_subtract": lambda one, other: one._with(other, lambda a, b: a - b),
    "spark_partition_id": lambda: Column(lambda row: row["\0task"], kind=pa.int32()),
    "max": lambda name: Column(col(name).of, f"max({name})", total=max),
}


def expression(text):
    """A column of a small expression in SQL."""
    code, _, name = text.partition(" as ") if "(" not in text else text.rpartition(" as ")
    if not code or ("(" in text and text.endswith(")")):
        code, name = text, ""
    code = re.sub(r"cast\((\S+) as \w+\)", r"\1", code).replace("_metadata.", "_metadata_")
    kind = next((KINDS[one] for one in ("int", "binary", "string") if code.startswith(f"{one}(")),
                pa.int64() if re.search(r"\dL", code) else None)  # fmt: skip
    kind = pa.int32() if kind is None and re.fullmatch(r"-?\d+", code) else kind
    code = re.sub(r"(\d)L\b", r"\1", code).replace("null", "None").replace("not None", "not null")
    code = re.sub(r"(?<![<>!=])=(?!=)", "==", code.replace("is not null", "is not None"))
    total = re.fullmatch(r"max\((.*)\)", code)
    names = {
        "int": lambda one: one if one is None else int(one),
        "string": lambda one: one,
        "binary": lambda one: one,
        "unix_millis": lambda time: time if time is None else (time - EPOCH) // MILLISECOND,
    }  # fmt: skip
    compiled = compile(total[1] if total else code, text, "eval")
    return Column(
        lambda row: eval(compiled, names, row), name or code, kind, max if total else None, code
    )


class Unpickler(pickle.Unpickler):
    """Of a worker without coterie, as far as the work itself goes."""

    def find_class(self, module, name):
        assert not module.startswith("coterie"), f"a worker would look for {module}.{name}"
        return super().find_class(module, name)


def on_a_worker(work):
    return Unpickler(io.BytesIO(cloudpickle.dumps(work))).load()


class Frame:
    """A frame: ``make`` returns the table of each of its partitions."""

    def __init__(self, session, schema, make):
        self.sparkSession, self.arrow, self.make, self.held = session, schema, make, None

    columns = property(lambda self: self.arrow.names)
    schema = property(lambda self: from_arrow_schema(self.arrow))

    def parts(self):
        if self in self.sparkSession.persisted:
            if self.held is None:
                self.held = self.make()
            return self.held
        return self.make()

    def _next(self, make, schema=None):
        return Frame(self.sparkSession, schema or self.arrow, make)

    def __getitem__(self, name):
        assert name in self.columns, name
        return col(name)

    def _rows(self):
        for task, table in enumerate(self.parts()):
            yield [{**row, "\0task": task} for row in table.to_pylist()]

    def select(self, *columns):
        columns = [col(one) for one in columns]
        own = dict(zip(self.arrow.names, self.arrow.types, strict=True))
        kinds = [one.kind or own.get(one.source) for one in columns]

        def make():
            tables = []
            for rows in self._rows():
                arrays = [pa.array(map(one.of, rows), kind)
                          for one, kind in zip(columns, kinds, strict=True)]  # fmt: skip
                tables.append(pa.table(arrays, [one.name for one in columns]))
            return tables

        fields = [(one.name, kind or pa.null()) for one, kind in zip(columns, kinds, strict=True)]
        return self._next(make, pa.schema(fields))

    def selectExpr(self, *texts):
        columns = [expression(text) for text in texts]
        return self.agg(*columns) if columns[0].total else self.select(*columns)

    def agg(self, column):
        def make():
            values = [column.of(row) for rows in self._rows() for row in rows]
            known = [value for value in values if value is not None]
            return [pa.table([[column.total(known) if known else None]], [column.name])]

        return self._next(make, pa.schema([(column.name, pa.int64())]))

    def where(self, condition):
        condition = expression(condition) if isinstance(condition, str) else condition

        def make():
            chosen = []
            for table, rows in zip(self.parts(), self._rows(), strict=True):
                chosen.append(
                    table.filter(pa.array([condition.of(row) for row in rows], pa.bool_()))
                )
            return chosen

        return self._next(make)

    def withColumn(self, name, column):
        return self.select(*(column.alias(name) if one == name else one for one in self.columns))

    def drop(self, *names):
        return self.select(*(one for one in self.columns if one not in names))

    def union(self, other):
        assert self.arrow.types == other.arrow.types, "a union is by place"
        return self._next(lambda: [*self.parts(), *(one.rename_columns(self.columns)
                                                    for one in other.parts())])  # fmt: skip

    unionAll = union

    def repartition(self, count, *columns):
        if not isinstance(count, int):
            count, columns = 3, (count, *columns)
        columns = [col(one) for one in columns]

        def make():
            dealt = [[] for _ in range(count)]
            for number, row in enumerate(row for rows in self._rows() for row in rows):
                values = [one.of(row) for one in columns]
                one = spark_hash(values[0]) if [type(v) for v in values] == [int] else zlib.crc32(
                    repr(values).encode()
                )  # fmt: skip
                dealt[(one if columns else number) % count].append(row)
            return [pa.Table.from_pylist(rows[::-1], self.arrow) for rows in dealt]

        return self._next(make)

    def _sorted(self, table, names):
        keys = [[(one is not None, one) for one in table[name].to_pylist()] for name in names]
        order = sorted(range(table.num_rows), key=lambda row: [key[row] for key in keys])
        return table.take(pa.array(order, pa.int64()))

    def sortWithinPartitions(self, *names):
        return self._next(lambda: [self._sorted(table, names) for table in self.parts()])

    def orderBy(self, *names):
        return self._next(lambda: [self._sorted(self.toArrow(), names)])

    def mapInArrow(self, work, schema):
        schema, work = arrow_of(schema), on_a_worker(work)

        def make():
            size = int(self.sparkSession.conf.get(ROWS))
            self.sparkSession.rows_per_batch.append(size)
            return [attempt(work, table.to_batches(size), schema) for table in self.parts()]

        return self._next(make, schema)

    def persist(self, level):
        self.sparkSession.persisted.append(self)
        return self

    def unpersist(self):
        self.sparkSession.persisted = [
            one for one in self.sparkSession.persisted if one is not self
        ]
        self.held = None

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def toArrow(self):
        return pa.concat_tables([self.arrow.empty_table(), *self.parts()])

    def collect(self):
        # Names that are no attributes of Python are those of aggregates.
        return [Row(**row) for table in self.parts() for row in table.to_pylist()]

    toLocalIterator = collect

    def count(self):
        return self.toArrow().num_rows


attempts = itertools.count(1)
current = []  # attempts at tasks


def attempt(work, batches, schema):
    """The rows that a worker yields, in the columns that were declared."""
    made, number = [], next(attempts)
    current.append(SimpleNamespace(taskAttemptId=lambda: number))
    for batch in work(iter(batches)):
        assert batch.schema.names == schema.names
        arrays = [one.cast(kind) for one, kind in zip(batch.columns, schema.types, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    current.pop()
    return pa.Table.from_batches(made, schema)


class Conf:
    """Settings; to ask for one that Spark does not know is an error."""

    def __init__(self, values):
        self.values = values

    def get(self, name, *default):
        if name not in self.values and not default:
            raise KeyError(f"[SQL_CONF_NOT_FOUND] {name}")
        return self.values.get(name, *default)

    def set(self, name, value):
        assert isinstance(value, str)
        self.values[name] = value


Tracker = namedtuple("Tracker", ["getActiveStageIds", "getStageInfo"])


class Session:
    """A session of so many cores; its logs are small, but workers fold them."""

    def __init__(self, cores=2, **settings):
        self.conf = Conf({
            ROWS: "10000",
            "spark.sql.files.maxPartitionBytes": "134217728",
            "spark.sql.files.openCostInBytes": "4194304",
            "spark.coterie.driverBytes": "-1",
            **settings,
        })  # fmt: skip
        tracker = Tracker(lambda: [], lambda stage: None)
        self.sparkContext = SimpleNamespace(
            master=f"local[{cores}]",
            defaultParallelism=cores,
            statusTracker=lambda: tracker,
            cancelAllJobs=lambda: None,
        )
        self.persisted, self.rows_per_batch = [], []
        self._jvm = jvm()
        self._jsc = SimpleNamespace(hadoopConfiguration=lambda: None)

    @property
    def read(self):
        return Reader(self, Frame)

    def range(self, start, end=None, step=1, tasks=1):
        start, end = (0, start) if end is None else (start, end)
        numbers = list(range(start, end, step))
        bounds = [len(numbers) * at // tasks for at in range(tasks + 1)]
        schema = pa.schema([("id", pa.int64())])
        parts = [pa.table([pa.array(numbers[a:b], pa.int64())], schema=schema)
                 for a, b in itertools.pairwise(bounds)]  # fmt: skip
        return Frame(self, schema, lambda: parts)

    def createDataFrame(self, rows, schema=None):
        if not isinstance(rows, pa.Table):
            arrow = arrow_of(schema)
            assert all(len(row) == len(arrow.names) for row in rows)
            rows = pa.Table.from_pylist([dict(zip(arrow.names, row, strict=True)) for row in rows],
                                        arrow)  # fmt: skip
        return Frame(self, rows.schema, lambda: [rows])


def patched(monkeypatch):
    """Let Spark's functions of columns, and what it knows of a task, be those of the stand-in."""
    for name, function in FUNCTIONS.items():
        monkeypatch.setattr(functions, name, function)
    monkeypatch.setattr(pyspark.sql, "DataFrame", Frame)
    current.clear()
    context = staticmethod(lambda: current[-1] if current else None)
    monkeypatch.setattr(pyspark.TaskContext, "get", context)
