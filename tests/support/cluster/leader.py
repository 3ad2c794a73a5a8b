"""A leader of partitions that answers by a script, in place of a connection to a broker."""

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
