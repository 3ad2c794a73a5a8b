"""The copies of three brokers after an unclean election, beside the recorded truth."""

import json

import pytest

from support.commandline import coterie, coterie_ok
from support.golden_data import incident, truth

NAME = "unclean-election"
COPIES = [f"broker-{number}" for number in (1, 2, 3)]
TRUTH = truth(NAME)
EPOCHS = TRUTH["leader_epochs"]
LEADERS = {int(number): row[0] for number, row in TRUTH["leaders"][-1]["partitions"].items()}
PHASES = [event for event in TRUTH["events"] if event["what"] == "committed"]


@pytest.fixture(scope="module")
def rows():
    """(copy, partition) -> its row."""
    result = coterie("compare", *COPIES, "--format", "json", cwd=incident(NAME))
    assert result.returncode == 1, result.stderr  # a copy has diverged
    return {(row["copy"], row["offsets_partition"]): row for row in json.loads(result.stdout)}


def elected_anew():
    """Partitions whose leader epoch rose: another broker was elected."""
    return {int(number) for number, epochs in EPOCHS["2"].items() if len(epochs) > 1}


def test_the_copy_of_the_old_leader_diverged_where_another_was_elected(rows):
    assert len(elected_anew()) == 3
    for (name, partition), row in rows.items():
        diverged = name == "broker-1" and partition in elected_anew()
        assert (row["status"] == "diverged") == diverged


def test_copies_have_diverged_where_the_new_leaders_epoch_begins(rows):
    for partition in elected_anew():
        row = rows["broker-1", partition]
        epoch, offset = EPOCHS[str(LEADERS[partition])][str(partition)][-1]
        assert row["common_until"] == offset
        assert (row["epoch_here"], row["epoch_there"]) == (0, epoch)


def test_epochs_of_each_copy_are_those_of_the_brokers_checkpoint(rows):
    for (name, partition), row in rows.items():
        checkpoint = EPOCHS[name.removeprefix("broker-")][str(partition)]
        assert [[epoch["epoch"], epoch["offset"]] for epoch in row["epochs"]] == checkpoint
        assert row["last_epoch"] == checkpoint[-1][0]


def lost_phases(partition):
    """Phases of which a partition's commits were answered, and are on broker 1 alone."""
    return PHASES[1 if LEADERS[partition] == 3 else 2 : 4]  # broker 3 was dead in the second one


def test_what_the_old_leader_alone_has_is_each_groups_lost_commits_and_generations(rows):
    for partition in elected_anew():
        only = {group["group_id"]: group for group in rows["broker-1", partition]["only_here"]}
        plain = {group for group, number in TRUTH["plain_groups"].items() if number == partition}
        assert {group for group in only if group.startswith("plain-")} == plain
        for group in plain:  # a client may have committed again after a timeout
            assert only[group]["commits"] >= len(lost_phases(partition))
            assert not only[group]["generations"]
        members = [group for group in only.values() if group["generations"]]
        assert members
        assert all(group["group_id"].startswith("lost-") for group in members)
        assert all(group["generations"] == [1] for group in members)


def test_times_of_lost_commits_are_those_of_the_phases(rows):
    for partition in elected_anew():
        phases = lost_phases(partition)
        for group in rows["broker-1", partition]["only_here"]:
            if group["group_id"].startswith("plain-"):
                assert phases[0]["since_ms"] <= group["first_time"]
                assert group["last_time"] <= phases[-1]["at_ms"]


def test_the_groups_whose_first_generation_was_lost_are_all_found(rows):
    found = {
        group["group_id"]
        for partition in elected_anew()
        for group in rows["broker-1", partition]["only_here"]
        if group["generations"]
    }
    started = {event["group"] for event in TRUTH["events"] if event["what"] == "process started"}
    everywhere = {  # of the partition that broker 2 led all the time
        group["group_id"] for group in rows["broker-1", 3]["lacking"]
    }
    assert found == {group for group in started if group.startswith("lost-")} - everywhere


def test_take_best_names_the_copy_of_the_leader_or_one_that_equals_it(rows):
    result = coterie_ok("compare", *COPIES, "--take", "best", cwd=incident(NAME))
    folders = dict(line.split("/")[::-1] for line in result.stdout.splitlines())
    assert set(folders) == {f"__consumer_offsets-{number}" for number in LEADERS}
    for partition, leader in LEADERS.items():
        best = folders[f"__consumer_offsets-{partition}"]
        assert rows[best, partition]["status"] == "best"
        assert f"broker-{leader}" == best or rows[f"broker-{leader}", partition]["status"] == "same"


def test_a_follower_that_was_cut_off_is_behind_and_has_nothing_of_its_own(rows):
    for partition, leader in LEADERS.items():
        if leader == 2:  # broker 3 could not fetch from it in the last phase
            row = rows["broker-3", partition]
            assert row["status"] == "behind"
            assert row["records_only_here"] == 0
            lacking = {group["group_id"] for group in row["lacking"]}
            plain = {g for g, number in TRUTH["plain_groups"].items() if number == partition}
            assert plain <= lacking
