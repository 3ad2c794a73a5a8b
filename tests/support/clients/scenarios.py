"""What real clients do against ``coterie serve``, whatever their language: one row a scenario.

A client is a small program, called with ``BOOTSTRAP SCENARIO GROUP TOPIC [ARGS]``. It prints one
line of JSON for each fact and exits 0; a scenario that its client cannot do is not in its test's
list. The facts are the same for all clients, so they stand here, once. Nothing waits for a time:
a program polls until a fact is true, and what never comes true ends with ``HANG_S``.

``join``         One consumer with the range assignor subscribes and polls until it is assigned;
                 it closes and leaves.
``rebalance``    Three consumers of one process (range), one after another; whenever each has what
                 the group divided, the sizes of their assignments are told, sorted. Then the first
                 one closes.
``cooperative``  Two consumers, cooperative-sticky: the first is assigned all, the second joins.
                 ``revoked``: how many partitions the first one gave away, in all.
``static``       Two consumers with the instance ids ``one`` and ``two`` (range), the second after
                 the first. ``two`` ends without leaving and starts again with its id. At the end
                 both end without leaving.
``commit``       A consumer that is no member assigns itself partitions 0 to 2, commits offset 5
                 with metadata ``five`` for 0 and offset 7 for 1; another one of the group asks
                 for the committed offsets. A partition without one is null.
``stay``         As ``join`` (session time-out 45 s), but then it polls on until it is killed.
``transactions`` A producer with the transactional id GROUP-id: "a", "b" and the group's offset 3
                 of partition 0, committed; "c", "d", and offset 9, aborted; "e", committed: all
                 to partition 0. Then a consumer reads partition 0 from its begin, once with each
                 isolation, and the committed offset of partition 0 is asked for.
``records``      For each codec of ARGS: three records with keys and a header, in one batch if the
                 client can, to the partition of the codec's place in ARGS; then all are read.
``admin``        See ``ADMIN``: topics, configurations, groups and offsets.

With ``GROUP_PROTOCOL=consumer`` in its environment a program's members speak the consumer protocol
(KIP-848). For that, and by the clock of the server:

``regex``            A consumer subscribes to ``ord.*`` and is assigned the topic; ``orders-2`` is
                     created and assigned as well. The coordinator resolves the expression; a
                     member of franz-go does so itself when it joins, so the next one has both.
``migrate``          Two classic consumers. Each is replaced by one of the consumer protocol, then
                     each of these by a classic one: the older one closes, and a new one joins.
                     After each step the owner of partition 0 commits the number of the step, and
                     the newest member asks for it.
``fenced``           A consumer is assigned; its session ends; it loses its partitions, joins again
                     and is assigned.
``late_revocation``  A consumer (rebalance time-out 50 s) is assigned, another one joins; the first
                     one does not finish the revocation, until the other has all partitions.
"""

import json
import os
import subprocess
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from coterie.server import Broker
from support.patience import HANG_S

# The releases of Kafka that the server follows; the usual run has the oldest and the newest.
RELEASES = ["3.9", pytest.param("4.1", marks=pytest.mark.slow), "4.4"]
CONSUMER_RELEASES = RELEASES[1:]  # with the consumer protocol
PROGRAMS = Path(__file__).with_name("programs")
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP, TOPIC = "the-group", "orders"


def read_back(*codecs):
    """The facts of ``records``: what was written is read, key, value and header."""
    records = [[f"k{n}", f"v{n}", f"h{n}"] for n in range(3)]
    return [{"codec": codec, "records": records} for codec in codecs]


