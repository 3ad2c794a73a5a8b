"""Live clusters: a topic as a copy on disk, byte for byte, and a monitor with a memory.

``Cluster`` connects and ``copy_partitions`` copies, for an event loop of asyncio; they read no
clock but that of the caller. Only ``connections`` knows the client library (aiokafka, extra
``cluster``); frames are made and read by ``coterie.wire``.

    config = read_client_config("client.properties")
    async with Cluster(["broker-1:9092"], config) as cluster:
        plan = CopyPlan(Path("copy"), partitions=(7,))
        results = await copy_partitions(cluster, plan, now_ms=epoch_ms)

``CopyPlan(follow=True)`` goes on until the caller sets ``stop``; ``watching`` gets what was
appended. ``read_copy_state`` tells a reader of a copy until when it is complete.

The monitor follows a log and serves its state over HTTP. A step reads what the files have grown by
(``log_growth``), and nothing else: the fold and the aggregates of each partition stay in memory
(``live_partition``). What was counted survives a restart, and the compaction of the log
(``totals``, ``snapshot``). Pages and questions are answered from the files themselves (``web``).
"""
