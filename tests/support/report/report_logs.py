"""Logs that a report is made from: hostile names, a crash loop, a compacted partition."""

from support.insight.lives import commit, life, member, written
from support.log_writer import batch, commit_key, commit_value, group_key, group_value

HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<!--<script>",
    "]]>\u2028\u2029'\"\\",
    "<img src=x onerror='window.pwned = 1'>",
    "\u202eevil\u0000",
]


def hostile_log(folder):
    """Groups, topics, metadata and members with every name of ``HOSTILE``."""
    place = folder / "__consumer_offsets-0"
    place.mkdir()
    triples = []
    for number, name in enumerate(HOSTILE):
        raw = name.encode()
        triples.append((1_000 + number, group_key(raw), group_value(1, [raw])))
        pair = commit_key(1, raw, raw, 0), commit_value(number, -1, raw, 2_000)
        triples.append((2_000, *pair))
    (place / f"{0:020}.log").write_bytes(batch(0, triples))
    return folder


def crash_loop(folder):
    """Client `c` dies and comes back four times beside `d`; group `calm` has members that stay."""
    stays = member("d-1", clientId="d")
    lives = [life(0, 1, stays)]
    for number in range(4):
        at_ms = 10_000 * number
        lives.append(life(at_ms + 1000, 2 * number + 2, stays, member(f"c-{number}")))
        lives.append(life(at_ms + 6000, 2 * number + 3, stays))
    calm = [
        life(50_000 + at, at + 1, *map(member, "xyz"[: at + 1]), group=b"calm") for at in (0, 1, 2)
    ]
    return written(folder, *lives, *calm)


def compacted(folder):
    """Partition 1 lacks what was before 5 s; after that lie a reset of `g`, and `calm`."""
    place = folder / "__consumer_offsets-1"
    place.mkdir(parents=True)

    def one(at_ms, offset):
        pair = commit_key(1, b"g", b"t", 0), commit_value(offset, -1, b"", at_ms)
        return [(at_ms, *pair)]

    (place / f"{0:020}.log").write_bytes(batch(3, one(1000, 9)))
    last = batch(9, commit(6500, {0: 1}, group=b"calm"))
    (place / f"{7:020}.log").write_bytes(batch(7, one(5000, 11)) + batch(8, one(6000, 2)) + last)
    written(folder, commit(10, {0: 1}, group=b"whole"))
    return folder
