"""The names that users import, and what the pytest plugin's factory makes."""

import asyncio

import pytest

import coterie
from coterie import ArgumentError, GroupCoordinator, aio
from coterie.pytest_plugin import CoordinatorFactory, _file_name


def test_the_public_names_are_listed_in_order_and_all_are_there():
    assert coterie.__all__ == sorted(set(coterie.__all__))
    names = coterie.__dir__()
    assert names == sorted(set(names))
    assert {*coterie.__all__, "__version__"} <= set(names)
    assert all(getattr(coterie, name) is not None for name in coterie.__all__)
    for name in ("no_such_name", "_private", "no name"):
        with pytest.raises(AttributeError, match=name):
            getattr(coterie, name)
    assert coterie.messages.__name__ == "coterie.messages"


def joining(made):
    return made.join_group("g", protocol_type="consumer", protocols={"range": b""}, client_id="c")


def test_coordinators_of_a_factory_share_a_clock_and_keep_their_own_events():
    factory, events = CoordinatorFactory(), []
    one = factory(now_ms=5000)
    factory.clock.advance(250)
    two = factory(on_event=events.append)
    assert (one.now_ms, two.now_ms, factory.clock.now_ms) == (5250, 5250, 5250)
    joining(two)
    assert factory.coordinators == [one, two]
    assert factory.timelines == [[], events]
    assert events
    factory.clock.advance(3000)
    assert (one.now_ms, two.now_ms) == (8250, 8250)
    assert factory.recordings == []


def test_a_recorded_factory_records_each_coordinator_by_its_own_ids():
    factory = CoordinatorFactory(recorded=True)
    names = iter(["first", "second"])
    made = [factory(member_ids=lambda prefix: f"{prefix}-{next(names)}"), factory()]
    pending = joining(made[0])
    factory.clock.advance(3000)
    assert pending.response.member_id == "c-first"
    traces = [
        recording.lines("test", each.config, each.now_ms)
        for recording, each in zip(factory.recordings, made, strict=True)
    ]
    assert [[line["op"] for line in trace if "op" in line] for trace in traces] == [
        ["join_group", "advance"], ["advance"],
    ]  # fmt: skip


def test_a_trace_is_named_after_its_test():
    node = "tests/a b/test_x.py::TestY::test_z[1-\u00e9/2]"
    assert _file_name(node) == "tests_a_b_test_x.TestY_test_z[1-\u00e9_2]"


def test_asynchronous_helpers_refuse_what_they_cannot_wait_for():
    with pytest.raises(ArgumentError, match="pending must be what a request returned, not 5"):
        asyncio.run(aio.wait(5))
    with pytest.raises(ArgumentError, match="coordinator must be a GroupCoordinator, not 5"):
        asyncio.run(aio.drive(5, until_ms=1))
    with pytest.raises(ArgumentError, match="until_ms must be"):
        asyncio.run(aio.drive(GroupCoordinator(), until_ms=-1))


@pytest.mark.parametrize(("until_ms", "status"), [(2999, "waiting"), (3000, "answered")])
def test_a_deadline_at_the_time_that_is_driven_to_is_reached(until_ms, status):
    made = GroupCoordinator()
    pending = joining(made)
    asyncio.run(aio.drive(made, until_ms=until_ms))
    assert (pending.status, made.now_ms) == (status, until_ms)


def test_asynchronous_helpers_yield_without_waiting(monkeypatch):
    async def sleep(seconds):
        slept.append(seconds)
        if pending.status == "waiting":
            made.advance(3000)

    slept = []
    monkeypatch.setattr(asyncio, "sleep", sleep)
    made = GroupCoordinator()
    pending = joining(made)
    asyncio.run(aio.wait(pending))
    asyncio.run(aio.drive(made, until_ms=5000))
    assert slept == [0, 0]
