"""What a watcher serves over HTTP: metrics, pages, questions as JSON, and its health.

Metrics come from the watcher's state, on the thread that takes its steps. Pages and questions are
answered from the files, by a process of their own; a page stays until there is something new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from coterie.base import malloc_trim
from coterie.base.printable import printable_json
from coterie.errors import CoterieError
from coterie.insight.tables import json_lines
from coterie.live import exposition
from coterie.live.watched_files import PAGE, Reading, ReadRequest, Scope
from coterie.live.watcher import LOG, Watcher
from coterie.server.http_messages import Answer, HttpRequest, Refusal, json_answer

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
HTML = "text/html; charset=utf-8"
QUESTIONS = ("audit", "expire", "explain", "growth")
GROUPS_PATH, API_PATH = "/groups/", "/api/"
PAGES_STORED = 4
KNOWN = (
    "there are /metrics, /, /groups/GROUP, /healthz, /api/groups, /api/metrics and "
    f"{', '.join(API_PATH + name for name in QUESTIONS)}, with ?group=GROUP"
)


class Web:
    """Answers the requests to a watcher; pass :meth:`respond` to ``http.serve``.

    Parameters
    ----------
    watcher
        The watcher; only ``steps`` touches it.
    steps
        The thread of its steps.
    keep_ms
        How much time pages and questions cover, up to the newest record.
    now_ms
        Returns the present time.
    reload_s
        A page in a browser loads itself again after so many seconds.
    read
        Answers from the files, one request at a time; None: a :class:`Reading`.
    """

    def __init__(
        self,
        watcher: Watcher,
        steps: ThreadPoolExecutor,
        keep_ms: int,
        now_ms: Callable[[], int],
        reload_s: int,
        read: Callable[[ReadRequest], Awaitable[bytes]] | None = None,
    ) -> None:
        self.watcher, self.steps = watcher, steps
        self.keep_ms, self.now_ms = keep_ms, now_ms
        self.read = read or Reading()
        self.reading = asyncio.Lock()
        self.page_fields = (f"Refresh: {reload_s}",)
        self.latest_pages: dict[str | None, tuple[int, bytes]] = {}
        self.shown: tuple[int, str] | None = None

    async def respond(self, request: HttpRequest) -> Answer:
        """Answer a request, or raise Refusal."""
        try:
            url = urlsplit(request.path)
        except ValueError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "this is no path") from None
        path = unquote(url.path)
        group = group_of(url.query) if path.startswith(API_PATH) else None
        try:
            return await self._answer(path, group)
        except CoterieError as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    async def _answer(self, path: str, group: str | None) -> Answer:
        if path == "/metrics":
            text: str = await self._step(self.metrics)
            return Answer(200, text.encode("utf-8", "replace"), PROMETHEUS)
        if path == "/healthz":
            return self.healthz()  # a probe must not wait for a step that reads a large log
        if path == "/":
            return await self._page(None)
        if path.startswith(GROUPS_PATH) and len(path) > len(GROUPS_PATH):
            return await self._page(path.removeprefix(GROUPS_PATH))
        name = path.removeprefix(API_PATH) if path.startswith(API_PATH) else ""
        if name in ("groups", "metrics"):
            shown: Answer = await self._step(partial(self.rows, name, group))
            return shown
        if name in QUESTIONS:
            scope = await self._scope(group)
            async with self.reading:
                return Answer(200, await self.read(ReadRequest(name, group, scope)))
        raise Refusal(HTTPStatus.NOT_FOUND, KNOWN)

    async def _step(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.steps, trimming(work))

    def metrics(self) -> str:
        watcher, now_ms = self.watcher, self.now_ms()
        if not watcher.is_complete:  # the past, as it is copied, must not look like the present
            health = watcher.health()._replace(newest_ms=-1)
            return "".join(exposition.watch_lines((), health, now_ms))
        answers = list(watcher.answers())
        if self.shown is None or self.shown[0] != watcher.version:
            self.shown = watcher.version, "".join(exposition.log_lines(answers))
        return self.shown[1] + "".join(exposition.watch_lines(answers, watcher.health(), now_ms))

    def healthz(self) -> Answer:
        """Return how far the watcher is; status 503 if its last step failed."""
        health = self.watcher.health()
        ok = not health.failures and health.steps > 0
        age_ms = None if health.newest_ms < 0 else max(self.now_ms() - health.newest_ms, 0)
        value = {"ok": ok, **health._asdict(), "newest_age_ms": age_ms}
        return json_answer(value, 200 if ok else HTTPStatus.SERVICE_UNAVAILABLE)

    def rows(self, name: str, group: str | None) -> Answer:
        """Return the rows of ``coterie metrics``, of groups alone or all, as JSON."""
        rows = [row for answer in self.watcher.answers() for row in answer.rows]
        return json_rows(
            row
            for row in rows
            if (name != "groups" or row["topic"] is None) and group in (None, row["group_id"])
        )

    async def _scope(self, group: str | None) -> Scope:
        """Return what to read for a group, or for all of them."""

        def scope() -> Scope:
            watcher = self.watcher
            if LOG in watcher.failures:
                raise CoterieError(watcher.failures[LOG])
            listing = watcher.listing if group is None else watcher.listing_of(group)
            if listing is None:
                what = f"there is no record of a group {(group or '')[:200]!r}"
                raise Refusal(HTTPStatus.NOT_FOUND, what)
            since_ms = watcher.newest_ms - self.keep_ms
            return Scope(
                listing,
                since_ms if since_ms > 0 else None,
                max(watcher.newest_ms, 0),
                watcher.version,
                dict(watcher.ends.log_starts),
                dict(watcher.ends.last),
            )

        found: Scope = await self._step(scope)
        return found

    async def _page(self, group: str | None) -> Answer:
        scope = await self._scope(group)

        async with self.reading:  # several may wait for the same page
            version, page = self.latest_pages.pop(group, (None, b""))
            if version != scope.version:
                page = await self.read(ReadRequest(PAGE, group, scope))
            self.latest_pages[group] = scope.version, page
            while len(self.latest_pages) > PAGES_STORED:
                self.latest_pages.pop(next(iter(self.latest_pages)))
        return Answer(200, page, HTML, self.page_fields)


def trimming(work: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that does the same, and gives freed memory back."""

    def trimmed() -> Any:
        try:
            return work()
        finally:
            malloc_trim.trim()

    return trimmed


def group_of(query: str) -> str | None:
    """Return the group of a query, None if it names none; refuse other parameters."""
    parameters = parse_qs(query, keep_blank_values=True)
    others = [name for name in parameters if name != "group"]
    if others:
        what = f"unknown parameter {others[0][:200]!r}; there is only group"
        raise Refusal(HTTPStatus.BAD_REQUEST, what)
    groups = parameters.get("group", [])
    if len(groups) > 1:
        raise Refusal(HTTPStatus.BAD_REQUEST, "group is given more than once")
    return next(iter(groups), None)


def json_rows(rows: Any) -> Answer:
    """Return rows as a JSON array; times are epoch ms."""
    return Answer(200, printable_json("".join(json_lines(rows))).encode())
