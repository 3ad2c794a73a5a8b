"""Pages of `coterie designs compare --format html`, and comparisons to make them from."""

import json

from coterie.designs import COSTS, DESIGNS, Comparison, Run, Timeline, read_scenario
from support.commandline import coterie_ok
from support.report.pages import Elements

HOSTILE = "</script><script>window.pwned = 1</script>\u2028<img src=x onerror='x'>"


def made(folder, name, *options):
    """Make the page of a scenario, and read it."""
    out = folder / "page.html"
    coterie_ok("designs", "compare", name, "--format", "html", "-o", out, "--overwrite", *options)
    return Elements(out.read_text(encoding="utf-8"))


def data_of(elements):
    return json.loads(elements.scripts[0])


def large(partitions, consumers, moves):
    """A comparison of a made-up run: each consumer that joins takes partitions of the others."""
    events = [
        {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]] * partitions},
        *(
            {"at": 10 * i, "op": "start", "consumer": f"c{i}", "subscription": {"t": 1}}
            for i in range(consumers)
        ),
        {"at": 10 * consumers, "op": "settle", "point": 1},
    ]
    timeline, owner = Timeline(), {}
    for i in range(consumers):
        timeline.add(10 * i, "rebalance_began", f"c{i}")
        for number in range(partitions) if i == 0 else range(moves):
            number = number if i == 0 else (i * moves + number) % partitions
            if number in owner:
                timeline.add(10 * i + 1, "gives_up", owner[number], "t", number)
            owner[number] = f"c{i}"
            timeline.add(10 * i + 3, "owns", f"c{i}", "t", number)
    costs = dict.fromkeys(COSTS, 0)
    run = Run(points=[], timeline=timeline, costs=costs, counted={})
    return Comparison(read_scenario({"events": events}), {design: run for design in DESIGNS})
