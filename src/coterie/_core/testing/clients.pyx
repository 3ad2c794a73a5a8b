"""What simulated clients do often: requests in virtual time, and looks for records.

Two subjects: the network between clients and brokers, with its delays and losses, and the positions
of a consumer in its partitions. No clock but the virtual one.
"""
cimport cython
from libc.stdint cimport int64_t

from coterie._core.structures.schedule cimport Future, Timer, Waiter

from coterie.errors import CoterieError


# ---- network -------------------------------------------------------------------------------------
# The connections of simulated clients: requests under way, and calls that wait for responses.
# A request takes the latency to arrive, and so does its response; both are the same call of the
# schedule. What the faults of a network are, and what a broker does, is not known here.
# Cost: two calls of the schedule for a request, and O(1) besides these.

cdef class Host:
    """The state of a client's connections; it outlives the client's processes."""

    cdef readonly str name
    cdef public object cut_ms, slow_ms
    cdef readonly list faults, stalled, connections

    def __cinit__(self, str name not None):
        self.name, self.slow_ms = name, 0
        self.faults, self.stalled, self.connections = [], [], []

    def take(self, kind, op):
        """Return a fault that strikes now, and count it."""
        for fault in self.faults:
            if fault.kind == kind and (fault.op is None or fault.op == op):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None


@cython.final
cdef class Sent:
    """The result of a request: it comes later."""

    cdef readonly bint done
    cdef readonly object value, failure
    cdef list functions

    def __cinit__(self):
        self.functions = []

    @staticmethod
    def failed(failure):
        """Return one that has failed already."""
        sent = Sent()
        sent.fail(failure)
        return sent

    def then(self, function):
        """Call a function when it is done."""
        if self.done:
            function(self)
        else:
            self.functions.append(function)

    def complete(self, value=None):
        """Succeed."""
        self.value = value
        self.end()

    def fail(self, failure):
        """Fail."""
        self.failure = failure
        self.end()

    cdef int end(self) except -1:
        self.done = True
        for function in self.functions:
            function(self)
        return 0


@cython.final
cdef class ClientRequest(Timer):
    """A request under way: the schedule's call by which it arrives, and then its response."""

    cdef readonly Connection connection  # None: it was never sent
    cdef readonly str op
    cdef readonly object handler, node, response
    cdef readonly tuple values
    cdef readonly dict fields
    cdef readonly bint done
    cdef bint returns                  # the response is under way
    cdef object timeout_ms
    cdef int64_t sent_ms
    cdef Timer timer                   # of its timeout, once it needs one

    cdef int run(self) except -1:
        if self.returns:
            return Timer.run(self)
        return self.connection.arrive(self)  # even if the client has stopped since

    cdef int make(self) except -1:
        return self.connection.deliver(self)


@cython.final
cdef class Loss(Timer):
    """The time when a client learns that a request will have no response."""

    cdef ClientRequest request

    cdef int make(self) except -1:
        return self.request.connection.finish(self.request, None)


