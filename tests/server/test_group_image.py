"""What the coordinator of Kafka 4 is told of the cluster: each change once."""

import pytest

from coterie.consumer_groups import decode_topic_id
from coterie.server.context import Context
from coterie.server.releases import release_of
from coterie.server.services.group_image import GroupImage
from coterie.server.services.topics import Topics

RACK = {"broker.rack": "r7", "node.id": 3}


@pytest.fixture
def topics():
    made = Topics(Context(RACK, release=release_of("4.1")))
    made.create("old", 1)
    return made


@pytest.fixture
def image(topics):
    return GroupImage(topics._context, topics)


def told(topics, name, partitions):
    return name, decode_topic_id(topics.get(name).topic_id), [[3]] * partitions


def test_the_broker_and_the_topics_that_are_there_are_told_first(topics, image):
    topics.create("new", 2)
    wanted = (told(topics, "old", 1), told(topics, "new", 2))
    assert image.changes() == (((3, "r7"),), (), wanted)
    assert image.changes() is None


def test_a_change_is_told_once(topics, image):
    image.changes()
    topics.create("new", 1)
    topics.grow("new", 3)
    assert image.changes() == ((), (), (told(topics, "new", 3),))
    topics.create("other", 2)
    assert image.changes() == ((), (), (told(topics, "other", 2),))
    topics.delete("new")
    assert image.changes() == ((), ("new",), ())
    assert image.changes() is None


def test_a_topic_that_is_gone_before_it_was_told_is_only_deleted(topics, image):
    image.changes()
    topics.create("new", 1)
    topics.delete("new")
    assert image.changes() == ((), ("new",), ())
    topics.delete("old")
    topics.create("old", 4)
    assert image.changes() == ((), ("old",), (told(topics, "old", 4),))
