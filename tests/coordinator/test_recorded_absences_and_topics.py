"""What a recording has of absences that follow each other, and of topics."""

import pytest

from coterie import GroupCoordinator, TraceError, load_trace, run_trace
from coterie.coordinator.recording import Recording
from support.trace_data import header, ops
from support.trace_data import join as join_event


@pytest.fixture
def recorded():
    """Make a coordinator that records, and a function that returns the lines of its trace."""

    def made(**kwargs):
        coordinator, recording = GroupCoordinator(**kwargs), Recording()
        coordinator._record_into(recording)
        return coordinator, lambda: recording.lines("it", coordinator.config, coordinator.now_ms)

    return made


def test_a_resigned_coordinator_that_resigns_again_was_away_from_the_first_time_on(recorded):
    coordinator, lines = recorded()
    coordinator.resign(), coordinator.heartbeat("g", 1, "m")
    coordinator.advance(50)
    coordinator.resign()
    coordinator.advance(60)
    coordinator.begin_load(), coordinator.finish_load()
    came = lines()
    assert "from 0 to 60 ms" in came[0]["doc"]
    assert "1 requests in between" in came[0]["doc"]
    assert [line["at"] for line in came[1:] if line["op"] == "failover"] == [0, 60]


def test_a_failover_brings_a_resigned_coordinator_back_and_each_absence_is_named(recorded):
    coordinator, lines = recorded()
    for at_ms in (10, 30):
        coordinator.advance(at_ms)
        coordinator.resign(), coordinator.heartbeat("g", 1, "m")
        coordinator.advance(at_ms + 10)
        coordinator.failover()
    coordinator.describe_group("g")
    came = lines()
    for ends in (": from 10 to 20 ms", "; from 30 to 40 ms"):
        assert ends in came[0]["doc"]
    assert came[0]["doc"].count("1 requests in between") == 2
    assert [line["at"] for line in came[1:] if line["op"] == "failover"] == [10, 20, 30, 40]
    assert ops(came)[-1] == "describe_group"


def test_time_that_a_trace_brings_to_a_resigned_coordinator_is_no_request(recorded):
    coordinator, lines = recorded()
    coordinator.resign()
    coordinator.play(load_trace([header(), {"at": 12_000, "op": "advance"}]))
    first, *events = lines()
    assert "from 0 to 12000 ms" in first["doc"]
    assert "0 requests in between" in first["doc"]
    assert [(event["at"], event["op"]) for event in events] == [
        (0, "failover"), (5000, "failover"), (10_000, "failover"), (12_000, "advance"),
    ]  # fmt: skip


def test_an_absence_within_a_millisecond_is_one_failover_without_what_was_asked(recorded):
    coordinator, lines = recorded()
    coordinator.resign(), coordinator.heartbeat("g", 1, "m")
    coordinator.begin_load(), coordinator.finish_load()
    came = lines()
    assert "a failover stands for it, and 1 requests in between" in came[0]["doc"]
    assert ops(came) == ["failover", "advance"]


def test_of_a_trace_that_stops_the_recording_has_the_events_before(recorded):
    garbage = [{"name": "range", "metadata": "AAAAAAABAAk="}]  # on which Kafka throws
    trace = [header(), join_event(0, 1, protocols=garbage), {"at": 5000, "op": "advance"},
             {"at": 6000, "op": "cleanup"}]  # fmt: skip
    coordinator, lines = recorded()
    with pytest.raises(TraceError, match="line 3"):
        coordinator.play(load_trace(trace))
    assert "cleanup" not in ops(lines())
    assert ops(lines())[0] == "join_group"


def test_a_recording_is_written_through_a_link(tmp_path):
    path = tmp_path / "it.trace.jsonl"
    path.symlink_to(tmp_path / "target")
    Recording().write(path, GroupCoordinator().config, 0)
    assert path.is_symlink()
    text = (tmp_path / "target").read_text()
    assert text.endswith("}\n")
    assert '"name": "it"' in text


def test_a_last_check_may_keep_the_recording_of_before(tmp_path):
    def refuses():
        raise OSError("no longer ours")

    path = tmp_path / "it.trace.jsonl"
    path.write_text("before")
    with pytest.raises(OSError, match="no longer ours"):
        Recording().write(path, GroupCoordinator().config, 0, refuses)
    assert path.read_text() == "before"


def test_only_requests_have_an_id(recorded):
    coordinator, lines = recorded()
    coordinator.fail_append("NOT_ENOUGH_REPLICAS", 1), coordinator.end_txn(3, committed=True)
    coordinator.failover(), coordinator.cleanup(), coordinator.describe_group("g")
    assert [event["op"] for event in lines()[1:] if "id" in event] == ["describe_group"]


def test_the_end_of_a_load_is_no_failover_after_an_election_of_one_partition(recorded):
    """Since then the trace goes on as if the coordinator were there."""
    coordinator, lines = recorded()
    coordinator.resign(), coordinator.begin_load(), coordinator.resign(3)
    coordinator.advance(10)
    coordinator.finish_load()
    assert ops(lines()) == ["failover", "advance"]


@pytest.mark.parametrize(("behaviour", "version"), [("3.9", 1), ("4.1", 2)])
def test_a_recording_of_nothing_is_a_header(recorded, behaviour, version):
    (first,) = recorded(config={"coterie.behaviour": behaviour})[1]()
    assert first["version"] == version


def test_topics_that_replace_others_are_an_event_although_they_are_the_first(recorded):
    """A header has topics, but none that are deleted."""
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    coordinator.set_topics({"u": 1}, delete_topics=["t"])
    first, event = lines()
    assert "topics" not in first
    assert (event["op"], event["delete_topics"]) == ("metadata", ["t"])
    list(run_trace([first, event]))


def test_the_first_topics_are_in_the_header_alone(recorded):
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 1})
    coordinator.describe_group("g")
    came = lines()
    assert [topic["topic"] for topic in came[0]["topics"]] == ["t"]
    assert ops(came) == ["describe_group"]


@pytest.mark.parametrize("advanced", [False, True])
def test_a_recording_of_version_1_has_no_topics_of_a_trace_that_was_played(recorded, advanced):
    """Its coordinator has no consumer groups, and no trace for it can change topics."""
    topics = [{"topic": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 2}]
    coordinator, lines = recorded(config={"coterie.behaviour": "3.9", "group.max.size": 5})
    if advanced:
        coordinator.advance(9)
    played = load_trace([header() | {"version": 2, "topics": topics}, join_event(9, 1)])
    output = coordinator.play(played)
    first, *events = lines()
    assert (first["version"], "topics" in first) == (1, False)
    assert ops([first, *events]) == [*(["advance"] if advanced else []), "join_group"]
    assert list(run_trace([first, *events])) == list(output.lines())


def test_a_trace_of_version_2_brings_what_it_has_at_the_time_of_the_last_advance(recorded):
    """Of brokers and topics its header may have only one, or none."""
    topics = [{"topic": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 2}]
    trace = [header(coterie_behaviour="4.1") | {"version": 2}, join_event(9, 1)]
    for given in ({"topics": topics}, {"brokers": [{"id": 0, "rack": "r"}]}, {}):
        coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
        coordinator.advance(3), coordinator.advance(9)
        output = coordinator.play(load_trace([trace[0] | given, *trace[1:]]))
        came = lines()
        metadata = [{"at": 9, "op": "metadata"} | given] if given else []
        assert [line for line in came[1:] if line["op"] == "metadata"] == metadata
        assert list(run_trace(came)) == list(output.lines())
