"""The settings of a 0.8.2 consumer that a scenario does not give: those of Kafka's own consumer."""

import pytest

from coterie import ArgumentError
from coterie.designs.consumer08_cluster import KNOWN, ConsumerConfig, consumer_config

KAFKA = {  # kafka.consumer.ConsumerConfig and kafka.utils.ZKConfig of 0.8.2.2
    "zookeeper.session.timeout.ms": 6000,
    "zookeeper.sync.time.ms": 2000,
    "rebalance.max.retries": 4,
    "auto.commit.enable": True,
    "auto.commit.interval.ms": 60_000,
    "auto.offset.reset": "largest",
    "offsets.storage": "zookeeper",
    "offsets.channel.backoff.ms": 1000,
    "dual.commit.enabled": True,  # where offsets are stored in Kafka
    "exclude.internal.topics": True,
    "partition.assignment.strategy": "range",
    "refresh.leader.backoff.ms": 200,
}


def test_the_defaults_are_those_of_kafkas_consumer():
    own = {key: getattr(ConsumerConfig(), name) for key, name in KNOWN.items()}
    assert {key: own[key] for key in KAFKA} == KAFKA
    assert KNOWN.keys() - KAFKA.keys() == {"rebalance.backoff.ms", "assignment"}


@pytest.mark.parametrize(
    ("settings", "backoff_ms"),
    [
        ({}, 2000),  # rebalance.backoff.ms is zookeeper.sync.time.ms unless it is given
        ({"zookeeper.sync.time.ms": 700}, 700),
        ({"rebalance.backoff.ms": 0}, 0),
        ({"rebalance.backoff.ms": 50, "zookeeper.sync.time.ms": 700}, 50),
    ],
)
def test_a_failed_rebalance_pauses_as_long_as_zookeeper_may_be_behind(settings, backoff_ms):
    assert consumer_config(settings).backoff_ms == backoff_ms


MAY_BE_ZERO = {"rebalance.max.retries", "rebalance.backoff.ms"}
NUMBERS = [key for key, name in KNOWN.items() if type(getattr(ConsumerConfig(), name)) is int]


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_is_positive_or_0_where_that_means_something_and_fits_32_bits(key):
    least = 0 if key in MAY_BE_ZERO else 1
    for value in (least, 2**31 - 1):
        assert getattr(consumer_config({key: value}), KNOWN[key]) == value
    for value in (least - 1, 2**31):
        with pytest.raises(ArgumentError, match=f"{key}: {value} is not in {least} to 2147483647"):
            consumer_config({key: value})


def test_a_later_layer_of_settings_wins_and_unknown_ones_are_ignored():
    layers = {"auto.commit.interval.ms": 7, "x": 1}, {"auto.commit.interval.ms": "9"}
    assert consumer_config(*layers) == ConsumerConfig(auto_commit_interval_ms=9)
