"""Many regular expressions are resolved together; each matches what it matches alone."""

import random

import pytest

from coterie._core.coordinator.consumer.values import matching

re2 = pytest.importorskip("re2")
NAMES = ["", "t", "orders", "orders-2", "t.1", "a" * 249, "ord\u00e9rs", "x\ny"]
PARTS = ["ord", ".*", "[a-z]+", "t", "\\.", "(s|-2)", "\\d?", "[^a]", "a{0,200}", "(?i)ORDERS", ""]


@pytest.mark.parametrize("seed", range(10))
def test_expressions_match_together_what_they_match_alone(seed):
    draw = random.Random(seed)
    regexes = {"".join(draw.choices(PARTS, k=draw.randint(1, 4))) for _ in range(250)}
    expected = {regex: [name for name in NAMES if re2.fullmatch(regex, name)] for regex in regexes}
    assert matching(regexes, NAMES) == expected


def test_expressions_that_need_more_memory_than_a_set_has_match_alone():
    regexes = [f".*(x{n}|[ab]).{{{n}}}(a.*b.*){{1,9}}" for n in range(1, 90)]
    names = ["ab" * 120, "x7" + "ab" * 99]
    expected = {regex: [name for name in names if re2.fullmatch(regex, name)] for regex in regexes}
    assert matching(regexes, names) == expected
