"""Moves whose end depends on the release, and the way there: what a rehearsal reports of each.

Rule: docs/rules/releases.md#consumer-groups, which has the tickets of each release.
"""

import json

import pytest

from coterie import GroupCoordinator
from coterie.coordinator.config import REPLAYING
from coterie.errors import ArgumentError
from coterie.histories.rehearsal.history import LoggedHistory
from coterie.histories.rehearsal.known_bugs import (
    KNOWN_BUGS,
    LIMITS,
    Findings,
    bugs_of,
    described,
)
from coterie.histories.rehearsal.play import Play
from coterie.histories.rehearsal.restarts import AWAY_MS, SETTLE_MS
from coterie.histories.rehearsal.result import rehearse
from coterie.histories.rehearsal.variants import read_variant
from support.commandline import coterie, coterie_ok
from support.doc_pages import DOCS
from support.golden_data import GOLDEN
from support.histories.rehearsed import op, start

BEFORE_4_4 = set(REPLAYING) - {"4.4"}
SECOND_MS, MINUTE_MS = 1_000, 60_000
ROLL_MS = 30_000
NO_TOPICS = "0001ffffffff"  # a subscription whose array has the length -1


def new(consumer, at, *topics, **config):
    """A start of a consumer of the consumer protocol."""
    return start(consumer, at, *topics, group_protocol="consumer", **config)


def static(consumer, at, *topics, starts=new, **config):
    return starts(consumer, at, *topics, group_instance_id=consumer, **config)


def history(*ops, **topics):
    return LoggedHistory(
        "g", 0, topics or {"orders": 4}, ops=sorted(ops, key=lambda one: one["at"])
    )


def played(of, text="way=rolling:30s", kafka="4.4", seed=0):
    variant = read_variant(text, kafka)
    return Play(variant.of(of), brokers=variant.first_brokers, seed=seed).run()


CLASSIC = history(*(start(name, at) for at, name in enumerate("abcd")), orders=8)
CONSUMER = history(*(new(name, at) for at, name in enumerate("abcd")), orders=8)


def errors(play):
    """The errors that clients got, with who got them."""
    return {(one.client, one.error) for one in play.refusals}


# Moves that a broker refuses: (what, history, settings of brokers, the error of b by release). The
# ticket of a known bug is in the comment, and in the findings where it is one.
INCONSISTENT, UNKNOWN = "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_SERVER_ERROR"
REFUSED = [
    (  # KAFKA-18134, of 4.0
        "an upgrade of a group whose assignor writes user data",
        history(start("a", 0, odd={"user_data": "00"}), new("b", MINUTE_MS)),
        {},
        dict.fromkeys(REPLAYING, "GROUP_ID_NOT_FOUND"),
    ),
    (
        "an upgrade of another group",
        history(start("a", 0), new("b", MINUTE_MS)),
        {},
        {},
    ),
    (  # KAFKA-20570, KAFKA-20662
        "a join whose metadata cannot be read",
        history(new("a", 0), start("b", MINUTE_MS, odd={"metadata": NO_TOPICS})),
        {},
        dict.fromkeys(BEFORE_4_4, UNKNOWN) | {"4.4": INCONSISTENT},
    ),
    (  # KAFKA-20640, of 4.2.2 and 4.3.1
        "a classic join while the migration is disabled",
        history(new("a", 0), start("b", MINUTE_MS)),
        {"group.consumer.migration.policy": "disabled"},
        dict.fromkeys(("4.2", "4.3.1", "4.4"), INCONSISTENT),
    ),
    (
        "an upgrade that the policy does not allow",
        history(start("a", 0), new("b", MINUTE_MS)),
        {"group.consumer.migration.policy": "downgrade"},
        dict.fromkeys(REPLAYING, "GROUP_ID_NOT_FOUND"),
    ),
    (  # KAFKA-20601
        "a static member that restarts in a full group",
        history(
            static("a", 0),
            static("b", 10),
            op("close", "b", MINUTE_MS - 5_000),
            static("b", MINUTE_MS),
        ),
        {"group.consumer.max.size": 2},
        dict.fromkeys(BEFORE_4_4, "GROUP_MAX_SIZE_REACHED"),
    ),
    (  # KAFKA-20747
        "an instance id that a member has given up",
        history(
            new("a", 0, odd={"member_id": "m"}, group_instance_id="one"),
            op("crash", "a", 10_000),
            new("a2", 11_000, odd={"member_id": "m"}, group_instance_id="two"),
            new("b", MINUTE_MS, group_instance_id="one"),
        ),
        {},
        dict.fromkeys(BEFORE_4_4, "UNRELEASED_INSTANCE_ID"),
    ),
]


