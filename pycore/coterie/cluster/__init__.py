"""A running cluster: its topics as copies on disk, byte for byte, and what its brokers answer.

``Cluster`` connects, ``copy_partitions`` copies. Both are for an event loop of asyncio, and read
no clock but that of the caller. Only ``connections`` knows the client library (aiokafka, extra
``cluster``); frames are made and read by ``coterie.wire``.

    config = read_client_config("client.properties")
    async with Cluster(["broker-1:9092"], config) as cluster:
        plan = CopyPlan(Path("copy"), partitions=(7,))
        results = await copy_partitions(cluster, plan, now_ms=epoch_ms)

``CopyPlan(follow=True)`` goes on until the caller sets ``stop``; ``watching`` gets what was
appended. ``read_copy_state`` tells a reader of a copy until when it is complete.
"""
