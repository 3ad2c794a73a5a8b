"""The table of `coterie designs compare`."""

from coterie.designs import DESIGNS
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
