"""Measurements of a device, as plain numbers, and the watch of its wall clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from slackwater.edge_agent import ntp
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.errors import NtpRefused
from slackwater.edge_agent.ntp import NtpKey

# Comparison of the wall clock with the monotonic one, reading by reading, to find steps.
#
# Linux steers both alike, so a difference between them means that the wall clock was set.


STEP_MIN_NS: Final = 1_000_000
"""A jump below this may be a pause between the two readings."""
_STEPS_MAX: Final = 1_000


class ClockWatch:
    """Takes readings in order and finds steps of the wall clock."""

    def __init__(self) -> None:
        self.readings = 0
        self.backwards = 0
        self.steps: list[tuple[int, int]] = []
        self._last: Now | None = None
        self._first_ns = 0

    def see(self, now: Now, apart_ns: int = 0) -> None:
        """Take a reading; ``apart_ns``: longest time between its two clock readings."""
        self.readings += 1
        last, self._last = self._last, now
        if last is None:
            self._first_ns = now.mono_ns
            return
        ran_ns = now.mono_ns - last.mono_ns
        if ran_ns < 0:
            self.backwards += 1
            return
        jump_ns = now.wall_ns - last.wall_ns - ran_ns
        if abs(jump_ns) > STEP_MIN_NS + apart_ns and len(self.steps) < _STEPS_MAX:
            self.steps.append((now.mono_ns, jump_ns))

    @property
    def watched_ns(self) -> int:
        """Time from the first reading to the last [ns]."""
        return 0 if self._last is None else self._last.mono_ns - self._first_ns


# Measurements of a device as plain numbers; the engine judges them.
#
# Times in ns; ``at_ns`` are instants of the device's monotonic clock. ``offset_ns`` is the other
# clock minus the device's; positive: the device is slow.


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answered question. ``root_ns``: error of the server's clock by its own statement."""

    at_ns: int
    offset_ns: int
    delay_ns: int
    precision_ns: int
    root_ns: int = 0
    up_ns: int = 0
    """Server's receipt minus sending: the delay there plus the offset."""
    down_ns: int = 0
    """Receipt minus the server's sending: the delay back minus the offset."""

    @property
    def bound_ns(self) -> int:
        """Bound of the offset's error (R19 Eq 3.14, RFC 5905 root distance)."""
        return (self.delay_ns + 1) // 2 + self.precision_ns + self.root_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFindings:
    """A standard NTP server, asked through ntplib."""

    name: str
    exchanges: tuple[Exchange, ...] = ()
    questions: int = 0
    stratum: int | None = None
    refused: dict[str, int] = field(default_factory=dict)
    """Reason -> number of rejected answers and of questions without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFindings:
    """The path to the gateway, measured by NTP questions in short trains."""

    host: str
    port: int
    ntp_port: int
    exchanges: tuple[Exchange, ...] = ()
    questions: int = 0
    """Questions whose answers had time to arrive."""
    lost: int = 0
    reordered_up: int = 0
    reordered_down: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    stratum: int | None = None
    error: str = ""
    """Why the gateway's clock could not be asked at all."""
    connect_ns: tuple[int, ...] = ()
    """Time to open each TCP connection, including TLS if used."""
    connect_error: str = ""
    mtu: int | None = None
    """MTU of the whole path, as the kernel knows it."""
    mss: int | None = None
    """TCP payload bytes per packet."""
    burst: BurstFindings | None = None
    local_address: str = ""


@dataclass(frozen=True, slots=True)
class BurstFindings:
    """Questions that were sent back to back (``--rate``)."""

    sent: int
    answered: int
    packet_bytes: int
    spread_ns: int
    """Time from the first answer to the last."""

    @property
    def packets_per_s(self) -> float | None:
        """Rate of the path and the gateway; None: fewer than two answers."""
        if self.answered < 2 or self.spread_ns <= 0:
            return None
        return (self.answered - 1) * 1e9 / self.spread_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFindings:
    """The device's clocks compared with each other."""

    resolution_ns: int
    """Smallest observed step of the wall clock."""
    monotonic_resolution_ns: int
    readings: int = 0
    seconds: float = 0.0
    steps: tuple[tuple[int, int], ...] = ()
    """(at, jump) of each step of the wall clock relative to the monotonic one."""
    backwards: int = 0
    """Readings of the monotonic clock below the previous one: none on a sound machine."""
    disciplined_ppb: int | None = None
    """Rate of the monotonic clock relative to the raw hardware clock: the system's correction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceFindings:
    """A network interface. ``kind``: ``ethernet wifi cellular loopback virtual other``."""

    name: str
    kind: str
    addresses: tuple[str, ...]
    mtu: int | None = None
    speed_mbit: int | None = None
    signal_dbm: int | None = None
    is_used: bool = False
    """Whether it carries the path to the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFindings:
    """The disk of the outbox."""

    folder: str
    fsync_ns: tuple[int, ...] = ()
    free_bytes: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFindings:
    """Processor and memory."""

    cores: int
    load: float | None
    memory_bytes: int | None
    memory_free_bytes: int | None
    packed_per_s: float
    """Events per second that one core packs into messages."""
    event_bytes: float
    """Bytes of one event in a message of many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFindings:
    """The clock of a device behind an input. ``width_ns``: width of the bound of its offset as the
    agent will know it; ``wrong``: the settings declare it right, and it is not.
    """

    said: str
    width_ns: int
    wrong: bool


@dataclass(frozen=True, slots=True)
class InputFindings:
    """Whether the device behind an ``[[input]]`` can be reached; None: nothing to check."""

    name: str
    kind: str
    is_reachable: bool | None
    said: str
    clock: DeviceFindings | None = None
    """The clock of the stamping device; None: this device's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All measurements. ``is_whole`` False: interrupted."""

    site: str
    source: str
    path: PathFindings
    servers: tuple[ServerFindings, ...]
    clock: ClockFindings
    interfaces: tuple[InterfaceFindings, ...]
    disk: DiskFindings | None
    machine: MachineFindings
    inputs: tuple[InputFindings, ...]
    seconds: float
    is_whole: bool


