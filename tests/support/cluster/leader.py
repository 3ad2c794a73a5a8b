"""A leader of partitions that answers by a script, in place of a connection to a broker."""

import asyncio
from types import SimpleNamespace

from coterie.live.client_config import ClientConfig
from coterie.live.cluster import TopicView
from coterie.live.copying import CopyPlan, copy_partitions
from support.log_writer import batch, commit


def batches(first, last, leader_epoch=5):
    """A batch for each of these offsets."""
    return b"".join(batch(at, [commit(at)], leader_epoch=leader_epoch) for at in range(first, last))


class Leader:
    """Answers ListOffsets by the first and the end offset of each partition, and Fetch by a list.

    ``fetched``: for each request, its rows by partition, of data or of other fields.
    """

    def __init__(self, ends, *fetched):
        self.ends, self.fetched, self.asked = ends, list(fetched), []

    async def ask(self, api, body):
        if api == "ListOffsets":
            (topic,) = body["topics"]
            assert (body["replicaId"], topic["name"]) == (-1, "t")
            index = [-2, -1].index(topic["partitions"][0]["timestamp"])
            rows = [
                {"partitionIndex": number, "errorCode": 0, "offset": ends[index]}
                for number, ends in self.ends.items()
                if number in {part["partitionIndex"] for part in topic["partitions"]}
            ]
            return {"topics": [{"name": "t", "partitions": rows}]}
        self.asked.append(body)
        rows = [row(number, given, self.ends) for number, given in self.fetched.pop(0).items()]
        return {"responses": [{"topic": "t", "partitions": rows}]}

    def requested(self):
        """Partition, offset and epoch of each request."""
        return [
            [
                (part["partition"], part["fetchOffset"], part["lastFetchedEpoch"])
                for topic in body["topics"]
                for part in topic["partitions"]
            ]
            for body in self.asked
        ]


def row(number, given, ends):
    known = {"partitionIndex": number, "errorCode": 0, "highWatermark": ends[number][1]}
    return known | (given if isinstance(given, dict) else {"records": given})


def copied(
    folder, leaders, clock, observer=None, stop=None, ids=("c", "id-of-t"), limit_ms=60_000, **plan
):
    """Copy partitions of a topic; ``leaders``: of each partition.

    ``ids``: of the cluster, and of the topic, one for each time that it is looked up; an error is
    raised.
    ``limit_ms``: for how long what may pass is waited for.
    """
    topic_ids, brokers = list(ids[1:]), list(dict.fromkeys(leaders.values()))
    nodes = {number: brokers.index(leader) + 7 for number, leader in leaders.items()}

    async def topic(name):
        topic_id = topic_ids.pop(0) if topic_ids[1:] else topic_ids[0]
        if isinstance(topic_id, Exception):
            raise topic_id
        return TopicView("t", topic_id, nodes)

    async def connection(node, lane):
        return brokers[node - 7]

    cluster = SimpleNamespace(
        config=ClientConfig({"retry.backoff.ms": "1", "default.api.timeout.ms": str(limit_ms)}),
        cluster_id=ids[0],
        topic=topic,
        connection=connection,
    )
    plan = CopyPlan(folder, "t", **plan)

    async def run():
        try:
            return await copy_partitions(cluster, plan, now_ms=clock, observer=observer, stop=stop)
        finally:  # whatever ends the copy, nothing of it goes on
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(run())
