"""The everyday life of Kafka Connect's groups.

`record_incidents.py` runs it; the docstring is the page beside the recording.
"""

from time import sleep

from recorders.connect_workers import Worker
from recorders.native_members import NativeMember

FILES = "org.apache.kafka.connect.file.FileStream"


def connect(run):
    """Two groups of Kafka Connect workers, connectors that come and go, a worker that is killed.

    `connect-main` (protocol `sessioned`, cooperative): `worker-1` gets the connector `lines`
    (source, 1 task), `worker-2` joins, `store` (sink of `orders`, 3 tasks) is added and later
    changed to 2 tasks, `lines-2` is added. `worker-2` is killed: after its session (6 s) its
    connector and tasks stay unassigned for `scheduled.rebalance.max.delay.ms` (8 s), then
    `worker-1` gets them. `worker-2` starts again, and `lines` is deleted.

    `connect-old` (protocol `eager`): one worker with the connector `archive` (sink of `orders`).

    The sinks' consumers are the groups `connect-store` and `connect-archive`.

    `events` in `truth.json` has each step, the workers' urls, and as `status` what the workers'
    REST API said of each connector and task when all of them were running: its `worker_id`.
    """
    run.topics(orders=4)
    run.produce(orders=[50] * 4)
    source = run.broker.folder / "lines.txt"
    source.write_text("a line\n" * 20)
    lines = {"connector.class": f"{FILES}SourceConnector", "file": str(source), "topic": "lines"}
    run.topics(lines=1)
    store = {"connector.class": f"{FILES}SinkConnector", "topics": "orders"}
    store["file"] = str(run.broker.folder / "out.txt")
    first = Worker(run, "worker-1", "connect-main")
    old = Worker(run, "worker-old", "connect-old", protocol="eager")
    first.await_up()
    first.configure("lines", **lines)
    first.await_running(lines=1)
    old.await_up()
    old.configure("archive", **store, **{"tasks.max": "2"})
    second = Worker(run, "worker-2", "connect-main")
    second.await_up()
    sleep(3)
    first.configure("store", **store, **{"tasks.max": "3"})
    first.await_running(lines=1, store=3)
    first.configure("store", **store, **{"tasks.max": "2"})
    first.await_running(lines=1, store=2)
    first.configure("lines-2", **lines)
    sleep(8)
    first.await_running(**{"lines": 1, "store": 2, "lines-2": 1})
    old.await_running(archive=2)
    second.kill()
    sleep(24)
    first.await_running(**{"lines": 1, "store": 2, "lines-2": 1})
    second = Worker(run, "worker-2", "connect-main")
    second.await_up()
    sleep(12)
    first.await_running(**{"lines": 1, "store": 2, "lines-2": 1})
    first.call("DELETE", "/connectors/lines")
    run.note("connector deleted", connector="lines")
    sleep(5)
    first.await_running(**{"store": 2, "lines-2": 1})
    run.copy("log")
    second.stop()


INCIDENTS = {
    "connect": (connect, {"kind": NativeMember}),
    "connect-4": (connect, {"kind": NativeMember, "version": "4.1.1"}),
}
