"""What the causes of a timeline make of a client: its moves, its turns, its rows."""

from itertools import count

from coterie.insight.groups import flapping
from coterie.insight.groups.causes import CAUSE
from coterie.insight.groups.outages import Outage
from coterie.insight.records.partition_view import read_partitions
from support.insight.lives import life, member, written

T0 = 1_795_000_000_123


def cause(what, **fields):
    return dict.fromkeys(CAUSE) | {"source": "records", "what": what, "client_id": "c"} | fields


def row(at_ms, *causes, number=5, log_offset=70):
    return {
        "timestamp": at_ms, "generation": number, "previous_generation": 4,
        "log_offset": log_offset, "causes": list(causes),
    }  # fmt: skip


def test_each_cause_is_a_move_of_its_client_or_none():
    expected = {
        "joined": (True, False, False), "left_or_evicted": (False, True, False),
        "left": (False, True, False), "evicted": (False, True, False),
        "restarted": (True, True, False), "restarted_left": (True, True, False),
        "restarted_evicted": (True, True, False), "replaced": (False, False, True),
        "subscription_changed": (False, False, False), "metadata_changed": (False, False, False),
        "rejoined_first": (False, False, False),
    }  # fmt: skip
    others = ("present", "leader_changed", "gap", "refused", "member_changed", "carried_on")
    for number, is_counted in ((5, True), (4, False)):
        causes = [cause(what, detail=what) for what in (*expected, *others)]
        (client, moves), *rest = flapping.moves_of([row(T0, *causes, number=number)]).items()
        assert (client, rest) == ("c", [])
        assert {
            move.cause["detail"]: (move.joins, move.leaves, move.takeovers) for move in moves
        } == expected
        assert {(move.at_ms, move.log_offset, move.in_rebalance) for move in moves} == {
            (T0, 70, is_counted)
        }
    assert flapping.moves_of([{"timestamp": T0}]) == {}


def test_a_client_that_is_there_joins_only_after_it_left():
    whats = ("joined", "joined", "left", "restarted", "evicted", "left", "restarted")
    moves = flapping.moves_of(
        row(None if at == 5 else T0 + at, cause(what)) for at, what in enumerate(whats)
    )
    points = [(point.joins, point.move.at_ms - T0) for point in flapping.turns(moves["c"])]
    # The one without a time is no turn; a restart is a leave, if it was there, and a join.
    assert points == [(True, 0), (False, 2), (True, 3), (False, 4), (True, 6)]


def test_a_flapping_client_has_its_first_and_last_move_and_each_member_id_that_joined():
    moves = flapping.moves_of(
        row(T0 + 1_500 * at, cause(what, member_id=member, detail="m1"), log_offset=70 + at)
        for at, (what, member) in enumerate(
            [
                ("left", "m0"),
                ("joined", "m1"),
                ("restarted", "m2"),
                ("left", "m2"),
                ("joined", "m4"),
                ("left", "m4"),
            ]
        )
    )
    (found,) = flapping.flaps(moves, 4, 6_000)
    last = moves["c"][-1].cause
    assert found == {
        "event": "flapping", "timestamp": T0, "until": T0 + 7_500, "log_offset": 70,
        "last_log_offset": 75, "causes": [last], "count": 7, "members": ["m1", "m2", "m4"],
        "periods": [(T0, T0 + 7_500)],
        "cause": "c is flapping: 7 joins and leaves in 7.5 s",
    }  # fmt: skip
    assert last["member_id"] == "m4"


def lives(*moves, client="c", first_member=0):
    """Moves as (seconds, ±1) of one client; who joined first, leaves first."""
    whats, numbers = {1: "joined", -1: "left"}, {1: count(first_member), -1: count()}
    return [
        row(T0 + 1000 * at, cause(whats[move], client_id=client, member_id=next(numbers[move])))
        for at, move in moves
    ]


def flaps(*rows, outages=()):
    moves = flapping.moves_of(sorted(rows, key=lambda one: one["timestamp"]))
    return list(flapping.flaps(flapping.without_outages(moves, outages), 4, 600_000))


def alternating(*times, first=1):
    return [(at, first if number % 2 == 0 else -first) for number, at in enumerate(times)]


