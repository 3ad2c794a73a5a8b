"""The run as text: events, callbacks, commits, and who owned each partition when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coterie.base.times import clock

if TYPE_CHECKING:
    from coterie.histories.conditions import Conditions
    from coterie.histories.ledger import Ledger, Note, Place, Work

OWNERSHIP = ("assigned", "revoked", "lost", "started", "closed", "crashed", "failed")
SEEKS = {"seek": "seek to", "end": "start at the end:"}
MOST_LINES = 200


def timeline(history: Conditions, ledger: Ledger, items: list[Any]) -> str:
    """Return the timeline of a run; with items, only their partitions are shown."""
    places = list(dict.fromkeys((item.topic, item.partition) for item in items))
    shown = set(places or ledger.ends)
    lines = [*map(repr, items), "", *entries(ledger, shown, items), "", "owners"]
    for topic, partition in sorted(shown):
        spans = ", ".join(
            f"{clock(start_ms)} {'+'.join(sorted(owners)) or 'nobody'}"
            for start_ms, owners in ownership(ledger.notes, (topic, partition))
        )
        lines.append(f"  {topic}-{partition}: {spans}")
    return "\n".join([*lines, "", f"{history!r}"]).lstrip("\n")


def entries(ledger: Ledger, shown: set[Place], items: Iterable[Any] = ()) -> list[str]:
    """Return the lines of the timeline, without the middle of a long one."""
    lines = [
        f"{clock(at_ms):>10}  {member:<10} {text}"
        for at_ms, member, text in rows_of(ledger, shown, items)
    ]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines[half:-half] = [f"            ... {len(lines) - MOST_LINES} lines left out"]
    return lines


def rows_of(
    ledger: Ledger, shown: set[Place], items: Iterable[Any] = ()
) -> list[tuple[int, str, str]]:
    """Return time, member and text of what happened, in the order of time.

    Work and commits between two other events are summed up; a commit that an item names has a row
    of its own, at the time when it was sent.
    """
    named = {(item.passed_ms, item.member) for item in items if hasattr(item, "passed_ms")}
    answered = {id(note.details[0]) for note in ledger.notes if note.kind == "committed"}
    happened: list[tuple[int, int, Any, Place | None]] = []
    for note in ledger.notes:
        if note.kind in SEEKS and note.details[0] not in shown:
            continue
        if note.kind != "commit" or id(note.details) not in answered:
            happened.append((note.at_ms, 1, note, None))
        elif (note.at_ms, note.member) in named and not shown.isdisjoint(note.details):
            happened.append((note.at_ms, 1, note._replace(kind="sent"), None))
    for place in sorted(shown):
        happened += ((work.end_ms, 0, work, place) for work in ledger.works.get(place, ()))
    happened.sort(key=lambda row: row[:2])
    rows: list[tuple[int, str, str]] = []
    sums: dict[str, Sum] = {}

    def add_sums() -> None:
        of_members = [row for member, one in sums.items() for row in one.rows(member)]
        rows.extend(sorted(of_members, key=lambda row: row[0]))
        sums.clear()

    for at_ms, _, what, worked in happened:
        if worked is not None or what.kind in ("commit", "committed"):
            sums.setdefault(what.member, Sum(shown)).add(at_ms, what, worked)
            continue
        add_sums()
        if what.kind == "sent":
            text = f"commit of {offsets_text(what.details, shown)} sent"
        else:
            text = text_of(what)
        rows.append((at_ms, what.member, text))
    add_sums()
    return rows


def offsets_text(offsets: Mapping[Place, Any], shown: set[Place]) -> str:
    """Return the offsets of a commit as text, of the partitions that are shown."""
    return ", ".join(
        f"{topic}-{n} {at.offset}"
        for (topic, n), at in sorted(offsets.items())
        if (topic, n) in shown
    )


class Sum:
    """The work and the commits of a member while nothing else happens."""

    def __init__(self, shown: set[Place]) -> None:
        self.shown = shown
        self.works: dict[Place, list[Work]] = {}
        self.commits: dict[str | None, tuple[int, dict[Place, Any]]] = {}  # by what went wrong

    def add(self, at_ms: int, what: Any, place: Place | None) -> None:
        """Add a work (with its place), or a note of a commit."""
        if place is not None:
            self.works.setdefault(place, []).append(what)
            return
        unanswered = (what.details, "no response") if what.kind == "commit" else what.details
        offsets, failure = unanswered
        if not self.shown.isdisjoint(offsets):
            _, before = self.commits.get(failure, (0, {}))
            self.commits[failure] = at_ms, {**before, **offsets}

    def rows(self, member: str) -> Iterator[tuple[int, str, str]]:
        """Yield the lines, each with the time of the last thing in it."""
        for place, works in sorted(self.works.items()):
            spans = ",".join(map(span, runs([work.offset for work in works])))
            yield works[-1].end_ms, member, f"processed {place[0]}-{place[1]}@{spans}"
        for failure, (at_ms, offsets) in self.commits.items():
            text = offsets_text(offsets, self.shown)
            how = f"committed {text}" if failure is None else f"commit of {text}: {failure}"
            yield at_ms, member, how


def runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers."""
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield numbers[start], numbers[at - 1]
            start = at


def span(run: tuple[int, int]) -> str:
    """Return offsets as text."""
    return f"{run[0]}" if run[0] == run[1] else f"{run[0]}..{run[1]}"


def text_of(note: Note) -> str:
    kind, details = note.kind, note.details
    if kind in ("assigned", "revoked", "lost"):
        return f"on_partitions_{kind}: {names(details)}"
    if kind in SEEKS:
        (topic, partition), offset = details
        return f"{SEEKS[kind]} {topic}-{partition}@{offset}"
    if kind == "failed":
        return f"failed: {type(details).__name__}: {details}"
    if details is None or kind == "join":
        return kind
    return f"{kind}: {details}"


def names(places: Iterable[Place]) -> str:
    """Return partitions as text: the numbers of each topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        by_topic.setdefault(topic, []).append(number)
    return (
        "; ".join(f"{topic} {' '.join(map(str, ns))}" for topic, ns in by_topic.items()) or "none"
    )


def ownership(notes: Iterable[Note], place: Place) -> list[tuple[int, set[str]]]:
    """Return from when on a partition had which owners, as its members believed."""
    owners: set[str] = set()
    spans: list[tuple[int, set[str]]] = [(0, set())]
    for note in notes:
        if note.kind not in OWNERSHIP:
            continue
        if note.kind == "assigned":
            if place not in note.details:
                continue
            owners = owners | {note.member}
        elif note.kind not in ("revoked", "lost") or place in note.details:
            owners = owners - {note.member}
        if owners != spans[-1][1]:
            if spans[-1][0] == note.at_ms:
                spans.pop()
            spans.append((note.at_ms, owners))
    return spans
