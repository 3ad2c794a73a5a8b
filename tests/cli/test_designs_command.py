"""The table of `coterie designs compare`, and what `coterie designs run` writes."""

import json

import pytest

from coterie.designs import DESIGNS, simple08
from support.commandline import coterie_ok


def test_the_costs_of_each_design_stand_in_a_column_below_its_name():
    names = list(DESIGNS)[-2:]
    chosen = [word for name in names for word in ("--design", name)]
    heading, *rows = coterie_ok("designs", "compare", "herd", *chosen).stdout.splitlines()
    assert heading.split() == ["cost", *names]
    assert rows
    ends = [heading.index(name) + len(name) for name in names]
    for row in rows:
        assert len(row) == len(heading)
        assert all(row[end - 1] != " " for end in ends)


@pytest.mark.parametrize(("name", "shown"), [("mine", "mine"), (None, "one")])
def test_requests_of_the_simple_consumer_are_answered_in_a_file(tmp_path, name, shown):
    request = {"api": "offsets", "broker": 0, "topic": "t", "partition": 0, "time": -1,
               "max_offsets": 1}  # fmt: skip
    steps = [{"step": 1, "event": "started", "brokers": [0]}, {"step": 2, "request": request}]
    scenario = {"config": {"brokers": [0], "topics": {"t": [[0]]}}, "steps": steps}
    named = {} if name is None else {"name": name}
    file = {"format": "coterie-simple08", **named, **scenario}
    (tmp_path / "one.json").write_text(json.dumps(file))
    coterie_ok("designs", "run", tmp_path / "one.json", "--out", tmp_path / "out")
    made = json.loads((tmp_path / "out" / "one.actual.json").read_text())
    assert (made["name"], made["steps"]) == (shown, simple08.run(scenario))
    assert made["steps"][1]["response"]["offsets"] == [0]