def test_planned_changes_do_not_flap_and_one_restart_more_does():
    forth_and_back = alternating(0, 100, 130, 200, 230)
    assert not flaps(*lives(*forth_and_back))
    assert flaps(*lives(*forth_and_back, (240, -1)))
    # Four members of one client id and host, one after the other, twice.
    start = [(at, 1) for at in range(4)]
    roll = start + alternating(*range(60, 140, 5), first=-1)
    assert not flaps(*lives(*roll))
    assert not flaps(*lives(*roll[4:], first_member=4))  # the log begins later
    # One of the four that goes on and on.
    assert flaps(*lives(*start, *alternating(*range(60, 180, 5), first=-1)))
    # A roll of two clients, with their start and their stop.
    both = [
        moved
        for number, client in enumerate("ab")
        for moved in lives(*((at + 9 * number, move) for at, move in forth_and_back),
                           (300 + number, -1), client=client)
    ]  # fmt: skip
    assert not flaps(*both)
    (loop,) = flaps(*both, *lives(*alternating(310, 320, 330, 340), client="a"))
    assert loop["count"] == 10


def test_what_a_coordinator_is_to_blame_for_is_no_move_of_a_client():
    def outage(from_s, until_s):
        times = T0 + 1000 * from_s, T0 + 1000 * until_s
        return Outage("coordinator_change", "", *times, None, True, 0, "", 0, times[1])

    moves = alternating(0, 100, 110, 200, 210, 300)
    assert flaps(*lives(*moves))
    assert not flaps(*lives(*moves), outages=[outage(180, 195)])
    assert not flaps(*lives(*moves), outages=[outage(90, 99), outage(180, 195)])
    assert flaps(*lives(*moves), outages=[outage(20, 30)])


def test_periods_of_several_clients_are_those_in_which_any_flapped():
    text = flapping.flapping_text(["a", "b"], 9, [(0, 9), (2_000, 3_000), (5, 1_000)])
    assert text == "a, b are flapping: 9 joins and leaves in 2 periods of 2.0 s together"


def test_a_client_is_a_row_with_its_counts_and_times():
    static = {"client_id": None, "group_instance_id": "i", "client_host": "/h"}
    moves = flapping.moves_of([
        row(T0 + 9, cause("left", **static), log_offset=70),
        row(T0 + 3, cause("joined", **static), cause("joined", **static), log_offset=71),
        row(None, cause("replaced", **static), log_offset=72),
        row(T0 + 5, cause("replaced", **static), number=4, log_offset=73),
        row(T0 + 8, cause("evicted", **static | {"member_id": "last"}), log_offset=74),
        row(None, cause("left", client_id="d"), log_offset=75),
    ])  # fmt: skip
    first, second = flapping.clients(moves)
    assert first == {
        "event": "client", "timestamp": T0 + 3, "until": T0 + 9, "count": 4,
        "cause": "i: joined 2, replaced 2, left 2", "causes": [moves["i"][-1].cause],
    }  # fmt: skip
    assert first["causes"][0]["member_id"] == "last"
    assert (second["timestamp"], second["until"], second["count"]) == (None, None, 1)
    assert second["cause"] == "d: joined 0, left 1"


def test_a_static_client_is_named_with_its_hosts_if_all_are_known():
    def moved(*causes):
        return flapping.named("i", flapping.moves_of([row(T0, *causes)])["i"])

    joins = [cause("joined", group_instance_id="i", client_host=host) for host in ("/a", "/b")]
    takes = cause("replaced", group_instance_id="i", client_host="/x")
    leaves = cause("left", group_instance_id="i", client_host="/y")
    assert moved(*joins, leaves) == "i (a, b)"
    assert moved(*joins, takes) == "i"  # the record names the host of the first member
    assert moved(*joins, takes | {"source": "request log"}) == "i (a, b, x)"
    assert moved(leaves) == "i"
    other = [cause("joined"), cause("left", group_instance_id="i")]
    assert flapping.named("c", flapping.moves_of([row(T0, *other)])["c"]) == "c"


def test_moves_by_the_records_alone_begin_where_the_log_does(tmp_path):
    """Who is there when the log begins late has not moved, nor do those of a deleted group."""

    def moves(name, first, *numbers, without=(), first_offset=9):
        lives = [life(T0, first, member("a"))]
        lives += [life(T0 + 1, number, member("b")) for number in numbers]
        lives += [life(T0 + 2, None)]
        folder = written(tmp_path / name, *lives, first_offset=first_offset)
        (view,) = read_partitions([folder])
        found = flapping.moves_in(view.histories["g"], without)
        return [(move.cause["what"], move.log_offset) for of in found.values() for move in of]

    assert moves("late", 2, 3) == [("restarted", 10)]
    assert moves("first", 1, 2) == [("joined", 9), ("restarted", 10)]
    assert moves("whole", 2, 3, first_offset=0) == [("joined", 0), ("restarted", 1)]
    assert moves("without", 1, 2, without={1}) == [("joined", 9)]
