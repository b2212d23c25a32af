"""``aq-kslack``: K-slack that waits only as long as the wanted quality of results needs.

Source: R19 2.3.3, Eq 2.2 and 2.3, Fig 2.7 and 2.8 (Ji et al.). The parts:

* Buffer: an event goes once ``time + alpha*K <= clock``. K is that of ``mp-kslack``; alpha is in
  [0, 1] and starts at 1. Everything is looked at only when the clock advances.
* Windows [end - window, end) with ends at multiples of ``slide`` since the epoch. The result of a
  window is produced when an event with ``time >= end`` is released. Its coverage is the number of
  its events that had arrived by then over those that have arrived by now: what arrives before is
  let go before. With an attribute, events without it do not count.
* Coverage is measured as soon as the clock is L past where it was when the result was produced, L
  being the ``horizon``-quantile of how late out-of-order events were (``order/delay_sketch.py``,
  which forgets). By default it leaves out a tenth of the error: what comes later than L is not
  seen to be missing, and where delays have a long tail a fixed 0.95 overlooks half of the loss.
* Threshold: ``order/aq_threshold.py``, with the window's own number of events and variation.
* PD controller (Eq 2.3) on the logarithm of alpha, with gains that need no tuning to a stream::

      err   = (threshold - coverage) / max(1 - threshold, 1 / (events * (1 + age)))
      alpha = alpha * exp((kp * err + kd * (err - err before)) / (1 + age))

  ``age``: time since the window's end, in windows. Why these scales: how much coverage a change of
  alpha brings differs by orders of magnitude between streams, while the effect of a *relative*
  change on the share that is missing is nearly the same (for exponential delays, ln(1/missing) per
  1; for a power law, its exponent). With exp, steps up and down that cancel leave alpha where it
  was, so that the mean coverage is the threshold. 1 + age: results in between still show the old
  alpha; without it the loop swings when delays are long against windows. 1/events: one event shall
  not move alpha by more than kp. A step is at most e-fold, and one up starts from L/(16*K) at
  least, so that alpha gets away from 0. While K is 0 there is nothing to adapt.

``control=r19`` is Eq 2.3 as printed: ``alpha += kp * err + kd * (err - err before)`` with ``err =
threshold - coverage``, alpha kept in [0, 1]. Its gains must be found by hand for each stream, as
R19 says; it prints none.

The window and the aggregate are those of the query that is served, and only events that the
queries read are looked at (``engine.order.served``).

Bounded: of overlapping windows eight at most are followed at a time, and 128 in all. When the
windows not yet measured are more, those in hand are given up and every second one is followed from
then on; and back again when there is room. State is some 1,100 numbers.

Gains. ``bench/tune_aq.py`` runs 16 pairs over 27 streams: exponential, lognormal, Pareto, two-class
and shifting delays, 20 to 1,000 events a window, delays of 0.02 to 100 windows, errors of 1, 5 and
20 %. Criterion: least mean hold among the pairs that keep the promise (the confidence of 0.95, and
at least 0.92 on the worst stationary stream). Outcome: from kp = 0.3 or kd = 0.2 on the promise is
not kept (0.90 down to 0.43 on the worst stream); kp = 0.1 holds 1.6 times as long as 0.2. kp = 0.2
with kd = 0 or 0.1 is a draw (0.63 and 0.64 of the hold of the best constant slack, 0.97 of the
windows covered), and with 0.1 shifting delays are held 1 to 4 % shorter: that is the default.

When not to use: for patterns and joins, of which a share of the events says nothing about the
share of the results; when lateness goes with the value, so that what is missing is no fair sample;
when results must be complete; when windows hold few events, which leaves no room for any to be
missing; when the delays' law changes faster than K + L + window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.errors import UserError
from engine.kernels.integers import INT_MAX, INT_MIN, PPB
from engine.kernels.jit import inline, kernel
from engine.order.base import Ordered
from engine.order.correction import Correction
from engine.order.served import Reads, Window
from engine.order.slack.aq_threshold import (
    AGGREGATES,
    COUNT,
    MOMENTS,
    as_bits,
    as_float,
    coverage_threshold,
    normal_quantile_ppm,
    spread,
)
from engine.order.slack.buffer import CLOCK, LAST, OWN, Buffer, Index, push, release_until
from engine.order.slack.delay_sketch import DELAY_BINS, delay_quantile, learn_delay
from engine.order.slack.held_order import SlackOrder
from engine.stream.columns import mask_name
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import Strings

HORIZON_PART: Final = 10
"""L leaves out this part of the error: 1 - horizon is a tenth of it."""
KP_MILLI: Final = 200
KD_MILLI: Final = 100
R19: Final = "r19"
CONTROLS: Final = ("relative", R19)
"""How alpha follows the coverage: as above, or by Eq 2.3 as printed."""
FOLLOWED: Final = 128
"""Windows that are followed at a time."""
_OVERLAP: Final = 8
"""Windows that are followed of those over one instant."""
_REFRESH: Final = 64
"""Late arrivals between two looks at the sketch."""
_ERR_MAX: Final = 10**13
_LEAST_PPB: Final = PPB / 16
_STEP_MAX: Final = 1 << 57

_AGGREGATE, _ERROR, _Z, _KP, _KD, _SIZE, _TAIL, _BASE, _PRINTED = range(OWN, OWN + 9)
"""Settings. ``_BASE``: the least distance between followed windows [ns]. ``_PRINTED``: Eq 2.3."""
_STATE: Final = OWN + 9
SLACK: Final = _STATE
"""K [ns]."""
_LOWEST: Final = _STATE + 1
"""The smallest event time since the clock advanced."""
ALPHA: Final = _STATE + 2
"""In billionths."""
_ERR: Final = _STATE + 3
"""The last error, in millionths of its scale; in billionths where ``_PRINTED``."""
HORIZON: Final = _STATE + 4
"""L [ns]."""
_LATE_N: Final = _STATE + 5
_LATE_NEW: Final = _STATE + 6
_STEP: Final = _STATE + 7
"""Distance between followed windows: ``_BASE`` times a power of two. Window g ends at g * step."""
_FIRST: Final = _STATE + 8
"""The first window that is not measured yet; INT_MIN before the first event."""
_OPEN: Final = _STATE + 9
"""The first window whose result is not produced yet."""
_TOP: Final = _STATE + 10
"""The last window that an event can belong to."""
_MOMENTS: Final = _STATE + 11
"""For ``spread``."""
_SKETCH: Final = _MOMENTS + MOMENTS
_RING: Final = _SKETCH + DELAY_BINS
"""Per followed window: events seen, those in time, clock at production, sum, sum of squares."""
_FIELDS: Final = 5
_SEEN, _MET, _MADE, _SUM, _SQUARES = range(_FIELDS)
"""Sums are the bits of a float64."""


@dataclass(frozen=True, slots=True)
class AqKSlackSettings:
    """``error_ppm``: relative error allowed to a window's result, with ``confidence_ppm``.

    ``window_ns``, ``agg`` (``count`` | ``sum`` | ``avg`` of the attribute ``attr``): None = as the
    queries say (``engine.order.served``). ``slide_ns``: None = the window. ``horizon_ppm``:
    quantile of L. ``control``: one of ``CONTROLS``; ``kp_milli``, ``kd_milli``: its gains.
    ``late``: ``pass`` | ``drop``. ``time``: ``ref`` | ``ts`` | ``hold``. ``duplicates``: ``drop`` |
    ``pass``.
    """

    error_ppm: int
    confidence_ppm: int = 950_000
    window_ns: int | None = None
    slide_ns: int | None = None
    agg: str | None = None
    attr: str | None = None
    horizon_ppm: int = 995_000
    control: str = "relative"
    kp_milli: int = KP_MILLI
    kd_milli: int = KD_MILLI
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"


class AqKSlack(SlackOrder):
    """The ordering operator ``aq-kslack``.

    Args:
        settings: its own.
        served: the window and the aggregate.
        reads: the events that are looked at; what others do changes neither K nor a coverage.
        strings: of the site.
        correction: what is done first.
        wanted: columns that travel with the events; None: all.
    """

    def __init__(
        self,
        settings: AqKSlackSettings,
        served: Window,
        reads: Reads,
        strings: Strings,
        correction: Correction,
        wanted: set[str] | None,
    ) -> None:
        # The values are held like any column, and left out of what is released if none asked.
        self._column = None if served.attr is None else ATTR_PREFIX + served.attr
        self._counts = served.agg == "count"
        self._reads, self._strings = reads, strings
        self._unasked = False
        if self._column is not None and wanted is not None:
            self._unasked = self._column not in wanted
            wanted = wanted | {self._column}
        aggregate = AGGREGATES[served.agg]
        slide_ns = settings.slide_ns or served.size_ns
        apart = -(-served.size_ns // slide_ns // _OVERLAP)
        base = slide_ns * max(apart, 1)
        own = (
            aggregate, settings.error_ppm, normal_quantile_ppm(settings.confidence_ppm, aggregate),
            settings.kp_milli, settings.kd_milli, served.size_ns,
            1_000_000 - settings.horizon_ppm, base, settings.control == R19,
            0, INT_MAX, PPB, 0, 0, 0, 0, base, INT_MIN, 0, 0,
            *([0] * (MOMENTS + DELAY_BINS + _FIELDS * FOLLOWED)),
        )  # fmt: skip
        super().__init__(self._measured, own, settings.late, correction, wanted)

    def _measured(self, buffer: Buffer, start: int, end: int, scalars: np.ndarray) -> None:
        read = self._reads.rows(self._arena.columns, start, end, self._strings)
        _run(buffer, read, self._values(start, end), start, end, scalars)

    def _values(self, start: int, end: int) -> np.ndarray:
        """The new rows' values as float64; NaN where there is none. Empty if none are needed.

        Raises:
            UserError: the attribute holds no numbers.
        """
        if self._column is None:
            return np.empty(0, np.float64)
        columns = self._arena.columns
        if self._column not in columns:
            return np.full(end - start, np.nan)
        values = columns[self._column][start:end]
        if self._counts:
            values = np.zeros(end - start)  # any kind of value is one
        if values.dtype not in (np.int64, np.float64):
            kind = "bool" if values.dtype == np.bool_ else "text"
            raise UserError(
                f"order aq-kslack: attr={self._column.removeprefix(ATTR_PREFIX)} is {kind}; "
                "name an attribute that holds numbers, or use agg=count"
            )
        values = values.astype(np.float64)
        mask = mask_name(self._column)
        if mask in columns:
            values[~columns[mask][start:end]] = np.nan
        return values

    def _released(self, index: Index, buffer: Buffer) -> Ordered:
        ordered = super()._released(index, buffer)
        if self._unasked and self._column is not None:
            ordered.columns.pop(self._column, None)
            ordered.columns.pop(mask_name(self._column), None)
        return ordered


@kernel
def share_of(ns: int, ppb: int) -> int:
    """``ns * ppb // 1e9`` without leaving 64 bits."""
    return ns // PPB * ppb + ns % PPB * ppb // PPB