# NTP questions to the gateway, in trains: delay each way, loss and order on the path. Sans-IO.
#
# Questions are as the agent's own (``edge_agent.timesync``): authenticated if there is a token, and
# matched to answers by their cookies. The four times of each exchange suffice for loss and order: a
# question that was sent later and received earlier overtook another on the way there, and likewise
# for answers on the way back.


_ORIGIN: Final = slice(24, 32)
_REPLIES_KEPT: Final = 1_000_000


class _AnsweredQuestion(NamedTuple):
    number: int
    at_ns: int
    came_ns: int
    times: ntp.NtpExchange
    precision_ns: int


class PathProbe:
    """Makes questions and takes answers; ``precision_ns`` is of the device's clock."""

    def __init__(
        self, cookie: Callable[[], int], precision_ns: int, key: NtpKey | None = None
    ) -> None:
        self._cookie = cookie
        self._precision_ns = precision_ns
        self._key = key
        self._waiting: dict[int, tuple[int, Now]] = {}
        self._answered: list[_AnsweredQuestion] = []
        self._sent = 0
        self.stratum: int | None = None
        self.refused: Counter[str] = Counter()
        """Reason -> number of rejected answers."""

    def question(self, now: Now) -> bytes:
        """Make the next question, to be sent at once."""
        cookie = self._cookie() % (1 << 64) or 1
        self._waiting[cookie] = (self._sent, now)
        self._sent += 1
        made = ntp.request(cookie)
        return made if self._key is None else self._key.signed(made)

    def received(self, data: bytes, now: Now) -> None:
        """Take a datagram; a bad answer is counted."""
        try:
            packet = data if self._key is None else self._key.packet(data)
            # A foreign answer is refused as an answer to cookie 0, which no question has.
            origin = int.from_bytes(packet[_ORIGIN], "big")
            cookie = origin if origin in self._waiting else 0
            answer = ntp.read_answer(packet, cookie, now.wall_ns)
        except NtpRefused as refused:
            self.refused[refused.reason] += 1
            return
        if cookie not in self._waiting:
            self.refused["origin"] += 1
            return
        number, sent = self._waiting.pop(cookie)
        times = ntp.NtpExchange(sent.wall_ns, answer.t2, answer.t3, now.wall_ns)
        precision_ns = self._precision_ns + answer.precision_ns
        if answer.t3 < answer.t2 or times.delay_ns < -precision_ns:
            self.refused["negative_delay"] += 1
            return
        self.stratum = answer.stratum
        if len(self._answered) < _REPLIES_KEPT:
            self._answered.append(
                _AnsweredQuestion(number, sent.mono_ns, now.mono_ns, times, precision_ns)
            )

    def late(self, mono_ns: int, timeout_ns: int) -> int:
        """Number of questions that were unanswered for ``timeout_ns`` at ``mono_ns``: presumed
        lost.
        """
        return sum(mono_ns - sent.mono_ns >= timeout_ns for _, sent in self._waiting.values())

    @property
    def sent(self) -> int:
        """Number of questions so far."""
        return self._sent

    @property
    def answers(self) -> int:
        """Number of valid answers so far."""
        return len(self._answered)

    def exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges in the order of their questions."""
        return tuple(
            Exchange(
                at_ns=each.at_ns,
                offset_ns=each.times.offset_ns,
                # A coarse clock may show no elapsed time; its precision covers the difference.
                delay_ns=max(each.times.delay_ns, 0),
                precision_ns=each.precision_ns,
                up_ns=each.times.t2 - each.times.t1,
                down_ns=each.times.t4 - each.times.t3,
            )
            for each in sorted(self._answered)
        )

    def reordered(self) -> tuple[int, int]:
        """Number of packets that a later one overtook: on the way there, and on the way back."""
        by_sending = sorted(self._answered)
        by_answering = sorted(self._answered, key=lambda each: (each.times.t3, each.number))
        return (
            _overtaken([each.times.t2 for each in by_sending]),
            _overtaken([each.came_ns for each in by_answering]),
        )


def _overtaken(times: Sequence[int]) -> int:
    """Number of elements that follow a larger one (L10 4.3.1).

    >>> _overtaken([1, 2, 5, 3, 4, 6])
    2
    """
    newest, count = -(1 << 63), 0
    for each in times:
        count += each < newest
        newest = max(newest, each)
    return count
