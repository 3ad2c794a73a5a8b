"""Votes: the examples of the documentation, and columns against one group at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import CoterieError, select_protocol, select_protocols
from coterie._core.votes import ProtocolCounts

LISTS = st.lists(st.permutations("abcde").flatmap(lambda p: st.integers(0, 5).map(lambda n: p[:n])))
TWICE = st.lists(st.text("abc", max_size=3))


def voted(lists):
    """The rule in the fewest lines: (winner, votes), or None where a member has no candidate."""
    counts = [name for names in lists for name in names]
    candidates = {name for name in counts if counts.count(name) == len(lists)}
    votes = [next((n for n in names if n in candidates), None) for names in lists]
    if not votes or None in votes:
        return None
    return max(((name, votes.count(name)) for name in dict.fromkeys(votes)), key=lambda v: v[1])


def test_the_majority_of_first_common_choices_wins():
    assert select_protocol(["BA", "ABC", "DBA"]) == "B"


def test_a_tie_goes_to_the_one_voted_for_first():
    assert select_protocol(["ba", "ab"]) == "b"
    assert select_protocol(["ab", "ba"]) == "a"


def test_a_name_twice_counts_twice_and_is_no_candidate():
    assert select_protocol([["a", "a", "b"]]) == "b"
    with pytest.raises(CoterieError, match="member 0"):
        select_protocol([["a", "a"]])


@pytest.mark.parametrize("lists", [[], [[]], ["ab", "c"]])
def test_no_member_or_no_common_name_is_an_error(lists):
    with pytest.raises(CoterieError):
        select_protocol(lists)


@given(LISTS)
def test_one_group_votes_by_the_rule(lists):
    expected = voted(lists)
    if expected is None:
        with pytest.raises(CoterieError):
            select_protocol(lists)
    else:
        assert select_protocol(lists) == expected[0]


@given(st.lists(TWICE | LISTS), st.sampled_from([0, 40, 1000]))
def test_columns_of_groups_vote_as_each_group_alone(groups, lowest):
    """Ids below 64 are counted as bits, others and lists with a name twice by counters."""
    members = [names for lists in groups for names in lists]
    names = [ord(name) - 97 + lowest for each in members for name in each]
    member_start = np.cumsum([0, *map(len, members)])
    group_start = np.cumsum([0, *map(len, groups)])
    winner, votes = select_protocols(names, member_start, group_start)
    expected = [voted(lists) for lists in groups]
    assert winner.dtype == votes.dtype == np.int32
    assert winner.tolist() == [-1 if e is None else ord(e[0]) - 97 + lowest for e in expected]
    assert votes.tolist() == [0 if e is None else e[1] for e in expected]


@given(LISTS, st.randoms(use_true_random=False))
def test_counts_kept_incrementally_equal_those_counted_afresh(lists, random):
    counts, present = ProtocolCounts(), []
    for names in lists:
        counts.add(names)
        present.append(names)
        if random.random() < 0.4:
            counts.remove(present.pop(random.randrange(len(present))))
    flat = [name for names in present for name in names]
    assert counts.as_dict() == {name: flat.count(name) for name in set(flat)}
    assert counts.candidates(len(present)) == {
        name for name in flat if flat.count(name) == len(present)
    }


def test_what_was_not_counted_cannot_be_taken_out():
    counts = ProtocolCounts()
    counts.add("ab")
    with pytest.raises(CoterieError, match="'c'"):
        counts.remove("c")
    assert counts["a"] == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [0, 2], [0, 1]), "member_start must"),
        (([0, 1], [0, 2, 1, 2], [0, 3]), "must not fall"),
        (([0], [0, 1], [0, 2]), "group_start must"),
        (([-1], [0, 1], [0, 1]), "ids from 0"),
        (([2**30], [0, 1], [0, 1]), "ids from 0"),
        (([], [], [0]), "member_start must"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        select_protocols(*columns)
