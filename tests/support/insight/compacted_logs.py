"""Random logs, whole and after Kafka's cleaner, for tests of compaction."""

from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from support.cleaner import clean
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

GROUPS = (b"a", b"b", b"c")
TOPICS = (b"t", b"u")
FIRST_MS = 1_000_000


def operations(groups=GROUPS, topics=TOPICS, at_least=1):
    """Operations in order: (milliseconds since the one before, what, how)."""
    place = st.tuples(st.sampled_from(groups), st.sampled_from(topics), st.integers(0, 1))
    step = st.sampled_from([0, 1, 7, 400, 30_000])
    return st.lists(
        st.one_of(
            st.tuples(step, st.just("commit"), st.tuples(place, st.integers(0, 3))),
            st.tuples(step, st.just("delete"), place),
            st.tuples(
                step, st.just("write"), st.tuples(st.integers(1, 2), place, st.integers(0, 3))
            ),
            st.tuples(step, st.just("end"), st.tuples(st.integers(1, 2), st.booleans())),
            st.tuples(
                step,
                st.just("join"),
                st.tuples(st.sampled_from(groups), st.sets(st.sampled_from([b"m", b"n", b"o"]))),
            ),
            st.tuples(step, st.just("drop"), st.sampled_from(groups)),
            st.tuples(step, st.just("roll"), st.none()),
            st.tuples(step, st.just("clean"), st.sampled_from([0, 500, 10**9])),
        ),
        min_size=at_least,
        max_size=60,
    )


@dataclass
class Written:
    """A partition as written, and as it is after cleanings."""

    now_ms: int = FIRST_MS
    next_offset: int = 0
    whole: list = field(default_factory=lambda: [(0, b"")])
    left: list = field(default_factory=lambda: [(0, b"")])
    cleaned_to: int = 0
    generations: dict = field(default_factory=dict)
    undecided: dict = field(default_factory=dict)  # producer -> the keys that it has written

    def append(self, data):
        for log in (self.whole, self.left):
            base, before = log[-1]
            log[-1] = (base, before + data)
        self.next_offset += 1

    def roll(self):
        if self.whole[-1][1]:
            self.whole.append((self.next_offset, b""))
            self.left.append((self.next_offset, b""))

    def write_record(self, key, value, producer_id=-1):
        header = {"producer_id": producer_id, "transactional": producer_id >= 0}
        self.append(batch(self.next_offset, [(self.now_ms, key, value)], **header))

    def apply(self, what, how):
        if what == "commit":
            place, offset = how
            self.write_record(commit_key(1, *place), commit_value(offset, -1, b"", self.now_ms))
        elif what == "delete" and not any(how in places for places in self.undecided.values()):
            # If a key has an undecided commit, its state after a load depends on the cleaner: it
            # may treat the commit as superseded, and a later marker cannot restore it.
            self.write_record(commit_key(1, *how), None)
        elif what == "write":
            producer_id, place, offset = how
            self.undecided.setdefault(producer_id, set()).add(place)
            value = commit_value(offset, -1, b"x" * offset, self.now_ms)
            self.write_record(commit_key(1, *place), value, producer_id)
        elif what == "end":
            producer_id, commit = how
            if producer_id in self.undecided:  # Kafka writes a marker only if there are data
                del self.undecided[producer_id]
                self.append(marker(self.next_offset, producer_id, self.now_ms, commit=commit))
        elif what == "join":
            group, members = how
            self.generations[group] = self.generations.get(group, 0) + 1
            self.write_record(
                group_key(group), group_value(self.generations[group], sorted(members))
            )
        elif what == "drop":
            self.generations.pop(how, None)
            self.write_record(group_key(how), None)
        elif what == "roll":
            self.roll()
        elif what == "clean":
            self.left, self.cleaned_to = clean(
                self.left, self.cleaned_to, now_ms=self.now_ms, delete_retention_ms=how
            )


def written(steps):
    """The partition that these operations make."""
    log = Written()
    for passed_ms, what, how in steps:
        log.now_ms += passed_ms
        log.apply(what, how)
    return log


def folders(log, home):
    """Write both logs into folders, as copies of a broker's are."""
    result = []
    for name, segments in (("whole", log.whole), ("left", log.left)):
        folder = Path(home) / name / "__consumer_offsets-0"
        folder.mkdir(parents=True)
        for base, data in segments:
            (folder / f"{base:020d}.log").write_bytes(data)
        result.append(folder.parent)
    return result
