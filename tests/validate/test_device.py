"""Measuring a device: against clocks and ways that are known, and without side effects."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.edge_agent import clock
from slackwater.edge_agent.clock import MachineClock, Now
from slackwater.edge_agent.drivers.agent_file import read_agent
from slackwater.edge_agent.drivers.measure.gateway import NtpServer
from slackwater.edge_agent.drivers.measure.inputs import measured_inputs
from slackwater.edge_agent.drivers.measure.machine import (
    Measuring,
    kind_of,
    measure_setup,
    measured_interfaces,
)
from slackwater.edge_agent.drivers.session_driver import TimeServer
from slackwater.edge_agent.measure import ClockWatch, PathProbe
from slackwater.edge_agent.ntp import ServerClock
from slackwater.engine.apps.validate.device_quality import AgentFacts, setup_of
from slackwater.engine.apps.validate.quality import Setup
from slackwater.engine.cli.app import run
from tests.live.conftest import ENV, SLACKWATER, until
from tests.validate.conftest import MS, Answerer, answering

FACTS = AgentFacts(10, 60 * 10**9, 50_000, True, 1 << 20, ("events",))
QUICK = Measuring(duration_s=0.8, train_s=0.02, server_s=0.2, timeout_s=1.0)


def measured(file: Path, servers: list[TimeServer], measuring: Measuring = QUICK) -> Setup:
    settings = read_agent(file, lambda: clock.read().wall_ns, lambda: "door")
    found = asyncio.run(measure_setup(settings, file.parent, servers, measuring))
    return setup_of(found, FACTS, round(measuring.train_s * 1e9))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offset_ns", "up_ns", "down_ns", "drop"),
    [(3_600 * 10**9, 4 * MS, 4 * MS, 0), (-250 * MS, 9 * MS, 1 * MS, 5)],
)
def test_what_is_measured_holds_the_truth(
    offset_ns: int, up_ns: int, down_ns: int, drop: int, agent_file: Callable[..., Path]
) -> None:
    settings = {"offset_ns": offset_ns, "up_ns": up_ns, "down_ns": down_ns, "drop": drop}
    with answering(**settings) as gateway:
        setup = measured(agent_file(gateway), [])
        asked = gateway.asked
    (source,) = setup.sources
    own, link = source.clock, source.link
    assert own.offset_ns is not None
    assert link is not None
    assert abs(own.offset_ns - offset_ns) <= own.offset_bound_ns
    assert own.delay_ns >= up_ns + down_ns
    # The line's offset is wrong by its bound, so each way is, too.
    assert link.least_ns + link.transit_error_ns >= up_ns
    assert link.trials == asked
    low, high = link.loss_bounds
    assert low <= (1 / drop if drop else 0) <= high


@pytest.mark.slow
def test_a_clock_that_runs_fast_is_seen(agent_file: Callable[..., Path]) -> None:
    with answering(offset_ns=10 * MS) as gateway:
        bent = agent_file(gateway, "[clock]\nahead_ms = 20\nfast_ppm = 5000\n")
        (source,) = measured(bent, []).sources
    own = source.clock
    assert own.skew_ppb is not None
    assert own.skew_bound_ppb is not None
    assert abs(own.skew_ppb + 5_000_000) <= own.skew_bound_ppb + 30_000
    assert own.offset_ns is not None
    # It was bent when measuring began, so it is ahead by 20 ms and what it gained since.
    assert -10 * MS - 100 * MS <= own.offset_ns <= -10 * MS + own.offset_bound_ns


@pytest.mark.slow
def test_time_servers_agree_and_the_false_one_is_named(agent_file: Callable[..., Path]) -> None:
    false = {"offset_ns": 500 * MS}
    silent = {"clock": ServerClock(stratum=16)}
    with (
        answering() as gateway, answering() as first, answering() as second,
        answering(**false) as third, answering(**silent) as fourth,
    ):  # fmt: skip
        names = [TimeServer("127.0.0.1", each.port) for each in (first, second, third, fourth)]
        setup = measured(agent_file(gateway), names)
    agreed = setup.facts["agreement"]
    assert (agreed["count"], agreed["of"]) == (2, 3)
    assert agreed["low_ns"] <= 0 <= agreed["high_ns"]
    assert agreed["false"] == [f"127.0.0.1:{third.port}"]
    said = " ".join(text for text, _ in setup.concerns)
    assert f"127.0.0.1:{fourth.port}" in said
    assert "do not agree" in said
    (_, _, _, refused) = setup.facts["servers"]
    assert set(refused["refused"]) == {"stratum 16"}


def test_ntplib_and_our_own_codec_agree() -> None:
    device = MachineClock()
    with answering(offset_ns=70 * MS, up_ns=2 * MS, down_ns=2 * MS) as server:
        asked = NtpServer(TimeServer("127.0.0.1", server.port), device, 1.0)
        for _ in range(5):
            asked.ask()
    best = min(asked.findings().exchanges, key=lambda each: each.delay_ns)
    assert abs(best.offset_ns - 70 * MS) <= best.bound_ns
    assert best.delay_ns >= 4 * MS - 2_000


def test_overtaken_packets_are_counted_each_way() -> None:
    cookies = iter(range(1, 9))
    probe = PathProbe(lambda: next(cookies), 1)
    server = ServerClock()
    questions = [probe.question(Now(at, at)) for at in range(4)]
    # The third overtakes the second on the way there, the fourth all others on the way back.
    received = [10, 13, 12, 14]
    answers = [server.answer(data, at, at) for data, at in zip(questions, received, strict=True)]
    for came, place in enumerate((3, 0, 2, 1)):
        probe.received(answers[place], Now(30 + came, 30 + came))
    probe.received(answers[0], Now(50, 50))
    assert probe.reordered() == (1, 1)
    assert probe.answers == 4
    assert probe.refused == {"origin": 1}
    assert probe.late(100, 10) == 0


def test_steps_are_seen_and_pauses_are_not() -> None:
    watch = ClockWatch()
    for wall, mono in [(0, 0), (10, 10), (10 + 5 * MS, 20), (20 + 5 * MS, 30)]:
        watch.see(Now(wall, mono))
    watch.see(Now(6 * MS + 10**9, 40 + 10**9), 2 * MS)
    watch.see(Now(6 * MS + 10**9, 10**9))
    assert watch.steps == [(20, 5 * MS - 10)]
    assert watch.backwards == 1


def test_kinds_of_interfaces(tmp_path: Path) -> None:
    facts = {
        "lo": {"type": "772"}, "wlan0": {"type": "1", "phy80211/x": "", "device/x": ""},
        "eth0": {"type": "1", "device/x": ""}, "veth1": {"type": "1"},
        "wwan0": {"type": "65534", "device/x": ""}, "ib0": {"type": "32", "device/x": ""},
    }  # fmt: skip
    for name, files in facts.items():
        for file, text in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
    kinds = {name: kind_of(tmp_path / name) for name in facts}
    assert kinds == {
        "lo": "loopback", "wlan0": "wifi", "eth0": "ethernet", "veth1": "virtual",
        "wwan0": "cellular", "ib0": "other",
    }  # fmt: skip
    assert kind_of(tmp_path / "no sysfs" / "eth0") == "other"
    assert kind_of(tmp_path / "no sysfs" / "lo") == "loopback"
    used = [each for each in measured_interfaces("127.0.0.1") if each.is_used]
    assert [each.kind for each in used] == ["loopback"]


def test_inputs_are_tried(tmp_path: Path) -> None:
    (tmp_path / "there.jsonl").write_text("")
    with answering() as gateway:
        file = tmp_path / "agent.toml"
        file.write_text(
            f"""
