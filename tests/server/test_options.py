"""Addresses and topics as text: what is read, and what is refused."""

import re

import pytest

from coterie.errors import ArgumentError
from coterie.server.cluster import Cluster
from coterie.server.options import (
    Options,
    Place,
    TopicOptions,
    place_of,
    refuse_open,
    refuse_unroutable,
    topic_of,
)
from coterie.server.topics_at_start import make_topics

NAMES = {"PLAINTEXT": "plaintext", "INSIDE": "sasl_ssl"}


def test_an_address_is_a_host_and_a_port_with_a_name_before_them():
    places = {
        "localhost:9092": Place("plaintext", "localhost", 9092),
        " h:0 ": Place("plaintext", "h", 0),
        "h:65535": Place("plaintext", "h", 65535),
        "PLAINTEXT://h:1": Place("plaintext", "h", 1),
        "inside://h:1": Place("sasl_ssl", "h", 1, "INSIDE"),
        "[::1]:9": Place("plaintext", "::1", 9),
        ":5": Place("plaintext", "*", 5),
    }
    for text, place in places.items():
        assert place_of(text, protocols=NAMES, any_host="*") == place
    assert place_of("sasl_ssl://h:1") == Place("sasl_ssl", "h", 1)
    for text in ("h", "h:", "h:65536", "h:123456", "://h:1", "h:1:2", "::1:9", "h/p:1", 9092, None):
        with pytest.raises(ArgumentError, match=r"an address is \[PROTOCOL://\]HOST:PORT, not"):
            place_of(text, protocols=NAMES, any_host="*")
    with pytest.raises(ArgumentError, match=r"HOST:PORT, not ':5'"):
        place_of(":5")
    with pytest.raises(ArgumentError, match="outside is no protocol"):
        place_of("outside://h:1", protocols=NAMES)


def test_a_place_knows_its_label_and_who_reaches_it():
    assert [Place("ssl", "h", 1).label, Place("ssl", "h", 1, "OWN").label] == ["ssl", "OWN"]
    assert [Place("ssl", host, 7).address for host in ("h", "::1")] == ["h:7", "[::1]:7"]
    hosts = ("localhost", "127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "0.0.0.0", "::", "kafka")
    loopback = [Place("ssl", host, 7).is_loopback for host in hosts]
    assert loopback == [True] * 4 + [False] * 4
    unroutable = [Place("ssl", host, 7).is_unroutable for host in hosts]
    assert unroutable == [False] * 5 + [True, True, False]


def test_an_open_address_needs_a_password_over_tls_a_certificate_or_a_word():
    """docs/server.md: nobody serves a network without protection by mistake."""
    for protocol, certificates, insecure, host, is_open in (
        ("plaintext", False, False, "127.0.0.1", False),
        ("plaintext", False, False, "10.0.0.1", True),
        ("plaintext", True, False, "10.0.0.1", True),
        ("plaintext", False, True, "10.0.0.1", False),
        ("sasl_plaintext", True, False, "10.0.0.1", True),
        ("ssl", False, False, "10.0.0.1", True),
        ("ssl", True, False, "10.0.0.1", False),
        ("sasl_ssl", False, False, "10.0.0.1", False),
    ):
        place = Place(protocol, host, 7)
        try:
            refuse_open(place, client_certificates=certificates, insecure=insecure)
            refused = False
        except ArgumentError as error:
            refused = str(error).startswith("10.0.0.1:7 is not a loopback address")
        assert refused is is_open, (protocol, certificates, insecure)


def test_clients_are_sent_to_no_wildcard_address():
    real, wild = Place("ssl", "h", 1), Place("ssl", "0.0.0.0", 2)
    for places, advertised, refused in (
        ([real], [], False),
        ([real, wild], [], True),
        ([wild], [real], False),
        ([real], [wild], True),
        ([real, wild], [None, real], False),
        ([real, real], [None, wild], True),
    ):
        try:
            refuse_unroutable(iter(places), iter(advertised), "name another")
            failed = False
        except ArgumentError as error:
            text = "clients would be told 0.0.0.0:2, which is no machine's address: name another"
            failed = str(error) == text
        assert failed is refused, (places, advertised)


def test_a_topic_has_partitions_one_replica_and_settings():
    topics = {
        "t": ("t", TopicOptions()),
        "a.b-c_9:1": ("a.b-c_9", TopicOptions(1)),
        "t:100000:1": ("t", TopicOptions(100_000)),
        "t:3:1,a=1, b =x=y,z,,b2= ": (
            "t", TopicOptions(3, {"a": "1", "b": "x=y,z,", "b2": " "})),
        "t,a=": ("t", TopicOptions(None, {"a": ""})),
        "x" * 249: ("x" * 249, TopicOptions()),
    }  # fmt: skip
    for text, expected in topics.items():
        assert topic_of(text) == expected
    form = "a topic is NAME[:PARTITIONS[:REPLICAS]][,KEY=VALUE...], not"
    for text, message in (
        ("", form), (".", form), ("..", form), ("a b", form), ("x" * 250, form), ("t:", form),
        ("t:-1", form), ("t:1:1:1", form), ("t:1234567890", form),
        ("t:0", "PARTITIONS must be from 1 to 100000"), ("t:100001", "PARTITIONS must be"),
        ("t:3:2", "topic t: REPLICAS must be 1, not 2"), ("t:1:0", "REPLICAS must be 1, not 0"),
        ("t,a", "topic t: a setting is KEY=VALUE, not 'a'"), ("t,,a=1", "is KEY=VALUE, not ''"),
        ("t,a=1,b=2,a =3", "topic t: a is set twice"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=re.escape(message)):
            topic_of(text)


def test_a_server_without_options_is_for_this_machine_by_the_wall_clock():
    options = Options()
    assert options.places == (Place("plaintext", "127.0.0.1", 0),)
    assert (options.virtual, options.seed, options.users, options.tls) == (False, None, None, None)
    assert (options.config, options.topics, options.advertised) == ({}, {}, ())
    assert (options.control, options.metrics) == (None, None)


def test_topics_at_the_start_have_the_settings_and_partitions_that_are_given_or_the_brokers():
    own, of_time = "__consumer_offsets", {"retention.ms": "5"}
    cluster = Cluster({"offsets.topic.num.partitions": 3, "num.partitions": 4})
    topics = {own: TopicOptions(None, of_time), "a": TopicOptions(2, of_time), "b": TopicOptions()}
    make_topics(cluster, topics)
    found = {topic.name: (len(topic.partitions), topic.configs) for topic in cluster.topics}
    assert {name: found[name] for name in "ab"} == {"a": (2, of_time), "b": (4, {})}
    count, configs = found[own]
    assert (count, configs["retention.ms"], configs["cleanup.policy"]) == (3, "5", "compact")
    assert cluster.topics.get(own).settings.retention_ms == 5
