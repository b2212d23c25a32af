"""Time sync of one device: rounds of NTP exchanges; the best of each round is reported upstream.

A round makes up to ``attempts`` good exchanges, ``spacing_ns`` apart, and reports the one of least
delay (minimum filter, R19 3.2.2): its offset is wrong by at most half its delay (R19 Eq 3.14).
Every round starts without samples, so an old minimum does not persist. The next round starts
``resync_ns`` after a report.

Every round ends: an unanswered or refused request uses one of ``retries_max`` extra tries. If none
of the first ``silent_max`` requests of a round is answered, the round fails and is repeated after
``retry_ns``. If the first round fails, "never synchronised" is reported (offset None), so that
events flow with an unknown clock error; a later success reports the offset. A round that fails
after a success reports nothing: the old offset stays valid and its uncertainty grows with its age.
If the clock was set meanwhile, the old offset less the jump is reported.

A clock that was set is measured again at once, not ``resync_ns`` later. Between rounds a step shows
as a jump of the wall clock against the monotonic clock, checked every ``watch_ns``. Within a round,
an exchange may contradict earlier ones by more than both bounds allow: then those are dropped and
all attempts are repeated (once per round, so that every round ends). An agent that lost the
connection calls ``start`` again, as the server's time may have changed.

If the gateway does not answer, standard servers are tried in turn. Their clock differs from the
gateway's, so the bound includes half their root delay and their root dispersion.

``CHRONY`` trusts a host whose clock chrony disciplines, within the bound that chrony reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from slackwater.edge_agent import ntp
from slackwater.edge_agent.clock import Now, earliest
from slackwater.edge_agent.errors import NtpRefused, SettingsError
from slackwater.edge_agent.ntp import NtpKey

GATEWAY: Final = 0
CHRONY: Final = -1
"""This host's chrony: the answer is the output of ``edge_agent.ntp.CHRONY_COMMAND``."""
SERVER_ATTEMPTS: Final = 4
SERVER_SPACING_NS: Final = 2_000_000_000
"""Shortest time between requests to standard servers, as in ntpd's iburst."""


class SyncState(Enum):
    """Status of the source's clock. A round in progress does not end SYNCED."""

    UNSYNCED = "unsynced"
    """No request yet, or no answer."""
    ACQUIRING = "acquiring"
    """The first offset is being measured."""
    SYNCED = "synced"
    """At least one offset was reported."""


