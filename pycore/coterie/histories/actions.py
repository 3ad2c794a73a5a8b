"""What each kind of event does to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.histories import events
from coterie.histories.invariants import Invariants
from coterie.testing.client.settings import STRATEGY
from coterie.values import Error

LOOK_MS = 1000  # how often an admin looks whether a group is empty
DEFAULT_STRATEGY = "range,cooperative-sticky"
Run = Any  # of a module that uses this one, as the next
Instance = Any
Action = Callable[[Any, Any, Any], None]


def crash(run: Run, event: events.Crash, instance: Instance) -> None:
    instance.crash(event.down_ms)


def close(run: Run, event: events.Close, instance: Instance) -> None:
    instance.stop()


def restart(run: Run, event: events.Restart, instance: Instance) -> None:
    instance.stop(event.down_ms)


def join(run: Run, event: events.Join, _: None) -> None:
    run.join()


def pause(run: Run, event: events.Pause, instance: Instance) -> None:
    instance.pause()
    run.schedule.call_later(event.pause_ms, instance.resume)


def slow_processing(run: Run, event: events.SlowProcessing, instance: Instance) -> None:
    instance.factor = event.factor
    run.schedule.call_later(event.lasts_ms, setattr, instance, "factor", 1)


def fail_write(run: Run, event: events.FailWrite, instance: Instance) -> None:
    instance.write_fails = True


def slow_write(run: Run, event: events.SlowWrite, instance: Instance) -> None:
    instance.write_ms = event.lasts_ms


def lose_request(run: Run, event: events.LoseRequest, instance: Instance) -> None:
    run.cluster.network.lose_request(instance.name, op_of(event.api))


def lose_response(run: Run, event: events.LoseResponse, instance: Instance) -> None:
    run.cluster.network.lose_response(instance.name, op_of(event.api))


def cut(run: Run, event: events.Cut, instance: Instance) -> None:
    run.cluster.network.cut(instance.name)
    run.schedule.call_later(event.lasts_ms, run.cluster.network.heal, instance.name)


def fail_over(run: Run, event: events.Failover, _: None) -> None:
    run.cluster.fail_over(event.load_ms)


def fail_commit(run: Run, event: events.FailCommit, instance: Instance) -> None:
    run.cluster.network.fail(instance.name, "offset_commit", Error[event.error])


def rolling_deploy(run: Run, event: events.RollingDeploy, _: None) -> None:
    """Restart the members one after the other; members that join later get the new settings."""
    before, run.settings = run.settings, deployed(run.settings, event)
    run.deployed.update(name for name, of in run.settings.items() if before.get(name) != of)
    for number, instance in enumerate(run.instances):
        run.schedule.call_later(number * event.step_ms, deploy, instance, event)


def deploy(instance: Instance, event: events.RollingDeploy) -> None:
    instance.settings = deployed(instance.settings, event)
    instance.stop(0)


def deployed(settings: dict[str, Any], event: events.RollingDeploy) -> dict[str, Any]:
    """Return the settings after a deploy."""
    changed = dict(settings)
    if event.assignor is not None:
        before = settings.get(STRATEGY, DEFAULT_STRATEGY)
        names = before.split(",") if isinstance(before, str) else before
        changed[STRATEGY] = [event.assignor, *(name for name in names if name != event.assignor)]
    if event.protocol is not None:
        changed["group.protocol"] = event.protocol
    return changed


def add_partitions(run: Run, event: events.AddPartitions, _: None) -> None:
    topic = run.cluster.topics.get(event.topic)
    if topic is not None:
        run.cluster.add_partitions(event.topic, len(topic.logs) + event.count)


def delete_topic(run: Run, event: events.DeleteTopic, _: None) -> None:
    if event.topic in run.cluster.topics:
        run.cluster.delete_topic(event.topic)


def expire_offsets(run: Run, event: events.ExpireOffsets, _: None) -> None:
    """Close all members; delete the offsets once the group is empty, as their expiry does."""
    stopped = [instance for instance in run.instances if instance.process is not None]
    for instance in stopped:
        instance.stop()
    run.schedule.call_later(LOOK_MS, expire_when_empty, run, stopped)


def expire_when_empty(run: Run, stopped: list[Instance]) -> None:
    group_id = run.settings["group.id"]
    group = run.cluster.call("describe_group", group_id)
    if group.members and run.faulty:
        run.schedule.call_later(LOOK_MS, expire_when_empty, run, stopped)
        return
    committed = run.committed()
    if committed:
        run.cluster.call("offset_delete", group_id, list(committed))
    run.invariants = Invariants()  # without offsets and members, the group may go
    for instance in stopped:
        instance.start()


def delete_group(run: Run, event: events.DeleteGroup, _: None) -> None:
    """Remove all members and delete the group, at the same moment."""
    group_id = run.settings["group.id"]
    group = run.cluster.call("describe_group", group_id)
    members = [(member.member_id, None) for member in group.members]
    if members:
        run.cluster.call("leave_group", group_id, members)
    run.cluster.call("delete_groups", [group_id])
    run.invariants = Invariants()  # of the new group


def op_of(api: str | None) -> str | None:
    """Return an API of Kafka, such as OffsetCommit, as the name of an operation."""
    if api is None:
        return None
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api)[1:]


ACTIONS: dict[type[events.Event], Action] = {
    events.Crash: crash,
    events.Close: close,
    events.Restart: restart,
    events.Join: join,
    events.Pause: pause,
    events.SlowProcessing: slow_processing,
    events.FailWrite: fail_write,
    events.SlowWrite: slow_write,
    events.LoseRequest: lose_request,
    events.LoseResponse: lose_response,
    events.Cut: cut,
    events.Failover: fail_over,
    events.FailCommit: fail_commit,
    events.RollingDeploy: rolling_deploy,
    events.AddPartitions: add_partitions,
    events.DeleteTopic: delete_topic,
    events.ExpireOffsets: expire_offsets,
    events.DeleteGroup: delete_group,
}
