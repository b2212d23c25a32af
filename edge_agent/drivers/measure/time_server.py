"""Standard NTP servers, asked through ntplib: a second opinion beside our own codec (SPEC 2).

ntplib reads the system's clock as floats since 1900, which err by half a microsecond: that is part
of the precision given here. It believes every datagram from the server's address; what it does not
check (mode, leap, stratum, the question's own time) is checked here.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import ntplib

from edge_agent.clock import DeviceClock
from edge_agent.drivers.agent_file import NTP_PORT
from edge_agent.drivers.time_servers import TimeServer
from edge_agent.measure.findings import Exchange, ServerFindings

VERSION: Final = 4
_FLOAT_NS: Final = 1_000
_MODE_SERVER: Final = 4
_LEAP_ALARM: Final = 3
_STRATUM_MAX: Final = 15
_NS: Final = 10**9


class AskedServer:
    """One server; ``ask`` blocks, so it is called in a thread of its own."""

    def __init__(self, server: TimeServer, clock: DeviceClock, timeout_s: float) -> None:
        """``clock``: the device's, which may be bent on purpose; ntplib reads the system's."""
        self._server = server
        self._clock = clock
        self._timeout_s = timeout_s
        self._exchanges: list[Exchange] = []
        self._asked = 0
        self._refused: Counter[str] = Counter()
        self._stratum: int | None = None

    def ask(self) -> None:
        """One exchange, or a count of why there was none."""
        self._asked += 1
        now = self._clock.read()
        bent_ns = now.wall_ns - time.time_ns()
        try:
            answer = ntplib.NTPClient().request(
                self._server.host, version=VERSION, port=self._server.port,
                timeout=self._timeout_s,
            )  # fmt: skip
        except ntplib.NTPException:
            self._refused["no answer"] += 1
            return
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._refused[reason or str(error)] += 1
            return
        problem = _problem(answer)
        if problem:
            self._refused[problem] += 1
            return
        self._stratum = int(answer.stratum)
        root_s = answer.root_delay / 2 + answer.root_dispersion
        self._exchanges.append(
            Exchange(
                at_ns=now.mono_ns,
                offset_ns=round(answer.offset * _NS) - bent_ns,
                delay_ns=max(round(answer.delay * _NS), 0),
                precision_ns=_FLOAT_NS + max(round(2.0**answer.precision * _NS), 1),
                root_ns=max(round(root_s * _NS), 0),
            )
        )

    def findings(self) -> ServerFindings:
        """So far."""
        return ServerFindings(
            name=shown(self._server), exchanges=tuple(self._exchanges), asked=self._asked,
            stratum=self._stratum, refused=dict(self._refused),
        )  # fmt: skip


def shown(server: TimeServer) -> str:
    """``host`` or ``host:port``."""
    return server.host if server.port == NTP_PORT else f"{server.host}:{server.port}"


def _problem(answer: ntplib.NTPStats) -> str:
    """Why an answer is not believed; empty: it is."""
    if answer.mode != _MODE_SERVER:
        return f"mode {answer.mode}"
    if answer.leap == _LEAP_ALARM:
        return "not synchronised"
    if not 1 <= answer.stratum <= _STRATUM_MAX:
        return f"stratum {answer.stratum}"
    if not answer.recv_timestamp or answer.tx_timestamp < answer.recv_timestamp:
        return "no sound time"
    if answer.delay < -_FLOAT_NS / _NS:
        return "negative delay"
    return ""