cdef class Connection:
    """The connections of one process of a client."""

    cdef readonly object cluster, settings
    cdef readonly Host host
    cdef readonly str client_id
    cdef readonly Waiter process
    cdef public object coordinator
    cdef public bint in_background, in_poll
    cdef int64_t calls                 # those that wait
    cdef list unread                   # pairs of a handler and a response
    cdef Future waiting
    cdef dict requests                 # under way

    def __cinit__(self, cluster, Host host not None, Waiter process not None, settings):
        self.cluster, self.settings, self.process = cluster, settings, process
        self.host, self.client_id = host, host.name
        self.unread, self.requests = [], {}
        host.connections[:] = [one for one in host.connections if one.process.alive]
        host.connections.append(self)

    def close(self):
        """Forget everything under way; brokers may still carry it out."""
        cdef ClientRequest request
        for request in self.requests:
            request.done = True
        self.requests.clear()
        if self in self.host.connections:
            self.host.connections.remove(self)

    @property
    def now_ms(self):
        """The time, in ms."""
        return self.process.schedule.now_ms

    @property
    def perfect(self):
        """Whether nothing can go wrong with a request now."""
        cdef Host host = self.host
        return host.cut_ms is None and not host.slow_ms and not host.faults

    @property
    def sees_ms(self):
        """The time up to which records have reached the client, ms."""
        cut_ms = self.host.cut_ms
        now_ms = self.process.schedule.now_ms if cut_ms is None else cut_ms
        return now_ms - self.delay_ms()

    def note(self, str kind not None, details=None):
        """Tell the cluster's ``on_note`` what the client does."""
        on_note = self.cluster.on_note
        if on_note is not None:
            on_note(self.process.schedule.now_ms, self.client_id, kind, details)

    # Calls that wait

    def wake(self):
        """Let a call that waits look again."""
        if self.waiting is not None:
            self.waiting.set()

    def handle_responses(self):
        """Handle the responses that have come, without waiting: a poll of 0 ms."""
        while self.unread:
            handler, response = self.unread.pop(0)
            handler(response)

    def wait(self, until_ms):
        """Wait until something has happened, or a time has come; handle responses meanwhile."""
        cdef Waiter process = self.process
        cdef Future future
        process.begin_call()
        if self.unread:
            self.handle_responses()
        left_ms = None
        if until_ms is not None:
            left_ms = until_ms - process.schedule.now_ms
            if left_ms <= 0:
                return False
        future = self.waiting = Future.__new__(Future)
        self.calls += 1
        try:
            return process.await_result(future, left_ms)
        finally:
            self.calls -= 1
            self.waiting = None

    def wait_for(self, Sent sent not None, deadline_ms):
        """Wait for a result; return whether it has come in time."""
        self.handle_responses()
        while not sent.done and self.process.schedule.now_ms < deadline_ms:
            self.wait(deadline_ms)
        return sent.done

    # Requests

    def send(self, str op not None, handler, *args, timeout_ms=None, **fields):
        """Send a request to any broker."""
        self.begin(op, handler, None, timeout_ms, args, fields)

    def send_to_coordinator(self, str op not None, handler, *args, timeout_ms=None, **fields):
        """Send a request to the coordinator, which must be known."""
        self.begin(op, handler, self.coordinator, timeout_ms, args, fields)

    def forget_coordinator(self):
        """Forget the coordinator, and give up what is under way there."""
        cdef ClientRequest request
        if self.coordinator is not None:
            self.coordinator = None
            for request in list(self.requests):
                if request.node is not None:
                    self.finish(request, None)

    def resend(self, ClientRequest request not None):
        """Go on with a request that has stalled."""
        self.check(request)
        if request.response is None:
            self.transmit(request)
        else:
            self.respond(request)

    def expect_timeouts(self):
        """Give every request under way a timer: its response may not come."""
        for request in self.requests:
            self.expect_timeout(request)

    def answer(self, ClientRequest request not None, response):
        """Send the response to a request."""
        self.check(request)
        request.response = response
        if request.done:
            return
        if self.host.faults and self.host.take("response", request.op):
            self.lose(request, self.cluster.latency_ms)
        elif self.host.cut_ms is not None:
            self.stall(request)
        else:
            self.respond(request)

    def never(self, ClientRequest request not None):
        """Give a request a timeout: no broker will respond to it."""
        self.check(request)
        self.expect_timeout(request)

    # Inside

    cdef int check(self, ClientRequest request) except -1:
        if request.connection is not self:
            raise CoterieError("the request was sent on another connection")
        return 0

    cdef int begin(self, str op, handler, node, timeout_ms, tuple values, dict fields) except -1:
        cdef ClientRequest request
        if not self.process.alive:
            return 0
        request = ClientRequest.__new__(ClientRequest)
        request.connection, request.waiter, request.function = self, self.process, handler
        request.op, request.handler, request.node = op, handler, node
        request.values, request.fields = values, fields
        request.sent_ms = self.process.schedule.now_ms
        request.timeout_ms = timeout_ms
        if timeout_ms is None:
            request.timeout_ms = self.settings["request.timeout.ms"]
        self.requests[request] = None
        if self.host.faults and self.host.take("request", op):
            self.lose(request, self.cluster.latency_ms)
            return 0
        if self.host.cut_ms is not None:
            return self.stall(request)
        return self.transmit(request)

    cdef object delay_ms(self):
        return self.cluster.latency_ms + self.host.slow_ms

    cdef int transmit(self, ClientRequest request) except -1:
        return self.process.schedule.add_later(self.delay_ms(), request)

    cdef int arrive(self, ClientRequest request) except -1:
        if self.host.cut_ms is not None:
            return self.stall(request)
        if self.host.faults:
            fault = self.host.take("fail", request.op)
            if fault is not None:
                self.answer(request, self.cluster._refusal(request, fault.error))
                return 0
        self.cluster._handle(request)
        return 0

    cdef int respond(self, ClientRequest request) except -1:
        request.returns = True
        return self.process.schedule.add_later(self.delay_ms(), request)

    cdef int deliver(self, ClientRequest request) except -1:
        if self.host.cut_ms is not None and not request.done:
            return self.stall(request)
        return self.finish(request, request.response)

    cdef int stall(self, ClientRequest request) except -1:
        self.host.stalled.append(request)
        return self.expect_timeout(request)

    cdef int expect_timeout(self, ClientRequest request) except -1:
        if request.timer is None:
            left_ms = request.sent_ms + request.timeout_ms - self.process.schedule.now_ms
            request.timer = self.lose(request, max(left_ms, 0))
        return 0

    cdef Loss lose(self, ClientRequest request, ms):
        cdef Loss loss = Loss.__new__(Loss)
        loss.waiter, loss.function, loss.request = self.process, request, request
        self.process.schedule.add_later(ms, loss)
        return loss

    cdef int finish(self, ClientRequest request, response) except -1:
        if request.done:
            return 0
        request.done = True
        self.requests.pop(request, None)
        if request.timer is not None:
            request.timer.cancel()
        if self.calls or self.in_background:
            request.handler(response)
            self.wake()
        else:
            self.unread.append((request.handler, response))
        return 0


# ---- where simulated logs end at a time, and which positions of a consumer are before that -------
# A poll looks at every assigned partition, mostly in vain. The records themselves are made
# elsewhere. Cost: O(1) for a log, O(partitions) for a look at an assignment.

