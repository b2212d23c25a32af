"""The clock of a device behind an agent: its offset to the agent's clock, with a bound.

Offsets are the agent's *monotonic* clock minus the device's, so setting the agent's wall clock
changes none. A message stamped ``stamp`` that arrives at ``mono`` takes no negative time: the
offset is at most ``mono - stamp``. One-way messages give no other bound. Declared delays bound the
other side: no message takes longer than ``delay_max``, and the fastest one of a window takes at
most ``delay_min_max`` (minimum filter; Moon, Skelly, Towsley 1999). An answer to a request bounds
both sides. Between and before messages the bound grows by ``skew_max``.

Clocks are set now and then. A message that contradicts the bound begins a new *epoch* with its own
name: the events of one epoch share one clock that was never set. A clock set ahead contradicts the
bound at once, unless its message is as slow as the step is large. Then a faster message shows the
step later and *refutes* the bounds reported for the epoch, which may contain events stamped after
the step. A clock set back looks like a delay until a whole window is late. A message that is later
than the fastest ones by more than ``delay_min_max`` is stamped by a clock *in doubt*, whose bound
covers both cases; the same holds for an event that is older than its epoch. Steps too small to
detect are below ``delay_min_max`` (plus the resolution), and every bound is wider than measured by
that much.

Sans-IO: the caller passes the agent's monotonic clock. Times in ns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.edge_agent.errors import SettingsError

ARRIVAL: Final = "/arrival."
"""Mark in the name of a clock that is the arrival of an event."""
NS_PER_S: Final = 10**9
WINDOW_MESSAGES: Final = 3
"""Least number of messages of a window."""
LEVELS_MAX: Final = 40
EPOCHS_KEPT: Final = 64
"""Epochs of a device that an off-line agent may keep for sending."""
REPORT_AGAIN_NS: Final = 60 * NS_PER_S
_NARROWER: Final = 8
"""A bound that has narrowed by more than 1/8 is reported at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClockSettings:
    """Declared bounds of a device's messages and of its crystal."""

    delay_min_max_ns: int
    delay_max_ns: int = 60 * NS_PER_S
    window_ns: int = 60 * NS_PER_S
    skew_max_ppb: int = 50_000

    def __post_init__(self) -> None:
        if not 0 <= self.delay_min_max_ns <= self.delay_max_ns:
            raise SettingsError("delay_min_max must be at most delay_max")


class DeviceClockBound(NamedTuple):
    """The agent's monotonic clock minus clock ``clock`` is in [``low``, ``high``] at ``mono``.

    ``stamp``: the clock's reading at ``mono``; ``skew_ppb``: how fast the bound grows with age;
    ``refutes``: it contradicts earlier bounds of the clock and does not replace them.
    """

    clock: str
    low: int
    high: int
    stamp: int
    mono: int
    skew_ppb: int
    refutes: bool = False


def device_of(clock: str) -> str:
    """The device of a clock's name.

    >>> device_of("monitor#7.0.2")
    'monitor'
    """
    return clock.rpartition("#")[0] or clock


def closed_clocks(clocks: Collection[str]) -> set[str]:
    """The clocks of old epochs, whose device has ``EPOCHS_KEPT`` newer ones.

    >>> sorted(closed_clocks(["watch", *(f"monitor#{n}" for n in range(66)), "monitor#1.2"]))
    ['monitor#0', 'monitor#1', 'monitor#1.2']
    """
    epochs: dict[str, dict[int, list[str]]] = {}
    for clock in clocks:
        device, _, name = clock.rpartition("#")
        number = name.partition(".")[0]
        if device and number.isdecimal():
            epochs.setdefault(device, {}).setdefault(int(number), []).append(clock)
    return {
        clock
        for of in epochs.values()
        for number in sorted(of)[:-EPOCHS_KEPT]
        for clock in of[number]
    }


def is_in_doubt(clock: str) -> bool:
    """Whether the clock stamps late or old events, which may be of another epoch.

    >>> [is_in_doubt(name) for name in ("monitor#7", "monitor#7.2")]
    [False, True]
    """
    return "." in clock.rpartition("#")[2] and "#" in clock


