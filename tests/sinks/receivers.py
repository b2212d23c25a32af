"""Receivers of tests, and answers as an engine writes them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from slackwater.edge_agent.settings_file import Table
from slackwater.engine.sinks.base import RetryError, SinkItem, SinkSettings
from slackwater.engine.sinks.forwarding import Forwarder

RESULT = {"query": "q1", "site": "main", "at": 5, "known_at": 4, "certainty": "confirmed"}


@dataclass
class KeptReceiver:
    """Keeps what comes; ``answer`` is asked before each delivery, and may raise."""

    items: list[SinkItem] = field(default_factory=list)
    answer: Callable[[Sequence[SinkItem]], None] = lambda items: None
    closed: bool = False

    def deliver(self, items: Sequence[SinkItem]) -> None:
        self.answer(items)
        self.items += items

    def close(self) -> None:
        self.closed = True


@dataclass
class Post:
    """A request that an ``HttpServer`` has had."""

    path: str
    headers: dict[str, str]
    body: Any


class HttpServer:
    """Takes JSON arrays; ``statuses`` are answered first, with their headers, then 200."""

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.posts: list[Post] = []
        self.taken: list[dict[str, Any]] = []
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.refuses: Callable[[list[dict[str, Any]]], int] = lambda items: 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet: an answer in two waits 40 ms for an acknowledgement

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.posts.append(Post(self.path, dict(self.headers), body))
                status, headers = outer.statuses.pop(0) if outer.statuses else (0, {})
                status = status or outer.refuses(body)
                time.sleep(delay_s)
                if status == 200:
                    outer.taken += body
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "5")
                self.end_headers()
                self.wfile.write(b"said\n")

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/in?to=a"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def times(self) -> dict[str, list[str]]:
        """By file of answers, the keys in the order in which they came first."""
        found: dict[str, list[str]] = {}
        for key in dict.fromkeys(item["key"] for item in self.taken):
            found.setdefault(key.rpartition("/")[0], []).append(key)
        return found


@contextmanager
def http_server(**how: Any) -> Iterator[HttpServer]:
    server = HttpServer(**how)
    try:
        yield server
    finally:
        server.close()


class Answers:
    """A folder of answers, as an engine writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def query(self, name: str, text: str = "SELECT count(*) FROM events") -> None:
        """The folder is for its answers."""
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "query.json").write_text(json.dumps({"query": text}))

    def write(self, *results: dict[str, Any], query: str = "q1", site: str = "main") -> None:
        """More lines."""
        if not (self.folder / query / "query.json").exists():
            self.query(query)
        with (self.folder / query / f"{site}.jsonl").open("a") as stream:
            for result in results:
                line = {"op": "+", **RESULT, **result, "query": query, "site": site}
                stream.write(json.dumps(line) + "\n")

    def close(self, query: str = "q1", site: str = "main") -> Path:
        """The open file gets the name of a closed one, as an engine gives it."""
        path = self.folder / query / f"{site}.jsonl"
        before = sorted(path.parent.glob(f"{site}.jsonl.*-*"))
        lines, size = map(int, before[-1].suffix[1:].split("-")) if before else (0, 0)
        content = path.read_bytes()
        lines, size = lines + content.count(b"\n"), size + len(content)
        return path.rename(f"{path}.{lines:012d}-{size:015d}")

    def forwarder(
        self, receiver: Any, folders: Sequence[str] = ("q1",), tell: Any = None,
        clock: Callable[[], float] = time.monotonic, **settings: Any,
    ) -> Forwarder:  # fmt: skip
        one = SinkSettings(name="s", receiver=receiver, retry_s=(0.001, 0.01), **settings)
        return Forwarder(one, self.folder, folders, tell or print, clock)


def run_through(forwarder: Forwarder) -> None:
    """Delivers what is there."""
    forwarder.run(_Soon())


class _Soon(threading.Event):
    """Is set once there is nothing to deliver; waits for another attempt are none."""

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return False

    def is_set(self) -> bool:
        return True


def flaky(seed: int, share: float = 0.5) -> Callable[[Sequence[SinkItem]], None]:
    """Fails that often."""
    random = Random(seed)

    def answer(_: Sequence[SinkItem]) -> None:
        if random.random() < share:
            raise RetryError("not now")

    return answer


def table_of(values: dict[str, Any], file: str = "site.toml") -> Table:
    return Table(values, file, "sink")