cdef class LogEnds:
    """The offsets of a partition's log: those of a rate, with appended ones between them."""

    cdef readonly str topic
    cdef readonly int64_t partition
    cdef public int64_t log_start_offset
    cdef public object _phase          # first number, its time, interval; None: no rate
    cdef public int64_t _stopped       # records of all past phases
    cdef readonly list _offsets        # of appended records, ascending
    cdef readonly list _appended       # these
    cdef readonly dict _open           # first offset of each open transaction, by producer id

    def __cinit__(self, str topic not None, int64_t partition):
        self.topic, self.partition = topic, partition
        self._offsets, self._appended, self._open = [], [], {}

    def end_offset(self, int64_t at_ms):
        """Return the next offset at a time, which must be now or within the present phase."""
        return self.end_at(at_ms)

    def last_stable_offset(self, int64_t at_ms):
        """Return the end of what ``read_committed`` may read."""
        return self.stable_at(at_ms)

    def next_record_ms(self, int64_t at_ms):
        """Return when the rate gives the next record after a time; None: it gives none."""
        cdef int64_t first_ms, interval_ms
        if self._phase is None:
            return None
        _, first_ms, interval_ms = self._phase
        if at_ms < first_ms:
            return first_ms
        return at_ms + interval_ms - (at_ms - first_ms) % interval_ms

    cdef int64_t end_at(self, int64_t at_ms) except -1:
        cdef int64_t end = self._stopped, first, first_ms, interval_ms
        cdef Py_ssize_t count = len(self._offsets)
        if self._phase is not None:
            first, first_ms, interval_ms = self._phase
            if at_ms >= first_ms:
                end = first + (at_ms - first_ms) // interval_ms + 1
        while count and self._appended[count - 1].timestamp > at_ms:
            count -= 1
        return end + count

    cdef int64_t stable_at(self, int64_t at_ms) except -1:
        cdef int64_t end = self.end_at(at_ms), first
        for first in self._open.values():
            end = min(end, first)
        return end


@cython.final
cdef class PartitionState:
    """Where a consumer is in a partition."""

    cdef public object position, reset, retry_ms
    cdef public bint paused, pending_revocation, pending_assigned

    def __cinit__(self):
        self.retry_ms = 0

    @property
    def valid(self):
        """Whether it has a position."""
        return self.position is not None and self.reset is None

    def seek(self, position):
        """Go on from an offset."""
        self.position, self.reset = position, None

    cdef bint fetchable(self) noexcept:
        return not (
            self.position is None
            or self.reset is not None
            or self.paused
            or self.pending_revocation
            or self.pending_assigned
        )


cdef LogEnds log_of(dict topics, partition):
    """Return the log of a partition; None: it does not exist."""
    topic = topics.get(partition[0])
    if topic is None:
        return None
    cdef list logs = topic.logs
    cdef int64_t number = partition[1]
    return <LogEnds?>logs[number] if number < len(logs) else None


cdef class AssignedPartitions:
    """The partitions of a consumer, in the order in which it reads them."""

    cdef public dict assigned

    def __cinit__(self, *_):
        self.assigned = {}

    @property
    def all_valid(self):
        """Whether each partition has a position."""
        cdef PartitionState state
        for state in self.assigned.values():
            if state.position is None or state.reset is not None:
                return False
        return True

    def positions(self, made=None):
        """Return the positions of all partitions that have one, as they are or made of them."""
        cdef PartitionState state
        cdef dict found = {}
        for partition, state in self.assigned.items():
            if state.position is not None and state.reset is None:
                found[partition] = state.position if made is None else made(state.position)
        return found

    def beyond_positions(self, dict topics not None, int64_t sees_ms, bint committed):
        """Return the fetchable partitions that are not at their ends, in the order of reading."""
        cdef PartitionState state
        cdef LogEnds log
        cdef int64_t end, position
        cdef list found = []
        for partition, state in self.assigned.items():
            if not state.fetchable():
                continue
            log = log_of(topics, partition)
            if log is None:
                found.append((partition, state, None, -1))
                continue
            end = log.stable_at(sees_ms) if committed else log.end_at(sees_ms)
            position = state.position
            if position != end or log.log_start_offset > position:
                found.append((partition, state, log, end))
        return found

    def next_record_ms(self, dict topics not None, int64_t sees_ms):
        """Return when a rate gives the next record of a fetchable partition; None: none does."""
        cdef PartitionState state
        cdef LogEnds log
        next_ms = None
        for partition, state in self.assigned.items():
            log = log_of(topics, partition) if state.fetchable() else None
            if log is not None:
                next_ms = earliest(next_ms, log.next_record_ms(sees_ms))
        return next_ms

    def to_end(self, partition):
        """Read a partition after all others."""
        state = self.assigned.pop(partition, None)
        if state is not None:
            self.assigned[partition] = state


def earliest(*times_ms):
    """Return the earliest time; None: never."""
    found = None
    for at_ms in times_ms:
        if at_ms is not None and (found is None or at_ms < found):
            found = at_ms
    return found
