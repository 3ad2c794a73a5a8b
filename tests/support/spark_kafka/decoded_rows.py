"""What ``decode`` makes of a cluster's records: decoded_rows.py BOOTSTRAP JARS COPY GROUP.

A program, because the jars of Spark's Kafka source must be there when the JVM starts. Prints JSON:
the rows of a group as the data source reads them from COPY, as a batch and as a stream decode them.
"""

import json
import sys
import tempfile

from coterie_spark import decode, register
from coterie_spark.session import local_session

HIDDEN = ("segment", "batch_position", "producer_id", "producer_epoch", "is_transactional")
HIDDEN += ("marker",)
OLD_OFFSETS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def as_text(rows):
    return sorted(repr(sorted(row.asDict().items())) for row in rows)


def main(bootstrap, jars, copy, group):
    """Print the rows."""
    spark = local_session("local[2]", conf={"spark.jars": jars, OLD_OFFSETS: "true"})
    register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "__consumer_offsets"}
    options |= {"startingOffsets": "earliest"}

    def shown(frame):
        return frame.where(f"group_id = '{group}'").drop(*HIDDEN)

    log = spark.read.format("consumer_offsets").load(copy)
    batch = decode(spark.read.format("kafka").options(**options).load())
    stream = shown(decode(spark.readStream.format("kafka").options(**options).load()))
    streamed = []
    writer = stream.writeStream.foreachBatch(lambda rows, _: streamed.extend(rows.collect()))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
    found = {
        "log": as_text(shown(log.where("not is_control")).collect()),
        "batch": as_text(shown(batch).collect()),
        "stream": as_text(streamed),
    }
    print(json.dumps(found))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
