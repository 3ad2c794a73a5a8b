"""GroupMetadata and MemberMetadata by themselves, with Kafka's names."""

import random

import pytest

from coterie import CoterieError, GroupMetadata, MemberMetadata, testing

STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
VALID = {
    "Empty": {"PreparingRebalance"},
    "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
    "CompletingRebalance": {"PreparingRebalance"},
    "Stable": {"CompletingRebalance"},
    "Dead": set(STATES),
}
WAYS = {
    "Empty": [],
    "PreparingRebalance": ["PreparingRebalance"],
    "CompletingRebalance": ["PreparingRebalance", "CompletingRebalance"],
    "Stable": ["PreparingRebalance", "CompletingRebalance", "Stable"],
    "Dead": ["Dead"],
}


def member(member_id, names="range", instance=None, **fields):
    fields = {"rebalance_timeout_ms": 60_000, "session_timeout_ms": 10_000} | fields
    return MemberMetadata(member_id, instance, "client", "/127.0.0.1",
                          protocol_type="consumer", protocols=[(n, b"") for n in names.split()],
                          **fields)  # fmt: skip


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_only_kafkas_transitions_are_allowed(before, after):
    group = GroupMetadata("g")
    for state in WAYS[before]:
        group.transition_to(state, 1)
    assert group.can_rebalance == (before in VALID["PreparingRebalance"])
    if before in VALID[after]:
        group.transition_to(after, 7)
        assert (group.current_state, group.current_state_timestamp) == (after, 7)
    else:
        with pytest.raises(CoterieError, match=f"from {before} to {after}"):
            group.transition_to(after, 7)
        assert group.current_state == before


def test_the_first_member_leads_and_the_next_oldest_after_it():
    group = GroupMetadata("g")
    for name in "abc":
        group.add(member(name))
    assert group.is_leader("a")
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("b"), group.remove("c"), group.remove("nobody")
    assert (group.leader_id, group.size, group.protocol_type) == (None, 0, "consumer")


@pytest.mark.parametrize("seed", range(8))
def test_whoever_was_added_first_of_those_left_leads_when_the_leader_goes(seed):
    """Members come and go, static ones come back with a new id, last in the order."""
    rng = random.Random(seed)
    group, left, leader = GroupMetadata("g"), [], None  # (member id, instance id), in order
    for number in range(400):
        choice = rng.random()
        if not left or choice < 0.3:
            left.append((f"m-{number}", rng.choice([None, f"i-{number}"])))
            group.add(member(left[-1][0], instance=left[-1][1]))
            leader = leader or left[-1][0]
        elif choice < 0.9:
            gone, _ = left.pop(0 if choice < 0.8 else rng.randrange(len(left)))
            group.remove(gone)
            if gone == leader:
                leader = left[0][0] if left else None
        elif static := [each for each in left if each[1]]:
            old_id, instance = rng.choice(static)
            left.remove((old_id, instance))
            left.append((f"m-{number}", instance))
            group.replace_static_member(instance, old_id, f"m-{number}")
            leader = f"m-{number}" if leader == old_id else leader
        assert group.leader_id == leader
        assert [each.member_id for each in group.all_members] == [each[0] for each in left]


# Texts of each width that CPython has; many end alike, or are one another's bytes.
IDS = [
    *("", "a", "same-end", "Same-end", "x-same-end", "y-same-end", "z-same-end", "\u0101-same-end"),
    *("\x00", "\x00\x00", "\u0100", "\u6161", "aa", "\U00010000", "\u0161", "\x61\x01", "ünü"),
]