KNOWN = {
    "an upgrade of a group whose assignor writes user data": "KAFKA-18134",
    "a join whose metadata cannot be read": "KAFKA-20662",
    "a static member that restarts in a full group": "KAFKA-20601",
    "an instance id that a member has given up": "KAFKA-20747",
    "a classic join while the migration is disabled": "KAFKA-20640",
}


@pytest.mark.parametrize("kafka", REPLAYING)
@pytest.mark.parametrize(("of", "brokers", "refused"), [row[1:] for row in REFUSED],
                         ids=[row[0] for row in REFUSED])  # fmt: skip
def test_a_move_is_refused_in_its_releases_and_in_no_other(of, brokers, refused, kafka):
    play = Play(of, brokers={"coterie.behaviour": kafka, **brokers}).run()
    assert errors(play) == ({("b", refused[kafka])} if kafka in refused else set())
    assert all(MINUTE_MS < one.at < MINUTE_MS + SECOND_MS for one in play.refusals)
    assert play.refused.total() == (kafka in refused)


def found(of, kafka, **brokers):
    """The known bugs that strike in a play, and the minute of the first one."""
    play = Play(of, brokers={"coterie.behaviour": kafka, **brokers}).run()
    return {(one.ticket, one.at // MINUTE_MS) for one in play.findings[:1]}


FOUND = [  # (ticket, history, settings of brokers, minute)
    *((KNOWN[row[0]], *row[1:3], 1) for row in REFUSED if row[0] in KNOWN),
    (
        "KAFKA-20066",
        history(
            *(new("a", 0), new("b", MINUTE_MS)),
            *(op("commit", "a", MINUTE_MS + at) for at in range(6 * SECOND_MS)),
        ),
        {},
        1,
    ),
    (
        "KAFKA-20434",
        history(
            *(static("a", 0), static("b", 10), op("close", "a", 2 * MINUTE_MS)),
            static("a", 2 * MINUTE_MS + SECOND_MS, group_remote_assignor="range"),
        ),
        {},
        2,
    ),
    (
        "KAFKA-20442",
        history(
            *(new("a", 0), op("close", "a", MINUTE_MS)),
            *(new("b", 2 * MINUTE_MS), op("close", "b", 2 * MINUTE_MS + 500)),
            new("c", 2 * MINUTE_MS + 700),
        ),
        {},
        2,
    ),
    (  # c joins, and the others have not joined again yet when a comes back
        "KAFKA-21582",
        history(
            *(static("a", 0, starts=start), start("b", 10), op("close", "a", MINUTE_MS - 5_000)),
            *(start("c", MINUTE_MS), static("a", MINUTE_MS + 500)),
        ),
        {},
        1,
    ),
]


@pytest.mark.parametrize("kafka", REPLAYING)
@pytest.mark.parametrize(("ticket", "of", "brokers", "minute"), FOUND, ids=[t for t, *_ in FOUND])
def test_a_known_bug_is_found_where_it_strikes_and_in_no_other_release(
    ticket, of, brokers, minute, kafka
):
    has_it = KNOWN_BUGS[ticket].strikes_in(kafka)
    assert found(of, kafka, **brokers) == ({(ticket, minute)} if has_it else set())


@pytest.mark.parametrize("kafka", REPLAYING)
@pytest.mark.parametrize(
    "of",
    [
        history(start("a", 0), new("b", MINUTE_MS)),
        history(new("a", 0), start("b", MINUTE_MS)),
        history(new("a", 0), new("b", 10), op("close", "b", MINUTE_MS)),
        history(
            *(static("a", 0), static("b", 10), op("close", "b", MINUTE_MS)),
            static("b", MINUTE_MS + SECOND_MS),
        ),
        history(
            *(static("a", 0, starts=start), start("b", 10)),
            *(op("close", "a", MINUTE_MS), static("a", MINUTE_MS + SECOND_MS)),
        ),
    ],
)
def test_what_goes_well_is_no_finding(of, kafka):
    assert found(of, kafka) == set()


def test_a_fenced_member_that_is_refused_again_is_a_finding_before_4_2():
    """KAFKA-19233, by its signs: no move of a play fences a member that its coordinator has."""
    for kafka in REPLAYING:
        coordinator = GroupCoordinator({"coterie.behaviour": kafka})
        findings = Findings(lambda: 7, lambda coordinator=coordinator: coordinator, "g")
        findings.fenced("a", "FENCED_MEMBER_EPOCH")
        assert findings.found == []
        findings.fenced("a", "FENCED_MEMBER_EPOCH")
        assert [one.ticket for one in findings.found] == ["KAFKA-19233"] * (kafka < "4.2")


def test_librdkafka_does_not_start_with_eager_and_cooperative_assignors():
    for names, count in (("range+roundrobin", 0), ("range+cooperative-sticky", 4)):
        play = played(CLASSIC, f"assignor={names}", "3.9")
        assert [one.ticket for one in play.findings] == ["librdkafka #4368"] * count


def test_the_page_has_the_table_of_known_bugs():
    rows = [f"| {ticket} | {' | '.join(described(ticket))} |" for ticket in (*KNOWN_BUGS, *LIMITS)]
    page = (DOCS / "rehearse.md").read_text().splitlines()
    first = page.index(rows[0])
    assert page[first : first + len(rows)] == rows
    assert page[first + len(rows)] == ""


@pytest.mark.parametrize(
    ("release", "tickets"),
    [
        ("4.0", {"KAFKA-19546", "KAFKA-19862", "KAFKA-20640"}),
        ("4.2.0", {"KAFKA-20254", "KAFKA-20640", "KAFKA-20601"}),
        ("4.4.0", {"KAFKA-18134", "KAFKA-21582"}),
    ],
)
def test_a_release_has_its_bugs(release, tickets):
    assert tickets <= {bug.ticket for bug in bugs_of(release)}
    assert release != "4.4.0" or tickets == {bug.ticket for bug in bugs_of(release)}


def test_what_is_known_of_a_release_that_cannot_be_played_is_printed():
    log = GOLDEN / "incidents" / "loops" / "log"
    done = coterie("rehearse", log, "--group", "steady", "--to", "kafka=4.2.0")
    *lines, error = done.stderr.splitlines()
    assert done.returncode == 2
    assert "kafka=4.2.0: there are 3.9" in error
    assert [line.split(": ")[:3] for line in lines] == [
        ["coterie", "Kafka 4.2.0", bug.ticket] for bug in bugs_of("4.2.0")
    ]


def test_a_finding_is_printed_with_its_time_and_in_json():
    log = GOLDEN / "incidents" / "loops" / "log"
    ask = "rehearse", log, "--group", "steady", "--to", "assignor=range+cooperative-sticky"
    assert "librdkafka #4368 at 20" in coterie_ok(*ask, "--plays", "1").stdout
    _, row = json.loads(coterie_ok(*ask, "--plays", "1", "--format", "json").stdout)
    (finding,) = row["findings"]
    assert (finding["ticket"], finding["releases"]) == ("librdkafka #4368", "all")


@pytest.mark.parametrize("kafka", REPLAYING)
def test_a_commit_of_an_earlier_epoch_is_refused_before_4_3(kafka):
    """KIP-1251: a commits each ms while its epoch rises; it keeps what it commits."""
    commits = [op("commit", "a", MINUTE_MS + at) for at in range(12 * SECOND_MS)]
    of = history(new("a", 0), new("b", MINUTE_MS), *commits)
    play = Play(of, brokers={"coterie.behaviour": kafka}).run()
    assert errors(play) == (set() if kafka >= "4.3" else {("a", "STALE_MEMBER_EPOCH")})
    assert not play.refused


@pytest.mark.parametrize("kafka", REPLAYING)
def test_who_joins_an_emptied_group_waits_for_the_interval_of_targets_in_4_3(kafka):
    """KAFKA-20442: c joins within a second of the target that b got."""
    of = history(
        *(new("a", 0), op("close", "a", MINUTE_MS)),
        *(new("b", MINUTE_MS + 10_000), op("close", "b", MINUTE_MS + 10_500)),
        new("c", MINUTE_MS + 10_700),
    )
    waited_ms = Play(of, brokers={"coterie.behaviour": kafka}).run().longest_unowned_ms
    assert (waited_ms > SECOND_MS) == (kafka in ("4.3", "4.3.1"))


@pytest.mark.parametrize("kafka", REPLAYING)
def test_static_members_that_change_their_assignor_during_a_roll_get_it_from_4_4_on(kafka):
    """KAFKA-20434: before, the epoch stays, and so do the partitions of the old assignor."""
    of = history(*(static(name, at) for at, name in enumerate("abc")), orders=4, audit=4)
    without, changed = (
        played(of, f"{assignor}way=rolling:10s", kafka).rebalances
        for assignor in ("", "assignor=range,")
    )
    assert changed - without == (kafka == "4.4")


@pytest.mark.parametrize("kafka", REPLAYING)
@pytest.mark.parametrize("topics", [["orders"], ["orders", "audit"]])
def test_a_downgrade_by_a_static_member_with_another_subscription_rebalances(topics, kafka):
    """KAFKA-19546, in all that can be played: the new topic is read, and only then."""
    of = history(
        *(static("a", 0), start("b", MINUTE_MS), op("close", "a", 2 * MINUTE_MS)),
        static("a", 2 * MINUTE_MS + 2_000, *topics, starts=start),
        orders=4,
        audit=4,
    )
    play = Play(of, brokers={"coterie.behaviour": kafka}).run()
    assert play.rebalances == 2 + (len(topics) > 1)
    assert not play.refusals


# The way there


def restarts(of, text, kafka="4.4"):
    """The starts on the way: who, when, and with what protocol."""
    return [
        (one["consumer"], one["at"], one["config"].get("group.protocol", "classic"))
        for one in read_variant(text, kafka).of(of).ops
        if one["op"] == "start" and one["at"] > MINUTE_MS
    ]


def test_on_the_way_consumers_restart_one_after_the_other_with_the_new_protocol():
    begin = 3 + SETTLE_MS  # the last start, and a minute
    assert restarts(CLASSIC, "protocol=consumer,way=rolling:30s") == [
        (name, begin + place * ROLL_MS + AWAY_MS, "consumer") for place, name in enumerate("abcd")
    ]


def test_on_the_way_back_they_restart_with_the_old_one():
    back = restarts(CLASSIC, "protocol=consumer,way=there-and-back:30s")[4:]
    begin = 3 + SETTLE_MS + 3 * ROLL_MS + AWAY_MS + SETTLE_MS
    assert back == [
        (name, begin + place * ROLL_MS + AWAY_MS, "classic") for place, name in enumerate("abcd")
    ]


def test_the_way_begins_at_its_time_and_passes_over_who_ends_before_its_turn():
    of = history(*CLASSIC.ops, op("close", "b", 10 * MINUTE_MS + 20_000), orders=8)
    at = "1970-01-01T00:10:00Z"
    names = [name for name, *_ in restarts(of, f"protocol=consumer,way=rolling:30s,at={at}")]
    assert names == ["a", "c", "d"]
    with pytest.raises(ArgumentError, match="is not between 1970-01-01T00:00:00"):
        read_variant("way=rolling:30s,at=1970-01-02T00:00:00Z").of(of)


def test_who_starts_after_the_way_has_begun_is_of_the_new_kind():
    of = history(*CLASSIC.ops, start("e", 20 * MINUTE_MS), orders=8)
    at = "1970-01-01T00:10:00Z"
    last = restarts(of, f"protocol=consumer,way=rolling:30s,at={at}")[-1]
    assert last == ("e", 20 * MINUTE_MS, "consumer")


@pytest.mark.parametrize("kafka", REPLAYING)
@pytest.mark.parametrize("of", [CLASSIC, CONSUMER], ids=["upgrade", "downgrade"])
def test_a_group_of_both_kinds_is_converted_without_a_refusal(of, kafka):
    other = "consumer" if of is CLASSIC else "classic"
    play = played(of, f"protocol={other},way=rolling:30s", kafka)
    assert not play.refusals
    assert play.longest_unowned_ms < 20 * SECOND_MS
    # Each leaves, and comes back; the last leave ends a kind.
    assert play.rebalances > played(of, "max.poll.interval.ms=60000", kafka).rebalances + 4


def test_a_conversion_that_the_policy_forbids_ends_the_clients_that_try_it():
    text = "protocol=consumer,group.consumer.migration.policy=disabled,way=rolling:30s"
    play = played(CLASSIC, text)
    assert play.refused == {"GROUP_ID_NOT_FOUND": 3}  # the last one finds the group empty


def test_eager_members_and_cooperative_ones_need_an_assignor_in_common():
    alone = played(CLASSIC, "assignor=cooperative-sticky,way=rolling:30s")
    assert alone.refused == {INCONSISTENT: 3}
    assert not played(CLASSIC, "assignor=cooperative-sticky+range,way=rolling:30s").refusals


def test_brokers_are_upgraded_before_the_consumers_of_the_protocol_that_they_lack():
    variant = read_variant("protocol=consumer,way=rolling:30s", "3.9")
    changed = variant.of(CLASSIC)
    (stop,) = (one for one in changed.ops if one["op"] == "coordinator_stop")
    assert (variant.first_brokers["coterie.behaviour"], stop["config"]["coterie.behaviour"]) == (
        "3.9",
        "4.4",
    )
    assert not Play(changed, brokers=variant.first_brokers).run().refused


def test_a_change_of_the_brokers_alone_restarts_no_consumer():
    assert restarts(CLASSIC, "kafka=4.4,way=rolling:30s", "3.9") == []
    play = played(CLASSIC, "kafka=4.4,way=rolling:30s", "3.9")
    assert play.rebalances == played(CLASSIC, "kafka=3.9", "3.9").rebalances


def test_a_row_names_what_the_way_ends_in_and_the_errors_of_kafka():
    text = "protocol=consumer,group.consumer.migration.policy=disabled,way=rolling:30s"
    _, row = rehearse(CLASSIC, [read_variant(text, "4.4")], kafka="4.4", plays=1)
    assert (row["kafka"], row["protocol"]) == ("4.4", "consumer")
    assert row["refused"] == [{"error": "GROUP_ID_NOT_FOUND", "count": 3}]


# A bound


def test_a_play_of_a_group_that_never_settles_is_cut():
    """Heartbeats 1 ms shorter than the session: they arrive when it is over."""
    day_ms = 24 * 60 * MINUTE_MS
    of = history(start("a", 0), start("b", 10), op("close", "b", 30 * day_ms), orders=4)
    text = "heartbeat.interval.ms=5999,session.timeout.ms=6000"
    play = played(of, text, "3.9")
    assert play.cut_ms is not None
    assert play.cut_ms < 2 * 60 * MINUTE_MS
    assert 100 <= play.rebalances <= 1_100
    as_it_was, row = rehearse(of, [read_variant(text)], plays=1)
    assert as_it_was["cut_at"] is None
    assert row["cut_at"] == of.origin_ms + play.cut_ms


def test_a_play_of_a_group_that_settles_is_not_cut():
    """A rebalance that waits for hours, and many with a cause each."""
    starts = [
        start("a", 0),
        start("b", 10),
        op("pause", "b", MINUTE_MS),
        start("c", 300 * MINUTE_MS),
    ]
    assert played(history(*starts), "max.poll.interval.ms=2147483647").cut_ms is None
    restarts = [
        one
        for at in range(MINUTE_MS, 150 * MINUTE_MS, MINUTE_MS)
        for one in (op("close", "b", at), start("b", at + SECOND_MS))
    ]
    play = played(history(start("a", 0), start("b", 10), *restarts), "kafka=3.9", "3.9")
    assert play.rebalances > 200
    assert play.cut_ms is None
