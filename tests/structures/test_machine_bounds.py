"""Votes that tie, as Kafka breaks ties, and the coordinator right at its bounds."""

from itertools import combinations, permutations

import pytest

from coterie import GroupCoordinator, OffsetAndMetadata
from coterie._core.codec.schema import encode_key, encode_value
from coterie.testing import Member
from coterie.values import Batch, Error
from support.coordinator.classic_group import join as rejoin
from support.coordinator.classic_group import stable

# ---- votes


def places_in_a_hash_map(name):
    """The place of a name at each level of Scala 2.13's HashMap: 5 bits of its improved hash."""
    h = 0
    units = name.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        h = (31 * h + 256 * high + low) % 2**32
    h = (h + ~(h << 9)) % 2**32  # scala.collection.Hashing.improve
    h ^= h >> 14
    h = (h + (h << 4)) % 2**32
    h ^= h >> 10
    return [h >> shift & 31 for shift in range(0, 35, 5)]


def winner_of(names, behaviour="3.9"):
    """The protocol of a group whose members cast a vote for each name, in this order."""
    coordinator = GroupCoordinator({"coterie.ties": "hash", "coterie.behaviour": behaviour})
    for n in range(len(names)):
        lists = [(name, b"") for name in names[n:] + names[:n]]
        rejoin(coordinator, client_id=str(n), protocols=lists)
    coordinator.advance(9_000)
    return coordinator.snapshot("g").protocol_name


def test_of_equal_votes_the_first_in_a_hash_map_wins_where_ties_are_kafkas():
    """GroupMetadata.selectProtocol takes the first of equals of an immutable.HashMap."""
    names = ["range", "roundrobin", "sticky", "cooperative-sticky", "a", "b", "consumer", "x-1"]
    for one, other in permutations(names, 2):
        assert winner_of([one, other]) == min(one, other, key=places_in_a_hash_map), (one, other)


def test_of_a_hash_map_those_alone_in_their_place_come_before_those_who_share_one():
    names = [f"p{n}" for n in range(200)]
    place = {name: places_in_a_hash_map(name)[0] for name in names}
    one, other, alone = next(
        (one, other, alone)
        for one, other in combinations(names, 2)
        for alone in names
        if place[one] == place[other] < place[alone]
    )
    for order in permutations([one, other, alone]):
        assert winner_of(list(order)) == alone


def test_of_a_hash_map_those_who_share_places_go_by_the_next_one():
    names = [f"p{n}" for n in range(400)]
    places = {name: places_in_a_hash_map(name) for name in names}
    for shared in (1, 2):
        pairs = [pair for pair in combinations(names, 2)
                 if places[pair[0]][:shared] == places[pair[1]][:shared]
                 and places[pair[0]][shared] != places[pair[1]][shared]]  # fmt: skip
        for one, other in pairs[:12]:
            first = min(one, other, key=places.get)
            assert winner_of([one, other]) == winner_of([other, one]) == first


@pytest.mark.parametrize(
    ("names", "first"),
    [  # by java.util.HashMap of OpenJDK 17
        ("cooperative-sticky range", "range"),
        ("range roundrobin sticky cooperative-sticky", "sticky"),
        ("Aa BB C#", "Aa"),  # of one hash
        ("AaAa BBBB AaBB BBAa x", "x"),
        ("stream connect sessioned eager compatible range v2", "compatible"),
        ("p10 p11 p12", "p12"),
        ("p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p12 p11 p13", "p0"),  # the table has grown
    ],
)
def test_since_kafka_4_the_first_in_javas_hash_map_wins(names, first):
    """ClassicGroup.selectProtocol takes the first of equals."""
    assert winner_of(names.split(), "4.1") == first


def test_the_hash_of_a_name_is_of_all_its_bytes_in_utf16():
    names = ["\u0436", "\u0136", "\u0236", "\u20ac-range", "\u21ac-range", "\U0001f600", "6"]
    for one, other in permutations(names, 2):
        assert winner_of([one, other]) == min(one, other, key=places_in_a_hash_map), (one, other)


