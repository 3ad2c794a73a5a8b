"""Votes: the examples of the documentation, and columns against one group at a time."""

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import CoterieError, select_protocol, select_protocols
from coterie._core.structures.votes import ProtocolCounts
from support.c_memory import left_by

LISTS = st.lists(st.permutations("abcde").flatmap(lambda p: st.integers(0, 5).map(lambda n: p[:n])))
TWICE = st.lists(st.text("abc", max_size=3))


def voted(lists):
    """The rule in the fewest lines: (winner, votes), or None where a member has no candidate."""
    entries = Counter(name for names in lists for name in names)
    candidates = {name for name, count in entries.items() if count == len(lists)}
    votes = Counter(next((n for n in names if n in candidates), None) for names in lists)
    if not votes or None in votes:
        return None
    return max(votes.items(), key=lambda vote: vote[1])  # the first of equals, by the first vote


def assert_each_votes_as_alone(groups):
    """Groups of lists of ids, put together as columns, elect what each elects by the rule."""
    members = [names for lists in groups for names in lists]
    winner, votes = select_protocols(
        np.array([name for names in members for name in names], dtype=np.int64),
        np.cumsum([0, *map(len, members)]),
        np.cumsum([0, *map(len, groups)]),
    )
    assert winner.dtype == votes.dtype == np.int32
    expected = [voted(lists) or (-1, 0) for lists in groups]
    assert list(zip(winner.tolist(), votes.tolist(), strict=True)) == expected


def test_the_majority_of_first_common_choices_wins():
    assert select_protocol([list("BA"), list("ABC"), list("DBA")]) == "B"


def test_a_tie_goes_to_the_one_voted_for_first():
    assert select_protocol([["b", "a"], ["a", "b"]]) == "b"
    assert select_protocol([["a", "b"], ["b", "a"]]) == "a"


def test_a_name_twice_counts_twice_and_is_no_candidate():
    assert select_protocol([["a", "a", "b"]]) == "b"
    with pytest.raises(CoterieError, match="member 0"):
        select_protocol([["a", "a"]])


@pytest.mark.parametrize("lists", [[], [[]], [["a", "b"], ["c"]], ["ab", "ba"], "ab"])
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


@given(st.lists(TWICE | LISTS), st.sampled_from([0, 11, 12, 1000]))
def test_columns_of_groups_vote_as_each_group_alone(groups, lowest):
    """Ids below 16 are lanes as they are; others are numbered."""
    ids = [[[ord(name) - 97 + lowest for name in names] for names in lists] for lists in groups]
    assert_each_votes_as_alone(ids)


def drawn(draw, names, longest, members, common):
    """Lists of some of the names, `common` in each, an entry here and there twice."""
    lists = []
    for _ in range(members):
        least = min(longest, len(common))
        some = draw.sample(names, draw.randint(0, max(0, min(longest, len(names)) - least)))
        some += [name for name in common if name not in some]
        draw.shuffle(some)
        if some and draw.random() < 0.002:
            some.append(draw.choice(some))
        lists.append(some)
    return lists


@pytest.mark.parametrize("longest", [3, 15, 16, 40])
@pytest.mark.parametrize("names", [range(4), range(16), range(17), range(7, 10_000, 600)])
def test_columns_of_many_names_and_long_lists_vote_as_each_group_alone(names, longest):
    """Whatever the road: lanes, numbers for all groups or for each, counters."""
    draw = random.Random(20261122)
    for _ in range(30):
        common = draw.sample(names, draw.randint(1, 3))
        groups = [
            drawn(draw, names, longest, draw.choice((0, 1, 2, 3, 5, 8, 30)), common)
            for _ in range(draw.choice((1, 7, 60)))
        ]
        assert_each_votes_as_alone(groups)


@pytest.mark.parametrize("step", [1, 100])
def test_groups_with_names_of_their_own_vote_as_each_alone(step):
    """More names in the column than lanes, at most so many, or more, in each group."""
    draw = random.Random(20261123)
    for count in (15, 16, 17, 30):
        groups = []
        for lowest in range(0, 120, 3):
            names = [step * name for name in range(lowest, lowest + count)]
            everyone = draw.sample(names, 2)
            mine = [names[n::4] for n in range(4)]  # each name is in some list
            lists = [draw.sample(some, len(some)) for some in mine]
            groups.append([[n for n in names if n not in everyone] + everyone for names in lists])
        assert_each_votes_as_alone(groups)


