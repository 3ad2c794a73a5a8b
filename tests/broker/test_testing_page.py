"""The testing page's example for a real broker, against one: Kafka does what the page says."""

import subprocess
import sys

import pytest

from support.broker.kafka_broker import running_broker
from support.doc_pages import blocks
from support.patience import HANG_S

pytestmark = pytest.mark.slow
ADDRESS = '"127.0.0.1:9092"'


def the_same_test():
    """The example, with what it takes from the one above it."""
    page = blocks("testing-clients.md", "python")
    above, real = (code for code in page if "from kafka import" in code)
    shared = above[above.index("class Listener") : above.index("config =")]
    head, marked, rest = real.partition("# Listener and until: as above\n")
    assert marked
    assert ADDRESS in head
    return f"from kafka import ConsumerRebalanceListener\n{head}{shared}{rest}"


def test_the_example_for_a_real_broker_sees_what_the_one_without_does(tmp_path):
    pytest.importorskip("kafka")
    with running_broker(tmp_path) as broker:
        code = the_same_test().replace(ADDRESS, repr(broker.address))
        result = subprocess.run(  # it stops its own process for a while
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S,
            check=False,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