# What the admin client does, in this order, and says. A client that lacks a call leaves out its
# fact (`Scenario.lacking`).
ADMIN = [
    # create "made" with 2 partitions and retention.ms=60000, then list all topics that are not
    # internal, sorted
    {"topics": ["made", TOPIC]},
    # describe "made": number of partitions, replication
    {"partitions": 2, "replicas": 1},
    # describe the configuration of "made"
    {"retention": "60000"},
    # incremental alter: retention.ms=90000; described again
    {"altered": "90000"},
    # create partitions: 4 in all; described again
    {"grown": 4},
    # create "made" again
    {"again": "TOPIC_ALREADY_EXISTS"},
    # A consumer of GROUP subscribes to "made" (range) and is assigned; now groups are listed and
    # GROUP is described: state, protocol type, number of members, partitions of its member
    {"groups": [GROUP]},
    {"state": "Stable", "protocol": "range", "members": 1, "assigned": [0, 1, 2, 3]},
    # the group is deleted while it has a member
    {"refused": "NON_EMPTY_GROUP"},
    # the consumer leaves; the group's offsets of "made" are altered: 0 to 11, 1 to 12; listed
    {"offsets": {"0": 11, "1": 12}},
    # the offset of partition 1 is deleted; listed again
    {"left": {"0": 11}},
    # the group is deleted; groups are listed again
    {"after": []},
    # "made" is deleted; topics are listed again
    {"kept": [TOPIC]},
]


@dataclass(frozen=True)
class Scenario:
    """A row: the arguments of a program, and the facts that it must report, in order."""

    name: str
    facts: list
    arguments: tuple = ()
    partitions: int = 3
    generation: int | None = None  # of the group in the coordinator, when the program has ended
    state: str | None = None  # and the group's state then; None: not checked

    def lacking(self, *names):
        """The row for a client that does not know some facts."""
        return replace(self, facts=[fact for fact in self.facts if not fact.keys() & set(names)])


SCENARIOS = {
    row.name: row
    for row in (
        Scenario("join", [{"assigned": [0, 1, 2]}], state="Empty"),
        Scenario(
            "rebalance",
            [{"sizes": [3]}, {"sizes": [1, 2]}, {"sizes": [1, 1, 1]}, {"sizes": [1, 2]}],
            state="Empty",
        ),
        Scenario(
            "cooperative",
            [{"sizes": [3]}, {"sizes": [1, 2]}, {"revoked": 1}],
            state="Empty",
        ),
        Scenario(
            "static",
            [{"one": [0, 1], "two": [2]}, {"one": [0, 1], "two": [2]}],
            generation=2,  # one for each first join, none for the restart
            state="Stable",
        ),
        Scenario("commit", [{"committed": {"0": [5, "five"], "1": [7, ""], "2": None}}]),
        Scenario(
            "transactions",
            [
                {"read_committed": ["a", "b", "e"]},
                {"read_uncommitted": ["a", "b", "c", "d", "e"]},
                {"offset": 3},
            ],
        ),
        Scenario("records", read_back(*CODECS), CODECS, partitions=len(CODECS)),
        Scenario("admin", ADMIN),
    )
}


CONSUMER_SETTINGS = SETTINGS | {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
CONSUMER_SCENARIOS = {
    row.name: row
    for row in (
        *(SCENARIOS[name] for name in ("join", "rebalance", "cooperative", "commit")),
        # Both members leave for now: the coordinator keeps them.
        replace(SCENARIOS["static"], generation=None, state="Reconciling"),
        Scenario(
            "migrate",
            [
                {"protocols": protocols.split(), "sizes": [1, 2], "committed": step}
                for step, protocols in enumerate(
                    (
                        "classic classic",
                        "classic consumer",
                        "consumer consumer",
                        "consumer classic",
                        "classic classic",
                    ),
                    1,
                )
            ],
            state="Empty",
        ),
    )
}


class Program:
    """A running client program: its facts one by one, ``kill`` and ``ended``."""

    def __init__(self, command, **how):
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **how,
        )
        self._log = []
        self._late = threading.Timer(HANG_S, self._process.kill)
        self._late.start()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def _listen(self):  # else a program that logs much would wait for its reader
        self._log.extend(self._process.stderr)

    def fact(self):
        """The next fact."""
        line = self._process.stdout.readline()
        assert line, f"no further fact: {self.ended()}"
        return json.loads(line)

    def facts(self):
        """All remaining facts; the program must succeed."""
        facts = [json.loads(line) for line in self._process.stdout]
        ended = self.ended()
        assert self._process.returncode == 0, f"{facts}\n{ended}"
        return facts

    @property
    def is_running(self):
        """Whether it has not ended."""
        return self._process.poll() is None

    def ended(self):
        """Wait for its end, and return its status and last log lines."""
        self._process.wait()
        self._listener.join()
        self._late.cancel()
        return f"exit {self._process.returncode}\n" + "".join(self._log)[-8000:]

    def kill(self):
        """Kill it."""
        self._process.kill()
        self.ended()
        self._process.stdout.close()
        self._process.stderr.close()