@pytest.mark.parametrize("seed", range(8))
def test_members_are_found_by_id_in_order_however_many_there_are(seed):
    """Beside a dict, which goes on where a group of few keeps none."""
    rng = random.Random(seed)
    group, there = GroupMetadata("g"), {}
    for most in [1, 4, 5, 6, 3, 17, 0, 5, 0]:
        while len(there) != most:
            member_id = rng.choice(IDS)
            if len(there) > most or rng.random() < 0.2:
                group.remove(member_id)
                there.pop(member_id, None)
            elif member_id not in there:
                there[member_id] = member(member_id, str(rng.choice("ab")))
                group.add(there[member_id])
            assert group.all_members == list(there.values())
            assert group.size == len(there)
            for each in IDS:
                assert group.member(each) is there.get(each)
                assert group.has(each) == (each in there)
            votes = [one.protocols[0][0] for one in there.values()]
            assert group.supported_protocols == {name: votes.count(name) for name in votes}


def test_a_static_member_with_a_new_id_moves_to_the_end_and_leads_on():
    group = GroupMetadata("g")
    group.add(member("a", instance="i"))
    group.add(member("b"))
    group.replace_static_member("i", "a", "a2")
    assert [m.member_id for m in group.all_members] == ["b", "a2"]
    assert (group.leader_id, group.all_static_members) == ("a2", {"i": "a2"})
    with pytest.raises(CoterieError, match="there already"):
        group.add(member("c", instance="i"))
    with pytest.raises(CoterieError, match="not the member"):
        group.replace_static_member("i", "a", "a3")


def test_a_group_begins_empty_at_time_0_and_enters_each_state_at_its_time():
    group = GroupMetadata("g")
    assert (group.current_state, group.current_state_timestamp) == ("Empty", 0)
    group = GroupMetadata("g", 12_345_678)
    assert group.current_state_timestamp == 12_345_678
    group.add(member("a"))
    group.transition_to("PreparingRebalance", 12_345_679)
    group.init_next_generation(12_349_999)
    assert group.current_state_timestamp == 12_349_999


def test_an_updated_member_has_the_new_timeouts_and_votes_by_the_new_list():
    group, one = GroupMetadata("g"), member("a", "range sticky")
    group.add(one)
    assert (one.rebalance_timeout_ms, one.session_timeout_ms) == (60_000, 10_000)
    group.update_member(one, [("sticky", b"new")], 70_007, 8_009)
    assert (one.rebalance_timeout_ms, one.session_timeout_ms) == (70_007, 8_009)
    assert group.supported_protocols == {"sticky": 1}
    assert one.metadata("sticky") == b"new"


def test_an_empty_group_takes_any_protocol_and_others_only_a_common_one():
    group = GroupMetadata("g")
    assert group.supports_protocols("consumer", ["x"])
    assert not group.supports_protocols("consumer", [])
    assert not group.supports_protocols("", ["x"])
    group.add(member("a", "range sticky"))
    group.add(member("b", "sticky"))
    group.transition_to("PreparingRebalance", 0)
    assert group.candidate_protocols() == {"sticky"}
    assert group.supports_protocols("consumer", ["x", "sticky"])
    assert not group.supports_protocols("consumer", ["range"])
    assert not group.supports_protocols("connect", ["sticky"])


def test_a_generation_selects_the_protocol_and_summaries_follow_the_state():
    group = GroupMetadata("g")
    group.add(member("a", "range sticky"))
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(5)
    assert (group.generation_id, group.protocol_name) == (1, "range")
    assert group.summary().protocol_name == ""
    group.transition_to("Stable", 6)
    assert group.summary().protocol_name == "range"
    assert group.overview().state == "Stable"
    assert group.current_member_metadata() == [("a", None, b"")]


def test_a_first_member_that_names_its_protocol_twice_leaves_the_group_stuck():
    group = GroupMetadata("g")
    group.add(member("a", "range range"))
    group.transition_to("PreparingRebalance", 0)
    assert group.supported_protocols == {"range": 2}
    with pytest.raises(CoterieError):
        group.init_next_generation(5)
    assert (group.current_state, group.generation_id) == ("PreparingRebalance", 1)


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        ("0000 00000001 0001 74 ffffffff", {"t"}),
        ("7fff 00000002 0001 74 0001 75 00000001 09", {"t", "u"}),
        ("0000 00000000 ffffffff", set()),
        ("", None),
        ("ffff 00000000 ffffffff", None),
        ("0000 00000001 0001 74", None),
        ("0000 00000002 0001 74", None),
    ],
)
def test_subscribed_topics_are_read_with_the_first_layout(metadata, topics):
    group = GroupMetadata("g")
    data = [("range", bytes.fromhex(metadata))]
    group.add(MemberMetadata("a", None, "c", "/h", 1, 1, "consumer", data))
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(0)
    assert group.subscribed_topics == topics


