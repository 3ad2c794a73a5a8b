"""Other timers, each driven as its own callers drive it, on a clock that the benchmark moves.

A peer is a class with ``arm(deadlines)``, ``rearm(order, deadlines)`` and ``advance(now_ms)``,
which gives how many timers fired and the sum of their keys; loops have ``close``, too.
"""

import asyncio
import heapq

from coterie import TimerWheel


class Coterie:
    """The wheel, in bulk: a call for all timers of a step."""

    package = "coterie"

    def __init__(self):
        self.wheel = TimerWheel()

    def arm(self, deadlines):
        self.handles = self.wheel.add_many(deadlines, range_like(deadlines))

    def prepare(self, order):
        self.order, self.ordered = order, self.handles if order is None else self.handles[order]

    def rearm(self, deadlines):
        self.wheel.rearm_many(self.ordered, deadlines)

    def advance(self, now_ms):
        keys = self.wheel.advance(now_ms)
        return len(keys), int(keys.sum())


class CoterieSingly(Coterie):
    """The same wheel, a call for each timer."""

    def arm(self, deadlines):
        add = self.wheel.add
        self.handles = [add(at, key) for key, at in enumerate(deadlines.tolist())]

    def prepare(self, order):
        ordered = self.handles if order is None else [self.handles[i] for i in order.tolist()]
        self.ordered = ordered

    def rearm(self, deadlines):
        rearm = self.wheel.rearm
        for handle, at in zip(self.ordered, deadlines.tolist(), strict=True):
            rearm(handle, at)


class Listed:
    """What the peers below share: deadlines in order of arming, keys in the order of a step."""

    def prepare(self, order):
        self.keys = range(len(self.timers)) if order is None else order.tolist()

    def arm(self, deadlines):
        self.timers = [None] * len(deadlines)
        self.keys = range(len(deadlines))
        self.rearm(deadlines)


class Heap(Listed):
    """heapq with entries that are marked when they are cancelled, the known recipe."""

    package = "heapq"

    def __init__(self):
        self.heap = []

    def rearm(self, deadlines):
        timers, heap, push = self.timers, self.heap, heapq.heappush
        for key, at in zip(self.keys, deadlines.tolist(), strict=True):
            if timers[key] is not None:
                timers[key][1] = -1
            timers[key] = entry = [at, key]
            push(heap, entry)

    def advance(self, now_ms):
        heap, count, total = self.heap, 0, 0
        while heap and heap[0][0] <= now_ms:
            key = heapq.heappop(heap)[1]
            if key >= 0:
                count += 1
                total += key
        return count, total


class Sorted(Listed):
    """sortedcontainers' list of (deadline, key)."""

    package = "sortedcontainers"

    def __init__(self):
        from sortedcontainers import SortedList

        self.list = SortedList()

    def rearm(self, deadlines):
        timers, ordered = self.timers, self.list
        for key, at in zip(self.keys, deadlines.tolist(), strict=True):
            if timers[key] is not None:
                ordered.remove(timers[key])
            timers[key] = entry = (at, key)
            ordered.add(entry)

    def advance(self, now_ms):
        due = self.list[: self.list.bisect_right((now_ms, len(self.timers)))]
        del self.list[: len(due)]
        return len(due), sum(key for _, key in due)


class Asyncio(Listed):
    """asyncio's own loop: call_at and cancel; its clock is set, so nothing waits."""

    package = "asyncio"

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.now = 0.0
        self.loop.time = lambda: self.now
        self.found = [0, 0]

    def fired(self, key):
        self.found[0] += 1
        self.found[1] += key

    def rearm(self, deadlines):
        timers, call_at, fired = self.timers, self.loop.call_at, self.fired
        for key, at in zip(self.keys, deadlines.tolist(), strict=True):
            if timers[key] is not None:
                timers[key].cancel()
            timers[key] = call_at(at / 1000, fired, key)

    def advance(self, now_ms):
        self.now = now_ms / 1000
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self.loop.call_soon(self.loop.stop)  # those that the first pass only made ready
        self.loop.run_forever()
        return tuple(self.found)

    def close(self):
        self.loop.close()


class Uvloop(Listed):
    """uvloop's loop: re-arming only, since its clock cannot be set."""

    package = "uvloop"
    fires = False

    def __init__(self):
        import uvloop

        self.loop = uvloop.new_event_loop()
        self.cancelled = 0

    def rearm(self, deadlines):
        timers, call_later = self.timers, self.loop.call_later
        for key, at in zip(self.keys, deadlines.tolist(), strict=True):
            if timers[key] is not None:
                timers[key].cancel()
            timers[key] = call_later(3600 + at / 1000, int, key)

    def close(self):
        for timer in self.timers:
            timer.cancel()
        self.loop.close()


def range_like(deadlines):
    import numpy as np

    return np.arange(len(deadlines), dtype=np.int64)


PEERS = {
    "coterie": Coterie,
    "coterie, singly": CoterieSingly,
    "heapq": Heap,
    "sortedcontainers": Sorted,
    "asyncio": Asyncio,
    "uvloop": Uvloop,
}