@inline
def _learn_late(s: np.ndarray, delay_ns: int) -> None:
    """An event came ``delay_ns`` behind the clock."""
    bins = s[_SKETCH : _SKETCH + DELAY_BINS]
    s[_LATE_N] = learn_delay(bins, s[_LATE_N], max(delay_ns, 0))
    s[_LATE_NEW] += 1
    if s[_LATE_N] <= _REFRESH or s[_LATE_NEW] >= _REFRESH:
        s[_LATE_NEW] = 0
        s[HORIZON] = delay_quantile(bins, s[_LATE_N], s[_TAIL])


@inline
def _place(window: int) -> int:
    return _RING + _FIELDS * (window & (FOLLOWED - 1))


@inline
def _follow_after(s: np.ndarray, clock: int) -> None:
    """Follow windows from the first that starts after ``clock`` on, and no other."""
    s[_TOP] = (clock + s[_SIZE]) // s[_STEP]
    s[_FIRST] = s[_OPEN] = s[_TOP] + 1


@inline
def _extend(s: np.ndarray, clock: int) -> None:
    """Make room for the windows that events up to ``clock`` belong to."""
    top = (clock + s[_SIZE]) // s[_STEP]
    if top - s[_FIRST] >= FOLLOWED:
        if s[_STEP] < _STEP_MAX:
            s[_STEP] *= 2
        _follow_after(s, clock)
        return
    for window in range(s[_TOP] + 1, top + 1):
        place = _place(window)
        s[place : place + _FIELDS] = 0
    s[_TOP] = max(s[_TOP], top)


