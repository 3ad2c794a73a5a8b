"""Incidents with a broker's clock that is moved: one that goes back, and one that passes hours.

`record_incidents.py` runs them; each docstring is the page beside the recording.
"""

from time import sleep

from recorders.members import now_ms
from recorders.native_members import NativeMember
from recorders.observing import traffic

HOURS = 10
STEP_S, FORWARD_S = 2, 118  # every two seconds of quiet, the clock is set forward


def clock_back(run):
    """The broker's clock goes back by one hour for forty seconds, and then forward again.

    A library that is loaded into the broker's process alone (`wall_clock.c`) moves its wall clock;
    the monotonic clock goes on. The clients and the program that drove the incident have the true
    time, which is that of all times in `truth.json`; `clock` there has from when on the broker's
    clock was how far off.

    - `steady`: two members that commit every two seconds, all the time.
    - `payments`: `pay-1` and `pay-2` from the start; while the clock is back, `pay-3` joins and
      `pay-1` leaves.
    - `within`: a member that starts and is closed while the clock is back.
    - `after`: a member that starts after it.
    """
    run.topics(orders=4)
    run.produce(orders=[50] * 4)
    options = {"commit_s": 2}
    run.more["clock"] = [{"at_ms": now_ms(), "offset_ms": 0}]
    with traffic(run, orders=(4, 4)):
        for n in (1, 2):
            run.start(f"steady-{n}", "steady", ["orders"], **options)
        pay = [run.start(f"pay-{n}", "payments", ["orders"], **options) for n in (1, 2)]
        for member in run.members:
            member.await_("assigned")
        sleep(20)
        set_clock(run, -3600)
        sleep(8)
        run.member("pay-3", "payments", ["orders"], **options)
        within = run.member("within-1", "within", ["orders"], **options)
        sleep(10)
        run.leave(pay[0])
        run.leave(within)
        sleep(max(0, 40 - (now_ms() - run.more["clock"][-1]["at_ms"]) / 1000))
        set_clock(run, 0)
        sleep(8)
        run.member("after-1", "after", ["orders"], **options)
        sleep(12)
    sleep(4)
    run.sample("at the end")
    run.copy("log")


def set_clock(run, seconds):
    run.broker.set_clock(seconds)
    run.more["clock"].append({"at_ms": now_ms(), "offset_ms": 1000 * seconds})
    run.note("clock set", offset_ms=1000 * seconds)


def pass_time(run, steps):
    """Let two minutes of the broker's clock pass in each step, two seconds of the true time."""
    for _ in range(steps):
        sleep(STEP_S)
        ahead_s = run.more["clock"][-1]["offset_ms"] // 1000 + FORWARD_S
        run.broker.set_clock(ahead_s)
        run.more["clock"].append({"at_ms": now_ms(), "offset_ms": 1000 * ahead_s})
    sleep(STEP_S)


def healthy_hours(run):
    """Ten hours in which nothing goes wrong, with the everyday life of some groups.

    While all groups are stable, the broker's wall clock is set forward by 118 s every 2 s (see
    `wall_clock.c`), so that ten hours pass in some twelve minutes; while members come and go, it
    runs as usual.
    Timers (sessions, rebalances) are not affected: brokers time them by the monotonic clock.
    Consumers commit by themselves every 2 s (enable.auto.commit), which the log shows as every two
    minutes. Sessions are 45 s. `clock` in `truth.json` has from when on the broker's clock was how
    far ahead; all other times there are true ones.

    - `orders-app`: three members on `orders` (6 partitions, traffic all the time). Twice one is
      closed in order and started again: a deploy.
    - `audit-trail`: one member on `orders`.
    - `search`: two members on `clicks` (4 partitions, bursts every half hour, else nothing); from
      the fifth to the seventh hour a third.
    - `nightly`: a batch: one member starts every hour, reads what is there, and is closed.
    - `rare`: one member on `rare` (2 partitions), which gets ten records in all.
    - `sticky`: two members on `orders` with cooperative-sticky.
    - `ledger`: one member with an instance id on `orders`, closed in order and started again once,
      within its session.

    There are no findings, and no request log.
    """
    run.topics(orders=6, clicks=4, rare=2)
    run.produce(orders=[40] * 6, clicks=[40] * 4, rare=[2, 3])
    options = {"auto_commit_s": 2, "session_s": 45}
    run.more["clock"] = [{"at_ms": now_ms(), "offset_ms": 0}]
    with traffic(run, orders=(6, 2)):
        app = [run.start(f"app-{n}", "orders-app", ["orders"], **options) for n in (1, 2, 3)]
        run.start("audit-trail-1", "audit-trail", ["orders"], **options)
        for n in (1, 2):
            run.start(f"search-{n}", "search", ["clicks"], **options)
            run.start(f"sticky-{n}", "sticky", ["orders"], assignor="cooperative-sticky", **options)
        run.start("rare-1", "rare", ["rare"], **options)
        static = {"instance": "ledger-a"}
        ledger = run.start("ledger-1", "ledger", ["orders"], **static, **options)
        for member in run.members:
            member.await_("assigned")
        sleep(15)
        third = None
        for half in range(2 * HOURS):
            run.note("half hour", number=half)
            run.produce(clicks=[25, 30, 20, 10])
            nightly = None
            if half % 2 == 0:
                nightly = run.member("nightly-1", "nightly", ["orders"], **options)
            if half in (5, 13):
                run.leave(app[0])
                app.append(run.member(app.pop(0).name, "orders-app", ["orders"], **options))
                sleep(10)
            if half == 8:
                third = run.member("search-3", "search", ["clicks"], **options)
                sleep(8)
            if half == 12:
                run.leave(third)
                run.produce(rare=[2, 3])
                sleep(8)
            if half == 10:
                run.leave(ledger)
                ledger = run.member("ledger-1", "ledger", ["orders"], **static, **options)
                sleep(4)
            pass_time(run, 5)
            if nightly:
                run.leave(nightly)
            pass_time(run, 10)
    run.copy("log", pack=True)


QUIET = {"kind": NativeMember, "clock": True, "request_log": False}
INCIDENTS = {
    "clock-back": (clock_back, {"kind": NativeMember, "clock": True}),
    "healthy-hours": (healthy_hours, QUIET),
    "healthy-hours-4": (healthy_hours, {**QUIET, "version": "4.1.1"}),
}
