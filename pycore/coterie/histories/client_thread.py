"""A real client in a thread of its own, for a program that runs in virtual time.

The program asks for calls of the client; the client's callbacks are handed to the program, which
runs them while the client's thread waits, and may ask for calls meanwhile. So one of the two runs
at a time, and a call that takes long does not stop the virtual clock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

Question = Callable[[Any], Any]


class Handed:
    """A callback of the client that the program has to run: ``run`` with ``args``."""

    __slots__ = ("args", "run")

    def __init__(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.run, self.args = run, args


class ClientThread:
    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._questions: SimpleQueue[Question | None] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._abandoned = False
        self._thread = threading.Thread(target=self._live, args=(make,), name=name, daemon=True)
        self._thread.start()

    # In the program

    def ask(self, question: Question) -> None:
        """Let the thread call a function with the client; :meth:`answer` has the result."""
        self._questions.put(question)

    def answer(self, wait_s: float) -> Any:
        """Return ``(value, error)``, a :class:`Handed` callback, or None: nothing in that time."""
        with contextlib.suppress(Empty):
            return self._answers.get(timeout=wait_s)
        return None

    def go_on(self) -> None:
        """Let the client go on, after its callback was run."""
        self._questions.put(None)

    def handing(self, run: Callable[..., Any]) -> Callable[..., None]:
        """Return a callback for the client, which hands a function to the program."""

        def callback(*args: Any) -> None:
            if not self._abandoned:
                self._answers.put(Handed(run, args))
                self._serve(self._client)

        return callback

    def abandon(self) -> None:
        """Forget the client: its program is dead. It is closed as soon as its call returns."""
        self._abandoned = True
        self._questions.put(None)

    def join(self, wait_s: float) -> None:
        """Wait until the thread has ended."""
        self._thread.join(wait_s)

    # In the thread

    def _live(self, make: Callable[[], Any]) -> None:
        try:
            self._client = make()
        except Exception as error:
            self._answers.put((None, error))
            return
        self._answers.put((None, None))
        self._serve(self._client)
        if self._abandoned:
            with contextlib.suppress(Exception):  # it cannot reach its broker
                self._client.close()

    def _serve(self, client: Any) -> None:
        """Answer questions until the client may go on, or is abandoned."""
        while not self._abandoned and (question := self._questions.get()) is not None:
            try:
                answer: tuple[Any, Exception | None] = question(client), None
            except Exception as error:
                answer = None, error
            self._answers.put(answer)
