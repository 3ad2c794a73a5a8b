"""The run as text: events, callbacks, commits, and who owned each partition when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.histories.history import History
    from coterie.histories.ledger import Ledger, Note, Place

__all__ = ["clock", "ownership", "timeline"]

OWNERSHIP = ("assigned", "revoked", "lost", "started", "closed", "crashed", "failed")
MOST_LINES = 200


def clock(at_ms: int) -> str:
    """Return a time as MINUTES:SECONDS."""
    minutes, ms = divmod(at_ms, 60_000)
    return f"{minutes}:{ms // 1000:02}.{ms % 1000:03}"


def timeline(history: History, ledger: Ledger, items: list[Any]) -> str:
    """Return the timeline of a run; with items, only their partitions are shown."""
    places = list(dict.fromkeys((item.topic, item.partition) for item in items))
    shown = set(places or ledger.ends)
    lines = [*map(repr, items), "", *entries(ledger, shown), "", "owners"]
    for topic, partition in sorted(shown):
        spans = ", ".join(
            f"{clock(start_ms)} {'+'.join(sorted(owners)) or 'nobody'}"
            for start_ms, owners in ownership(ledger.notes, (topic, partition))
        )
        lines.append(f"  {topic}-{partition}: {spans}")
    return "\n".join([*lines, "", f"{history!r}"]).lstrip("\n")


def entries(ledger: Ledger, shown: set[Place]) -> list[str]:
    """Return a line for each note, and for what was processed in between, in order."""
    answered = {id(note.details[0]) for note in ledger.notes if note.kind == "committed"}
    rows = []
    for note in ledger.notes:
        if note.kind != "commit" or id(note.details) not in answered:
            text = text_of(note, shown)
            if text is not None:
                rows.append((note.at_ms, 1, note.member, text))
    for place in shown:
        rows += processed(place, ledger)
    rows.sort(key=lambda row: row[:2])
    lines = [f"{clock(at_ms):>10}  {member:<10} {text}" for at_ms, _, member, text in rows]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines[half:-half] = [f"            ... {len(lines) - MOST_LINES} lines left out"]
    return lines


def processed(place: Place, ledger: Ledger) -> Iterator[tuple[int, int, str, str]]:
    """Yield a row for each run of offsets that one member processed between two notes."""
    times = sorted({note.at_ms for note in ledger.notes})
    works = ledger.works.get(place, [])
    at = 0
    while at < len(works):
        last = at
        while last + 1 < len(works) and follows(works[last], works[last + 1], times):
            last += 1
        offsets = f"@{works[at].offset}" + (f"..{works[last].offset}" if last > at else "")
        yield works[last].end_ms, 0, works[at].member, f"processed {place[0]}-{place[1]}{offsets}"
        at = last + 1


def follows(one: Any, two: Any, times: list[int]) -> bool:
    """Whether two works are shown as one: the same member, and no note in between."""
    from bisect import bisect_left

    same = one.member == two.member and two.offset == one.offset + 1
    return same and bisect_left(times, one.end_ms) == bisect_left(times, two.end_ms)


def text_of(note: Note, shown: set[Place]) -> str | None:
    """Return a note as text; None: it does not concern the partitions that are shown."""
    kind, details = note.kind, note.details
    if kind in ("assigned", "revoked", "lost"):
        return f"on_partitions_{kind}: {names(details)}"
    if kind in ("commit", "committed"):
        offsets, failure = (details, "no response") if kind == "commit" else details
        of_shown = {place: at.offset for place, at in offsets.items() if place in shown}
        if not of_shown:
            return None
        text = ", ".join(f"{topic}-{number} {at}" for (topic, number), at in of_shown.items())
        return f"committed {text}" if failure is None else f"commit of {text}: {failure}"
    return kind if details is None else f"{kind}: {details}"


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