[[stream]]
name = "events"
[[input]]
kind = "rfid-llrp"
host = "127.0.0.1"
port = {gateway.tcp_port}
[[input]]
kind = "replay"
file = "there.jsonl"
[[input]]
kind = "exec"
command = ["cat", "/dev/no-such-port"]
[[input]]
kind = "exec"
name = "null"
command = ["cat", "/dev/null"]
[[input]]
kind = "hl7-mllp"
port = 0
[[input]]
kind = "stdin"
"""
        )
        settings = read_agent(file, lambda: 0, lambda: "door")
        found = asyncio.run(measured_inputs(settings, tmp_path, patience_s=0.2))
    assert {each.name: each.is_reachable for each in found} == {
        "rfid-llrp": False, "replay": True, "exec": False, "null": True, "hl7-mllp": True,
        "stdin": None,
    }  # fmt: skip
    assert "does not greet" in found[0].said
    assert "/dev/no-such-port" in found[2].said


@pytest.mark.slow
def test_the_command_has_no_side_effects(
    tmp_path: Path, agent_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    query = "EVENT SEQ(A a, B b) WHERE a.tag = b.tag WITHIN 1 min"
    with answering(offset_ns=40 * MS) as gateway:
        file = agent_file(gateway, '[outbox]\nfolder = "spool"')
        before = sorted(path.name for path in tmp_path.iterdir())
        code = run(["validate", "--config", str(file), "--query", query, "--duration", "600ms",
                    "--json", "--rate", "--quiet"])  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert code == (1 if found["verdict"] == "not fit" else 0)
    (asked,) = found["queries"]
    assert asked["verdict"] == "fit"
    assert found["facts"]["rate"]["events_per_s"] > 0
    assert found["sources"][0]["link"]["lost"] == 0


@pytest.mark.slow
def test_a_gateway_that_is_not_there_is_not_fit(
    agent_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Answerer()
    file = agent_file(gone)
    gone.start()
    gone.stop()
    code = run(["validate", "--config", str(file), "--query", "EVENT SEQ(A a, B b) WITHIN 9 s",
                "--duration", "200ms", "--quiet"])  # fmt: skip
    said = capsys.readouterr().out
    assert code == 1
    assert "NOT FIT" in said
    assert "never synchronised" in said
    assert "cannot be reached" in said


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(agent_file: Callable[..., Path]) -> None:
    with answering(offset_ns=40 * MS) as gateway:
        words = ["validate", "--config", str(agent_file(gateway)), "--duration", "1h", "--json"]
        program = subprocess.Popen(
            [*SLACKWATER, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENV,
        )
        until(lambda: gateway.asked > 40, "questions")
        program.send_signal(signal.SIGINT)
        said, _ = program.communicate(timeout=30)
    found = json.loads(said)
    assert not found["facts"]["is_whole"]
    (source,) = found["sources"]
    assert abs(source["clock"]["offset_ns"] - 40 * MS) <= source["clock"]["offset_bound_ns"]
