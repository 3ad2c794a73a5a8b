"""What `undo --execute` commits, saves and says of each partition, on a scripted cluster."""

import asyncio
import errno
from types import SimpleNamespace

import pytest

pytest.importorskip("aiokafka")

from coterie.cli.failures import Failed
from coterie.cli.undo_execute import commit_plan
from coterie.live.cluster_errors import ClusterError
from coterie.live.cluster_groups import Committed
from coterie.live.end_offsets import EARLIEST


class Cluster:
    """Groups without members, with what they have committed, and logs of topics.

    ``logs``: the first and the end offset of each partition; ``codes``: of commits.
    """

    def __init__(self, committed, logs, codes=None, failed=None):
        self.committed, self.logs, self.codes = committed, logs, codes
        self.failed, self.made = failed or {}, []
        self.members, self.state = [], "Empty"

    async def describe(self, cluster, group):
        return {"group_id": group, "state": self.state, "members": self.members}

    async def offsets_of(self, cluster, group):
        return {place: {"offset": offset} for place, offset in self.committed[group].items()}

    async def end_offsets(self, cluster, topics, skipped, timestamp=-1):
        for topic in topics:
            if topic in self.failed:
                skipped(topic, ClusterError(self.failed[topic]))
        index = 0 if timestamp == EARLIEST else 1
        return {place: ends[index] for place, ends in self.logs.items() if ends[index] is not None}

    async def commit(self, cluster, group, offsets, before):
        changes = {place: at for place, at in offsets.items() if before.get(place) != at}
        self.made += [(group, changes)] if changes else []
        return Committed(dict.fromkeys(offsets, 0) | (self.codes or {}), {}, {}, {})


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Commit a plan, (group, topic, partition) -> offset; the outcomes and the saved file."""

    def execute(cluster, plan, on_cluster=None, yes=True):
        monkeypatch.setattr(
            "coterie.cli.live_state.on_cluster_again",
            on_cluster or (lambda options, work: asyncio.run(work(cluster, asyncio.Event()))),
        )
        monkeypatch.setattr("coterie.live.cluster_groups.describe", cluster.describe)
        monkeypatch.setattr("coterie.live.cluster_groups.committed", cluster.offsets_of)
        monkeypatch.setattr("coterie.live.cluster_groups.commit", cluster.commit)
        monkeypatch.setattr("coterie.live.end_offsets.end_offsets", cluster.end_offsets)
        rows = [
            {"group_id": group, "topic": topic, "partition": number, "offset": offset,
             "latest_offset": offset, "trusted_from": len(group), "rewound_at": None, "note": None}
            for (group, topic, number), offset in plan.items()
        ]  # fmt: skip
        save = tmp_path / "before.csv"
        options = SimpleNamespace(inputs=(), out=None)
        outcomes = commit_plan(rows, 0, str(save), options, notes=("a note",), yes=yes)
        return outcomes, save.read_text()

    return execute


def outcome(group, topic, number, before, offset, outcome, note=None):
    return {
        "group_id": group,
        "topic": topic,
        "partition": number,
        "offset_before": before,
        "offset": offset,
        "outcome": outcome,
        "note": note,
        "trusted_from": len(group),
    }


def test_an_offset_is_committed_within_its_log_and_only_if_it_differs(executed):
    logs = {("t", number): (10, 20) for number in range(8)} | {("u", 0): (0, 5)}
    before = {("t", 0): 9, ("t", 1): 10, ("t", 2): 7, ("t", 3): 20, ("t", 6): 15, ("x", 0): 1}
    cluster = Cluster({"g": before, "hh": {("t", 7): 2}}, logs)
    plan = {("g", "t", number): offset for number, offset in enumerate((10, 10, 9, 21, 20, 0, 15))}
    plan |= {("g", "u", 0): 6, ("hh", "t", 7): 15}
    outcomes, saved = executed(cluster, plan)
    moved = "{} is not in the partition's log, so it is {}"
    assert outcomes == [
        outcome("g", "t", 0, 9, 10, "committed"),
        outcome("g", "t", 1, 10, 10, "unchanged"),
        outcome("g", "t", 2, 7, 9, "committed", moved.format(9, 10)),
        outcome("g", "t", 3, 20, 21, "unchanged", moved.format(21, 20)),
        outcome("g", "t", 4, None, 20, "committed"),
        outcome("g", "t", 5, None, 0, "committed", moved.format(0, 10)),
        outcome("g", "t", 6, 15, 15, "unchanged"),
        outcome("g", "u", 0, None, 6, "committed", moved.format(6, 5)),
        outcome("hh", "t", 7, 2, 15, "committed"),
    ]
    of_g = {("t", 0): 10, ("t", 2): 10, ("t", 4): 20, ("t", 5): 10, ("u", 0): 5}
    assert cluster.made == [("g", of_g), ("hh", {("t", 7): 15})]
    # What the plan does not touch is not saved.
    assert saved.splitlines() == [
        *("g,t,0,9", "g,t,1,10", "g,t,2,7", "g,t,3,20", "g,t,6,15", "hh,t,7,2"),
    ]


@pytest.mark.parametrize(
    ("offset", "doubt"),
    [
        (4, "below the start of the log: the start is committed, and the records before it are"
            " gone"),
        (5, None),
        (9, None),
        (10, "beyond the end of the log: the end is committed, and the records up to there are"
             " skipped"),
    ],
)  # fmt: skip
def test_an_offset_outside_of_its_log_needs_a_yes(executed, tmp_path, offset, doubt):
    cluster = Cluster({"g": {}}, {("t", 0): (5, 9)})
    if doubt is None:
        executed(cluster, {("g", "t", 0): offset}, yes=False)
        assert cluster.made == [("g", {("t", 0): offset})]
        return
    with pytest.raises(Failed) as refused:
        executed(cluster, {("g", "t", 0): offset}, yes=False)
    says = f"group 'g': the offsets of 1 partition are {doubt}; nothing was committed"
    assert str(refused.value) == f"{says} (--yes commits it)"
    assert (cluster.made, [*tmp_path.iterdir()]) == ([], [])


@pytest.mark.parametrize("lies", [(6, 9), (0, 4)], ids=["start", "end"])
def test_one_answer_of_two_moves_no_offset(executed, lies):
    """Also if the second one leaves the partition out."""
    cluster = Cluster({"g": {}}, {("t", 0): (0, 9), ("t", 1): (0, 9)})
    real, turns = cluster.end_offsets, []

    async def end_offsets(*args):
        turns.append(args)
        cluster.logs["t", 0] = lies if len(turns) <= 2 else (None, None)
        return await real(*args)

    cluster.end_offsets = end_offsets
    outcomes, _ = executed(cluster, {("g", "t", 0): 5, ("g", "t", 1): 5})
    assert [row["outcome"] for row in outcomes] == ["failed", "committed"]
    assert outcomes[0]["note"] == "t-0: there is no such partition, or it has no leader"
    assert cluster.made == [("g", {("t", 1): 5})]


def test_the_file_of_one_group_does_not_name_it_and_nothing_to_commit_is_not_asked(executed):
    cluster = Cluster({"g": {("t", 3): 15}}, {("t", 3): (10, 20)})
    outcomes, saved = executed(cluster, {("g", "t", 3): 15})
    assert outcomes == [outcome("g", "t", 3, 15, 15, "unchanged")]
    assert (saved, cluster.made) == ("t,3,15\n", [])


def test_each_partition_that_fails_has_its_reason(executed):
    logs = {("t", 0): (0, 9), ("t", 1): (0, 9), ("t", 2): (None, 9), ("t", 3): (0, None)}
    logs |= {("t", 4): (0, 9)}
    cluster = Cluster({"g": {}}, logs, codes={("t", 0): 29}, failed={"u": "no topic u"})
    commit = cluster.commit

    async def without_an_answer(*args):
        made = await commit(*args)
        del made.codes["t", 1]
        return made

    cluster.commit = without_an_answer
    plan = {("g", "t", number): 5 for number in range(5)} | {("g", "u", 0): 6}
    outcomes, _ = executed(cluster, plan)
    nowhere = "there is no such partition, or it has no leader"
    assert [(row["topic"], row["partition"], row["outcome"], row["note"]) for row in outcomes] == [
        ("t", 0, "failed", "t-0: no permission: the user needs READ on the topic"),
        ("t", 1, "failed", "the broker does not say whether it was committed"),
        ("t", 2, "failed", f"t-2: {nowhere}"),
        ("t", 3, "failed", f"t-3: {nowhere}"),
        ("t", 4, "committed", None),
        ("u", 0, "failed", "no topic u"),
    ]


def test_a_coordinator_that_refuses_is_the_reason_of_what_was_to_be_committed(executed):
    cluster = Cluster({"g": {("t", 0): 5}}, {("t", 0): (0, 9), ("t", 1): (0, 9)})

    async def refused(*args):
        return Committed({("t", 0): 0}, {}, {}, {("t", 1): "gone"})

    cluster.commit = refused
    outcomes, _ = executed(cluster, {("g", "t", 0): 5, ("g", "t", 1): 6})
    assert [(row["outcome"], row["note"]) for row in outcomes] == [
        ("unchanged", None),
        ("failed", "gone"),
    ]


@pytest.mark.parametrize(
    ("state", "members", "says"),
    [
        ("Stable", [{}], "group 'g' is Stable with 1 member: stop them first"),
        ("Empty", [{}, {}], "group 'g' is Empty with 2 members"),
        ("PreparingRebalance", [], "group 'g' is PreparingRebalance with 0 members"),
    ],
)
def test_a_group_that_is_not_empty_is_refused_before_anything_is_saved(
    executed, tmp_path, state, members, says
):
    cluster = Cluster({"g": {}}, {("t", 0): (0, 9)})
    cluster.state, cluster.members = state, members
    with pytest.raises(Failed, match=says):
        executed(cluster, {("g", "t", 0): 5})
    assert (cluster.made, list(tmp_path.iterdir())) == ([], [])


def test_a_file_that_is_there_is_not_replaced_by_the_offsets_before(executed, tmp_path):
    (tmp_path / "before.csv").write_text("mine")
    cluster = Cluster({"g": {}}, {("t", 0): (0, 9)})
    with pytest.raises(Failed, match="is there already; name another file"):
        executed(cluster, {("g", "t", 0): 5})
    assert (cluster.made, (tmp_path / "before.csv").read_text()) == ([], "mine")


def signalled(cluster, stop):
    """Run work as a command does that a signal ends: it is raised once the work has ended."""

    def on_cluster(options, work):
        asyncio.run(work(cluster, stop))
        raise KeyboardInterrupt

    return on_cluster


def test_what_was_committed_before_a_signal_is_shown_and_the_rest_has_failed(executed):
    cluster = Cluster(
        {"g": {("t", 0): 1}, "hh": {("t", 1): 2}}, {("t", 0): (0, 9), ("t", 1): (0, 9)}
    )
    stop, commit = asyncio.Event(), cluster.commit

    async def with_a_signal(*args):
        stop.set()
        return await commit(*args)

    cluster.commit = with_a_signal
    plan = {("g", "t", 0): 5, ("hh", "t", 1): 6}
    outcomes, saved = executed(cluster, plan, signalled(cluster, stop))
    assert outcomes == [
        outcome("g", "t", 0, 1, 5, "committed"),
        outcome("hh", "t", 1, 2, 6, "failed", "interrupted before it was committed"),
    ]
    assert cluster.made == [("g", {("t", 0): 5})]
    assert saved.splitlines() == ["g,t,0,1", "hh,t,1,2"]


def test_a_signal_while_the_cluster_does_not_answer_leaves_no_file(executed, tmp_path):
    cluster, stop = Cluster({"g": {("t", 0): 1}}, {("t", 0): (0, 9)}), asyncio.Event()

    async def without_an_end(*args):
        stop.set()
        for _ in range(100):
            await asyncio.sleep(0)
        raise AssertionError("the signal did not end it")

    cluster.describe = without_an_end
    with pytest.raises(KeyboardInterrupt):
        executed(cluster, {("g", "t", 0): 5}, signalled(cluster, stop))
    assert cluster.made == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def at_terminal(monkeypatch):
    """Have people answer a question with yes, unless they are asked with another answer."""

    def answer(agree):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr("click.confirm", lambda text, err: agree())

    return answer


GOES_BACK = [
    "a note",
    "group 'g' goes back by 3 offsets in 1 partition: these records will be read again",
    "group 'g' has committed 1 partition since the plan",
]


@pytest.mark.parametrize("agrees", [True, False])
def test_people_agree_at_a_terminal_after_all_warnings(executed, at_terminal, capsys, agrees):
    cluster, printed = Cluster({"g": {("t", 0): 8}}, {("t", 0): (0, 9)}), []

    def agree():
        printed.append(capsys.readouterr().err)
        return agrees

    at_terminal(agree)
    if agrees:
        outcomes, _ = executed(cluster, {("g", "t", 0): 5}, yes=False)
        assert outcomes == [outcome("g", "t", 0, 8, 5, "committed")]
    else:
        with pytest.raises(Failed, match="nothing was committed"):
            executed(cluster, {("g", "t", 0): 5}, yes=False)
    assert printed == ["".join(f"coterie: {line}\n" for line in GOES_BACK)]
    assert "a note" not in capsys.readouterr().err
    assert len(cluster.made) == agrees


@pytest.mark.parametrize(
    ("now", "starts_at"),
    [((9, 9), 0), ((9, 8), 0), ((8, 9), 6)],
    ids=["other warnings", "the same warnings", "the same offsets"],
)
def test_what_people_agreed_to_must_still_be_so(executed, at_terminal, tmp_path, now, starts_at):
    cluster = Cluster({"g": {("t", 0): 8, ("t", 1): 9}}, {("t", 0): (0, 9), ("t", 1): (0, 9)})

    def agree():
        cluster.committed["g"] = {("t", number): offset for number, offset in enumerate(now)}
        cluster.logs["t", 0] = (starts_at, 9)
        return True

    at_terminal(agree)
    with pytest.raises(Failed, match="the offsets have changed meanwhile: look again"):
        executed(cluster, {("g", "t", 0): 5, ("g", "t", 1): 5}, yes=False)
    assert (cluster.made, list(tmp_path.iterdir())) == ([], [])


def test_offsets_that_changed_meanwhile_are_outcomes_if_the_file_cannot_be_written_again(
    executed, monkeypatch, capsys
):
    before = {("t", 0): 1, ("t", 1): 2}
    cluster = Cluster({"g": before}, dict.fromkeys(before, (0, 9)))

    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    async def with_changes(*args):
        monkeypatch.setattr("coterie.cli.undo_execute.whole_file", full)
        return Committed({}, {("t", 0): 6, ("t", 1): None}, {}, {})

    cluster.commit = with_changes
    outcomes, saved = executed(cluster, {("g", "t", 0): 5, ("g", "t", 1): 5})
    stays = "the offset was {} meanwhile, and was not overwritten"
    assert outcomes == [
        outcome("g", "t", 0, 6, 5, "failed", stays.format("set to 6")),
        outcome("g", "t", 1, 2, 5, "failed", stays.format("removed")),
    ]
    assert saved.splitlines() == ["t,0,1", "t,1,2"]
    assert "before.csv lacks what was committed meanwhile: no space" in capsys.readouterr().err
