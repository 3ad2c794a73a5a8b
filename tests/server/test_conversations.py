"""Each conversation recorded with a broker 3.9.1, played in this process."""

import playing
import pytest

from golden_data import SHARED

NAMES = sorted(p.stem for p in (SHARED / "golden/wire/conversations").glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES or ["none"])
def test_a_conversation_with_a_broker_goes_as_it_was_recorded(name):
    head, steps = playing.conversations()[name]
    server = playing.Server(playing.CONFIGS[head["config"]])
    playing.run(server, steps)
    assert not server.told
