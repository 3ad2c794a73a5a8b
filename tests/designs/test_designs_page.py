"""docs/designs.md: its example runs, and it names every op and every setting."""

import re
from pathlib import Path

from coterie.designs.consumer08.config import KNOWN
from coterie.designs.scenario import OPS

PAGE = (Path(__file__).parents[2] / "docs/designs.md").read_text(encoding="utf-8")


def test_the_example_ends_as_it_says():
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(compile(code, "designs.md", "exec"), {})


def test_the_table_has_every_op_once():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(OPS)


def test_every_setting_is_named():
    assert not [name for name in KNOWN if f"`{name}`" not in PAGE and f"`{name}:" not in PAGE]