class FollowedClock:
    """One device: ``add_message`` and ``add_answer`` measure; ``name_of`` and
    ``take_bounds`` serve its events.
    """

    def __init__(self, name: str, settings: DeviceClockSettings, number: Callable[[], int]) -> None:
        """``number()``: the next epoch's number, unique over all starts of the agent."""
        self.name = name
        self.settings = settings
        self.steps = 0
        """Number of detected steps of the clock."""
        self.last_step_ns = 0
        """Size of the last step, about; positive: the clock was set back."""
        self._number = number
        self._epoch = 0
        self._begun = False
        self._offset_max = 0
        """Receipt minus stamp of the last message."""
        self._low = self._high = self._at = 0
        """Measured: the offset was in [low, high] at ``_at``."""
        self._grain = 0
        self._slack = settings.delay_min_max_ns
        self._answer_width: int | None = None
        """Width of the last answer's interval; None: no answer in this epoch."""
        self._window_begun = self._window_count = self._window_least = 0
        self._first_stamp = self._last_stamp = 0
        self._earlier: tuple[int, int] | None = None
        """Reported bounds of earlier epochs."""
        self._earlier_last_stamp = 0
        self._level = 0
        self._stamp = self._mono = 0
        self._reported: dict[str, DeviceClockBound] = {}
        self._new: list[DeviceClockBound] = []
        self._names: dict[bool, str] = {}
        """Clocks of the last message's events, by whether an event is older than its epoch."""

    @property
    def needs_answer(self) -> bool:
        """Whether an answer would tighten the bound."""
        return self._level > 0 or self._answer_width is None

    def add_message(self, mono_ns: int, stamp_ns: int, resolution_ns: int = 0) -> None:
        """A message stamped ``stamp_ns`` arrived at ``mono_ns``; ``resolution_ns``: stamps are
        rounded down to its multiples.
        """
        self._mono, self._stamp, self._names = mono_ns, stamp_ns, {}
        is_coarser = self._is_coarser(resolution_ns)
        found = mono_ns - stamp_ns
        least = found - self.settings.delay_max_ns - self._grain
        if not self._begun or is_coarser:
            self._close_epoch()
            self._begin_epoch(least, found)
            self._offset_max = found
            return
        low, high = self._interval_at(mono_ns)
        if found < low or least > high:
            if found < low and self._offset_max - found <= self.settings.delay_max_ns + self._grain:
                self._refute(least, found, list(self._reported))
            self._step(least, found)
            self._offset_max = found
            return
        self._offset_max = found
        self._level = self._lateness(found, high)
        if not self._level:
            self._low, self._high, self._at = low, min(high, found), mono_ns
            self._last_stamp = max(self._last_stamp, stamp_ns)
        self._count(found)

    def add_answer(
        self, sent_mono_ns: int, mono_ns: int, stamp_ns: int, resolution_ns: int = 0
    ) -> None:
        """The device's clock read ``stamp_ns`` between a request and its answer."""
        self._mono, self._stamp, self._names = mono_ns, stamp_ns, {}
        is_coarser = self._is_coarser(resolution_ns)
        low, high = sent_mono_ns - stamp_ns - self._grain, mono_ns - stamp_ns
        if not self._begun or is_coarser:
            self._close_epoch()
            self._begin_epoch(low, high)
        else:
            least, most = self._interval_at(mono_ns)
            if low > most or high < least:
                if high < least:
                    self._refute(low, high, list(self._reported))
                else:  # late messages are in doubt anyway
                    self._refute(low, high, [self._base])
                self._step(low, high)
            else:
                self._low, self._high, self._at = max(low, least), min(high, most), mono_ns
        self._answer_width = high - low
        self._level = 0
        self._last_stamp = max(self._last_stamp, stamp_ns)

    def restart(self) -> None:
        """The device may have restarted: the next message begins an epoch."""
        self._close_epoch()
        self._begun = False

    def name_of(self, ts: int) -> str:
        """The clock that stamped ``ts``, an event of the last message."""
        is_new = self._first_stamp <= ts <= self._stamp + self._grain
        aged = self._stamp - ts > self._slack and self._stamp < self._earlier_last_stamp
        is_earlier = self._earlier is not None and (aged or not is_new)
        if is_earlier not in self._names:
            self._names[is_earlier] = self._named(is_earlier=is_earlier)
        return self._names[is_earlier]

    def take_bounds(self) -> list[DeviceClockBound]:
        """Bounds to report before the events named since the last call."""
        made, self._new = self._new, []
        return made

    def bound(self) -> tuple[int, int]:
        """Interval (low, high) of the epoch's offset now."""
        low, high = self._interval_at(self._mono)
        slack = self._slack if self._answer_width is None else self._answer_width
        return low - slack, high + slack

    # --- inside

    @property
    def _base(self) -> str:
        return f"{self.name}#{self._epoch}"

    def _named(self, *, is_earlier: bool) -> str:
        low, high = self.bound()
        name = self._base
        if is_earlier and self._earlier is not None:
            name += ".0"
            low, high = min(low, self._earlier[0]), max(high, self._earlier[1])
        if self._level:
            name += f".{self._level}"
            high = max(high, self._interval_at(self._mono)[1] + (self._slack << self._level + 1))
        self._report(
            DeviceClockBound(name, low, high, self._stamp, self._mono, self.settings.skew_max_ppb)
        )
        return name

    def _is_coarser(self, resolution_ns: int) -> bool:
        """Whether stamps are coarser than before, so that earlier bounds do not apply."""
        if resolution_ns <= self._grain:
            return False
        self._grain = resolution_ns
        self._slack = self.settings.delay_min_max_ns + resolution_ns
        return True

    def _lateness(self, found: int, high: int) -> int:
        """Level of doubt of a message; 0: no later than the fastest ones may be."""
        over = found - high - self._slack
        return min((max(over, 0) // max(self._slack, 1) + (over > 0)).bit_length(), LEVELS_MAX)

    def _interval_at(self, mono_ns: int) -> tuple[int, int]:
        more = -(-abs(mono_ns - self._at) * self.settings.skew_max_ppb // NS_PER_S)
        return self._low - more, self._high + more

    def _begin_epoch(self, low: int, high: int) -> None:
        self._begun = True
        self._epoch = self._number()
        self._reported = {}
        self._answer_width = None
        self._low, self._high, self._at = low, high, self._mono
        self._level = 0
        self._first_stamp = self._last_stamp = self._stamp
        self._window_begun, self._window_count, self._window_least = self._mono, 1, high

    def _step(self, low: int, high: int) -> None:
        self.steps += 1
        self.last_step_ns = (low + high - self._low - self._high) // 2
        self._close_epoch()
        self._begin_epoch(low, high)

    def _refute(self, low: int, high: int, clocks: Collection[str]) -> None:
        """Report the offset [low, high] for ``clocks``, which may have stamped events after a step.

        An interval close to the reported bound is moved away from it, so that it contradicts.
        """
        for former in [self._reported[clock] for clock in clocks if clock in self._reported]:
            more = -(-abs(self._mono - former.mono) * former.skew_ppb // NS_PER_S) + self._slack
            if high < self._low:
                low, high = min(low, former.low - more), min(high, former.low - more)
            else:
                low, high = max(low, former.high + more), max(high, former.high + more)
            self._new.append(former._replace(
                low=low, high=high, stamp=self._stamp, mono=self._mono, refutes=True
            ))  # fmt: skip

    def _close_epoch(self) -> None:
        """Remember the epoch's bound, for its events that arrive later."""
        if not self._begun:
            return
        low, high = self.bound()
        if self._earlier is not None:
            low, high = min(low, self._earlier[0]), max(high, self._earlier[1])
        self._earlier = low, high
        self._earlier_last_stamp = max(self._earlier_last_stamp, self._last_stamp)

    def _count(self, found: int) -> None:
        """Count a message in its window, and end the window when it is long enough."""
        first = self._window_count == 0
        self._window_least = found if first else min(found, self._window_least)
        self._window_count += 1
        ran = self._mono - self._window_begun
        if ran < self.settings.window_ns or self._window_count < WINDOW_MESSAGES:
            return
        more = -(-ran * self.settings.skew_max_ppb // NS_PER_S)
        low, high = self._interval_at(self._mono)
        fastest = self._window_least - self._slack - more, self._window_least + more
        if self._window_least > high + self._slack:  # all of it was late: the clock was set back
            self._step(*fastest)
            self._level = self._lateness(found, fastest[1])  # set back again, perhaps
        else:
            self._low, self._high = max(low, fastest[0]), min(high, fastest[1])
            self._at = self._mono
        self._window_begun, self._window_count = self._mono, 0

    def _report(self, bound: DeviceClockBound) -> None:
        before = self._reported.get(bound.clock)
        if before is not None:
            width, old = bound.high - bound.low, before.high - before.low
            is_alike = (old - width) * _NARROWER <= old
            if is_alike and bound.mono - before.mono < REPORT_AGAIN_NS:
                return
        self._reported[bound.clock] = bound
        self._new.append(bound)
