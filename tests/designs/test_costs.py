"""Each cost by itself, beside a slow model that looks at every millisecond and every message."""

import json
import random
from collections import Counter

import pytest

from coterie.designs import COSTS, DESIGNS, compare, read_scenario, run
from coterie.designs.consumption import OffsetSet
from coterie.designs.coordinator09 import Store
from coterie.designs.coordinator09_simulation import CoordinatorSimulation
from coterie.designs.costs import Accounts
from coterie.designs.ledger import Ledger
from coterie.designs.shipped import path_of
from coterie.designs.timeline import Entry, Timeline
from coterie.testing.cluster_coordinator import CountedCoordinator

SEEDS = range(60)
QUIET = {"produce", "commit", "wait", "settle"}
ENDS = {"close": "closed", "crash": "crashed"}
COUNTED = {"rebalances": 0}


class Life:
    """A random scenario of two groups, and a timeline that fits it, as dicts and entries."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.events, self.entries = [], []
        self.sizes, self.live, self.owned, self.gone = {}, set(), {}, {}
        at = 0
        for _ in range(90):
            at += self.random.choice((0, 0, 1, 1, 2, 5))
            (self.op if self.random.random() < 0.3 else self.entry)(at)
        self.events.append({"at": at + 3, "op": "settle", "point": 1})
        config = {"brokers": [0], "broker": {"delete.topic.enable": "true"}}
        self.scenario = read_scenario({"name": "s", "config": config, "events": self.events})

    def op(self, at):
        topic, name = self.random.choice("tu"), self.random.choice("abcd")
        kind = self.random.choice(["create_topic", "start", "start", "close", "crash", "produce"])
        fields = {"consumer": name}
        if kind == "create_topic":
            kinds = ["delete_topic", "add_partitions"] if topic in self.sizes else [kind]
            kind, fields = self.random.choice(kinds), {"topic": topic}
            added = self.random.randint(1, 3)
            fields |= {} if kind == "delete_topic" else {"replicas": [[0]] * added}
            self.sizes[topic] = self.sizes.get(topic, 0) + added
            if kind == "delete_topic":
                del self.sizes[topic]
        elif kind == "produce":
            if topic not in self.sizes:
                return
            fields = {"topic": topic, "partition": 0, "count": 1}
        elif kind == "start":
            if name in self.live or self.gone.get(name) == at:
                return
            ways = [{"subscription": {"t": 1}}, {"subscription": {"u": 1, "t": 1}}]
            fields |= self.random.choice([*ways, {"whitelist": "u.*"}])
            fields["group"] = self.random.choice(("g", "h"))
            self.live.add(name)
            self.owned[name] = {}
        elif name in self.live:
            self.live.discard(name)
            self.gone[name] = at
            self.entries.append(Entry(at, ENDS[kind], name, ()))
            self.owned[name] = {}
        else:
            return
        self.events.append({"at": at, "op": kind, **fields})

    def entry(self, at):
        if not self.live:
            return
        name = self.random.choice(sorted(self.live))
        owned, place = self.owned[name], (self.random.choice("tu"), self.random.randrange(3))
        offset = owned.get(place)
        if offset is None:
            owned[place] = self.random.randrange(6)
            self.entries.append(Entry(at, "owns", name, place))
            return
        kind = self.random.choice(["gives_up", "consumed", "consumed", "committed"])
        details = place
        if kind == "gives_up":
            del owned[place]
        elif kind == "consumed":
            owned[place] = offset + self.random.randint(1, 5)
            details = (*place, offset, owned[place] - 1)
        else:
            details = (*place, offset)
        self.entries.append(Entry(at, kind, name, details))

    def accounts(self):
        accounts = Accounts(self.scenario)
        for one in self.entries:
            accounts.note(one.at_ms, one.kind, one.consumer, *one.details)
        return accounts.costs(COUNTED)

    # ---- the slow model

    def events_until(self, at):
        return [one for one in self.events if one["at"] <= at]

    def group_at(self, name, at):
        starts = [one for one in self.events_until(at) if one["op"] == "start"]
        return [one["group"] for one in starts if one["consumer"] == name][-1]

    def owners_at(self, at):
        """(group, topic, number) -> consumers, from all events up to a moment."""
        found = set()
        for one in self.entries:
            if one.at_ms <= at:
                held = {key for key in found if key[0] == one.consumer}
                group = self.group_at(one.consumer, one.at_ms)
                if one.kind in ("closed", "crashed"):
                    found -= held
                elif one.kind == "owns":
                    found.add((one.consumer, group, *one.details))
                elif one.kind == "gives_up":
                    found.discard((one.consumer, group, *one.details))
        return Counter(key[1:] for key in found)

    def wanted_at(self, at):
        sizes, wanting = {}, {}
        for one in self.events_until(at):
            if one["op"] in ("create_topic", "add_partitions"):
                sizes[one["topic"]] = sizes.get(one["topic"], 0) + len(one["replicas"])
            elif one["op"] == "delete_topic":
                del sizes[one["topic"]]
            elif one["op"] == "start":
                wanting[one["consumer"]] = one["group"], one.get("subscription", "u")
            elif one["op"] == "close":
                wanting.pop(one["consumer"], None)
        return {
            (group, topic, number)
            for group, topics in wanting.values()
            for topic in topics
            for number in range(sizes.get(topic, 0))
        }

    def ended(self):
        """(index of an entry, consumer, place) for each ownership that ended there."""
        for i, one in enumerate(self.entries):
            if one.kind == "gives_up":
                yield i, one.consumer, one.details
            elif one.kind in ("closed", "crashed"):
                before = [e for e in self.entries[:i] if e.consumer == one.consumer]
                for place in {e.details[:2] for e in before if e.kind == "owns"}:
                    last = [e.kind for e in before if e.details[:2] in (place, ())]
                    last = [kind for kind in last if kind not in ("consumed", "committed")]
                    if last[-1] == "owns":
                        yield i, one.consumer, place


def milliseconds(life):
    return range(life.events[-1]["at"])


@pytest.mark.parametrize("seed", SEEDS)
def test_time_without_an_owner_and_with_several_is_that_of_every_millisecond(seed):
    life = Life(seed)
    unowned = shared = 0
    for at in milliseconds(life):
        owners = life.owners_at(at)
        held = [owners[place] for place in life.wanted_at(at)]
        unowned += held.count(0)
        shared += sum(one > 1 for one in held)
    costs = life.accounts()
    assert (costs["unowned_seconds"], costs["shared_seconds"]) == (unowned / 1000, shared / 1000)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_consumed_twice_is_all_less_the_distinct(seed):
    life = Life(seed)
    consumed = [
        (life.group_at(one.consumer, one.at_ms), *one.details[:2], offset)
        for one in life.entries
        if one.kind == "consumed"
        for offset in range(one.details[2], one.details[3] + 1)
    ]
    assert life.accounts()["repeated"] == len(consumed) - len(set(consumed))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_lost_was_consumed_and_not_committed_when_it_was_given_up(seed):
    life, lost = Life(seed), 0
    for i, consumer, place in life.ended():
        before, group = life.entries[:i], life.group_at(consumer, life.entries[i].at_ms)
        of_place = [
            one
            for one in before
            if one.details[:2] == place and life.group_at(one.consumer, one.at_ms) == group
        ]
        told = [one.details[2:] for one in of_place if one.kind in ("consumed", "committed")]
        kept = [one.details[2] for one in of_place if one.kind == "committed"]
        since = max(
            j
            for j, one in enumerate(of_place)
            if (one.kind, one.consumer, one.details) == ("owns", consumer, place)
        )
        mine = [one for one in of_place[since:] if one.consumer == consumer]
        reached = [one.details[3] + 1 for one in mine if one.kind == "consumed"]
        if reached:
            lost += max(0, reached[-1] - (kept[-1] if kept else told[0][0]))
    assert life.accounts()["lost"] == lost


@pytest.mark.parametrize("seed", SEEDS)
def test_settling_is_the_longest_from_a_change_to_the_last_move_before_the_next(seed):
    life = Life(seed)
    changes = [0, *(one["at"] for one in life.events if one["op"] not in QUIET)]
    moves = [one.at_ms for one in life.entries if one.kind in ("owns", "gives_up")]
    longest = max(at - max(one for one in changes if one <= at) for at in moves)
    assert life.accounts()["settling_seconds"] == longest / 1000


def test_random_lives_show_each_cost():
    found = [Life(seed).accounts() for seed in SEEDS]
    for name in ("unowned_seconds", "shared_seconds", "repeated", "lost", "settling_seconds"):
        assert sum(one[name] > 0 for one in found) > 20, name


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_that_are_added_in_ranges_are_new_once(seed):
    chance, offsets, model = random.Random(seed), OffsetSet(), set()
    for _ in range(40):
        first = chance.randrange(60)
        added = set(range(first, first + chance.randint(1, 9)))
        assert offsets.add(first, max(added) + 1) == len(added - model)
        model |= added


# ---- counts, by what is seen from outside


@pytest.mark.parametrize("name", ["herd", "crash-and-return", "coordinator-dies-3", "topics-grow"])
@pytest.mark.parametrize("design", DESIGNS)
def test_rebalances_are_those_of_the_timeline(name, design):
    ran = run(read_file(name), design)
    kinds = Counter(one.kind for one in ran.timeline)
    assert ran.costs["rebalances"] == kinds["rebalance_began"]
    if design == "zookeeper-0.8":
        assert ran.costs["took_part"] == kinds["rebalance_began"]
        assert ran.costs["watch_events"] == kinds["event"]


def read_file(name):
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def calls_of(monkeypatch, owner, *names):
    """Count calls of methods from now on, whatever they do."""
    calls = Counter()
    for name in names:
        whole = getattr(owner, name)

        def counted(self, *given, whole=whole, name=name, **more):
            calls[name] += 1
            return whole(self, *given, **more)

        monkeypatch.setattr(owner, name, counted)
    return calls


ASKED = {
    "today": ("join_group", "sync_group", "heartbeat", "leave_group"),
    "consumer-protocol": ("consumer_group_heartbeat",),
}


@pytest.mark.parametrize("name", ["join-and-close", "crash-and-return", "coordinator-dies-3"])
@pytest.mark.parametrize("design", ASKED)
def test_requests_of_later_designs_are_the_calls_of_the_coordinator(name, design, monkeypatch):
    calls = calls_of(monkeypatch, CountedCoordinator, *ASKED[design])
    commits = calls_of(monkeypatch, Ledger, "commit")
    requests = run(read_file(name), design).costs["requests"]
    assert requests == sum(calls.values()) + commits["commit"]
    assert min(*(calls[name] for name in ASKED[design][:1]), commits["commit"]) > 0


@pytest.mark.parametrize(("partitions", "messages"), [(1, 0), (1, 3), (5, 4)])
def test_requests_over_zookeeper_are_fetches_and_searches_for_where_to_begin(partitions, messages):
    """Nothing is committed, so of each partition the smallest offset is searched for."""
    given = {"consumer": {"auto.offset.reset": "smallest"}}
    events = [
        {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]] * partitions},
        {"at": 1_000, "op": "start", "consumer": "c", "subscription": {"t": 1}},
        *(
            {"at": 9_000 + i, "op": "produce", "topic": "t", "partition": 0, "count": 2}
            for i in range(messages)
        ),
        {"at": 10_000, "op": "settle", "point": 1},
    ]
    costs = run({"config": given, "events": events}).costs
    assert costs["requests"] == partitions + partitions + messages


def test_requests_of_the_first_coordinator_are_what_is_sent_to_brokers_and_commits(monkeypatch):
    """No consumer is cut off: each commit, and each stop that commits, reaches the coordinator."""
    sent = calls_of(monkeypatch, CoordinatorSimulation, "to_broker", "commit")
    stops, whole = [], CoordinatorSimulation.give
    monkeypatch.setattr(
        CoordinatorSimulation,
        "give",
        lambda self, one, *, commit: stops.append(commit) or whole(self, one, commit=commit),
    )
    ran = run(read_file("join-and-close"), "coordinator-0.9")
    assert all(stops)
    assert ran.costs["requests"] == sum(sent.values()) + len(stops)
    assert min(*sent.values(), len(stops)) > 0


def test_operations_of_the_first_coordinator_are_its_groups_and_the_topics_it_looks_at(monkeypatch):
    groups = calls_of(monkeypatch, Store, "read_group", "write_group")
    looked, whole = [], Store.read_counts
    monkeypatch.setattr(
        Store, "read_counts", lambda self, topics: looked.extend({*topics}) or whole(self, topics)
    )
    costs = run(read_file("topics-grow"), "coordinator-0.9").costs
    assert costs["zookeeper_operations"] == sum(groups.values()) + len(looked)
    grown = [one for one in read_file("topics-grow")["events"] if one["op"] == "add_partitions"]
    assert costs["watch_events"] == len(grown)


@pytest.mark.parametrize(("members", "partitions"), [(1, 1), (1, 5), (2, 6), (3, 12)])
def test_operations_over_zookeeper_are_those_of_the_rules_of_a_rebalance(members, partitions):
    """Each topic is written again as it is: only the rebalance costs."""

    def operations(touched):
        events = [
            {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]] * partitions},
            *(
                {"at": 10_000 * i, "op": "start", "consumer": f"c{i}", "subscription": {"t": 1}}
                for i in range(1, members + 1)
            ),
            *([{"at": 90_000, "op": "touch_topic", "topic": "t"}] if touched else []),
            {"at": 100_000, "op": "settle", "point": 1},
        ]
        settings = {"auto.commit.enable": "false"}
        return run({"config": {"consumer": settings}, "events": events}).costs

    before, after = operations(touched=False), operations(touched=True)
    assert after["rebalances"] - before["rebalances"] == members
    assert after["watch_events"] - before["watch_events"] == members
    owned = partitions // members
    watched_again, brokers, own_node = 2, 1, 2  # whether it is there, its data; before, after
    released, topic, ids, each_id, offsets, claimed = owned, 1, 1, members, owned, owned
    one = watched_again + brokers + own_node + released + topic + ids + each_id + offsets + claimed
    found = after["zookeeper_operations"] - before["zookeeper_operations"]
    assert found == members * one


def test_every_design_names_every_cost_and_those_without_zookeeper_have_none_of_its_costs():
    found = compare(read_file("crash-and-return"), timeline=False).costs
    for design, costs in found.items():
        assert list(costs) == list(COSTS)
        without = {name for name, value in costs.items() if value is None}
        has_zookeeper = design in ("zookeeper-0.8", "coordinator-0.9")
        assert without == (set() if has_zookeeper else {"zookeeper_operations", "watch_events"})


@pytest.mark.parametrize("name", ["stale-views", "coordinator-dies-3"])
def test_a_run_that_keeps_no_timeline_costs_the_same(name):
    whole, none = compare(read_file(name)), compare(read_file(name), timeline=False)
    assert whole.costs == none.costs
    assert all(len(ran.timeline) == 0 for ran in none.runs.values())


def test_a_timeline_gives_back_what_was_added():
    entries = [one for seed in range(5) for one in Life(seed).entries]
    entries += [Entry(9, "rebalance_ended", "a", (True,)), Entry(9, "event", "a", ("children",))]
    copied, again = Timeline(), Timeline()
    for one in entries:
        copied.add(one.at_ms, one.kind, one.consumer, *one.details)
        again.add(one.at_ms, one.kind, one.consumer, *one.details)
    assert list(copied) == entries
    assert copied[2:9] == entries[2:9]
    assert copied[-1] == entries[-1]
    assert copied[-len(copied)] == copied[0] == entries[0]
    assert copied == again
    again.add(10, "event", "a", "children")
    assert copied != again
    for beyond in (len(copied), -len(copied) - 1):
        with pytest.raises(IndexError):
            copied[beyond]
