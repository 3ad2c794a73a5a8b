"""The seeded source of choices: splitmix64, and numbers from the whole of a range."""

from hypothesis import given
from hypothesis import strategies as st

from coterie.histories.choices import GAMMA, Seeded, mix


def test_the_generator_is_splitmix64():
    # the first outputs for the seed 1234567, as published with the algorithm's translations
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423,
                4593380528125082431, 16408922859458223821]  # fmt: skip
    assert [mix(1234567 + turn * GAMMA) for turn in range(1, 6)] == expected
    choices, state = Seeded(1234567), mix(1234567)  # a state that tells seeds apart from the start
    found = [choices.integer(0, 2**64 - 1) for _ in range(5)]
    assert found == [mix(state + turn * GAMMA) for turn in range(1, 6)]


@given(st.integers(0, 2**64), st.integers(-5, 5), st.integers(0, 3))
def test_numbers_are_from_the_whole_range_and_from_nothing_else(seed, low, more):
    choices = Seeded(seed)
    assert {choices.integer(low, low + more) for _ in range(100)} == set(range(low, low + more + 1))
    options = "abcd"[: more + 1]
    assert {choices.pick(options) for _ in range(100)} == set(options)


@given(st.integers(0, 2**64))
def test_rows_have_a_number_of_each_column_and_are_none_to_most(seed):
    choices = Seeded(seed)
    drawn = [choices.rows((0, 1, 2), 2) for _ in range(100)]
    assert {len(rows) for rows in drawn} == {0, 1, 2}
    columns = zip(*(row for rows in drawn for row in rows), strict=True)
    assert [set(column) for column in columns] == [{0}, {0, 1}, {0, 1, 2}]
