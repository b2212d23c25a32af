"""A host that chrony keeps: its own bound, from recorded answers of ``chronyc -c tracking``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slackwater.edge_agent import ntp
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.drivers.session_driver import Address, GatewayAddress, SessionDriver
from slackwater.edge_agent.errors import NtpRefused
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.session import AgentSession
from slackwater.edge_agent.settings import SessionSettings
from slackwater.edge_agent.timesync import CHRONY, SyncReport, SyncSettings, SyncState, TimeSync

S = 10**9
RECORDED = (
    b"A29FC87B,162.159.200.123,4,1764297482.123456789,-0.000243150,-0.000168000,0.000301000,"
    b"-12.345,0.004,0.073,0.013243500,0.001170200,1032.4,Normal\n"
)
"""Of chrony 4.5."""
BOUND = 243_150 + 1_170_200 + 13_243_500 // 2
OFF = b"00000000,,0,0.0,0.0,0,0,0,0,0,1.000000000,1.000000000,0.0,Not synchronised\n"


def test_the_bound_is_offset_and_dispersion_and_half_the_delay() -> None:
    assert ntp.tracking(RECORDED) == ntp.Tracking(BOUND, 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (OFF, "leap: chrony is not synchronised; see chronyc sources"),
        (b"506 Cannot talk to daemon\n", "1 values instead of 14"),
        (RECORDED.replace(b"-0.000243150", b"x"), "no numbers"),
        (RECORDED.replace(b"-0.000243150", b"NaN"), "no"),
        (b"\xff" * 100, "1 values instead of 14"),
    ],
)
def test_what_says_no_time_is_refused(line: bytes, message: str) -> None:
    with pytest.raises(NtpRefused, match=message):
        ntp.tracking(line)


def test_it_is_reported_as_a_handshake_is_and_again_every_resync() -> None:
    sync = TimeSync(SyncSettings(resync_ns=60 * S), lambda: 1, places=(CHRONY,))
    sync.start(Now(1000 * S, 5 * S))
    assert sync.requests() == [b""]
    sync.received(RECORDED, Now(1000 * S + 1, 5 * S + 1))
    assert sync.reports() == [SyncReport(0, 2 * BOUND, 1000 * S + 1, 1000, 50_000)]
    assert sync.state is SyncState.SYNCED
    sync.wake(Now(1060 * S + 1, 65 * S + 1))
    assert sync.requests() == [b""]


def test_a_host_that_is_not_synchronised_is_asked_again() -> None:
    sync = TimeSync(SyncSettings(silent_max=1, retry_ns=10 * S), lambda: 1, places=(CHRONY,))
    sync.start(Now(1000 * S, 5 * S))
    sync.received(OFF, Now(1000 * S, 5 * S))
    (report,) = sync.reports()
    assert report.offset_ns is None
    assert sync.counts["refused_leap"] == 1
    sync.wake(Now(1010 * S, 15 * S))
    sync.received(RECORDED, Now(1010 * S, 15 * S))
    assert [each.offset_ns for each in sync.reports()] == [0]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"printf '{RECORDED.decode().strip()}\\n'", ""),
        ("echo 506 Cannot talk; exit 1", "506 Cannot"), (None, "No such file"),
    ],
)  # fmt: skip
def test_the_program_is_run(
    script: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        checked = '[ "$*" = "-c tracking" ] || exit 3'
        (tmp_path / "chronyc").write_text(f"#!/bin/sh\n{checked}\n{script}\n")
        (tmp_path / "chronyc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if script else str(tmp_path))

    async def asked() -> SessionDriver:
        settings = SessionSettings(source="d", time_places=(CHRONY,))
        session = AgentSession(settings, [StreamSchema("events")], 1, lambda: 1)
        driver = SessionDriver(session, Address(gateways=(GatewayAddress("127.0.0.1", 1, 1),)))
        session._sync.start(Now(1, 1))
        session._after_sync(Now(1, 1))
        driver.carry_out()
        assert driver._chrony is not None
        await driver._chrony
        await driver.close()
        return driver

    driver = asyncio.run(asked())
    assert (message in driver.last_error) if message else not driver.last_error
    assert (driver.session.sync_state is SyncState.SYNCED) == (not message)
