"""What the options of `coterie serve` make of a server, without starting it."""

import gc

import pytest

from coterie.cli.serve import command, options_of
from coterie.errors import ArgumentError
from support.commandline import fails


def options(*args):
    with command.make_context("serve", list(args)) as context:
        return options_of(context.params)


def places(found):
    return [(place.protocol, place.host, place.port) for place in found]


def test_without_options_it_listens_on_this_machine_with_a_clock_that_goes():
    made = options()
    assert [(protocol, host) for protocol, host, _ in places(made.places)] == [
        ("plaintext", "127.0.0.1")
    ]
    assert (made.virtual, made.seed, made.users, made.tls) == (False, None, None, None)
    assert (made.control, made.metrics, made.topics) == (None, None, {})


def test_each_option_is_that_of_the_server():
    made = options(
        *("--listen", "127.0.0.1:7001", "--listen", "127.0.0.2:7002"),
        *("--advertise", "one:8001", "--advertise", "two:8002"),
        *("--topic", "a:3", "--topic", "b", "--set", "num.partitions=5"),
        *("--set", "group.max.size=9", "--kafka", "4.1", "--seed", "0"),
        *("--clock", "virtual", "--control", "127.0.0.1:7003", "--metrics", "127.0.0.1:7004"),
    )
    assert places(made.places) == [
        ("plaintext", "127.0.0.1", 7001),
        ("plaintext", "127.0.0.2", 7002),
    ]
    assert places(made.advertised) == [("plaintext", "one", 8001), ("plaintext", "two", 8002)]
    assert places([made.control, made.metrics]) == [
        ("plaintext", "127.0.0.1", 7003),
        ("plaintext", "127.0.0.1", 7004),
    ]
    assert {name: topic.partitions for name, topic in made.topics.items()} == {"a": 3, "b": None}
    assert made.config["num.partitions"] in (5, "5")
    assert (made.virtual, made.seed, made.release.name) == (True, 0, "4.1")


OPEN = ("--listen", "0.0.0.0:7001", "--advertise", "one:8001")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--data", "folder"), "--data and --sync"),
        (("--sync", "commit"), "--data and --sync"),
        (("--brokers", "3"), "--brokers: several brokers"),
        (("--clock", "virtual"), "--clock virtual needs --control"),
        (("--control", "0.0.0.0:1"), "--control 0.0.0.0:1 is not a loopback address"),
        (("--control", "0.0.0.0:1", "--insecure"), "--control 0.0.0.0:1 is not a loopback"),
        (("--metrics", "0.0.0.0:1"), "--metrics 0.0.0.0:1 is not a loopback address"),
        (("--topic", "a", "--topic", "b", "--topic", "a:2"), "--topic a is given twice"),
        (("--tls-cert", "c.pem"), "--tls-cert and --tls-key go together"),
        (("--tls-key", "k.pem"), "--tls-cert and --tls-key go together"),
        (("--listen", "ssl://127.0.0.1:7001"), "ssl://127.0.0.1:7001 needs --tls-cert"),
        (
            ("--listen", "127.0.0.1:1", "--listen", "sasl_plaintext://127.0.0.1:7001"),
            "sasl_plaintext://127.0.0.1:7001 needs --sasl-users",
        ),
        (OPEN, "--insecure"),
    ],
)
def test_options_that_contradict_each_other_are_named(args, says):
    with pytest.raises(ArgumentError, match=says):
        options(*args)


@pytest.mark.parametrize(
    "args",
    [
        ("--clock", "wall", "--control", "127.0.0.1:1"),
        ("--metrics", "0.0.0.0:1", "--insecure"),
        (*OPEN, "--insecure"),
        ("--brokers", "1"),
    ],
)
def test_options_that_fit_are_taken(args):
    assert options(*args).places


def test_settings_come_from_the_environment_only_if_that_is_requested(monkeypatch):
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    counts = [options(*args).config.get("num.partitions") for args in ((), ("--environment",))]
    assert [None if count is None else int(count) for count in counts] == [None, 7]
    (of_option,) = (options("--environment", "--set", "num.partitions=8").config,)
    assert int(of_option["num.partitions"]) == 8


def test_a_start_that_is_refused_leaves_the_collector_running():
    """A server pauses it while it starts."""
    fails("serve", "--brokers", 3, status=2, says="--brokers")
    assert gc.isenabled()
