"""The folders that ``make test`` leaves out belong to suites that CI runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
RULE = re.compile(r"^(test-\w+): build dev.*\n\t@\$\(TESTED\) \$\((\w+)\) \$\(PYTEST\)$", re.M)
SUITES = dict(RULE.findall(MAKEFILE))
FOLDERS = dict(re.findall(r"^(\w+) +:= (tests/.*)$", MAKEFILE, re.M))


def test_each_folder_that_is_left_out_belongs_to_a_suite():
    (left_out,) = re.findall(r"addprefix --ignore=,(.*)\) \$\(PYTEST\)", MAKEFILE)
    assert set(re.findall(r"\$\((\w+)\)", left_out)) == {*SUITES.values(), "SITE"}
    for name in SUITES.values():
        assert all((ROOT / folder).is_dir() for folder in FOLDERS[name].split())


def test_the_site_is_tested_where_it_is_built():
    (docs,) = re.findall(r"^docs: .*\n((?:\t.*\n)+)", MAKEFILE, re.M)
    assert "pytest --confcutdir=$(SITE) $(SITE)" in docs


def test_ci_runs_every_suite():
    """In one run: each start of pytest, and each end with one process left, takes its time."""
    steps = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "make docs" in steps
    assert re.findall(r"make (test[\w-]*)$", steps, re.M) == ["test", "test-suites"]
    (suites,) = re.findall(r"^test-suites: .*\n\t@\$\(TESTED\) (.*) \$\(PYTEST\)$", MAKEFILE, re.M)
    assert SUITES
    assert set(re.findall(r"\$\((\w+)\)", suites)) == set(SUITES.values())
