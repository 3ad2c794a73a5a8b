"""Calls at times of a virtual clock, and programs that wait for it. It reads no real clock.

The calls that are due are a heap by time, then by the order of scheduling, so that a run always
takes the same course. A program is something with a method ``switch`` that runs it up to its next
wait, such as a greenlet; what programs are for is not known here.
Cost: O(log n) to schedule a call and to make it; a cancelled one stays until its time.
"""
cimport cython
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport INT64_MAX, int64_t

from collections import deque

from coterie._core.checks cimport int64_of

from coterie.errors import CoterieError

cdef enum:
    MOST = 100_000                     # calls of a program, while no time passes
    LAST = 100                         # of these, which a subclass looks at

BULK = 16  # cheap items, such as offsets of a commit, that cost about as much as one step
MOST_CALLS, LAST_CALLS = MOST, LAST


class TooManySteps(Exception):
    """The cost of a run exceeds its limit; the message says where, and what to change."""


cdef class Call:
    """A call that is due at a time."""

    def cancel(self):
        """Do not make the call; one that was made is ignored."""
        self.function = self.args = None

    cdef int run(self) except -1:
        function, args = self.function, self.args  # the call may cancel itself
        function(*args)
        return 0


cdef class Timer(Call):
    """A call of a process: a paused one makes it later, and a dead one never."""

    cdef int run(self) except -1:
        if self.waiter.paused:
            self.waiter.overdue.append(self)
        elif self.waiter.alive and self.function is not None:
            self.make()
        return 0

    cdef int make(self) except -1:
        function, args = self.function, self.args
        function(*args)
        return 0


@cython.final
cdef class End(Timer):
    """The end of a wait, unless that has ended before."""

    cdef int64_t wait

    cdef int make(self) except -1:
        if self.wait == self.waiter.waits:  # else result and timeout came at the same time
            self.waiter.waits += 1
            self.waiter._program.switch()
        return 0


cdef inline bint before(Call a, Call b) noexcept:
    return a.at_ms < b.at_ms or (a.at_ms == b.at_ms and a.number < b.number)


cdef int64_t later(int64_t now_ms, ms) except? -1:
    """Return a time so long from now, or the last one there is."""
    cdef int overflow = 0
    cdef int64_t span_ms = PyLong_AsLongLongAndOverflow(ms, &overflow)
    if overflow > 0 or (span_ms > 0 and now_ms > INT64_MAX - span_ms):
        return INT64_MAX
    return now_ms + span_ms


