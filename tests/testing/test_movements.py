"""The moves of partitions that the general algorithm remembers.

Source: AbstractStickyAssignor.PartitionMovements.
"""

from coterie.testing.assignors.movements import Movements

FIRST, SECOND, THIRD = ("t", 0), ("t", 1), ("t", 2)


def test_a_partition_goes_back_in_the_place_of_another_one():
    moves = Movements()
    moves.add(FIRST, "a", "b")
    assert moves.actual(SECOND, "b", "a") == FIRST
    assert moves.actual(SECOND, "a", "b") == SECOND
    assert moves.actual(("u", 1), "b", "a") == ("u", 1)


def test_a_move_there_and_back_leaves_nothing_to_go_back():
    for others in ([], [(THIRD, "a", "c")]):
        moves = Movements()
        for move in [(FIRST, "a", "b"), *others, (FIRST, "b", "a")]:
            moves.add(*move)
        assert moves.actual(SECOND, "b", "a") == SECOND


def test_two_moves_in_a_row_are_one_from_the_first_member():
    moves = Movements()
    moves.add(FIRST, "a", "b")
    moves.add(FIRST, "b", "c")
    assert moves.actual(SECOND, "b", "a") == SECOND
    assert moves.actual(SECOND, "c", "b") == SECOND
    assert moves.actual(SECOND, "c", "a") == FIRST