class ClockStatus(Enum):
    """Status of a clock, in the words of ClockBound (SPEC 2)."""

    UNKNOWN = "unknown"
    SYNCHRONIZED = "synchronized"
    FREE_RUNNING = "free-running"
    """No sync for long: the bound has grown but is valid."""
    DISRUPTED = "disrupted"
    """The clock was set or its bound was refuted: not trusted until the next sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """Requests per round, timeouts and periods. All durations on the monotonic clock."""

    attempts: int = 10
    """Good exchanges per round (R19's "number of time sync attempts")."""
    spacing_ns: int = 50_000_000
    timeout_ns: int = 1_000_000_000
    silent_max: int = 4
    retries_max: int = 5
    resync_ns: int = 60_000_000_000
    watch_ns: int = 1_000_000_000
    """Period of checks whether the wall clock was set; 0: never."""
    retry_ns: int = 10_000_000_000
    precision_ns: int = 1_000
    """Resolution of the source's wall clock."""
    skew_error_ppb: int = 50_000
    """Growth of an offset's error; the default bounds a device's crystal."""

    def __post_init__(self) -> None:
        positive = ("attempts", "timeout_ns", "silent_max", "resync_ns", "retry_ns", "precision_ns")
        for name in positive:
            if getattr(self, name) <= 0:
                raise SettingsError(f"sync.{name} must be above 0, is {getattr(self, name)}")
        for name in ("spacing_ns", "watch_ns", "retries_max", "skew_error_ppb"):
            if getattr(self, name) < 0:
                raise SettingsError(f"sync.{name} must not be negative, is {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Result of a round. ``offset_ns`` and ``delay_ns`` None: never synchronised.

    ``offset_ns``: engine's clock minus source's, positive = the source is slow.
    ``measured_at_ns``: source's clock, half way between question and answer.
    ``precision_ns``: of both clocks together.
    """

    offset_ns: int | None
    delay_ns: int | None
    measured_at_ns: int
    precision_ns: int
    skew_error_ppb: int

    def bound_ns(self, age_ns: int) -> int:
        """Bound of the error of a measured offset at ``age_ns`` [ns]."""
        assert self.delay_ns is not None
        grown = abs(age_ns) * self.skew_error_ppb // ntp.NS
        return (self.delay_ns + 1) // 2 + self.precision_ns + grown

    def contradicts(self, earlier: SyncReport) -> bool:
        """Whether the source's clock was set since ``earlier``; both of them measured."""
        assert self.offset_ns is not None
        assert earlier.offset_ns is not None
        age = self.measured_at_ns - earlier.measured_at_ns
        return abs(self.offset_ns - earlier.offset_ns) > self.bound_ns(0) + earlier.bound_ns(age)


def _jump_ns(before: Now, after: Now) -> int:
    """Advance of the wall clock less that of the monotonic clock [ns]."""
    return (after.wall_ns - before.wall_ns) - (after.mono_ns - before.mono_ns)


class TimeSync:
    """Sans-IO client: call ``wake`` at ``next_wake``, and send the results of ``requests``."""

    def __init__(
        self, settings: SyncSettings, cookie: Callable[[], int], key: NtpKey | None = None,
        places: Sequence[int] = (GATEWAY,),
    ) -> None:  # fmt: skip
        """``cookie()``: 64 random bits per request. ``key``: signs requests to the gateway;
        unsigned answers are then ignored. ``places``: servers in order of preference; numbers above
        ``GATEWAY`` are standard servers.
        """
        self.settings = settings
        self.place = places[0]
        """Server of the current round."""
        self._places = places
        self._measured_at = places[0]
        self._key = key
        self.state = SyncState.UNSYNCED
        self.counts: Counter[str] = Counter()
        """``asked``, ``answered``, ``timeout``, ``rounds``, ``failed_rounds``; ``clock_set``:
        checks that found the clock set; ``contradictions``: exchanges that did; ``from_servers``:
        reports from standard servers; and ``refused_REASON`` per rejected answer."""
        self._cookie = cookie
        self._best: SyncReport | None = None
        self._good = 0
        self._questions = 0
        self._active = False
        self._has_restarted = False
        self._last: SyncReport | None = None
        self._measured: tuple[SyncReport, Now] | None = None
        """The last report with an offset, and when it was made."""
        self._is_set = False
        """Whether a step of the clock was detected since."""
        self._looked = Now(0, 0)
        self.look_due: int | None = None
        """Monotonic instant [ns] of the next check whether the clock was set."""
        self._pending: tuple[int, int] | None = None
        self.due: int | None = None
        """Monotonic instant [ns] of the next request, or the timeout of the pending one."""
        self.refusal = ""
        """Why chrony's last answer was not used; empty: it was."""
        self._reported = False
        self._requests: list[bytes] = []
        self._reports: list[SyncReport] = []

    def status(self, now: Now) -> ClockStatus:
        """Status of the source's clock; free-running: no sync for two rounds."""
        if self._measured is None:
            return ClockStatus.UNKNOWN
        if self._is_set:
            return ClockStatus.DISRUPTED
        is_old = now.mono_ns - self._measured[1].mono_ns > 2 * self.settings.resync_ns
        return ClockStatus.FREE_RUNNING if is_old else ClockStatus.SYNCHRONIZED

    def start(self, now: Now) -> None:
        """Begin a round now, unless one is in progress."""
        if not self._reported:
            self.state = SyncState.ACQUIRING
        if not self._active:
            self._begin(now)

    def restart(self, now: Now) -> None:
        """Begin again with another gateway: earlier measurements do not apply to its clock."""
        self._last = self._measured = None
        self._reported = False
        self.state = SyncState.ACQUIRING
        self._begin(now)

    def stop(self) -> None:
        """Stop all rounds and timers."""
        self.due = None
        self.look_due = None
        self._pending = None
        self._active = False

    def next_wake(self) -> int | None:
        """Monotonic instant at which ``wake`` is due."""
        return earliest(self.due, self.look_due)

    def requests(self) -> list[bytes]:
        """Requests to send now, stamped with the ``now`` of the last call. Drained."""
        made, self._requests = self._requests, []
        return made

    def reports(self) -> list[SyncReport]:
        """Results of rounds that have ended. Drained."""
        made, self._reports = self._reports, []
        return made

    def wake(self, now: Now) -> None:
        """Act on all timers that are due."""
        if self.look_due is not None and now.mono_ns >= self.look_due and self._was_set(now):
            self.counts["clock_set"] += 1
            self._is_set = True
            self._begin(now)
            return
        if self.due is None or now.mono_ns < self.due:
            return
        if self._pending is not None:
            self._pending = None
            self.counts["timeout"] += 1
            self.report_jump(now)
            self._after_exchange(now, now.mono_ns)
            return
        if not self._active:
            self._begin(now)
            return
        self._ask(now)

    def received(self, data: bytes, now: Now) -> None:
        """Take a datagram; anything but a good answer to the pending request is counted."""
        if self._pending is None:
            self.counts["refused_unasked"] += 1
            return
        cookie, t1 = self._pending
        if self.place == CHRONY:
            self._take_tracking(data, now)
            return
        try:
            packet = data if self._signing is None else self._signing.packet(data)
            answer = ntp.read_answer(packet, cookie, now.wall_ns)
        except NtpRefused as refused:
            self.counts[f"refused_{refused.reason}"] += 1
            if refused.reason in ("leap", "stratum", "empty_time"):
                # The server says that it has no time: no better answer will follow.
                self._pending = None
                self._after_exchange(now, now.mono_ns + self._spacing_ns)
            return
        self._pending = None
        self._take(ntp.NtpExchange(t1, answer.t2, answer.t3, now.wall_ns), answer)
        self._after_exchange(now, now.mono_ns + self._spacing_ns)

    def report_jump(self, now: Now) -> None:
        """Report the offset after a step of the clock, by the monotonic clock, without an answer.

        Nothing is reported if the clock was not set or never measured.
        """
        if self._measured is None:
            return
        before, at = self._measured
        jump_ns, age_ns = _jump_ns(at, now), now.mono_ns - at.mono_ns
        age_ns += at.wall_ns - before.measured_at_ns
        if abs(jump_ns) <= before.bound_ns(age_ns):
            return
        assert before.offset_ns is not None
        found = replace(
            before,
            offset_ns=before.offset_ns - jump_ns,
            delay_ns=2 * (before.bound_ns(age_ns) - before.precision_ns),
            measured_at_ns=now.wall_ns,
        )
        self._measured, self._is_set = (found, now), True
        self._reports.append(found)

    def _take_tracking(self, line: bytes, now: Now) -> None:
        """Take chrony's answer."""
        self._pending = None
        try:
            found = ntp.tracking(line)
        except NtpRefused as refused:
            self.counts[f"refused_{refused.reason}"] += 1
            self.refusal = str(refused)
        else:
            self.refusal = ""
            self.counts["answered"] += 1
            settings = self.settings
            self._good = 1
            self._best = SyncReport(
                0, 2 * found.bound_ns, now.wall_ns, settings.precision_ns, settings.skew_error_ppb
            )
        self._after_exchange(now, now.mono_ns + self._spacing_ns)

    @property
    def _signing(self) -> NtpKey | None:
        return self._key if self.place == GATEWAY else None

    @property
    def _attempts(self) -> int:
        if self.place == CHRONY:
            return 1
        few = self.place != GATEWAY
        return min(self.settings.attempts, SERVER_ATTEMPTS) if few else self.settings.attempts

    @property
    def _spacing_ns(self) -> int:
        spacing = self.settings.spacing_ns
        return spacing if self.place == GATEWAY else max(spacing, SERVER_SPACING_NS)

    def _begin(self, now: Now, place: int | None = None) -> None:
        """Begin a round at ``place``; None: the first one."""
        self.place = self._places[0] if place is None else place
        if self.place != self._measured_at:
            self._last = None  # the offset to another clock may differ
        self.counts["rounds"] += 1
        self._active = True
        self._has_restarted = False
        self.look_due = None
        self._best = None
        self._good = self._questions = 0
        self._ask(now)

    def _ask(self, now: Now) -> None:
        cookie = self._cookie() % (1 << 64) or 1
        self._pending = (cookie, now.wall_ns)
        self.due = now.mono_ns + self.settings.timeout_ns
        self._questions += 1
        self.counts["asked"] += 1
        question = b"" if self.place == CHRONY else ntp.request(cookie)
        self._requests.append(question if self._signing is None else self._signing.signed(question))

    def _take(self, exchange: ntp.NtpExchange, answer: ntp.ServerAnswer) -> None:
        precision = self.settings.precision_ns + answer.precision_ns
        delay = exchange.delay_ns
        if answer.t3 < answer.t2:
            self.counts["refused_server_time"] += 1
            return
        if delay < -precision:
            self.counts["refused_negative_delay"] += 1
            return
        # A coarse clock may show no elapsed time: that is a delay of zero; the reported precision
        # covers the difference.
        delay = max(delay, 0)
        if self.place != GATEWAY:
            # The gateway's clock is the reference; another server's is off by its root distance.
            delay += answer.root_delay_ns
            precision += answer.root_dispersion_ns
        middle = (exchange.t1 + exchange.t4) // 2
        found = SyncReport(
            exchange.offset_ns, delay, middle, precision, self.settings.skew_error_ppb
        )
        self.counts["answered"] += 1
        earlier = self._best or self._last
        if earlier is not None and found.contradicts(earlier):
            self._forget()
        self._good += 1
        if self._best is None or self._best.delay_ns is None or delay < self._best.delay_ns:
            self._best = found

    def _forget(self) -> None:
        """Drop measurements before the current exchange: the clock was set."""
        self.counts["contradictions"] += 1
        self._best = self._last = None
        self._good = 0
        if not self._has_restarted:
            self._has_restarted = True
            self._questions = 1

    def _look(self, now: Now) -> None:
        self._looked = now
        if self.settings.watch_ns:
            self.look_due = now.mono_ns + self.settings.watch_ns

    def _was_set(self, now: Now) -> bool:
        """Whether the wall clock jumped since the last look by more than its offset's bound."""
        assert self._measured is not None
        jump_ns, ran_ns = _jump_ns(self._looked, now), now.mono_ns - self._looked.mono_ns
        self._look(now)
        return abs(jump_ns) > self._measured[0].bound_ns(ran_ns)

    def _after_exchange(self, now: Now, next_ask: int) -> None:
        limits = self.settings
        silent = self._good == 0 and self._questions >= limits.silent_max
        used_up = self._questions >= self._attempts + limits.retries_max
        if self._good < self._attempts and not silent and not used_up:
            self.due = next_ask
            return
        self._active = False
        if self._best is not None:
            self.state = SyncState.SYNCED
            self._reported = True
            self._reports.append(self._best)
            self._last, self._measured_at = self._best, self.place
            self._measured, self._is_set = (self._best, now), False
            if self.place != GATEWAY:
                self.counts["from_servers"] += 1
            self.due = now.mono_ns + limits.resync_ns
            self._look(now)
            return
        following = self._places.index(self.place) + 1
        if following < len(self._places):
            self._begin(now, self._places[following])
            return
        self.counts["failed_rounds"] += 1
        self.due = now.mono_ns + limits.retry_ns
        if self._measured is not None:
            self._look(now)
        if not self._reported:
            self._reported = True
            self.state = SyncState.UNSYNCED
            self._reports.append(
                SyncReport(None, None, now.wall_ns, limits.precision_ns, limits.skew_error_ppb)
            )
