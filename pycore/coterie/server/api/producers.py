"""DescribeProducers: the producers and open transactions of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.services.partition import PartitionLog
from coterie.values import Error


def describe_producers(call: Call) -> Slices:
    return answer_in_slices(call, lambda rows: {"topics": rows}, _topics(call))


def _topics(call: Call) -> Iterator[dict[str, Any] | None]:
    pace = Pace()
    for topic in call.body["topics"]:
        partitions = []
        for index in topic["partitionIndexes"]:
            log = call.cluster.topics.partition(topic["name"], index)
            answer: dict[str, Any] = {"partitionIndex": index, "errorCode": 0}
            if log is None:
                answer["errorCode"] = Error.UNKNOWN_TOPIC_OR_PARTITION
                if call.cluster.topics.get(topic["name"]) is None:
                    answer["errorMessage"] = "This server does not host this topic-partition."
            else:
                answer["activeProducers"] = _active(log)
            partitions.append(answer)
            if pace.is_over(1 + len(answer.get("activeProducers", ()))):
                yield None
        yield {"name": topic["name"], "partitions": partitions}


def _active(log: PartitionLog) -> list[dict[str, int]]:
    return [
        {
            "producerId": producer_id,
            "producerEpoch": producer.epoch,
            "lastSequence": producer.last_sequence,
            "lastTimestamp": producer.timestamp,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnStartOffset": -1 if producer.first_offset is None else producer.first_offset,
        }
        for producer_id, producer in log.producers.known.items()
    ]
