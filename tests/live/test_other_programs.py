"""Programs of another hand: Mosquitto, standard NTP servers and clients, Prometheus."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from shutil import which
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import ntplib
import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from slackwater.edge_agent import ntp
from slackwater.edge_agent.records import Kind
from slackwater.engine.server.tcp_host import NtpResponder
from tests.live.conftest import Field, free_port, until
from tests.page.test_metrics import DASHBOARD

pytestmark = pytest.mark.slow
MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")

NEEDS_MOSQUITTO = pytest.mark.skipif(
    MOSQUITTO is None, reason="no mosquitto here (Debian: apt-get install mosquitto)"
)


class Broker:
    """A Mosquitto that keeps sessions over restarts, or does not, on a port of its own."""

    def __init__(self, folder: Path, *, persistence: bool = True) -> None:
        self.port = free_port()
        self.file = folder / "mosquitto.conf"
        store = folder / "mosquitto"
        store.mkdir()
        store.chmod(0o777)
        self.file.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
            f"persistence {str(persistence).lower()}\n"
            f"persistence_location {store}/\nautosave_interval 1\n"
            "max_queued_messages 0\nuser root\n"
        )
        self.start()

    def start(self) -> None:
        assert MOSQUITTO is not None
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", self.file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._listens, "mosquitto")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)  # it saves its sessions first, on a disk that may be busy

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def publish(self, topic: str, payloads: list[str], *, retain: bool = False) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.max_queued_messages_set(0)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for each in [client.publish(topic, payload, 1, retain) for payload in payloads]:
            each.wait_for_publish(20)
        client.disconnect()
        client.loop_stop()


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.stop()


@NEEDS_MOSQUITTO
def test_every_message_is_in_the_log_once_though_agent_and_broker_are_killed(
    field: Field, broker: Broker
) -> None:
    random = Random(5)
    name = field.agent_file(
        "ward",
        f'[[input]]\nkind = "mqtt"\nport = {broker.port}\ntopics = ["v"]\nvalue = "v"\n'
        'reconnect = "20 ms"\nreconnect_max = "100 ms"\n',
        '[outbox]\nfolder = "outbox"\n',
    )
    field.site()
    field.serve()
    running = field.agent(name)
    running.says("running")
    time.sleep(0.5)  # it has subscribed
    for part in range(6):
        broker.publish("v", [str(v) for v in range(200 * part, 200 * part + 200)])
        time.sleep(random.random() * 0.2)
        running.end(signal.SIGKILL)
        if part == 3:
            broker.stop()
            broker.start()
        running = field.agent(name)
    until(lambda: len(field.values("ward")) >= 1200, "all messages in the log")
    running.says("running")  # before it, SIGTERM ends it as any program
    assert running.end() == 0
    assert sorted(field.values("ward")) == list(range(1200))


@NEEDS_MOSQUITTO
def test_attack2_01_mqtt_new_session_dup(field: Field, tmp_path: Path) -> None:
    """A broker without persistence starts again and gives a new message of the same content the
    packet id of the one before, marked as sent again: 2 published, 2 recorded.
    """
    broker = Broker(tmp_path, persistence=False)
    name = field.agent_file(
        "ward",
        f'[[input]]\nkind = "mqtt"\nport = {broker.port}\ntopics = ["v"]\nvalue = "v"\n'
        'reconnect = "20 ms"\nreconnect_max = "100 ms"\n',
        '[outbox]\nfolder = "outbox"\n',
    )
    field.change(name, "[agent]", '[agent]\nstatus = "status.json"\nstatus_every = "50 ms"')
    field.site()
    field.serve()

    def counted(what: str) -> int:
        try:
            status = json.loads((field.folder / "status.json").read_text())
        except FileNotFoundError:
            return 0
        return int(status["inputs"]["mqtt"].get(what, 0))

    try:
        running = field.agent(name)
        until(lambda: counted("connected") == 1, "a session")
        time.sleep(0.5)  # it has subscribed
        broker.publish("v", ["98"])
        until(lambda: counted("acknowledged") == 1, "the first message")
        broker.process.kill()
        broker.process.wait(10)
        broker.start()
        until(lambda: counted("connected") == 2, "a session of the broker that began again")
        time.sleep(0.5)
        running.process.send_signal(signal.SIGSTOP)
        broker.publish("v", ["98"])
        running.end(signal.SIGKILL)
        running = field.agent(name)
        until(lambda: len(field.values("ward")) >= 2, "both messages in the log")
        time.sleep(0.5)
        assert running.end() == 0
    finally:
        broker.stop()
    assert field.values("ward") == [98, 98]
    assert counted("repeated") == 0


@NEEDS_MOSQUITTO
@pytest.mark.parametrize("retained", [True, False])
def test_a_reading_that_the_broker_retains_is_in_the_log_once(
    field: Field, broker: Broker, retained: bool
) -> None:
    """Over restarts of agent, broker and gateway, each of which ends a subscription or follows one;
    what comes while the agent is away is queued, and retained, too.
    """
    name = field.agent_file(
        "ward",
        f'[[input]]\nkind = "mqtt"\nport = {broker.port}\ntopics = ["v/#"]\nvalue = "v"\n'
        f'retained = {str(retained).lower()}\nreconnect = "20 ms"\nreconnect_max = "100 ms"\n',
        '[outbox]\nfolder = "outbox"\n',
    )
    field.site()
    gateway = field.serve()
    broker.publish("v/0", ["0"], retain=True)
    running = field.agent(name)
    running.says("running")
    time.sleep(0.5)  # it has subscribed
    wanted = [0] if retained else []
    for part, sign in enumerate([signal.SIGKILL, signal.SIGTERM, signal.SIGKILL], 1):
        broker.publish(f"v/{part}", [str(10 * part)], retain=True)
        time.sleep(0.3)
        running.end(sign)
        broker.publish(f"v/{part}", [str(10 * part + 1)], retain=True)
        wanted.extend([10 * part, 10 * part + 1])
        if part == 2:
            broker.stop()
            broker.start()
        gateway.end(signal.SIGKILL)
        gateway = field.serve()
        running = field.agent(name)
        running.says("running")
        until(lambda: set(wanted) <= set(field.values("ward")), f"all of {wanted}")
    time.sleep(0.5)
    assert running.end() == 0
    assert sorted(field.values("ward")) == wanted


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
        field.change(name, "[gateway]\n", "[gateway]\nntp_port = 9\n")
        field.change(name, 'timeout = "300 ms"', 'timeout = "50 ms"')
        field.site()
        field.serve()
        began = time.monotonic()
        running = field.agent(name)
        assert running.end(None) == 0, running.text
        assert time.monotonic() - began < 30
    finally:
        responder.close()
    until(lambda: len(field.values("door")) == 20, "the events")
    syncs = [row for row in field.rows(Kind.SYNC) if row.get("offset") is not None]
    assert syncs
    for row in syncs:
        assert abs(row["offset"] - HOUR_NS) <= row["delay"] // 2 + row["precision"]
        assert row["delay"] >= 4 * 10**6
        assert row["precision"] >= 10**6


def test_time_is_authenticated_by_the_token_and_plain_clients_are_answered(field: Field) -> None:
    field.site('[tokens]\n"main/door" = "secret"\n')
    field.serve()
    name = field.agent_file("door", '[[input]]\nkind = "stdin"\n', token="secret")
    running = field.fed(name)
    running.says("running")
    assert "clock synced" in running.text
    found = ntplib.NTPClient().request("127.0.0.1", version=4, port=field.port, timeout=10)
    assert abs(found.offset) < 1
    assert (found.stratum, found.leap) == (ntp.STRATUM_LOCAL, 0)
    with socket.socket(type=socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.3)
        asker.sendto(b"no question", ("127.0.0.1", field.port))
        with pytest.raises(TimeoutError):
            asker.recv(100)
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
    reported = re.search(r"System clock wrong by (-?[0-9.]+) seconds", ran.stdout + ran.stderr)
    assert reported, ran.stdout + ran.stderr
    assert abs(float(reported[1])) < 0.01


@contextmanager
def prometheus(folder: Path, target: int, token: str) -> Iterator[int]:
    """Debian's Prometheus, scraping a port of this machine each second; gives its own port."""
    port = free_port()
    (folder / "token").write_text(token)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: slackwater\n"
        f"  authorization: {{credentials_file: {folder}/token}}\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
    )
    process = subprocess.Popen(
        [
            "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.skipif(which("prometheus") is None, reason="no prometheus here (Debian's package)")
def test_a_real_prometheus_scrapes_and_the_dashboard_has_values(field: Field) -> None:
    token, page = "a token of the page", free_port()
    field.site(f'[page]\nport = {page}\ntoken = "{token}"\n')
    field.serve()
    agent = field.agent_file("d", field.replay("a.jsonl", range(2000), pace=1, step_ms=20))
    field.start("agent", "--config", agent)
    with prometheus(field.folder, page, token) as port:

        def ask(expression: str) -> list[Any]:
            url = f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': expression})}"
            try:
                with urlopen(url, timeout=5) as answer:
                    reported = json.load(answer)
            except OSError:
                return []
            assert reported["status"] == "success", reported
            return list(reported["data"]["result"])

        until(lambda: ask("slackwater_source_clock_bound_seconds > 0"), "a scrape")
        until(lambda: ask("rate(slackwater_source_events_recorded_total[1m]) > 0"), "a rate")
        (up,) = ask("slackwater_source_up")
        assert up["metric"]["source"] == "d"
        board = json.loads(DASHBOARD.read_text())
        empty = []
        for panel in board["panels"]:
            for target in panel["targets"]:
                asked = target["expr"].replace("$site", ".*").replace("$source", ".*")
                if not ask(asked):
                    empty.append(asked)
        # Nothing was turned away, so that this family has no series.
        assert empty == ["rate(slackwater_faults_total[5m])"]
