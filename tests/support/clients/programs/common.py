"""What the programs of Python's clients share: their arguments, and how they tell facts."""

import json
import os
import sys
import time
from itertools import chain

BOOTSTRAP, SCENARIO, GROUP, TOPIC, *ARGS = sys.argv[1:]
PROTOCOL = os.environ.get("GROUP_PROTOCOL", "classic")  # of its members
WAIT_S = 1800  # only what never comes takes that long, however busy the machine
# What a transactional producer does: values, the offset that it commits, whether it commits.
TRANSACTIONS = (("ab", 3, True), ("cd", 9, False), ("e", None, True))
LEVELS = ("read_committed", "read_uncommitted")


def tell(**facts):
    print(json.dumps(facts), flush=True)  # noqa: T201


def late():
    """A function that ends the program once it has waited too long."""
    end = time.monotonic() + WAIT_S

    def check(state):
        if time.monotonic() > end:
            print(f"still {state}", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(1)  # librdkafka may never end a consumer that waits inside a callback

    return check


def is_divided(parts, total=3):
    """Whether lists of partitions, none of them empty, are all there are."""
    return all(parts) and sorted(chain.from_iterable(parts)) == list(range(total))
