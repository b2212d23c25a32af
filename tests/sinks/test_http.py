"""The kind ``http`` beside a real server of this machine."""

from __future__ import annotations

import datetime as dt
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent.errors import SettingsError
from slackwater.engine.sinks.base import RefusedError, RetryError, SinkItem
from slackwater.engine.sinks.kinds import HttpReceiver, http_sink
from slackwater.engine.sinks.program import read_sinks
from tests.live.conftest import free_port
from tests.sinks.receivers import Answers, http_server, run_through, table_of

LINE = b'{"op": "+", "v": 1}'


@contextmanager
def opened(settings: dict[str, Any], folder: Path = Path()) -> Iterator[HttpReceiver]:
    sink = http_sink(table_of(settings, str(folder / "site.toml")), "s")
    yield sink
    sink.close()


def items(count: int) -> list[SinkItem]:
    return [SinkItem("q", "00", "main", n, "ab", LINE, json.loads(LINE)) for n in range(count)]


def test_a_batch_is_one_post_of_an_array() -> None:
    with http_server() as server:
        settings = {"url": server.url, "headers": {"X-A": "b"}, "token": "secret"}
        with opened(settings) as sink:
            sink.deliver(items(3))
            sink.deliver(items(3))
            sink.deliver(items(2))
    first, again, other = server.posts
    assert first.path == "/in?to=a"
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["X-A"] == "b"
    assert first.headers["Authorization"] == "Bearer secret"
    assert first.headers["Idempotency-Key"] == again.headers["Idempotency-Key"]
    assert first.headers["Idempotency-Key"] != other.headers["Idempotency-Key"]
    assert first.body == [
        {"key": f"q@00/main/{n}", "id": "ab", "result": {"op": "+", "v": 1}} for n in range(3)
    ]


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_statuses_about_the_results_refuse_them(status: int) -> None:
    with http_server() as server, opened({"url": server.url}) as sink:
        server.statuses = [(status, {})]
        with pytest.raises(RefusedError, match=f"answers {status}: said"):
            sink.deliver(items(1))


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 409, 425, 429, 500, 502, 503])
def test_other_statuses_are_tried_again(status: int) -> None:
    with http_server() as server, opened({"url": server.url}) as sink:
        server.statuses = [(status, {})]
        with pytest.raises(RetryError, match=f"answers {status}: said") as found:
            sink.deliver(items(1))
        assert found.value.after_s == 0
        sink.deliver(items(1))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("7", 7, 7), (" 12 ", 12, 12), ("999999999999", 3600, 3600), ("-3", 0, 0), ("soon", 0, 0),
        ("", 0, 0),
        ("in 90 s", 80, 90),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
    ],
)  # fmt: skip
def test_retry_after_is_kept(text: str, least: float, most: float) -> None:
    if text == "in 90 s":
        in_90_s = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=90)
        text = format_datetime(in_90_s, usegmt=True)
    with http_server() as server, opened({"url": server.url}) as sink:
        server.statuses = [(503, {"Retry-After": text})]
        with pytest.raises(RetryError) as found:
            sink.deliver(items(1))
    assert least <= found.value.after_s <= most


def test_nobody_there_is_tried_again() -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    with pytest.raises(RetryError, match="refused"):
        http_sink(table_of({"url": url}), "s").deliver(items(1))


def test_an_answer_that_does_not_come_is_tried_again() -> None:
    with http_server(delay_s=0.5) as server:
        begun = time.monotonic()
        settings = {"url": server.url, "timeout": "50 ms"}
        with opened(settings) as sink, pytest.raises(RetryError, match="timed out"):
            sink.deliver(items(1))
        assert time.monotonic() - begun < 0.4