cdef class Schedule:
    """Call functions at times of a virtual clock, in ms from 0."""

    def __cinit__(self, most_steps=None):
        self.due, self.soon = [], deque()
        self.most_steps = most_steps
        self.limit = INT64_MAX if most_steps is None else int64_of(most_steps, "most_steps")

    def spend(self, int64_t items):
        """Count work on many items: a step, and one more for each :data:`BULK` of them."""
        self.count(1 + items // BULK)

    cdef int count(self, int64_t steps) except -1:
        self.steps += steps
        if self.steps > self.limit:
            raise TooManySteps(
                f"the run takes more than {self.most_steps} steps; shorten the times between "
                "events, or lengthen intervals and timeouts"
            )
        return 0

    def call_soon(self, function, *args):
        """Call a function now, after everything already scheduled for now."""
        self.count(1)
        self.soon.append((function, args))

    def call_later(self, ms, function, *args):
        """Call a function ``ms`` from now; return the call, which can be cancelled."""
        return self.call(later(self.now_ms, ms), function, args)

    def call_at(self, int64_t at_ms, function, *args):
        """Call a function at a time, or now if it has passed; return the call."""
        return self.call(at_ms, function, args)

    cdef Call call(self, int64_t at_ms, function, tuple args):
        cdef Call call = Call.__new__(Call)
        call.function, call.args = function, args
        self.add(at_ms, call)
        return call

    cdef int add_later(self, ms, Call call) except -1:
        """Make a call so long from now."""
        return self.add(later(self.now_ms, ms), call)

    cdef int add(self, int64_t at_ms, Call call) except -1:
        """Make a call at a time."""
        cdef list due = self.due
        cdef Py_ssize_t at = len(due), parent
        cdef Call other
        self.count(1)
        self.numbers += 1
        call.at_ms, call.number = at_ms, self.numbers
        due.append(call)
        while at > 0:
            parent = (at - 1) >> 1
            other = <Call>due[parent]
            if not before(call, other):
                break
            due[at] = other
            at = parent
        due[at] = call
        return 0

    cdef Call take(self):
        """Remove the first call that is due, of at least one, and return it."""
        cdef list due = self.due
        cdef Call last = <Call>due.pop(), first, child, other
        cdef Py_ssize_t at = 0, low = 1, count = len(due)
        if count == 0:
            return last
        first = <Call>due[0]
        while low < count:
            child = <Call>due[low]
            if low + 1 < count:
                other = <Call>due[low + 1]
                if before(other, child):
                    child = other
                    low += 1
            if before(last, child):
                break
            due[at] = child
            at = low
            low = 2 * at + 1
        due[at] = last
        return first

    cdef Call first(self):
        """Return the first call that is due and not cancelled, if any."""
        cdef Call call
        while self.due:
            call = <Call>self.due[0]
            if call.function is not None:
                return call
            self.take()
        return None

    @property
    def next_ms(self):
        """When something is due next, ms; None: nothing is."""
        if self.soon:
            return self.now_ms
        cdef Call call = self.first()
        return None if call is None else call.at_ms

    def run_until(self, at_ms):
        """Advance to a time: run everything due by then, including what is scheduled on the way."""
        while self.step(at_ms):
            pass

    cpdef bint step(self, limit_ms=None) except -1:
        """Run what is due next, up to the limit; return whether there was anything."""
        cdef int64_t at_ms, limit = later(0, limit_ms) if limit_ms is not None else INT64_MAX
        cdef Call call, after
        cdef list others = None        # what is due at the same time; what runs may add more
        if self.soon:
            self.run_soon()
            return True
        call = self.first()
        if call is None or call.at_ms > limit:
            if limit_ms is not None and limit > self.now_ms:
                self.now_ms = limit
            return False
        at_ms = call.at_ms
        self.take()
        after = self.first()
        while after is not None and after.at_ms == at_ms:
            if others is None:
                others = []
            others.append(self.take())
            after = self.first()
        if at_ms > self.now_ms:
            self.now_ms = at_ms
        self.run(call)
        if others is not None:
            for after in others:
                if after.function is not None:  # not cancelled by one before it
                    self.run(after)
        return True

    cdef int run(self, Call call) except -1:
        call.run()
        if self.soon:
            self.run_soon()
        return 0

    cdef int run_soon(self) except -1:
        while self.soon:
            function, args = self.soon.popleft()
            function(*args)
        return 0


@cython.final
cdef class Future:
    """A result that comes later."""

    cpdef set(self, value=None):
        """Set the result, and resume the process that waits for it; a second call is ignored."""
        cdef Waiter waiter = self.waiter
        if self.done:
            return
        self.done, self.value = True, value
        self.waiter = None
        if waiter is not None:
            waiter.end(self.wait, 0)


cdef class Waiter:
    """What waits in virtual time: a program, or the caller, who runs the clock meanwhile."""

    def __cinit__(self, Schedule schedule not None, str name not None):
        self.schedule, self.name = schedule, name
        self.alive = True
        self.overdue = deque()

    @property
    def now_ms(self):
        """The time of the clock, in ms."""
        return self.schedule.now_ms

    def check_alive(self):
        """Begin a call of the program: raise what ends it if the process is dead."""
        self.begin_call()

    cdef int begin_call(self) except -1:
        if self.calls_ms != self.schedule.now_ms:
            self.calls_ms, self.calls = self.schedule.now_ms, 0
        self.calls += 1
        if not self.alive or self.calls > MOST - LAST:
            self._look_at_call(self.calls)
        return 0

    def call_later(self, ms, function, *args):
        """Call a function ``ms`` from now, unless the process is dead by then."""
        cdef Timer timer = Timer.__new__(Timer)
        timer.waiter, timer.function, timer.args = self, function, args
        self.schedule.add_later(ms, timer)
        return timer

    cdef Timer end(self, int64_t wait, ms):
        """End a wait so long from now."""
        cdef End end = End.__new__(End)
        end.waiter, end.function, end.wait = self, self, wait
        self.schedule.add_later(ms, end)
        return end

    def wait(self, Future future not None, timeout_ms=None):
        """Wait for a result; return whether it has come before a timeout, if any."""
        return self.await_result(future, timeout_ms)

    cdef bint await_result(self, Future future, timeout_ms) except -1:
        cdef Timer end = None
        if future.done:
            return True
        if not self._program:
            return self.run_clock(future, timeout_ms)
        self.waits += 1
        if timeout_ms is not None:
            end = self.end(self.waits, timeout_ms)
        future.waiter, future.wait = self, self.waits
        self._hub.switch()
        future.waiter = None
        if end is not None:
            end.function = None
        return future.done

    def sleep(self, ms):
        """Let time pass."""
        if not self._program:
            self.run_clock(Future.__new__(Future), ms)
            return
        self.waits += 1
        self.end(self.waits, ms)
        self._hub.switch()

    cdef bint run_clock(self, Future future, timeout_ms) except -1:
        cdef object limit_ms = None
        if timeout_ms is not None:
            limit_ms = later(self.schedule.now_ms, timeout_ms)
        while not future.done and self.schedule.step(limit_ms):
            pass
        if not future.done and limit_ms is None:
            raise CoterieError(f"{self!r} waits, and nothing is left to happen")
        return future.done

    def pause(self):
        """Stop the process as a stop-the-world collection does: all its threads."""
        self.paused = True

    def resume(self):
        """Let it go on: what has fallen due is done now."""
        cdef Timer timer
        self.paused = False
        while self.overdue and not self.paused and self.alive:
            timer = self.overdue.popleft()
            timer.run()

    def kill(self):
        """End the process at once, without a goodbye."""
        self.alive = False
        self.overdue.clear()
        program, self._program = self._program, None
        if program:  # it has begun and has not ended
            program.throw()
