"""The owners of partitions and the subscribers of topics, against models that count anew."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.designs import ops
from coterie.designs.ownership import Ownership, Subscriptions

TOPICS = ("gt", "gu", "ht")  # group and topic
PLACES = [(group, topic, number) for group, topic in TOPICS for number in range(2)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(0, 7)),
        st.builds(lambda topic, size: ("resize", *topic, size), st.sampled_from(TOPICS),
                  st.integers(0, 2)),
        st.tuples(st.sampled_from(["take", "give"]), st.sampled_from("ab"),
                  st.sampled_from(PLACES)),
    ),
    min_size=12, max_size=60,
)  # fmt: skip


PLACE = ("g", "t", 1)
SHARED_FOR_A_TIME = [
    *(("resize", "g", "t", 2), ("take", "a", PLACE), ("take", "b", PLACE), ("advance", 3)),
    *(("give", "a", PLACE), ("advance", 5), ("give", "b", PLACE), ("advance", 7)),
]


@example(SHARED_FOR_A_TIME)
@given(STEPS)
def test_time_without_an_owner_and_with_several_is_that_of_the_partitions_that_count(steps):
    ownership, pairs, sizes, now_ms, unowned_ms, shared_ms = Ownership(), set(), {}, 3, 0, 0
    ownership.advance(now_ms)
    for name, *args in steps:
        if name == "advance":
            counting = [place for place in PLACES if place[2] < sizes.get(place[:2], 0)]
            owners = [sum(place == taken for _, taken in pairs) for place in counting]
            unowned_ms += args[0] * owners.count(0)
            shared_ms += args[0] * sum(number > 1 for number in owners)
            now_ms += args[0]
            ownership.advance(now_ms)
            continue
        getattr(ownership, name)(*args)
        if name == "resize":
            sizes[tuple(args[:2])] = args[2]
        elif name == "take":
            pairs.add(tuple(args))
        else:
            pairs.discard(tuple(args))
    assert (ownership.unowned_ms, ownership.shared_ms) == (unowned_ms, shared_ms)
    for consumer in "ab":
        assert ownership.owned_by(consumer) == {place for name, place in pairs if name == consumer}


class Sizes:
    """What a listener was told last."""

    def __init__(self):
        self.now = {}

    def resize(self, group, topic, size):
        self.now[group, topic] = size


def start(name, group, **topics):
    return of(ops.Start, consumer=name, group=group, **topics)


def of(kind, **fields):
    return kind(at=0, place="", **fields)


@pytest.mark.parametrize("deletes_topics", [False, True])
def test_a_topic_counts_for_the_groups_that_subscribe_to_it_while_they_do(deletes_topics):
    sizes = Sizes()
    subscriptions = Subscriptions(sizes.resize, deletes_topics=deletes_topics)
    for op, told in [
        (start("a", "g", subscription={"t": 1}), {("g", "t"): 0}),
        (of(ops.CreateTopic, topic="t", replicas=((0,), (0,))), {("g", "t"): 2}),
        (start("b", "g", subscription={"t": 1}), {("g", "t"): 2}),
        (start("c", "h", whitelist="t|u"), {("g", "t"): 2, ("h", "t"): 2}),
        (of(ops.AddPartitions, topic="t", replicas=((0,),)), {("g", "t"): 3, ("h", "t"): 3}),
        (of(ops.CreateTopic, topic="u", replicas=((0,),)),
         {("g", "t"): 3, ("h", "t"): 3, ("h", "u"): 1}),
        (of(ops.Close, consumer="a"), {("g", "t"): 3, ("h", "t"): 3, ("h", "u"): 1}),
        (of(ops.Close, consumer="c"), {("g", "t"): 3, ("h", "t"): 0, ("h", "u"): 0}),
        (of(ops.DeleteTopic, topic="t"),
         {("g", "t"): 0 if deletes_topics else 3, ("h", "t"): 0, ("h", "u"): 0}),
    ]:  # fmt: skip
        subscriptions.take(op)
        assert sizes.now == told, op
    assert subscriptions.groups["b"] == "g"


def test_a_filter_takes_no_internal_topic():
    sizes = Sizes()
    subscriptions = Subscriptions(sizes.resize, deletes_topics=True)
    internal = of(ops.CreateTopic, topic="__consumer_offsets", replicas=((0,),))
    for op in (start("a", "g", whitelist=".*"), internal, start("b", "g", whitelist=".*")):
        subscriptions.take(op)
    assert sizes.now == {}
    subscriptions.take(start("c", "h", blacklist="t"))
    assert sizes.now == {}
