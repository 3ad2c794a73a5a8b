"""A history: conditions that can be run. Its ``repr`` is Python that makes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from coterie.errors import ArgumentError, CoterieError
from coterie.histories.conditions import Application, Conditions
from coterie.histories.outcome import Outcome
from coterie.histories.page import page
from coterie.histories.play import Play
from coterie.histories.programs import ProgramApplication
from coterie.histories.runner import Run
from coterie.histories.tracing import trace

Client = Callable[[Mapping[str, Any]], Any]


class History(Conditions):
    """What happens to a group, in virtual time.

    Attributes
    ----------
    members : int
        How many members start at the beginning.
    topics : dict
        The partition count of each topic; members subscribe to all.
    minutes : int
        How long records are produced and faults occur. Then all faults end, and the run goes on
        until every record has been processed.
    events : tuple of Event
        What happens, in order of time.
    settings : dict
        Settings of every consumer, by Kafka's names; they override those of the application.
    records_per_minute : int or tuple of int
        The rate of each partition, or the least and the most; the seed gives each one its own.
    processing_ms : tuple of int
        The least and the most time that a record takes; drawn for each record by the seed.
    outputs : dict
        The partition count of each topic that only the application writes to.
    static : bool
        Whether members are static: each has a ``group.instance.id``.
    seed : int
        Determines the time that each record takes.
    """

    def run(
        self,
        application: Application | None = None,
        *,
        program: Callable[[], Any] | str | PathLike[str] | None = None,
    ) -> Outcome:
        """Run the application as every member of the group; return the outcome.

        Parameters
        ----------
        application
            A class with ``process(records)``.
        program
            In its place a program with its own client of confluent-kafka and its own loop: a
            function without arguments, or the path of a script; each member runs it with its own
            globals. To close a member calls the program's handler of SIGTERM or SIGINT, or else
            raises KeyboardInterrupt. :func:`coterie.histories.processed` marks a record as
            processed.

        Raises
        ------
        CoterieError
            An option or a setting is wrong, or greenlet is missing.
        Exception
            What the application raises, unless it is one of Kafka's exceptions: these end the
            member, which starts again, and are in ``Outcome.errors``.
        """
        if (application is None) == (program is None):
            raise ArgumentError("run takes an application or a program")
        known = ProgramApplication(program) if application is None else application
        run = Run(self, known)
        object.__setattr__(self, "_application", known)
        return run.outcome()

    def play(self, broker: Any, client: Client, application: Application | None = None) -> Outcome:
        """Let real clients take the same course, against a broker; return the outcome.

        The clock of the broker goes to the time of each event and of each record, and waits for the
        heartbeats of the members. What a client does by the wall clock (heartbeats, fetches,
        retries, ``max.poll.interval.ms``) may come some virtual seconds later than in a run, so
        several plays may differ. A pause, too, is seen from the broker: the client's requests do
        not arrive.

        Parameters
        ----------
        broker : Broker
            A new one of this process: ``Broker(clock="virtual")``.
        client : function
            Makes a client of settings by Kafka's names, such as
            :class:`~coterie.histories.ConfluentConsumer`. ``client.refuses(settings)``, if it
            exists, says why the client does not take settings; an event that leads to such settings
            is left out, and is in ``Outcome.skipped``.
        application
            By default the one that ran last.

        Raises
        ------
        CoterieError
            The client does not take the settings, the broker has the topics already or has no
            virtual clock, or the application makes a producer.
        """
        known = self._known(application)
        object.__setattr__(self, "_application", known)
        return Play(self, known, broker, client).outcome()

    def trace(self, application: Application | None = None) -> list[str]:
        """Return the lines of a trace with all requests, for ``coterie trace run``.

        The history runs again, with the application or with the last one that ran.
        """
        return trace(self, self._known(application))

    def html(self, application: Application | None = None) -> str:
        """Return a page that shows the run: the owners of each partition, the events.

        The history runs again, with the application or with the last one that ran.
        """
        return page(self, self._known(application))

    def _known(self, application: Application | None) -> Application:
        known: Application | None = application
        if known is None:
            known = getattr(self, "_application", None)
        if known is None:
            raise CoterieError("the history has not run yet; name the application")
        return known
