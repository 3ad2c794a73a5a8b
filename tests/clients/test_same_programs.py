"""The same programs with a real client against the server, and with its stand-in.

Both see the same callbacks, commits, results and errors, in the same order for each consumer. On a
busy machine the threads of a real client may be late, so it gets several runs to show that order.
"""

import pytest

from support.clients import aiokafka_scripts, confluent_scripts, kafka_python_scripts
from support.clients.world import by_member, by_the_server, by_the_simulation

RUNS = 4  # of the real client, at most
PROGRAMS = [
    (library, scripts, name)
    for library, scripts in {
        "confluent_kafka": confluent_scripts,
        "kafka": kafka_python_scripts,
        "aiokafka": aiokafka_scripts,
    }.items()
    for name in scripts.SCRIPTS
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of kafka-python's serializers
@pytest.mark.parametrize(
    ("library", "scripts", "name"), PROGRAMS, ids=[f"{each[0]}-{each[2]}" for each in PROGRAMS]
)
def test_a_program_sees_what_it_sees_with_the_real_client(library, scripts, name):
    pytest.importorskip(library, reason=f"{library} is not installed")

    def seen(run):
        events = run(scripts.World, library, scripts.SCRIPTS[name])
        return by_member(events, counted=name == "cooperative_rebalances")

    simulated, real = seen(by_the_simulation), []
    while simulated not in real and len(real) < RUNS:
        real.append(seen(by_the_server))
    assert simulated == real[-1]
