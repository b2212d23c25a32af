"""Metrics of an agent: the text, and the few lines of HTTP that hand it out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from slackwater.edge_agent.drivers import metrics as metrics_server
from slackwater.edge_agent.drivers.metrics import MetricsServer, metrics_text
from slackwater.edge_agent.listening import Listening

REFERENCE = Path(__file__).parents[2] / "docs/reference/metrics.md"
TOKEN = "a token of the agent"
HOSTILE = 'a"b\\c\nd} 1\n# EOF'
STATUS: dict[str, Any] = {
    "site": HOSTILE, "source": "door", "state": "running", "clock": "synced", "unacked_bytes": 7,
    "next_seq": {"events": 12}, "outlet": {"read": 12, "bad": 1}, "inputs": {HOSTILE: {"read": 3}},
    "outbox": {"events": {"bytes": 100, "unwritten_bytes": 0, "committed": 12}},
    "session": {"acked": 11}, "sync": {"rounds": 2}, "sockets": {"connected": 1},
}  # fmt: skip


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_the_text_is_read_by_prometheus_own_parser() -> None:
    values = {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in families(metrics_text(STATUS)).values()
        for sample in family.samples
    }
    assert values["slackwater_agent_info", (("site", HOSTILE), ("source", "door"))] == 1
    assert values["slackwater_agent_input_total", (("input", HOSTILE), ("what", "read"))] == 3
    assert values["slackwater_agent_outbox_bytes", (("stream", "events"),)] == 100
    assert values["slackwater_agent_next_number", (("stream", "events"),)] == 12
    states = [value for (name, _), value in values.items() if name == "slackwater_agent_state"]
    assert sorted(states) == [*[0] * (len(states) - 1), 1]


def test_every_metric_is_documented_and_no_other() -> None:
    names = {
        f"{name}_total" if family.type == "counter" else name
        for name, family in families(metrics_text(STATUS)).items()
    }
    table = REFERENCE.read_text().split("## Of an agent")[1]
    assert set(re.findall(r"`(slackwater_agent_[a-z_]+)`", table)) == names


@pytest.mark.parametrize(
    "file",
    ["session", "timesync", "drivers/session_driver", "drivers/outlets", "drivers/channel",
     "outbox/spool", "outbox/outbox"],
)  # fmt: skip
def test_everything_that_is_counted_is_explained(file: str) -> None:
    code = (REFERENCE.parents[2] / f"edge_agent/{file}.py").read_text()
    names = set(re.findall(r'counts\["(\w+)"', code))
    for first, second in re.findall(r'counts\["(\w+)" if \w+ else "(\w+)"\]', code):
        names |= {first, second}
    assert names
    table = REFERENCE.read_text().split("The values of `what`")[1]
    assert names <= set(re.findall(r"`(\w+)`", table))


async def said(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def with_server(token: str, work: Callable[[int], Any]) -> None:
    async def run() -> None:
        settings = Listening(listen="127.0.0.1", port=0, token=token)
        server = MetricsServer(settings, lambda: "the text\n")
        port = await server.start()
        try:
            await work(port)
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /metrics?x=1 HTTP/1.0\r\nhost: 127.0.0.1:9752\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: [::1]:9752\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 401),
        (b"GET /metrics HTTP/1.1\r\nHost: [::1\r\n\r\n", 401),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 401),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"\xff\x00\r\n\r\n", 400),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_requests(request_: bytes, code: int) -> None:
    async def work(port: int) -> None:
        answer = await said(port, request_)
        if len(request_) > metrics_server.REQUEST_MAX and not answer:
            return  # the refusal was lost, as the rest of the request came after it
        assert answer.startswith(b"HTTP/1.1 %d " % code)
        assert (b"the text" in answer) == (code == 200 and b"metrics" in request_)

    with_server("", work)


def test_the_token() -> None:
    async def work(port: int) -> None:
        for field, good in (
            (f"Authorization: Bearer {TOKEN}", True),
            (f"authorization:bearer {TOKEN}", True),
            ("Authorization: Bearer wrong", False),
            (f"Authorization: Basic {TOKEN}", False),
            ("Authorization: Bearer \u00ff", False),
            ("X: y", False),
        ):
            request = f"GET /metrics HTTP/1.1\r\nHost: far.example\r\n{field}\r\n\r\n"
            answer = await said(port, request.encode("latin-1"))
            assert (b"the text" in answer) == good

    with_server(TOKEN, work)


def test_who_says_nothing_is_dropped_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_server, "PATIENCE_SECONDS", 0.5)
    health = b"GET /healthz HTTP/1.1\r\n\r\n"

    async def work(port: int) -> None:
        silent = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(metrics_server.CONNECTIONS_MAX)
        ]
        await asyncio.sleep(0.05)
        assert await said(port, health) == b""
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
        assert b"alive" in await said(port, health)

    with_server("", work)


def test_who_is_there_when_the_agent_stops_does_not_keep_it() -> None:
    async def run() -> None:
        settings = Listening(listen="127.0.0.1", port=0, token="")
        server = MetricsServer(settings, str)
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        await asyncio.sleep(0.05)
        await asyncio.wait_for(server.stop(), 2)
        assert await reader.read() == b""
        writer.close()

    asyncio.run(run())