def test_a_connection_that_was_closed_while_idle_is_opened_again() -> None:
    with http_server() as server, opened({"url": server.url}) as sink:
        sink.deliver(items(1))
        assert sink._connection is not None
        assert sink._connection.sock is not None
        sink._connection.sock.shutdown(2)
        sink.deliver(items(1))
        assert len(server.taken) == 2


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    stop = threading.Event()

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(503)
            self.send_header("Retry-After", "7")
            self.end_headers()
            with suppress(OSError):  # the sender has closed the connection
                while not stop.wait(0.001):
                    self.wfile.write(b"more" * 4096)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        with opened({"url": url}) as sink, pytest.raises(RetryError, match="503: moremore") as said:
            sink.deliver(items(1))
        assert said.value.after_s == 7
        stop.set()
        server.shutdown()


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    found = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-out", found[0],
         "-keyout", found[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return found


def test_tls_is_verified(tmp_path: Path) -> None:
    certificate_file, key = certificate(tmp_path)
    with http_server() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate_file, key)
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        url = f"https://localhost:{server.port}/"
        tls = {"on": True, "authorities": str(certificate_file)}
        with opened({"url": url, "tls": tls}) as sink:
            sink.deliver(items(2))
        assert len(server.taken) == 2
        with pytest.raises(RetryError, match="certificate verify failed"):
            http_sink(table_of({"url": url}), "s").deliver(items(1))
        other = f"https://127.0.0.1:{server.port}/"
        with pytest.raises(RetryError, match="IP address mismatch"):
            http_sink(table_of({"url": other, "tls": tls}), "s").deliver(items(1))
        assert len(server.taken) == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "url: must be given"),
        ({"url": "ftp://a/"}, 'url: write "http://HOST/..." (http or https)'),
        ({"url": "http:///a"}, "url: write"),
        ({"url": "http://a:99999/"}, "url: Port out of range"),
        ({"url": "http://[::1/"}, "url: Invalid IPv6 URL"),
        ({"url": "http://a/b c\nd"}, "url: write"),
        ({"url": "http://user:pass@a/"}, "url: without user and password"),
        ({"url": "http://a/", "headers": {"A": "b\r\nC: d"}}, "A: must be of printable ASCII"),
        ({"url": "http://a/", "headers": {"": "b"}}, ": is no name of a header"),
        ({"url": "http://a/", "headers": {"A:": "b"}}, "A:: is no name of a header"),
        ({"url": "http://a/", "token": "a\nb"}, "token: must be of printable ASCII"),
        ({"url": "http://a/", "token": "\u00e9"}, "token: must be of printable ASCII"),
        ({"url": "http://a..b/"}, "url: encoding with 'idna' codec failed"),
        ({"url": "http://a/", "timeout": 3}, "timeout: write a duration"),
        ({"url": "http://a/", "token": "a", "token_file": "b"}, "token_file: give a token or"),
        ({"url": "http://a/", "tls": {"on": True}}, "tls: an http address has no TLS"),
        ({"url": "https://a/", "tls": {"on": True, "authorities": "no.pem"}}, "no.pem: No such"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=r"site\.toml") as found:
        http_sink(table_of(settings), "s")
    assert said in str(found.value)
    assert "pass@" not in str(found.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "htp"}, 'kind: "htp" is not known; did you mean "http"?'),
        ({"name": "a/b"}, "name: 'a/b' is part of names of files"),
        ({"queries": ["q2"]}, 'queries: "q2" is not known; did you mean "q1"?'),
        ({"settle": "-1 s"}, "settle: "),
        ({"batch": 0}, "batch: write a whole number from 1"),
        ({"retry": "1 min", "retry_max": "1 s"}, "retry_max: must be at least 1 min"),
    ],
)
def test_mistakes_of_all_kinds_are_named(settings: dict[str, Any], said: str) -> None:
    table = table_of({"kind": "http", "url": "http://a/", **settings})
    with pytest.raises(SettingsError, match=r"site\.toml") as found:
        read_sinks([table], ("q1", "alarms"))
    assert said in str(found.value)


def test_secrets_are_not_printed() -> None:
    table = table_of(
        {"kind": "http", "url": "http://a/", "token": "geheim", "headers": {"A": "geheim"}}
    )
    read_sinks([table], ("q1",))
    table.done()
    assert "geheim" not in table.printed()
    assert table.printed().count("(not shown)") == 2


def test_from_files_over_failures_to_a_server(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.write(*({"n": n} for n in range(50)))
    with http_server() as server:
        server.statuses = [(503, {}), (200, {}), (500, {}), (429, {"Retry-After": "0"})]
        server.refuses = lambda body: 400 if any(e["result"]["n"] == 33 for e in body) else 200
        sink = http_sink(table_of({"url": server.url}), "s")
        forwarder = answers.forwarder(sink, batch=20)
        run_through(forwarder)
        assert [each["result"]["n"] for each in server.taken] == [n for n in range(50) if n != 33]
    dead = (tmp_path / ".sinks" / "s.dead.jsonl").read_text()
    assert '"n": 33' in dead
    assert "answers 400: said" in json.loads(dead)["reason"]
