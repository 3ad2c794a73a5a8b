"""How many random examples a property is tried with: a third in the usual run, all with --slow."""

FEWEST = 5
all_of_them = False  # conftest.py sets it before the tests are imported


def examples(count):
    """Return the number of examples, of ``count`` with ``--slow``."""
    return count if all_of_them else max(count // 3, min(count, FEWEST))
