"""Calls at times of a virtual clock, and programs that wait for it: declarations."""
from libc.stdint cimport int64_t


cdef class Call:
    cdef int64_t at_ms, number
    cdef object function               # None: it is cancelled
    cdef tuple args

    cdef int run(self) except -1


cdef class Timer(Call):
    cdef Waiter waiter

    cdef int make(self) except -1


cdef class Schedule:
    cdef readonly int64_t now_ms, steps
    cdef readonly object most_steps
    cdef int64_t limit                 # of steps
    cdef int64_t numbers               # of the calls
    cdef list due                      # a heap
    cdef object soon                   # pairs of function and arguments

    cdef int count(self, int64_t steps) except -1
    cdef Call call(self, int64_t at_ms, function, tuple args)
    cdef int add_later(self, ms, Call call) except -1
    cdef int add(self, int64_t at_ms, Call call) except -1
    cdef Call take(self)
    cdef Call first(self)
    cpdef bint step(self, limit_ms=*) except -1
    cdef int run(self, Call call) except -1
    cdef int run_soon(self) except -1


cdef class Future:
    cdef readonly bint done
    cdef readonly object value
    cdef Waiter waiter
    cdef int64_t wait                  # of the waiter

    cpdef set(self, value=*)


cdef class Waiter:
    cdef readonly Schedule schedule
    cdef readonly str name
    cdef public bint alive, paused
    cdef public object _program        # its greenlet
    cdef public object _hub            # the greenlet that runs the clock
    cdef object overdue                # timers that fell due in a pause
    cdef int64_t waits                 # counts waits and their ends
    cdef int64_t calls_ms, calls       # calls of the program at this time

    cdef int begin_call(self) except -1
    cdef bint await_result(self, Future future, timeout_ms) except -1
    cdef Timer end(self, int64_t wait, ms)
    cdef bint run_clock(self, Future future, timeout_ms) except -1