@dataclass
class Client:
    """A client: the command that starts its program, its scenarios, rows changed for it."""

    command: list
    rows: dict = field(default_factory=lambda: SCENARIOS)
    environment: dict | None = None

    def of_the_consumer_protocol(self, *without):
        """The client whose members speak the consumer protocol."""
        rows = {name: row for name, row in CONSUMER_SCENARIOS.items() if name not in without}
        environment = {**(self.environment or os.environ), "GROUP_PROTOCOL": "consumer"}
        return replace(self, rows=rows, environment=environment)

    def start(self, broker, name, *arguments):
        """Start the program for a scenario."""
        command = [*self.command, broker.bootstrap_servers, name, GROUP, TOPIC, *arguments]
        return Program(command, env=self.environment)


def play(client, name, settings=SETTINGS, **how):
    """Run a scenario in a client's program, and check its facts and the group's state."""
    row = client.rows[name]
    with Broker(settings, topics={TOPIC: row.partitions}, **how) as broker:
        with client.start(broker, row.name, *row.arguments) as program:
            assert program.facts() == row.facts
        group = broker.coordinator.snapshot(GROUP)
        if row.state is not None:
            assert group.state == row.state
        if row.generation is not None:
            assert group.generation_id == row.generation


def play_killed(client, session_timeout_ms=45000, settings=SETTINGS, **how):
    """Kill a member: its group is Stable until the session ends on the virtual clock."""
    with Broker(settings, topics={TOPIC: 3}, clock="virtual", **how) as broker:
        with client.start(broker, "stay") as program:
            assert program.fact() == {"assigned": [0, 1, 2]}
        states = []
        for ms in (session_timeout_ms - 1, 1):
            broker.advance(ms)
            states.append(broker.coordinator.snapshot(GROUP).state)
        assert states == ["Stable", "Empty"]


# A session is longer than the time that a client gives its members for a rebalance.
CLOCKED_SETTINGS = CONSUMER_SETTINGS | {"group.consumer.session.timeout.ms": 60000}
HEARTBEAT = "consumer_group_heartbeat"
CLOCKED = {  # scenario -> its facts, and by how many ms the clock moves after each
    "regex": [
        ({"topics": [TOPIC]}, 0),
        ({"made": "orders-2"}, 10_001),  # expressions are resolved every 10 s at most
        ({"topics": [TOPIC, "orders-2"]}, 0),
    ],
    "fenced": [
        ({"assigned": [0, 1, 2]}, 60_000),
        ({"lost": 3}, 0),
        ({"assigned": [0, 1, 2]}, 0),
    ],
    "late_revocation": [
        ({"assigned": [0, 1, 2]}, 1_000),  # 4.4 assigns once a second (assignment.interval.ms)
        ({"revoking": 1}, 50_000),
        ({"assigned": [0, 1, 2]}, 0),
    ],
}


def play_clocked(client, name, kafka):
    """Run a scenario of the consumer protocol, and move the clock after some of its facts."""
    with (
        Broker(CLOCKED_SETTINGS, topics={TOPIC: 3}, clock="virtual", kafka=kafka) as broker,
        client.start(broker, name) as program,
    ):
        for fact, ms in CLOCKED[name]:
            assert program.fact() == fact
            if ms == 60_000:  # the client has to be done with its assignment before it is fenced
                # The next one may be of before, the one after it acknowledges the assignment.
                await_heartbeats(broker, program, 3)
            broker.advance(ms)
        program.facts()


def await_heartbeats(broker, program, more):
    """Wait until so many more heartbeats of a program's member were answered."""
    count = heartbeats(broker) + more
    while heartbeats(broker) < count:
        assert program.is_running, program.ended()


def heartbeats(broker):
    return sum(getattr(event, "op", "") == HEARTBEAT for event in broker.timeline)
