"""Each golden trace is answered as Kafka answered it, in each of its versions."""

import json
from collections import Counter

import pytest

from coterie import GroupCoordinator, load_trace, run_trace
from coterie._core.codec.schema import decode_key, decode_value, encode_key, encode_value
from support.consumer_groups import golden
from support.trace_data import played_elsewhere

NAMES = golden.names()


def played(name, behaviour):
    return list(run_trace(golden.trace(name), {"coterie.behaviour": behaviour}))


def test_there_are_as_many_traces_as_the_readme_says():
    assert len(NAMES) == 177 + 160
    assert len(MIXED) == 23 + 120
    assert len(list(golden.FOLDER.glob("alt-4.1.2/*/*.gz"))) == 19
    assert len(list(golden.FOLDER.glob("alt-4.2.1/*/*.gz"))) == 80
    assert Counter(behaviour for behaviour, _, _ in NEWER) == {
        "4.4": 64 + 40 + 177 + 31 + 30 + 72, "4.3.1": 31 + 16 + 34 + 44 + 23, "4.3": 24,
    }  # fmt: skip


@pytest.mark.parametrize("behaviour", golden.BEHAVIOURS)
@pytest.mark.parametrize("name", NAMES)
def test_a_trace_is_answered_as_kafka_answers_it(name, behaviour):
    answers, groups = golden.by_kind(played(name, behaviour))
    expected_answers, expected_groups = golden.by_kind(golden.expected(name, behaviour))
    assert answers == expected_answers
    assert groups == expected_groups


NEWER = golden.newer()


@pytest.mark.parametrize(
    ("behaviour", "name", "path"), NEWER, ids=[f"{row[0]} {row[1]}" for row in NEWER]
)
def test_a_trace_of_a_newer_behaviour_is_answered_as_kafka_answers_it(behaviour, name, path):
    answers, groups = golden.by_kind(played(name, behaviour))
    assert (answers, groups) == golden.by_kind(golden.read(path))


MIXED = [*golden.names_in("differences"), *golden.names_in("random-mixed")]


@pytest.mark.parametrize("name", MIXED)
def test_a_trace_of_all_kinds_of_members_is_answered_as_kafka_answers_it(name):
    answers, groups = golden.by_kind(run_trace(golden.trace(name)))
    assert (answers, groups) == golden.by_kind(golden.expected(name))


def test_traces_give_the_same_bytes_played_again_and_in_another_process(tmp_path):
    once, again, paths = [], [], []
    for number, name in enumerate(NAMES[::40]):
        once += [json.dumps(line) for line in run_trace(golden.trace(name))]
        compiled = load_trace(golden.trace(name))
        again += [json.dumps(line) for line in GroupCoordinator().play(compiled).lines()]
        paths.append(tmp_path / f"{number}.trace.jsonl")
        paths[-1].write_text("\n".join(golden.trace(name)), encoding="utf-8")
    assert once == again == played_elsewhere(paths)


@pytest.mark.parametrize("name", NAMES[::5] + golden.names_in("scenarios-4.4")[::5])
def test_every_record_is_of_the_bytes_that_the_table_of_messages_gives(name):
    for event in GroupCoordinator().play(load_trace(golden.trace(name))).events():
        if type(event).__name__ != "Append":
            continue
        key = decode_key(event.key)
        assert encode_key(key) == event.key
        if event.value is not None:
            value = decode_value(key["version"], event.value)
            assert encode_value(key["version"], value) == event.value


def without_restarts(name):
    """Whether a restart is not what the trace is about, or would be seen."""
    return not any(f'"op":"{op}"' in line for line in golden.trace(name)
                   for op in ("append_raw", "hold_commits", "fail_append", "failover"))  # fmt: skip


SCENARIOS = [*golden.names_in("scenarios"), *golden.names_in("scenarios-4.4")]


@pytest.mark.parametrize("name", [name for name in SCENARIOS if without_restarts(name)])
def test_a_restart_at_any_step_loses_nothing_of_a_consumer_group(name):
    header, *events = map(json.loads, golden.trace(name))
    groups = sorted({e["group_id"] for e in events if e.get("group_id")})
    for stop in range(1, len(events) + 1):
        kept = [{**e, "id": e["id"] + 1000} if "id" in e else e for e in events[:stop]]
        at = kept[-1]["at"]
        asked = [{"at": at, "op": "consumer_group_describe", "group_ids": groups}]
        asked += [{"at": at, "op": "offset_fetch", "group_id": group} for group in groups]
        before = [{**each, "id": n} for n, each in enumerate(asked)]
        after = [{**each, "id": 100 + n} for n, each in enumerate(asked)]
        lines = run_trace([header, *kept, *before, {"at": at, "op": "failover"}, *after])
        answers, _ = golden.by_kind(lines)
        for n in range(len(asked)):
            was, now = answers[n], answers[100 + n]
            assert {**was, "id": 0} == {**now, "id": 0}, (stop, events[stop - 1])