def test_names_of_one_hash_are_still_two():
    assert places_in_a_hash_map("Aa") == places_in_a_hash_map("BB")
    for most, other in permutations(["Aa", "BB"]):
        coordinator = GroupCoordinator({"coterie.ties": "hash"})
        for n, names in enumerate([(other, most), (most, other), (most, other)]):
            rejoin(coordinator, client_id=str(n), protocols=[(name, b"") for name in names])
        coordinator.advance(9_000)
        assert coordinator.snapshot("g").protocol_name == most


# ---- coordinator
KEY = ("t", 0)


def test_an_explicit_expiry_of_0_is_written_and_counts():
    coordinator = GroupCoordinator()
    coordinator.offset_commit("g", {KEY: OffsetAndMetadata(5, expire_timestamp=0)})
    (appended,) = [event for event in coordinator.events if type(event).__name__ == "Append"]
    assert appended.decoded()["value"]["expire_timestamp"] == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\uffff" * 4096, Error.NONE),
        ("\uffff" * 4097, Error.OFFSET_METADATA_TOO_LARGE),
        ("\U00010000" * 2048, Error.NONE),
        ("\U00010000" * 2048 + "x", Error.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_is_as_long_as_java_counts_it(text, error):
    coordinator = GroupCoordinator()
    answer = coordinator.offset_commit("g", {KEY: OffsetAndMetadata(5, metadata=text)})
    assert [one.error for one in answer.response.partitions] == [error]


def loaded(version, members, **config):
    """A coordinator that has loaded one group, its record of this version."""
    told = [
        {
            **{"memberId": name, "groupInstanceId": None, "clientId": "c", "clientHost": "/h"},
            **{"rebalanceTimeout": 7000, "sessionTimeout": 9000},
            **{"subscription": b"", "assignment": b""},
        }
        for name in members
    ]
    data = {"protocolType": "p", "generation": 1, "protocol": "x", "leader": members[0]}
    data |= {"currentStateTimestamp": 3, "members": told}
    key = encode_key({"version": 2, "data": {"group": "g"}})
    value = encode_value(2, {"version": version, "data": data})
    return GroupCoordinator(config, log=[Batch(0, records=((key, value),))])


@pytest.mark.parametrize(
    ("size", "state"), [(1, "PreparingRebalance"), (2, "Stable"), (3, "Stable")]
)
def test_a_group_that_is_just_full_after_a_load_is_left_alone(size, state):
    coordinator = loaded(3, ["a", "b"], **{"group.max.size": size})
    assert coordinator.describe_group("g").state == state


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, 9000), (1, 7000), (3, 7000)])
def test_a_member_of_a_record_without_a_rebalance_timeout_has_its_sessions(version, timeout_ms):
    (member,) = loaded(version, ["a"]).snapshot("g").members
    assert member.rebalance_timeout_ms == timeout_ms


def test_a_commit_may_be_of_the_time_0():
    coordinator = GroupCoordinator(now_ms=5000)
    coordinator.offset_commit("g", {KEY: OffsetAndMetadata(5, commit_timestamp=0)})
    assert coordinator.snapshot("g").offsets[KEY].commit_timestamp == 0
    coordinator.offset_commit("g", {KEY: OffsetAndMetadata(6)})
    assert coordinator.snapshot("g").offsets[KEY].commit_timestamp == 5000


def test_a_session_begins_anew_where_a_static_return_is_not_written():
    coordinator = GroupCoordinator(appends="deferred")
    (old,) = stable(coordinator, "a", group_instance_id="i")
    rejoin(coordinator, client_id="a", group_instance_id="i")
    (append,) = coordinator.appends
    coordinator.advance_by(4000)
    append.complete(Error.NOT_LEADER_OR_FOLLOWER)
    (timer,) = coordinator.snapshot("g").timers
    told = (timer.kind, timer.member_id, timer.deadline_ms)
    assert told == ("session", old, coordinator.now_ms + 10_000)


def test_static_members_are_given_partitions_in_order_of_their_instance_ids():
    ids = iter(["z", "y", "x", "w"])  # against that order
    coordinator = GroupCoordinator(member_ids=lambda prefix: next(ids))
    made = {"topics": {"t": 3}, "heartbeat_interval_ms": 500}
    members = [
        Member(coordinator, "g", client_id="c", group_instance_id=name, **made) for name in "ab"
    ]
    for _ in range(20):
        for member in members:
            member.poll()
        coordinator.advance_by(500)
    assert [member.assignment for member in members] == [{"t": [0, 1]}, {"t": [2]}]
