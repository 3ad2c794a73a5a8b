"""Values that are computed once for each object."""

import threading

import pytest

from coterie.base.caching import cached_property
from support.patience import HANG_S


class Object:
    """``value`` is what ``compute`` returns."""

    def __init__(self, compute):
        self.compute, self.times = compute, 0

    @cached_property
    def value(self):
        """The value."""
        self.times += 1
        return self.compute()


def test_a_value_is_computed_once():
    thing = Object(lambda: 7)
    assert (thing.value, thing.value, thing.times) == (7, 7, 1)
    assert "The value." in Object.value.__doc__


def test_an_error_is_not_stored():
    thing = Object(lambda: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            _ = thing.value
    assert thing.times == 2


def test_a_value_may_wait_for_that_of_another_object_in_another_thread():
    """With ``functools.cached_property`` of Python 3.11 neither would ever be computed."""
    begun, done = threading.Event(), threading.Event()

    def late():
        done.set()
        return "late"

    def early():
        begun.set()
        return done.wait(HANG_S) and "early"

    other = threading.Thread(target=lambda: begun.wait(HANG_S) and Object(late).value, daemon=True)
    other.start()
    assert Object(early).value == "early"
    other.join()
