"""Every name of the compiled modules, private ones too, called with what it does not take: the
process lives. What they hand out may be written to. Nothing here is promised to callers."""

import importlib

import pytest

import coterie._core
from coterie import CoterieError
from support.hostile import (
    ARRAYS,
    OF_NUMPY_1,
    PLAIN,
    Walk,
    check,
    methods,
    modules_of,
    walk_made_again,
    walk_object,
    walk_spoiled,
)
from support.hostile_makers import CORE_GOOD, CORE_MAKERS, CORE_UNREADY, made_bare

pytestmark = OF_NUMPY_1

# Private: Python's own errors for an argument of a wrong type or size, or for an entry that is not
# there, are good enough.
MAY = (CoterieError, TypeError, ValueError, OverflowError, LookupError)
# Once its insides were written to, an object may also miss an attribute of what it holds.
AFTERWARDS = (*MAY, AttributeError)


def a_walk():
    """As for public names, and an object of each other class of the core."""
    return Walk(CORE_GOOD, (*PLAIN, *ARRAYS, *CORE_MAKERS.values(), made_bare))


# It writes the tables of all that follows: test_value_versions calls it, in other processes.
WRITES_TABLES = {"coterie._core.codec.schema.define"}


def names():
    for module in modules_of(coterie._core):
        for name, found in vars(module).items():
            ours = callable(found) and getattr(found, "__module__", None) == module.__name__
            pythons = isinstance(found, type) and (
                issubclass(found, Exception) or hasattr(found, "_fields")  # named tuples
            )
            if ours and not pythons and f"{module.__name__}.{name}" not in WRITES_TABLES:
                yield f"{module.__name__}.{name}"


NAMES = list(names())


def named(path):
    module, _, name = path.rpartition(".")
    return name, getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", NAMES)
def test_no_argument_of_a_private_name_ends_the_process(path):
    name, found = named(path)
    walk = a_walk()
    walk.call(name, found, MAY)
    if name in CORE_MAKERS:
        walk_object(walk, CORE_MAKERS[name], MAY)
    elif isinstance(found, type):
        assert not methods(found), f"{path} has methods: CORE_MAKERS must make one"
    check(walk, CORE_UNREADY)


@pytest.mark.parametrize("name", CORE_MAKERS)
def test_what_an_object_of_the_core_hands_out_may_be_written_to(name):
    walk = a_walk()
    walk_spoiled(walk, CORE_MAKERS[name], AFTERWARDS)
    check(walk, CORE_UNREADY)


@pytest.mark.parametrize("name", CORE_MAKERS)
def test_an_object_of_the_core_that_is_made_a_second_time_ends_no_process(name):
    walk = a_walk()
    walk_made_again(walk, CORE_MAKERS[name], AFTERWARDS)
    check(walk, CORE_UNREADY)