@pytest.mark.parametrize("members", [1, 2, 84, 85, 86, 127, 128, 254, 255, 256, 257, 509, 511, 900])
def test_groups_of_any_size_vote_as_each_alone(members):
    """Lanes are bytes: from 256 entries or members on they are added up."""
    draw = random.Random(members)
    for longest in (1, 3, 8):
        lists = drawn(draw, range(10), longest, members, [3, 7][:longest])
        assert_each_votes_as_alone([lists])
        assert_each_votes_as_alone([[[0]], lists, [[1, 0]], [*lists, [7, 3]], lists[1:], [[2]]])


@pytest.mark.parametrize("members", [4079, 4080, 4081, 4095, 4096, 4097, 8192])
def test_groups_of_thousands_vote_as_each_alone(members):
    """Of 16 codes at once no lane counts more than 255 times."""
    alike = [[3]] * members
    assert voted(alike) == (3, members)
    assert_each_votes_as_alone([alike, [[1, 3], *alike], [[2, 3], [3, 1]] * members])
    assert_each_votes_as_alone([[[3, 2], [1, 3], [3]] * members, [*alike, [1]]])


@pytest.mark.parametrize("before", range(1010, 1032))
def test_groups_at_the_end_of_a_block_vote_as_each_alone(before):
    """Running sums are held for 1024 entries: the groups that fit are not cut by them."""
    sizes = [250, 250, 250, 200, before - 950, 3, 1, 2, 255, 255, 255, 255, 4]
    groups = [[[n % 5, 5 + n % 3] for _ in range(size // 2)] for n, size in enumerate(sizes)]
    for n, size in enumerate(sizes):
        groups[n] += [[5 + n % 3]] * (size % 2)  # of the two names it alone is common to all then
    assert_each_votes_as_alone(groups)


@pytest.mark.parametrize("members", [256, 300, 556])
def test_a_name_that_a_byte_would_take_for_common_is_no_candidate(members):
    """As many entries as members, or none where they are 256, modulo 256."""
    some = members % 256
    lists = [[1, 0]] * some + [[0, 1]] * (members == 256) + [[0]] * (members - some - 1)
    lists += [[0]] * (members - len(lists))
    assert voted(lists) == (0, members)
    assert_each_votes_as_alone([lists])
    many = [[1, 1, 1, 1, 0]] * 89 + [[0]] * 11  # 356 times in the lists of 100 members
    assert voted(many) == (0, 100)
    assert_each_votes_as_alone([many, [[1, 0]], many])


@pytest.mark.parametrize("ids", [(0, 16), (16, 0), (15, 16), (8, 24), (0, 2**20), (7, 2**26 - 1)])
def test_ids_are_told_apart_however_far_apart_they_are(ids):
    one, other = ids
    assert_each_votes_as_alone([[[one, other], [other]], [[one]], [[other]], [[other], [one]]])


@pytest.mark.parametrize("times", [1, 2, 40, 120, 300])
def test_a_name_twice_stands_in_for_a_member_without_it(times):
    """Entries count, so it is a candidate; a member who does not have it ends the vote."""
    twice, without, once = [0, 0], [5], [0, 5]
    for lists in ([without, twice], [twice, without], [once, without, twice], [twice, once, [5]]):
        assert voted(lists * times) is None
        assert_each_votes_as_alone([lists * times, [[5]], lists * times])
    assert voted([[0, 0, 5], [5]] * times) == (0, times)
    assert voted([[5], [0, 0, 5]] * times) == (5, times)
    assert_each_votes_as_alone([[[0, 0, 5], [5]] * times, [[5], [0, 0, 5]] * times])


@pytest.mark.parametrize("before", [1, 13, 14, 15, 16, 17, 31, 32, 100])
def test_a_candidate_far_down_a_list_is_found(before):
    far = [1] * before + [0]
    assert_each_votes_as_alone([[far, [0], [0, 2]], [[2, 0], far], [far], [far, [2]], [[2], [2]]])
    others = [*range(1, before + 1), 0]
    assert_each_votes_as_alone([[others, [0], [200, 0]], [others], [others, [200]], [[0, 1]] * 3])


@pytest.mark.parametrize("times", [1, 20, 42, 43, 100, 300])
@pytest.mark.parametrize("first", [[9, 2, 5], [9, 5, 2], [5, 2, 9], [2, 5, 9]])
def test_of_equals_the_one_voted_for_first_wins_at_any_size(first, times):
    """The others' places among the names, and who votes last, do not count."""
    others = [name for name in (2, 5, 9) if name != first[0]]
    votes = [first, [others[0], first[0], others[1]], [others[1], first[0], others[0]]]
    for lists in (votes * times, [first] + votes[:0:-1] * times + [first] * (times - 1)):
        assert voted(lists) == (first[0], times)
        assert_each_votes_as_alone([lists, lists[::-1], lists[1:]])


def test_the_first_vote_for_a_loser_decides_no_tie():
    """First a name with fewer votes, for members enough to fill a lane and more."""
    for fewer in (1, 3, 40, 90, 300):
        tied = [[4, 8, 1], [8, 4, 1]] * (fewer + 1)
        assert_each_votes_as_alone([[[1, 8, 4]] * fewer + tied])
        assert_each_votes_as_alone([[[1, 8, 4]] * fewer + tied[::-1]])


def test_lists_of_three_vote_by_the_rule_whichever_names_they_have_twice():
    """Kafka counts entries: a name that a list has twice is no candidate of that list alone."""
    triples = [list(names) for names in product(range(3), repeat=3)]
    assert_each_votes_as_alone([list(g) for n in (1, 2) for g in product(triples, repeat=n)])


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
    assert (counts["a"], counts.as_dict(), counts.candidates(0)) == (0, {}, set())
    with pytest.raises(CoterieError, match="'a'"):
        counts.remove(["a"])
    counts.add(["a", "b"])
    with pytest.raises(CoterieError, match="'c'"):
        counts.remove(["c"])
    assert counts["a"] == 1


def test_a_part_of_what_was_counted_can_be_taken_out():
    counts = ProtocolCounts()
    for names in (["a", "b"], ["b", "a"]):
        counts.add(names)
    counts.remove(["a"])
    assert counts.as_dict() == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [0, 2], [0, 1]), "member_start must"),
        (([0], [1, 1], [0, 1]), "member_start must"),
        (([0], [0, 1], [1, 1]), "group_start must"),
        (([0, 1], [0, 2, 1, 2], [0, 3]), "must not fall"),
        (([0], [0, 2**63 - 1, -2, 1], [0, 3]), "must not fall"),  # as numbers that wrap, it rises
        (([0], [0, 1], [0, 2**63 - 1, -2, 1]), "must not fall"),
        (([0], [0, 1], [0, 2]), "group_start must"),
        (([-1], [0, 1], [0, 1]), "ids from 0"),
        (([2**26], [0, 1], [0, 1]), "ids from 0"),
        (([2**30], [0, 1], [0, 1]), "ids from 0"),
        (([], [], [0]), "member_start must"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        select_protocols(*columns)


@pytest.mark.parametrize("lists", [["ab", "c"], ["c", "ab"], ["ab", "ab", "c"]])
def test_counts_begin_anew_once_all_lists_are_out(lists):
    counts = ProtocolCounts()
    for names in lists:
        counts.add(list(names))
    for names in lists:
        counts.remove(list(names))
    assert (counts.as_dict(), counts["a"], counts["c"]) == ({}, 0, 0)
    counts.add(["c", "d"])
    assert counts.as_dict() == {"c": 1, "d": 1}
    assert counts.candidates(1) == {"c", "d"}


@pytest.mark.parametrize(
    ("names", "dtype", "message"),
    [
        ([-(2**31) - 1], np.int64, "names must fit 32 bits: it has -2147483649 to -2147483649"),
        ([5, 2**31], np.int64, "names must fit 32 bits: it has 5 to 2147483648"),
        ([5, -(2**40)], np.int64, "names must fit 32 bits: it has -1099511627776 to 5"),
        ([2**63], np.uint64, "names must fit 32 bits"),
    ],
)
def test_ids_that_do_not_fit_are_refused_with_the_least_and_the_greatest(names, dtype, message):
    starts = [0, len(names)]
    with pytest.raises(ValueError, match=message):
        select_protocols(np.array(names, dtype), starts, [0, 1])


def test_the_memory_of_an_election_is_freed():
    crowded = [name for n in range(40) for name in (n, 40, 41)]  # too many names for lanes
    starts = list(range(0, 121, 3))
    for names in (crowded, [n % 3 for n in range(120)]):
        assert left_by(lambda names=names: select_protocols(names, starts, [0, 20, 40])) < 200