@pytest.mark.parametrize(
    "metadata",
    [
        "0000 00000001",
        "0000 00000001 0009 74 ffffffff",
        "0000 00000001 ffff ffffffff",
        "0000 7fffffff 0001 74",
        "0000 ffffffff ffffffff",
        "0000 00000000 00000001",
    ],
)
def test_metadata_on_which_kafka_throws_leaves_the_group_stuck(metadata):
    group = GroupMetadata("g")
    data = [("range", bytes.fromhex(metadata))]
    group.add(MemberMetadata("a", None, "c", "/h", 1, 1, "consumer", data))
    group.transition_to("PreparingRebalance", 0)
    with pytest.raises(CoterieError):
        group.init_next_generation(0)
    assert (group.current_state, group.generation_id) == ("PreparingRebalance", 1)
    assert group.subscribed_topics is None


def test_a_member_votes_and_matches_in_order():
    one = member("a", "range sticky")
    assert one.vote({"sticky"}) == "sticky"
    assert one.matches([("range", b""), ("sticky", b"")])
    assert not one.matches([("sticky", b""), ("range", b"")])
    with pytest.raises(CoterieError):
        one.vote({"x"})
    with pytest.raises(CoterieError):
        one.metadata("x")


def test_members_are_read_in_order_and_the_first_that_is_too_short_ends_it():
    """The vote of a list that names a protocol twice may win one that another member has not."""
    group = GroupMetadata("g")
    for name, protocols in (("a", ["range", "rr", "range"]), ("b", ["rr"])):
        pairs = [(protocol, b"") for protocol in protocols]
        group.add(MemberMetadata(name, None, "c", "/h", 1, 1, "consumer", pairs))
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(1)
    assert (group.current_state, group.protocol_name) == ("CompletingRebalance", "range")
    assert group.subscribed_topics is None


def test_topics_are_those_of_all_members_however_often_their_metadata_was_read():
    """Each group is made twice: what was read once is not read again."""
    first, second = testing.subscription(["t", "u"]), testing.subscription(["u", "v"])
    for held in ([first], [first, first], [first, second, first], [second], []) * 2:
        group = GroupMetadata("g")
        for n, metadata in enumerate(held):
            pairs = [("range", metadata)]
            group.add(MemberMetadata(f"m{n}", None, "c", "/h", 1, 1, "consumer", pairs))
        group.transition_to("PreparingRebalance", 0)
        group.init_next_generation(0)
        topics = {topic for one in held for topic in testing.read_subscription(one).topics}
        assert group.subscribed_topics == (topics if held else None)


def test_a_member_is_of_one_group_until_it_is_removed():
    one, other, moved = GroupMetadata("one"), GroupMetadata("other"), member("a", "range")
    one.add(moved)
    with pytest.raises(CoterieError, match="'one'"):
        other.add(moved)
    one.remove("a")
    other.add(moved)
    assert (one.size, other.size) == (0, 1)
    assert other.member("a") is moved


def test_a_group_of_another_protocol_type_subscribes_to_no_topics():
    """GroupMetadata.computeSubscribedTopics: an empty group of consumers has an empty set."""
    group = GroupMetadata("g")
    known = []
    for name, protocol_type in (("a", "consumer"), ("b", "connect")):
        pairs = [("range", testing.subscription(["t"]))]
        group.add(MemberMetadata(name, None, "c", "/h", 1, 1, protocol_type, pairs))
        for members in (1, 0):
            assert group.size == members
            group.transition_to("PreparingRebalance", 0)
            group.init_next_generation(0)
            known.append(group.subscribed_topics)
            group.remove(name)
    assert known == [{"t"}, set(), None, None]
