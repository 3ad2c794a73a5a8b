"""Every public name, called with what it does not take: the process lives, and each refusal is a
CoterieError. Under ``make sanitize`` nothing is read or written where it may not be, either."""

import contextlib
from dataclasses import is_dataclass
from enum import Enum

import pytest

import coterie
import coterie.aio
import coterie.messages
import coterie.testing
import coterie.values
import coterie.wire
from coterie import CoterieError
from support.hostile import (
    ARRAYS,
    DEQUE_WRITES,
    OF_NUMPY_1,
    PLAIN,
    Walk,
    check,
    walk_made_again,
    walk_object,
    walk_spoiled,
)
from support.hostile_makers import CONSUMER_METHODS, GOOD, MAKERS, UNREADY, a_coordinator

pytestmark = OF_NUMPY_1
MODULES = (coterie, coterie.messages, coterie.testing, coterie.aio, coterie.wire, coterie.values)


def named(path):
    module, _, name = path.rpartition(".")
    return name, getattr({m.__name__: m for m in MODULES}[module], name)


def is_kind(path, *kinds):
    found = named(path)[1]
    return isinstance(found, type) and issubclass(found, kinds)


def maker(path):
    return MAKERS.get(path) or MAKERS[named(path)[0]]


# Named tuples and errors are made of whatever they are given.
EVERY_NAME = [f"{module.__name__}.{name}" for module in MODULES for name in module.__all__]
NAMES = [
    path
    for path in EVERY_NAME
    if callable(named(path)[1]) and not is_kind(path, Enum, Exception, tuple)
]
CLASSES = [path for path in NAMES if is_kind(path, object)]


def a_walk():
    """Wrong values of every kind, and objects of several other classes."""
    others = ("TimerWheel", "OffsetMap", "GroupMetadata", "PartialState", "Pending", "LogReader")
    return Walk(GOOD, (*PLAIN, *ARRAYS, *(MAKERS[name] for name in others)))


@pytest.mark.parametrize("path", NAMES)
def test_what_a_public_name_does_not_take_it_refuses_with_an_error_of_ours(path):
    name, found = named(path)
    walk = a_walk()
    walk.call(name, found, (CoterieError,))
    if isinstance(found, type):
        walk_object(walk, maker(path), (CoterieError,))
    check(walk, UNREADY)


def test_what_a_coordinator_of_consumer_groups_does_not_take_it_refuses_with_an_error_of_ours():
    walk = a_walk()
    newer = {"coterie.behaviour": "4.1"}
    walk_object(walk, lambda: a_coordinator(config=newer), (CoterieError,))
    check(walk, UNREADY - CONSUMER_METHODS)


@pytest.mark.parametrize("path", CLASSES)
def test_what_an_object_hands_out_may_be_written_to(path):
    walk = a_walk()
    walk_spoiled(walk, maker(path), (CoterieError,))
    check(walk, UNREADY)


@pytest.mark.parametrize("path", [p for p in CLASSES if not is_dataclass(named(p)[1])])
def test_an_object_that_is_made_a_second_time_ends_no_process(path):
    walk = a_walk()
    walk_made_again(walk, maker(path), (CoterieError,))
    check(walk, UNREADY)


@pytest.mark.parametrize("write", DEQUE_WRITES, ids=range(len(DEQUE_WRITES)))
def test_appends_come_back_whatever_was_written_among_those_in_flight(write):
    coordinator = a_coordinator(appends="deferred")
    in_flight = list(coordinator.appends)
    assert len(in_flight) == 2
    with contextlib.suppress(CoterieError, TypeError):
        write(coordinator.appends)
    for append in reversed(in_flight):
        append.complete()
    pending = coordinator.offset_commit("h", {("t", 0): 6})
    while coordinator.appends:
        coordinator.appends[0].complete()
    assert pending.done
