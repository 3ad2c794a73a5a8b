"""Every public name, called with what it does not take: the process lives, and each refusal is a
CoterieError. Under ``make sanitize`` nothing is read or written where it may not be, either."""

from enum import Enum

import pytest

import coterie
import coterie.aio
import coterie.messages
import coterie.testing
from coterie import CoterieError
from hostile import ARRAYS, PLAIN, Walk, walk_object, walk_spoiled
from hostile_makers import GOOD, MAKERS, UNREADY

MODULES = (coterie, coterie.messages, coterie.testing, coterie.aio)


def named(path):
    module, _, name = path.rpartition(".")
    return name, getattr({m.__name__: m for m in MODULES}[module], name)


def is_kind(path, *kinds):
    found = named(path)[1]
    return isinstance(found, type) and issubclass(found, kinds)


# Named tuples and errors are made of whatever they are given.
EVERY_NAME = [f"{module.__name__}.{name}" for module in MODULES for name in module.__all__]
NAMES = [path for path in EVERY_NAME if not is_kind(path, Enum, Exception, tuple)]
CLASSES = [path for path in NAMES if is_kind(path, object)]


def a_walk():
    """All that does not fit, and one of several classes, where another is wanted."""
    others = ("TimerWheel", "OffsetMap", "GroupMetadata", "PartialState", "Pending", "LogReader")
    return Walk(GOOD, (*PLAIN, *ARRAYS, *(MAKERS[name] for name in others)))


def check(walk):
    found = [f"{where}: {what}" for where, what in sorted(walk.leaks.items())]
    assert not found, "\n".join(found)
    never = walk.never - UNREADY
    assert not never, f"no call succeeded: {sorted(never)}"


@pytest.mark.parametrize("path", NAMES)
def test_what_a_public_name_does_not_take_it_refuses_with_an_error_of_ours(path):
    name, found = named(path)
    walk = a_walk()
    walk.call(name, found, (CoterieError,))
    if isinstance(found, type):
        walk_object(walk, MAKERS[name], (CoterieError,))
    check(walk)


@pytest.mark.parametrize("path", CLASSES)
def test_what_an_object_hands_out_may_be_written_to(path):
    walk = a_walk()
    walk_spoiled(walk, MAKERS[named(path)[0]], (CoterieError,))
    check(walk)
