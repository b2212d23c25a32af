"""What one reader of the page has requested, as JSON, and the stream that delivers it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from aiohttp import web

from slackwater.engine.core.errors import UserError
from slackwater.engine.server.overview import SORTS, AnswersState, Overview, ResultFeed

# A result line as the page shows it: short texts, and an identity that its retraction shares.


_TEXT_MAX: Final = 200
_EVENTS_MAX: Final = 6
_FIELDS_MAX: Final = 6


def page_result(line: bytes, unit_ns: int) -> dict[str, Any]:
    """The page's form of a result line whose times are in ``unit_ns``.

    ``key``: equal for an insertion and its retraction; ``at``, ``window`` [s]; ``what`` and
    ``more``: texts for people; ``certainty`` of a match; ``certain``, ``ambiguous`` and
    ``missing`` (numbers of events) of a window, where known.
    """
    result = json.loads(line)
    is_window = "window" in result
    what, more = _window(result) if is_window else _match(result)
    found = {
        "key": _key(result),
        "op": result["op"],
        "query": _cut(str(result.get("query"))),
        "site": _cut(str(result.get("site"))),
        "at": result["at"] * unit_ns / 1e9,
        "what": _cut(what),
        "more": _cut(more),
    }
    if is_window:
        found["window"] = [result["window"][end] * unit_ns / 1e9 for end in ("start", "end")]
    for name in ("certainty", "probability", "certain", "ambiguous", "missing"):
        if result.get(name) is not None:
            found[name] = result[name]
    return found


def _key(result: dict[str, Any]) -> str:
    """Digest of (query, site, window, key), or of the events."""
    identity: list[Any] = [result.get("query"), result.get("site")]
    if "window" in result:
        shifted = result.get("drift")  # R19's flag
        identity += [result["window"], result.get("key"), shifted]
    else:
        for event in result.get("events") or ():
            identity.append([event.get(name) for name in ("stream", "source", "seq", "ts")])
    text = json.dumps(identity, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _match(result: dict[str, Any]) -> tuple[str, str]:
    events = result.get("events") or []
    names = [f"{event.get('type') or 'event'}" for event in events[:_EVENTS_MAX]]
    left = len(events) - len(names) + int(result.get("events_left_out", 0))
    what = " → ".join(names) + (f" and {left} more" if left else "")
    sources = []
    for event in events[:_EVENTS_MAX]:
        attrs = _fields(event.get("attrs") or {})
        sources.append(f"{event.get('source')}{f' ({attrs})' if attrs else ''}")
    value = result.get("value")
    return what, (f"{_fields(value)}; " if isinstance(value, dict) else "") + ", ".join(sources)


def _window(result: dict[str, Any]) -> tuple[str, str]:
    value = result.get("value")
    what = _fields(value) if isinstance(value, dict) else "nothing"
    key = result.get("key")
    return what, _fields(key) if isinstance(key, dict) else ""


def _fields(values: dict[str, Any]) -> str:
    texts = [f"{name} {_plain(value)}" for name, value in list(values.items())[:_FIELDS_MAX]]
    return ", ".join(texts)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


# The request of one reader, and its answer as JSON: one page of the sources, sums, clocks, results.
#
# For any number of sources, an answer has at most ``ROWS`` of them, ``CLOCKS`` plots and
# ``RESULTS`` results, and likewise of failed queries; the total numbers are included.


ROWS: Final = 50
CLOCKS: Final = 6
RESULTS: Final = 100
FIND_MAX: Final = 200
TEXT_MAX: Final = 500
NUMBER_MAX: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Wish:
    """Requested rows, their order, and the number of the last result seen."""

    sort: str = "source"
    descending: bool = False
    find: str = ""
    page: int = 0
    after: int = 0


def wish_of(query: Mapping[str, str]) -> Wish:
    """Parse the query of a URL: ``sort``, ``order`` (asc, desc), ``find``, ``page``, ``after``.

    Raises:
        UserError: an invalid value; names it.
    """
    sort = query.get("sort", "source")
    if sort not in SORTS:
        raise UserError(f"sort: one of {', '.join(SORTS)}")
    order = query.get("order", "asc")
    if order not in ("asc", "desc"):
        raise UserError("order: asc or desc")
    find = query.get("find", "")
    if len(find) > FIND_MAX:
        raise UserError(f"find: {FIND_MAX} characters at most")
    return Wish(
        sort, order == "desc", find, _number(query, "page"), _number(query, "after")
    )  # fmt: skip


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit()) or int(text[:17]) > NUMBER_MAX:
        raise UserError(f"{name}: a whole number from 0 on")
    return int(text)


def state(overview: Overview, feed: ResultFeed, wish: Wish) -> dict[str, Any]:
    """Sums, and the requested rows."""
    overview.refresh()
    order = overview.order(wish.sort, descending=wish.descending, find=wish.find)
    pages = max(math.ceil(len(order) / ROWS), 1)
    page = min(wish.page, pages - 1)
    numbers = order[page * ROWS : (page + 1) * ROWS].tolist()
    return {
        "at": overview.now / 1e9,
        "sums": {**asdict(overview.sums), "inserted": feed.inserted, "retracted": feed.retracted},
        "total": len(overview),
        "matching": len(order),
        "page": page,
        "pages": pages,
        "rows": [asdict(overview.row(number)) for number in numbers],
        "answers": _answers(overview.answers),
        "alarms": _alarms(overview),
        "clocks": [_clock(overview, number) for number in numbers[:CLOCKS]],
    }


def _answers(answers: AnswersState) -> dict[str, Any]:
    return {
        "running": answers.running,
        "failed_total": len(answers.failed),
        "failed": [
            {name: each[name][:TEXT_MAX] for name in ("query", "site", "reason")}
            for each in answers.failed[:ROWS]
        ],
        "sinks": [
            {**sink, "waits": _cut(sink["waits"]), "last_error": _cut(sink["last_error"])}
            for sink in answers.sinks
        ],
    }


def _alarms(overview: Overview) -> dict[str, Any]:
    numbers = overview.alarms().tolist()
    alarm_rows = [overview.row(number) for number in numbers[:ROWS]]
    return {
        "total": len(numbers),
        "shown": [{name: getattr(row, name) for name in ("site", "source", "alarm")}
                  for row in alarm_rows],
    }  # fmt: skip


def _clock(overview: Overview, number: int) -> dict[str, Any]:
    """Points of one source: seconds before now, offset and bound [s]; the last one is now."""
    site, source = overview.figures.keys[number]
    points = [
        [(point.at - overview.now) / 1e9, point.offset / 1e9, point.bound / 1e9]
        for point in overview.clock(number)
    ]
    if points:
        points.append([0.0, points[-1][1], overview.figures.bound_ns(number, overview.now) / 1e9])
    row = overview.row(number)
    return {
        "site": site, "source": source, "status": row.status, "points": points,
        "devices": [asdict(each) for each in row.devices],
    }  # fmt: skip


def results(feed: ResultFeed, after: int) -> dict[str, Any]:
    """Results after number ``after``; ``skipped``: lines dropped before them."""
    unread = feed.since(after, RESULTS)
    return {
        "end": unread.end,
        "skipped": unread.skipped,
        "results": [page_result(line, feed.unit_ns) for line in unread.lines],
    }


# The stream of one open page (server-sent events): its state each second, results as they come.
#
# Per reader only the number of its last result is kept (``Last-Event-ID`` when it reconnects). The
# content is made when it is sent, so a slow reader gets less, not later; a reader that accepts
# nothing for ``SLOW_S`` is disconnected.


STREAMS_MAX: Final = 32
STATE_EVERY_S: Final = 1.0
RESULTS_EVERY_S: Final = 0.25
SLOW_S: Final = 10.0
_LAST_S: Final = 1.0
"""Time for readers to receive the last results when the server stops."""
_UNSENT_MAX: Final = 1 << 16
"""Bytes that a reader may leave unread here, and as many in the kernel, before its stream waits."""


class LiveStreams:
    """All open streams."""

    def __init__(self, overview: Overview, feed: ResultFeed, slow_s: float = SLOW_S) -> None:
        self.dropped = 0
        """Number of readers that were too slow."""
        self._overview = overview
        self._feed = feed
        self._slow_s = slow_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one reader until it leaves, is too slow, or the server stops.

        Raises:
            HTTPBadRequest: the query is invalid.
            HTTPServiceUnavailable: there are already ``STREAMS_MAX`` readers.
        """
        try:
            wish = wish_of(request.query)
            again = request.headers.get("Last-Event-ID")
            if again is not None:
                wish = replace(wish, after=wish_of({"after": again}).after)
        except UserError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= STREAMS_MAX:
            raise web.HTTPServiceUnavailable(
                text=f"{STREAMS_MAX} pages are open\n", headers={"Retry-After": "10"}
            )
        self._tasks.add(task)
        try:
            return await self._stream(request, wish)
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """End all streams; readers that are fast enough get the last results."""
        self._ending.set()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stream(self, request: web.Request, wish: Wish) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        transport = request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=_UNSENT_MAX)
            tcp_socket = transport.get_extra_info("socket")
            tcp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_MAX)
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        read, due = wish.after, loop.time()
        try:
            while True:
                ending = self._ending.is_set()
                if ending or loop.time() >= due:
                    due = loop.time() + STATE_EVERY_S
                    answer = state(self._overview, self._feed, wish)
                    await self._send(response, "state", answer, None)
                if self._feed.end != read:
                    new = results(self._feed, read)
                    read = new["end"]
                    await self._send(response, "results", new, read)
                if ending:
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), RESULTS_EVERY_S)
        except TimeoutError:
            self.dropped += 1
            if transport is not None:
                transport.abort()
        except ConnectionError:
            return response  # the reader left
        return response

    async def _send(
        self, response: web.StreamResponse, event: str, data: dict[str, Any], number: int | None
    ) -> None:
        """Send an event; raises TimeoutError (too slow) or ConnectionError (the reader has
        left).
        """
        head = f"event: {event}\n" + (f"id: {number}\n" if number is not None else "")
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        async with asyncio.timeout(self._slow_s):
            await response.write(f"{head}data: {text}\n\n".encode())
