"""Draw histories: a strategy of Hypothesis, and histories by a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.base.arguments import called, integer
from coterie.base.extras import missing_module
from coterie.errors import ArgumentError, shown
from coterie.histories.choices import Seeded
from coterie.histories.events import Event
from coterie.histories.history import History
from coterie.histories.sampling import checked_plan, draw_history

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

T = TypeVar("T")
PROFILES = {"quick": 100, "thorough": 1000}


class _Drawn:
    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        from hypothesis import strategies

        return self._draw(strategies.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        from hypothesis import strategies

        return self._draw(strategies.sampled_from(options))

    def rows(self, highest: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
        from hypothesis import strategies

        row = strategies.tuples(*(strategies.integers(0, high) for high in highest))
        return self._draw(strategies.lists(row, max_size=most))


def histories(
    members: int | tuple[int, int] = (1, 4),
    topics: Mapping[str, int] = {"records": 6},
    minutes: int = 10,
    *,
    events: Iterable[str | type[Event]] | None = None,
    most_events: int = 8,
    settings: Mapping[str, Any] | None = None,
    records_per_minute: int | tuple[int, int] = (2, 10),
    processing_ms: int | tuple[int, int] = (0, 1000),
    longest_ms: int = 60_000,
    outputs: Mapping[str, int] | None = None,
    static: bool = False,
) -> SearchStrategy[History]:
    """Return a strategy of Hypothesis that draws histories, and shrinks them to few events.

    Parameters
    ----------
    members
        How many members start at the beginning, or the least and the most.
    topics
        The partition count of each topic.
    minutes
        How long records are produced and faults occur, in virtual time.
    events
        The kinds of events, as classes or by name; None: all.
    most_events
        How many events a history has at most.
    settings
        Settings of the consumers, by Kafka's names; of a list, one value is drawn.
    records_per_minute
        The rate of each partition, or the least and the most: each partition has its own.
    processing_ms
        How long a record takes, or the least and the most.
    longest_ms
        How long an event lasts at most: a pause, a cut, a load of the coordinator.
    outputs
        Topics that only the application writes to, by a :func:`~coterie.histories.producer`.
    static
        Whether members are static.

    Raises
    ------
    ArgumentError
        An option is wrong.
    CoterieError
        Hypothesis is missing; the message names the extra that installs it.
    """
    try:
        from hypothesis import strategies
    except ModuleNotFoundError as error:
        raise missing_module(error) from error
    plan = checked_plan(
        members=members,
        topics=topics,
        minutes=minutes,
        events=events,
        most_events=most_events,
        settings=settings,
        records_per_minute=records_per_minute,
        processing_ms=processing_ms,
        longest_ms=longest_ms,
        outputs=outputs,
        static=static,
    )
    return strategies.composite(lambda draw: draw_history(_Drawn(draw), plan))()


def profile(name: str, **options: Any) -> Any:
    """Return the settings of Hypothesis for a test of histories: a decorator.

    Parameters
    ----------
    name
        ``"quick"``: 100 histories. ``"thorough"``: 1,000, for mistakes that need a coincidence.
    options
        Other settings of Hypothesis, by their names; they override those of the profile.

    Raises
    ------
    ArgumentError
        There is no such profile.
    CoterieError
        Hypothesis is missing.

    Examples
    --------
    >>> from hypothesis import given
    >>> class Billing:
    ...     def __init__(self, consumer, store):
    ...         self.store = store
    ...
    ...     def process(self, records):
    ...         self.store.update((record.value, "billed") for record in records)
    >>> @profile("quick", max_examples=2, database=None)
    ... @given(histories(members=(1, 2), minutes=1, events=["Crash", "Join"]))
    ... def test_no_record_is_lost(history):
    ...     assert not history.run(Billing).lost
    >>> test_no_record_is_lost()  # pytest does this
    """
    if name not in PROFILES:
        raise ArgumentError(f"name must be one of {', '.join(PROFILES)}, not {shown(name)}")
    try:
        from hypothesis import settings
    except ModuleNotFoundError as error:
        raise missing_module(error) from error
    return settings(**{"max_examples": PROFILES[name], "deadline": None, **options})


def random_history(seed: int, **options: Any) -> History:
    """Return the history of a seed; options as in :func:`histories`.

    The same seed and options give the same history, on every machine.

    Examples
    --------
    >>> random_history(7, events=["Crash"]) == random_history(7, events=["Crash"])
    True
    """
    bound = called(signature(histories).bind)(**options)
    bound.apply_defaults()
    return draw_history(Seeded(integer(seed, "seed", 64)), checked_plan(**bound.arguments))
