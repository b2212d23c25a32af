"""Standard NTP: an agent asks a server where its gateway gives no time; others ask the gateway."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time

import ntplib
import pytest

from edge_agent import ntp
from engine.log.arrival_log import LogReader
from engine.server.ntp_responder import NtpResponder
from tests.live.conftest import Field, free_port, until

pytestmark = pytest.mark.slow

HOUR_NS = 3600 * 10**9


def test_a_standard_server_is_asked_where_the_gateway_gives_no_time(field: Field) -> None:
    clock = ntp.ServerClock(stratum=3, root_delay_ns=4 * 10**6, root_dispersion_ns=10**6)
    responder = NtpResponder(
        "127.0.0.1", 0, lambda data, at, sent: clock.answer(data, at + HOUR_NS, sent + HOUR_NS)
    )
    responder.start()
    try:
        name = field.agent_file(
            "door", field.replay("a.jsonl", range(20)),
            f'[time]\nservers = ["127.0.0.1:{free_port()}", "127.0.0.1:{responder.port}"]\n',
        )  # fmt: skip
        text = (field.folder / name).read_text().replace("[gateway]\n", "[gateway]\nntp_port = 9\n")
        (field.folder / name).write_text(text.replace('timeout = "300 ms"', 'timeout = "50 ms"'))
        field.site()
        field.serve()
        began = time.monotonic()
        running = field.start("agent", "--config", name)
        assert running.end(None) == 0, running.text
        assert time.monotonic() - began < 30
    finally:
        responder.close()
    until(lambda: len(field.values("door")) == 20, "the events")
    syncs = [
        row
        for frame in LogReader(field.folder / "site.log")
        for row in frame.batch.to_pylist()
        if row.get("kind") == 3 and row.get("offset") is not None
    ]
    assert syncs
    for row in syncs:
        assert abs(row["offset"] - HOUR_NS) <= row["delay"] // 2 + row["precision"]
        assert row["delay"] >= 4 * 10**6
        assert row["precision"] >= 10**6


def test_time_is_authenticated_by_the_token_and_plain_clients_are_answered(field: Field) -> None:
    field.site('[tokens]\n"main/door" = "secret"\n')
    field.serve()
    name = field.agent_file("door", '[[input]]\nkind = "stdin"\n', token="secret")
    running = field.start("agent", "--config", name, stdin=subprocess.PIPE)
    running.says("running")
    assert "clock synced" in running.text
    found = ntplib.NTPClient().request("127.0.0.1", version=4, port=field.port, timeout=10)
    assert abs(found.offset) < 1
    assert found.stratum == ntp.STRATUM_LOCAL
    running.end()


def test_chrony_takes_its_time_from_the_gateway(field: Field) -> None:
    """A program of another hand accepts the packets and finds this machine's clock right."""
    chronyd = shutil.which("chronyd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if chronyd is None:
        pytest.skip("no chronyd: install chrony")
    field.site()
    field.serve()
    asked = f"server 127.0.0.1 port {field.port} iburst"
    ran = subprocess.run(
        [chronyd, "-Q", "-t", "30", "-f", os.devnull, asked],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    told = re.search(r"System clock wrong by (-?[0-9.]+) seconds", ran.stdout + ran.stderr)
    assert told, ran.stdout + ran.stderr
    assert abs(float(told[1])) < 0.01


def test_an_agent_with_a_token_believes_no_gateway_without(field: Field) -> None:
    field.site()
    field.serve()
    name = field.agent_file("door", '[[input]]\nkind = "stdin"\n', token="secret")
    text = (field.folder / name).read_text().replace('timeout = "300 ms"', 'timeout = "50 ms"')
    (field.folder / name).write_text(text)
    running = field.start("agent", "--config", name, stdin=subprocess.PIPE)
    running.says("running")
    assert "clock unsynced" in running.text
    running.end()
