"""A watcher as it runs: what it prints and serves, and how it ends with what makes its log grow."""

import asyncio
from types import SimpleNamespace

import pytest

from coterie.base import malloc_trim
from coterie.base.times import epoch_ms
from coterie.live import watch_running as running
from coterie.live.watch_running import Options
from coterie.server.options import Place
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written
from support.watch.watched import watcher_of

LISTENING = "listening http://127.0.0.1:81"


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Runs a watcher of one commit until ``follow`` returns; returns what is seen of it.

    ``follow`` gets the event that the log is complete, a function that waits for the end of a step
    by its number, and the lines that were printed.
    """
    log, written = GrowingLog(tmp_path / "log"), Written()
    written.apply("commit", ((b"g", b"t", 0), 1))
    log.put(written.left)
    watcher = watcher_of(log, tmp_path / "data")
    result = SimpleNamespace(watcher=watcher, lines=[], heap=[])

    async def serve(place, respond, access, tls):
        result.place, result.web, result.access, result.tls = place, respond.__self__, access, tls
        result.loop = asyncio.get_running_loop()
        return SimpleNamespace(port=place.port + 1, close=lambda: result.lines.append("closed"))

    def run(follow, **options):
        taken = {number: asyncio.Event() for number in range(1, 9)}
        step = watcher.step

        def noticed():
            step()
            result.loop.call_soon_threadsafe(taken[watcher.steps].set)

        async def followed(ended, complete):
            await follow(complete, lambda number: taken[number].wait(), result.lines)

        watcher.step = noticed
        fields = {"tls": None, "login": None, "interval_s": 3_600, "keep_ms": 86_400_000}
        place = Place("HTTP", "127.0.0.1", 80)
        running.watch(watcher, Options(place, **fields | options), followed)
        return result

    run.result = result
    monkeypatch.setattr(running.http, "serve", serve)
    monkeypatch.setattr(running, "say", result.lines.append)
    for name in ("keep_little", "trim"):
        monkeypatch.setattr(malloc_trim, name, lambda name=name: result.heap.append(name))
    return run


async def one_step(complete, step, lines):
    await step(1)


async def until_ready(complete, step, lines):
    await step(1)
    complete.set()  # the next step does not wait for the interval
    while "ready" not in lines:
        await asyncio.sleep(0)


async def two_steps(complete, step, lines):
    await step(1)
    complete.set()
    await step(2)


@pytest.mark.parametrize(
    ("follow", "steps", "printed"),
    [(one_step, 1, []), (until_ready, 2, ["ready"]), (two_steps, 2, [])],
)
def test_a_watcher_is_ready_after_a_step_on_a_complete_log_unless_it_ends(
    watched, follow, steps, printed
):
    result = watched(follow)
    assert result.lines == [LISTENING, *printed, "closed"]
    assert (result.watcher.steps, result.watcher.stopping) == (steps, True)
    assert result.watcher.lock is None  # another one may use its folder
    assert result.heap == ["keep_little", *["trim"] * steps]  # it lives for months


@pytest.mark.parametrize("has_totals", [False, True])
def test_totals_are_shown_once_the_log_is_complete_or_if_they_go_on(watched, has_totals):
    seen = []

    async def follow(complete, step, lines):
        await step(1)
        seen.append(result.watcher.is_complete)
        await until_ready(complete, step, lines)
        seen.append(result.watcher.is_complete)

    result = watched.result
    if has_totals:
        result.watcher.step()  # which stores them
        result.watcher.steps = 0
    watched(follow)
    assert seen == [has_totals, True]


@pytest.mark.parametrize(("interval_s", "reload_s"), [(0.2, 5), (5.4, 5), (5.6, 6), (60, 60)])
def test_pages_load_themselves_again_after_the_interval_in_whole_seconds_but_at_least_5(
    watched, interval_s, reload_s
):
    options = {"keep_ms": 7_200_001, "login": "me:secret", "tls": "a context"}
    result = watched(one_step, interval_s=interval_s, **options)
    assert result.web.page_fields[0] == f"Refresh: {reload_s}"
    assert (result.web.keep_ms, result.web.now_ms) == (7_200_001, epoch_ms)
    assert (result.access.login, result.access.loopback) == ("me:secret", True)
    assert (result.place[1:3], result.tls) == (("127.0.0.1", 80), "a context")
    assert result.lines[0] == LISTENING.replace("http:", "https:")
