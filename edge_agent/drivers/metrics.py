"""``/metrics`` and ``/healthz`` of an agent, over a minimal HTTP server."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.listening import Listening, names_this_machine
from slackwater.edge_agent.session import SessionState
from slackwater.edge_agent.timesync import SyncState

# An agent's status in the Prometheus text format 0.0.4: docs/reference/metrics.md.


KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
_SIZES: Final = ("bytes", "unwritten_bytes")
_Sample = tuple[Mapping[str, str], int]
_Family = tuple[str, str, str, Iterable[_Sample]]
"""Name, type, meaning, samples."""


def metrics_text(status: Mapping[str, Any]) -> str:
    """Format ``status`` (from ``status_of``); counters start with the agent."""
    lines: list[str] = []
    for name, kind, meaning, samples in _families(status):
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _families(status: Mapping[str, Any]) -> Iterator[_Family]:
    labels = {"site": status["site"], "source": status["source"]}
    yield "slackwater_agent_info", "gauge", "1; who the agent is.", [(labels, 1)]
    yield (
        "slackwater_agent_state", "gauge", "1 for the state that the session is in.",
        [({"state": each.value}, int(each.value == status["state"])) for each in SessionState],
    )  # fmt: skip
    yield (
        "slackwater_agent_clock_state", "gauge", "1 for the state that time sync is in.",
        [({"state": each.value}, int(each.value == status["clock"])) for each in SyncState],
    )  # fmt: skip
    yield (
        "slackwater_agent_unacked_bytes", "gauge", "Kept in memory for the gateway's ack.",
        [({}, status["unacked_bytes"])],
    )  # fmt: skip
    yield (
        "slackwater_agent_next_number", "gauge", "Number that the next event will get.",
        [({"stream": stream}, number) for stream, number in status["next_seq"].items()],
    )  # fmt: skip
    for size in _SIZES:
        yield (
            f"slackwater_agent_outbox_{size}", "gauge", "Size of a stream's part of the outbox.",
            [({"stream": name}, each[size]) for name, each in status["outbox"].items()],
        )  # fmt: skip
    yield (
        "slackwater_agent_outbox_total", "counter", "What has happened to the outbox.",
        [
            ({"stream": name, "what": what}, count)
            for name, each in status["outbox"].items()
            for what, count in each.items()
            if what not in _SIZES
        ],
    )  # fmt: skip
    yield (
        "slackwater_agent_input_total", "counter", "What each input counts.",
        [
            ({"input": name, "what": what}, count)
            for name, each in status["inputs"].items()
            for what, count in each.items()
        ],
    )  # fmt: skip
    for part, name, meaning in (
        ("outlet", "events", "What has become of the inputs' events."),
        ("session", "session", "What has happened in the session."),
        ("sync", "sync", "What has happened in time sync."),
        ("sockets", "sockets", "What has happened to connections."),
    ):
        counts = sorted(status[part].items())
        yield (
            f"slackwater_agent_{name}_total", "counter", meaning,
            [({"what": what}, count) for what, count in counts],
        )  # fmt: skip


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


# ``/metrics`` and ``/healthz`` of an agent: minimal HTTP, because a device has no web server.
#
# One GET request per connection, few connections at once, and a time limit for each.


PORT: Final = 9752
CONNECTIONS_MAX: Final = 16
REQUEST_MAX: Final = 8192
PATIENCE_SECONDS: Final = 5.0
_WORDS: Final = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Not Allowed",
}  # fmt: skip


class MetricsServer:
    """Answers each request with the current result of ``text``."""

    def __init__(self, settings: Listening, text: Callable[[], str]) -> None:
        self._settings = settings
        self._text = text
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> int:
        """Start answering; return the port.

        Raises:
            SettingsError: the address cannot be bound.
        """
        listen, port = self._settings.listen, self._settings.port
        try:
            self._server = await asyncio.start_server(
                self._connected, listen, port, limit=REQUEST_MAX
            )
        except OSError as error:
            raise SettingsError(f"[metrics] port {port} at {listen}: {error.strerror}") from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop answering and close all connections."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._open)
        for writer in list(self._open.values()):
            writer.transport.abort()  # this ends its task
        await asyncio.gather(*tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            if len(self._open) <= CONNECTIONS_MAX:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()  # too slow, or gone
        except asyncio.LimitOverrunError:
            writer.write(_response(400, "too long\n"))
        finally:
            del self._open[task]
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(400, "not HTTP\n")
        path = words[1].partition("?")[0]
        if words[0] != "GET":
            return _response(405, "GET alone\n", "Allow: GET\r\n")
        if path == "/healthz":
            return _response(200, "alive\n")
        if path != "/metrics":
            return _response(404, "/metrics or /healthz\n")
        if not self._admits(lines[1:]):
            return _response(401, "the token is missing or wrong\n", "WWW-Authenticate: Bearer\r\n")
        return _response(200, self._text())

    def _admits(self, lines: list[str]) -> bool:
        fields = dict[str, str]()
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        token = self._settings.token
        if token:
            kind, _, credentials = fields.get("authorization", "").partition(" ")
            right = hmac.compare_digest(credentials.strip().encode("latin-1"), token.encode())
            return kind.lower() == "bearer" and right
        return names_this_machine(fields.get("host", ""))


def _response(code: int, text: str, more: str = "") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {code} {_WORDS[code]}\r\nContent-Type: {KIND}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
        f"X-Content-Type-Options: nosniff\r\n{more}\r\n"
    )
    return head.encode() + body