@inline
def _count(s: np.ndarray, key: int, value: float) -> None:
    """An event with time ``key`` arrived."""
    for window in range(max(key // s[_STEP] + 1, s[_FIRST]), (key + s[_SIZE]) // s[_STEP] + 1):
        place = _place(window)
        s[place + _SEEN] += 1
        if s[_AGGREGATE] != COUNT:
            s[place + _SUM] = as_bits(as_float(s[place + _SUM]) + value)
            s[place + _SQUARES] = as_bits(as_float(s[place + _SQUARES]) + value * value)


@inline
def _produce(s: np.ndarray) -> None:
    """Note what was there for the results that an event released at the clock brought about."""
    while s[_OPEN] <= s[_TOP] and s[_OPEN] * s[_STEP] <= s[LAST]:
        place = _place(s[_OPEN])
        s[place + _MET] = s[place + _SEEN]
        s[place + _MADE] = s[CLOCK]
        s[_OPEN] += 1


@kernel
def _moved(alpha: int, change: int, horizon: int, slack: int) -> int:
    """Alpha times ``exp(change)``, change in billionths and cut to -1 .. 1."""
    x = min(max(change, -PPB), PPB)
    # The series to its third power: 2 % off at most, and equal on every machine.
    power = PPB + x + x * x // (2 * PPB) + x * x // PPB * x // (6 * PPB)
    if x > 0:
        least = np.float64(min(horizon, slack)) / np.float64(slack) * _LEAST_PPB
        alpha = max(alpha, int(least))
    return min(alpha * power // PPB, PPB)


@kernel
def _adapt(s: np.ndarray, window: int) -> None:
    """Eq 2.3 on the coverage of ``window``, measured now."""
    place = _place(window)
    seen = s[place + _SEEN]
    if seen == 0 or s[SLACK] == 0:
        return  # no coverage; or nothing to take a share of
    threshold = coverage_threshold(
        s[_AGGREGATE], s[_ERROR], s[_Z],
        spread(s[_MOMENTS : _MOMENTS + MOMENTS], seen, seen - s[place + _MET]),
        seen, as_float(s[place + _SUM]), as_float(s[place + _SQUARES]),
    )  # fmt: skip
    if s[_PRINTED]:
        err = threshold - s[place + _MET] * PPB // seen
        change = (s[_KP] * err + s[_KD] * (err - s[_ERR])) // 1000
        s[_ERR] = err
        s[ALPHA] = min(max(s[ALPHA] + change, 0), PPB)
        return
    age = (s[CLOCK] - window * s[_STEP]) // s[_STEP]
    scale = max(PPB - threshold, PPB // (seen * (1 + age)), 1)
    err = min((threshold - s[place + _MET] * PPB // seen) * 1_000_000 // scale, _ERR_MAX)
    change = (s[_KP] * err + s[_KD] * (err - s[_ERR])) // (1 + age)
    s[_ERR] = err
    s[ALPHA] = _moved(s[ALPHA], change, s[HORIZON], s[SLACK])


@inline
def _measure(s: np.ndarray) -> None:
    """Every window whose result was produced L ago, in turn."""
    while s[_FIRST] < s[_OPEN] and s[_place(s[_FIRST]) + _MADE] + s[HORIZON] <= s[CLOCK]:
        window = s[_FIRST]
        s[_FIRST] += 1
        _adapt(s, window)
        age = s[CLOCK] - (window * s[_STEP] - s[_SIZE])
        if s[_STEP] > s[_BASE] and age < FOLLOWED // 8 * s[_STEP]:
            while s[_STEP] > s[_BASE] and age < FOLLOWED // 8 * s[_STEP]:
                s[_STEP] //= 2
            _follow_after(s, s[CLOCK])


@kernel
def _run(
    b: Buffer, read: np.ndarray, values: np.ndarray, start: int, end: int, s: np.ndarray
) -> None:
    """``read``: whether each row is looked at; empty where every one is."""
    for row in range(start, end):
        key = b.key[row]
        is_read = len(read) == 0 or read[row - start]
        value = values[row - start] if len(values) else 0.0
        push(b, s, row)
        if key > s[CLOCK]:
            if s[_LOWEST] != INT_MAX:
                s[SLACK] = max(s[SLACK], key - s[_LOWEST])
                s[_LOWEST] = INT_MAX
            s[CLOCK] = key
            if s[_FIRST] == INT_MIN:
                _follow_after(s, key)
            _measure(s)
            _extend(s, key)
            if is_read and np.isfinite(value):
                _count(s, key, value)
            release_until(b, s, key - share_of(s[SLACK], s[ALPHA]), b.arrival[row])
            _produce(s)
            continue
        if not is_read:
            continue
        s[_LOWEST] = min(s[_LOWEST], key)
        if key < s[CLOCK]:
            _learn_late(s, s[CLOCK] - key)
        if np.isfinite(value):
            _count(s, key, value)
