"""Histories of a correct application, drawn by a number: nothing may be lost or stuck.

The coordinator's invariants are checked meanwhile (``coterie.histories.invariants``).
"""

from coterie.histories import random_history

PROTOCOLS = ["classic", "consumer"]
MANUAL = {"enable.auto.commit": False}


class Application:
    """Process records, then commit."""

    settings = MANUAL

    def __init__(self, consumer, store):
        self.consumer = consumer

    def process(self, records):
        """Take the time of each record, and commit."""
        for _ in records:
            pass
        self.consumer.commit()


def one_history(number):
    """Run the history of a number."""
    history = random_history(number, minutes=3, settings={"group.protocol": PROTOCOLS})
    outcome = history.run(Application)
    for name in ("lost", "stuck"):
        found = getattr(outcome, name)
        assert not len(found), f"{name}: {list(found)[:3]}\n{history!r}"
