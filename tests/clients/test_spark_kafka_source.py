"""Spark's own Kafka source as a client of the server: ``decode`` gives what the log has."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.server import Broker
from support import maven
from support.commandline import coterie_ok
from support.server.groups_of_a_broker import commit_offsets

pyspark = pytest.importorskip("pyspark")
KAFKA_SOURCE = Path(__file__).parents[1] / "support/spark_kafka"


def kafka_source():
    """The jars of Spark's Kafka source: of this Spark, or of the last that Maven Central has."""
    last = maven.classpath(KAFKA_SOURCE, "Kafka source of Spark").strip()
    here = [int(part) for part in pyspark.__version__.split(".")[:3]]
    if here >= [4, 2, 0]:
        return last
    version = f"-Dspark.version={pyspark.__version__}"
    return maven.classpath(KAFKA_SOURCE, "Kafka source of Spark", version).strip()


def test_rows_that_spark_reads_from_a_server_are_decoded_as_a_batch_and_as_a_stream(tmp_path):
    pytest.importorskip("aiokafka")  # `coterie fetch`
    jars = kafka_source().replace(":", ",")
    settings = {"offsets.topic.num.partitions": 4}
    with Broker(settings, topics={"orders": 2}) as broker:
        commit_offsets(broker, "payments", 12)
        place = broker.bootstrap_servers
        coterie_ok("fetch", "--bootstrap-server", place, "--out", tmp_path / "copy")
        program = [sys.executable, KAFKA_SOURCE / "decoded_rows.py"]
        command = [*program, place, jars, tmp_path / "copy", "payments"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(ran.stdout.splitlines()[-1])
    assert len(rows["log"]) == 12
    assert rows["batch"] == rows["stream"] == rows["log"]
