"""``aq-kslack``: K-slack with the shortest wait that meets a required quality of results.

Source: R19 2.3.3, Eq 2.2 and 2.3, Fig 2.7 and 2.8 (Ji et al.). The parts:

* Buffer: an event is released when ``time + alpha*K <= clock``. K is that of ``mp-kslack``; alpha
  is in [0, 1] and starts at 1. The buffer is checked only when the clock advances.
* Windows [end - window, end) with ends at multiples of ``slide`` since the epoch. The result of a
  window is produced when an event with ``time >= end`` is released. Its coverage is the number of
  its events that had arrived by then divided by the number that have arrived by now. With an
  attribute, events without it do not count.
* Coverage is measured when the clock has advanced by L since the result was produced. L is the
  ``horizon``-quantile of the delays of out-of-order events (decaying, ``order.slack.buffer``). By
  default the quantile leaves out a tenth of the error: events later than L are not counted as
  missing, and with long-tailed delays a fixed 0.95 would overlook half of the loss.
* Threshold: the error model below, with the window's own number of events and variation.
* PD controller (Eq 2.3) on the logarithm of alpha, with gains that need no tuning to a stream::

      err   = (threshold - coverage) / max(1 - threshold, 1 / (events * (1 + age)))
      alpha = alpha * exp((kp * err + kd * (err - err before)) / (1 + age))

  ``age``: time since the window's end, in windows. The reasons for these scales: the effect of a
  change of alpha on coverage differs by orders of magnitude between streams, but the effect of a
  *relative* change on the missing share is nearly the same (for exponential delays, ln(1/missing)
  per 1; for a power law, its exponent). With exp, opposite steps cancel, so the mean coverage is
  the threshold. 1 + age: results in between still reflect the old alpha; without it the loop
  oscillates if delays are long compared with windows. 1/events: one event moves alpha by at most
  kp. A step is at most e-fold, and a step up starts from at least L/(16*K), so alpha can leave 0.
  While K is 0 there is nothing to adapt.

``control=r19`` is Eq 2.3 as printed: ``alpha += kp * err + kd * (err - err before)`` with ``err =
threshold - coverage``, alpha limited to [0, 1]. Its gains must be tuned by hand for each stream, as
R19 says; R19 prints none.

The window and the aggregate are those of the query that is served, and only events that the
queries read count (``engine.order.query_defaults``).

Bounded: at most eight overlapping windows are followed at a time, and 128 in all. If more windows
wait to be measured, the followed ones are dropped, and from then on only every second window is
followed, until there is room again. The state is about 1,100 numbers.

Gains. ``bench/tune_aq.py`` runs 16 pairs over 27 streams: exponential, lognormal, Pareto, two-class
and shifting delays, 20 to 1,000 events a window, delays of 0.02 to 100 windows, errors of 1, 5 and
20 %. Criterion: least mean hold among the pairs that reach the confidence of 0.95, and at least
0.92 on the worst stationary stream. Outcome: from kp = 0.3 or kd = 0.2 on the confidence is not
reached (0.90 down to 0.43 on the worst stream); kp = 0.1 holds 1.6 times as long as 0.2. kp = 0.2
with kd = 0 or 0.1 is a draw (0.63 and 0.64 of the hold of the best constant slack, 0.97 of the
windows covered), and with 0.1 shifting delays are held 1 to 4 % shorter: that is the default.

When not to use: for patterns and joins, as a share of the events says nothing about the share of
the results; if lateness correlates with the value, so the missing events are not a fair sample; if
results must be complete; if windows have few events, so none may be missing; if the distribution of
delays changes faster than K + L + window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Final, Self

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.columns import mask_name
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, PPB, Record, one
from slackwater.engine.order.base import (
    SHARED,
    SLACK_MAX_NS,
    Order,
    Ordered,
    OrderSite,
    SlackSettings,
    choice,
    factor,
    only_known,
    share,
    shared,
    span_if_given,
)
from slackwater.engine.order.query_defaults import AGGREGATES, Reads, Window, reads_of, window_of
from slackwater.engine.order.slack.buffer import (
    DELAY_BINS,
    Index,
    SlackBuffer,
    SlackOrder,
    delay_quantile,
    learn_delay,
    push,
    release_until,
)
from slackwater.engine.order.slack.kslack import fixed_buffers
from slackwater.engine.query.plan import Plan

# The least coverage of a window for a required quality of its result (aq-kslack's error model).
#
# Source: the idea of R19 2.3.3 (Ji et al.): events too late for a window are missing from it like
# events that a sampler leaves out. So a sampling rate has an error, and an error has a least rate,
# which is the required coverage. R19 gives no formulas; these are derived here.
#
# Let N events belong to the window, with values of mean M and coefficient of variation cv
# (standard deviation over ``|M|``). Each is in time with probability p, independent of its value
# and of other events; q = 1 - p. With ``confidence`` the relative error shall be at most e. By the
# central limit theorem an error lies within z standard deviations of its mean, where z is the
# normal quantile of that confidence.
#
# ``count`` and ``sum``. The result adds up the present events and is not scaled up, as the operator
# does not know p. The sum of B_i * x_i with B_i = 1 for events in time has the mean p*N*M and the
# variance p*q * sum(x_i**2) = p*q * N * M**2 * (1 + cv**2). So relative to N*M the loss is q, and
#
#     q + a * sqrt(p*q) <= e,    a = z * sqrt((1 + cv**2) / N).
#
# Squared, (1 + a**2) q**2 - (2e + a**2) q + e**2 >= 0, whose smaller root is the largest loss:
#
#     q = 2 e**2 / (2e + a**2 + a * sqrt(a**2 + 4e(1 - e))).
#
# A count is the sum of ones: cv = 0, and z is one-sided, as nothing is counted twice. A window's
# count is within e if and only if its coverage is at least 1 - e; p is the mean coverage at which
# the share ``confidence`` of the windows reaches that. It tends to 1 - e for large N.
#
# ``avg``. Of n = p*N of N values, drawn without replacement, the mean has the standard error
# ``M * cv * sqrt((1 - p) / n)``, so
#
#     z * cv * sqrt((1 - p) / (p*N)) <= e,    p = (z*cv)**2 / (e**2 * N + (z*cv)**2).
#
# The theorem is applied from 30 values on: p is at least 30/N, and 1 for N below 30.
#
# If events are late together, the share in time varies more than for independent events. The factor
# is measured: ``spread`` is the mean square of the deviation of the number of missing events from
# the usual share, over p*q*N; it multiplies the variance of a count and of a sum.
#
# Not covered: values that correlate with lateness, and groups: N is that of the whole window.

COUNT, SUM, AVG = AGGREGATES.values()
PPM: Final = 1_000_000
MOMENTS: Final = np.dtype([
    ("events", "f8"), ("missing", "f8"), ("expected", "f8"), ("observed", "f8")
])  # fmt: skip
"""Running means over windows: events, missing events, and the expected and observed variance."""
_SAMPLE_LEAST: Final = 30.0
_EASE: Final = 64.0
"""Time constant of a running mean, in windows."""


def normal_quantile_ppm(confidence_ppm: int, aggregate: int) -> int:
    """Return z of a confidence of at least 0.5, in millionths; one-sided for a count."""
    share = confidence_ppm / PPM
    return round(NormalDist().inv_cdf(share if aggregate == COUNT else (1 + share) / 2) * PPM)


@inline
def _eased(mean: float, value: float) -> float:
    return mean + (value - mean) / _EASE


@kernel
def spread(moments: Record, n: int, missing: int) -> float:
    """Return the variance of the number of missing events relative to independent ones; at least 1.

    Args:
        moments: MOMENTS; updated with this window.
        n: number of its events.
        missing: number of its events that were not in time.
    """
    moments.events = _eased(moments.events, float(n))
    moments.missing = _eased(moments.missing, float(missing))
    share = moments.missing / moments.events
    error = missing - share * n
    moments.expected = _eased(moments.expected, share * (1.0 - share) * n)
    moments.observed = _eased(moments.observed, error * error)
    return max(moments.observed / moments.expected, 1.0) if moments.expected > 0.0 else 1.0


@kernel
def coverage_threshold(
    aggregate: int, error_ppm: int, z_ppm: int, dispersion: float, n: int, total: float,
    squares: float,
) -> int:  # fmt: skip
    """Return the least mean coverage of a window, in billionths.

    It uses only + - * / and square roots, which every machine rounds correctly, so equal logs give
    equal results on all machines.

    Args:
        aggregate: COUNT, SUM or AVG.
        error_ppm: allowed relative error, in millionths.
        z_ppm: see ``normal_quantile_ppm``.
        dispersion: see ``spread``.
        n: number of events of the window, at least 1.
        total: sum of their values; unused for a count.
        squares: sum of the squares of their values.
    """
    error, z = error_ppm / 1e6, z_ppm / 1e6
    variation = 0.0  # cv squared
    if aggregate != COUNT:
        variation = n * squares / (total * total) - 1.0
        # If the mean is 0 or a sum overflows, too, no event may be missing.
        if not variation < 1e18:
            return PPB
        variation = max(variation, 0.0)
    if aggregate == AVG:
        noise = z * z * variation
        share = max(noise / (error * error * n + noise), _SAMPLE_LEAST / n) if n > 30 else 1.0
        return int(np.ceil(share * PPB))
    a = z * np.sqrt(dispersion * (1.0 + variation) / n)
    loss = 2 * error * error / (2 * error + a * a + a * np.sqrt(a * a + 4 * error * (1 - error)))
    return PPB - int(loss * PPB)


R19: Final = "r19"
"""Alpha follows the coverage by Eq 2.3 as printed."""
FOLLOWED: Final = 128
"""Largest number of followed windows."""
_OVERLAP: Final = 8
"""Largest number of followed windows at one instant."""
_REFRESH: Final = 64
"""Number of late arrivals between two evaluations of the sketch."""
_ERR_MAX: Final = 10**13
_LEAST_PPB: Final = PPB / 16
_STEP_MAX: Final = 1 << 57

WINDOW: Final = np.dtype(
    [("seen", "i8"), ("met", "i8"), ("made", "i8"), ("sum", "f8"), ("squares", "f8")]
)
"""A followed window: number of events, of those in time, the clock at production, and the sums of
values and of their squares."""
AQ_KSLACK: Final = np.dtype(
    [
        *((name, "i8") for name in (
            # settings
            "aggregate", "error", "z", "kp", "kd", "size", "tail", "base", "printed",
            # state
            "slack", "lowest", "alpha", "err", "horizon", "late_n", "late_new", "step", "first",
            "open", "top",
        )),
        ("moments", MOMENTS, (1,)), ("sketch", "i8", (DELAY_BINS,)),
        ("windows", WINDOW, (FOLLOWED,)),
    ]
)  # fmt: skip
"""``base``: the least distance between followed windows [ns]. ``printed``: 1: Eq 2.3 as printed.

``slack``: K [ns]. ``lowest``: the smallest event time since the clock advanced. ``alpha``: in
billionths. ``err``: the last error, in millionths of its scale (billionths if ``printed``).
``horizon``: L [ns]. ``late_n``, ``late_new``: number of delays in the ``sketch``, and since its
last evaluation. ``step``: distance between followed windows: ``base`` times a power of two; window
g ends at g * step. ``first``: the first window not yet measured, INT_MIN before the first event.
``open``: the first window without a result. ``top``: the last window that an event can belong to.
``windows``: window g is at g modulo their number.
"""


class AqKSlack(SlackOrder):
    """The ordering operator ``aq-kslack``, with one or several buffers over the same rows.

    Args:
        buffers: per buffer its settings, which differ only in their errors, and its queries. It
            uses their window and aggregate, and only the events that they read affect its K and
            coverage.
        site: the site that it orders.
    """

    def __init__(
        self, buffers: Sequence[tuple[AqKSlackSettings, Sequence[Plan]]], site: OrderSite
    ) -> None:
        measures = [(each, each.served(plans), reads_of(plans)) for each, plans in buffers]
        # The values are buffered like any column; if no query reads them, the output omits them.
        values = {ATTR_PREFIX + of.attr for _, of, _ in measures if of.attr is not None}
        self._strings, self._unread = site.clocks.strings, set[str]()
        if site.columns_read is not None:
            self._unread = values - site.columns_read
            site = replace(site, columns_read=site.columns_read | values)
        runs = [partial(self._measured, served, reads) for _, served, reads in measures]
        owns = [_begun(settings, served) for settings, served, _ in measures]
        super().__init__(runs, owns, buffers[0][0], site)

    def _measured(
        self, served: Window, reads: Reads, b: SlackBuffer, start: int, end: int, policy: np.ndarray
    ) -> None:
        read = reads.rows(self._arena.columns, start, end, self._strings)
        _run(b, read, self._values(served, start, end), start, end, policy)

    def _values(self, served: Window, start: int, end: int) -> np.ndarray:
        """Return the values of the new rows as float64; NaN for null; empty if not needed.

        Raises:
            UserError: the attribute has other values than numbers.
        """
        if served.attr is None:
            return np.empty(0, np.float64)
        columns, column = self._arena.columns, ATTR_PREFIX + served.attr
        if column not in columns:
            return np.full(end - start, np.nan)
        values = columns[column][start:end]
        if served.agg == "count":
            values = np.zeros(end - start)  # values of any type count
        if values.dtype not in (np.int64, np.float64):
            kind = "bool" if values.dtype == np.bool_ else "text"
            raise UserError(
                f"order aq-kslack: attr={served.attr} is {kind}; "
                "name an attribute that holds numbers, or use agg=count"
            )
        values = values.astype(np.float64)
        mask = mask_name(column)
        if mask in columns:
            values[~columns[mask][start:end]] = np.nan
        return values

    def _released(self, index: Index, buffer: SlackBuffer) -> Ordered:
        ordered = super()._released(index, buffer)
        for column in self._unread:
            ordered.columns.pop(column, None)
            ordered.columns.pop(mask_name(column), None)
        return ordered


def _begun(settings: AqKSlackSettings, served: Window) -> np.ndarray:
    """Return the AQ_KSLACK record before the first event."""
    aggregate = AGGREGATES[served.agg]
    slide_ns = settings.slide_ns or served.size_ns
    apart = -(-served.size_ns // slide_ns // _OVERLAP)
    base = slide_ns * max(apart, 1)
    return one(
        AQ_KSLACK, aggregate=aggregate, error=settings.error_ppm,
        z=normal_quantile_ppm(settings.confidence_ppm, aggregate), kp=settings.kp_milli,
        kd=settings.kd_milli, size=served.size_ns, tail=1_000_000 - settings.horizon_ppm,
        base=base, printed=settings.control == R19, lowest=INT_MAX, alpha=PPB, step=base,
        first=INT_MIN,
    )  # fmt: skip


@inline
def _learn_late(policy: Record, delay_ns: int) -> None:
    """Add the delay of an event that came ``delay_ns`` behind the clock."""
    policy.late_n = learn_delay(policy.sketch, policy.late_n, max(delay_ns, 0))
    policy.late_new += 1
    if policy.late_n <= _REFRESH or policy.late_new >= _REFRESH:
        policy.late_new = 0
        policy.horizon = delay_quantile(policy.sketch, policy.late_n, policy.tail)


@inline
def _follow_after(policy: Record, clock: int) -> None:
    """Follow only windows from the first one that starts after ``clock`` on."""
    policy.top = (clock + policy.size) // policy.step
    policy.open = policy.top + 1
    policy.first = policy.open


@inline
def _extend(policy: Record, clock: int) -> None:
    """Make room for the windows that events up to ``clock`` belong to."""
    top = (clock + policy.size) // policy.step
    if top - policy.first >= FOLLOWED:
        if policy.step < _STEP_MAX:
            policy.step *= 2
        _follow_after(policy, clock)
        return
    for number in range(policy.top + 1, top + 1):
        window = policy.windows[number & (FOLLOWED - 1)]
        window.seen, window.met, window.made = 0, 0, 0
        window.sum, window.squares = 0.0, 0.0
    policy.top = max(policy.top, top)


@inline
def _count(policy: Record, key: int, value: float) -> None:
    """Add an event with time ``key`` to its followed windows."""
    for number in range(
        max(key // policy.step + 1, policy.first), (key + policy.size) // policy.step + 1
    ):
        window = policy.windows[number & (FOLLOWED - 1)]
        window.seen += 1
        if policy.aggregate != COUNT:
            window.sum += value
            window.squares += value * value


@kernel
def _moved(alpha: int, change: int, horizon: int, slack: int) -> int:
    """Return alpha times ``exp(change)``; ``change``: in billionths, limited to [-1, 1]."""
    x = min(max(change, -PPB), PPB)
    # The series up to the third power: at most 2 % off, and equal on every machine.
    power = PPB + x + x * x // (2 * PPB) + x * x // PPB * x // (6 * PPB)
    if x > 0:
        least = np.float64(min(horizon, slack)) / np.float64(slack) * _LEAST_PPB
        alpha = max(alpha, int(least))
    return min(alpha * power // PPB, PPB)


@kernel
def _adapt(policy: Record, number: int, clock: int) -> None:
    """Apply Eq 2.3 to the current coverage of window ``number``."""
    window = policy.windows[number & (FOLLOWED - 1)]
    seen = window.seen
    if seen == 0 or policy.slack == 0:
        return  # no coverage, or no slack
    threshold = coverage_threshold(
        policy.aggregate, policy.error, policy.z,
        spread(policy.moments[0], seen, seen - window.met), seen, window.sum, window.squares,
    )  # fmt: skip
    short = threshold - window.met * PPB // seen
    if policy.printed:
        change = (policy.kp * short + policy.kd * (short - policy.err)) // 1000
        policy.err = short
        policy.alpha = min(max(policy.alpha + change, 0), PPB)
        return
    age = (clock - number * policy.step) // policy.step
    scale = max(PPB - threshold, PPB // (seen * (1 + age)), 1)
    err = min(short * 1_000_000 // scale, _ERR_MAX)
    change = (policy.kp * err + policy.kd * (err - policy.err)) // (1 + age)
    policy.err = err
    policy.alpha = _moved(policy.alpha, change, policy.horizon, policy.slack)


@inline
def _measure(policy: Record, clock: int) -> None:
    """Measure every window whose result was produced at least L ago, in order."""
    while policy.first < policy.open:
        if policy.windows[policy.first & (FOLLOWED - 1)].made + policy.horizon > clock:
            return
        number = policy.first
        policy.first += 1
        _adapt(policy, number, clock)
        age = clock - (number * policy.step - policy.size)
        if policy.step > policy.base and age < FOLLOWED // 8 * policy.step:
            while policy.step > policy.base and age < FOLLOWED // 8 * policy.step:
                policy.step //= 2
            _follow_after(policy, clock)


@kernel
def _run(
    b: SlackBuffer, read: np.ndarray, values: np.ndarray, start: int, end: int, of: np.ndarray
) -> None:
    """Process rows [``start``, ``end``); ``read``: which rows the queries read; empty: all."""
    s, policy = b.state[0], of[0]
    for row in range(start, end):
        key = b.key[row]
        is_read = len(read) == 0 or read[row - start]
        value = values[row - start] if len(values) else 0.0
        push(b, row)
        if key > s.clock:
            if policy.lowest != INT_MAX:
                policy.slack = max(policy.slack, key - policy.lowest)
                policy.lowest = INT_MAX
            s.clock = key
            if policy.first == INT_MIN:
                _follow_after(policy, key)
            _measure(policy, key)
            _extend(policy, key)
            if is_read and np.isfinite(value):
                _count(policy, key, value)
            # alpha * K, without an overflow of 64 bits.
            wait_ns = policy.slack // PPB * policy.alpha + policy.slack % PPB * policy.alpha // PPB
            release_until(b, key - wait_ns, b.arrival[row])
            while policy.open <= policy.top and policy.open * policy.step <= s.last:
                produced = policy.windows[policy.open & (FOLLOWED - 1)]
                produced.met, produced.made = produced.seen, s.clock
                policy.open += 1
            continue
        if not is_read:
            continue
        policy.lowest = min(policy.lowest, key)
        if key < s.clock:
            _learn_late(policy, s.clock - key)
        if np.isfinite(value):
            _count(policy, key, value)


# Settings of ``aq-kslack`` and of ``kslack-chain``.


HORIZON_PART: Final = 10
"""1 - horizon is the error divided by this number."""
KP_MILLI: Final = 200
KD_MILLI: Final = 100
CONTROLS: Final = ("relative", R19)
"""How alpha follows the coverage: see the module, or by Eq 2.3 as printed."""
_GAIN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class AqKSlackSettings(SlackSettings):
    """``error_ppm``: allowed relative error of a window's result, with ``confidence_ppm``.

    ``window_ns``, ``agg`` (``count`` | ``sum`` | ``avg`` of the attribute ``attr``): None: those of
    the queries (``engine.order.query_defaults``). ``slide_ns``: None: the window. ``horizon_ppm``:
    quantile of L. ``control``: one of ``CONTROLS``; ``kp_milli``, ``kd_milli``: its gains.
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

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        keys = ("error", "confidence", "window", "slide", "agg", "attr", "horizon", "control", "kp",
                "kd", *SHARED)  # fmt: skip
        only_known(pairs, keys)
        if "error" not in pairs:
            raise UserError(
                "aq-kslack needs the relative error allowed, as in aq-kslack:error=0.05"
            )
        error_ppm = share(pairs["error"], "error", 10**6)
        confidence_ppm = share(pairs.get("confidence", "0.95"), "confidence", 10**6)
        if not error_ppm:
            raise UserError("error=0: must be above 0; mp-kslack waits for everything")
        if confidence_ppm < 500_000:
            raise UserError(f"confidence={pairs['confidence']}: must be at least 0.5")
        agg = choice(pairs, "agg", tuple(AGGREGATES)) if "agg" in pairs else None
        attr = pairs.get("attr", "").removeprefix(ATTR_PREFIX)
        if (agg in (None, "count")) != (not attr):
            raise UserError(
                "sum and avg need their attribute and count has none: agg=avg,attr=NAME"
            )
        return cls(
            error_ppm=error_ppm,
            confidence_ppm=confidence_ppm,
            window_ns=span_if_given(pairs, "window", time_unit),
            slide_ns=span_if_given(pairs, "slide", time_unit),
            agg=agg,
            attr=attr or None,
            horizon_ppm=(
                share(pairs["horizon"], "horizon", 10**6)
                if "horizon" in pairs
                else 1_000_000 - error_ppm // HORIZON_PART
            ),
            control=choice(pairs, "control", CONTROLS),
            kp_milli=factor(pairs["kp"], "kp", _GAIN_MAX) if "kp" in pairs else KP_MILLI,
            kd_milli=factor(pairs["kd"], "kd", _GAIN_MAX) if "kd" in pairs else KD_MILLI,
            **shared(pairs),
        )

    def build(self, site: OrderSite) -> Order:
        return AqKSlack([(self, site.plans)], site)

    def served(self, plans: Sequence[Plan]) -> Window:
        """Return the window that is measured.

        Raises:
            UserError: see ``engine.order.query_defaults.window_of``.
        """
        return window_of(plans, self.window_ns, self.agg, self.attr)

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        served = self.served(plans)
        return {} if served.attr is None else {served.attr: served.agg != "count"}


# ``kslack-chain``: a chain of K-slack buffers; each query reads after its own buffer (R19 2.3.5).
#
# As printed, buffer ``i`` delays events by ``K(i) - K(i-1)`` more than the previous one, and query
# ``i`` reads after it. A chain is equivalent to one buffer of the total size, so here the buffers
# are parallel over rows that are stored once: query ``i`` reads exactly the output of
# ``kslack:K(i)``, and no query waits longer than its own slack. (In the papers buffers pass only
# events on, so a clock stops at gaps of event times.) Parallel buffers may change their sizes and
# their order: with ``error=E`` query ``i`` reads exactly the output of ``aq-kslack:error=E``.
#
# When not to use: with a single query (``kslack`` is simpler); if all queries can wait equally
# long; if sequence numbers show what is missing (``sequence`` adds latency only at gaps).


@dataclass(frozen=True, slots=True)
class KSlackChainSettings(SlackSettings):
    """``ks_ns``: the slacks, ascending. ``qualities``: the buffers sized by an error, without
    slacks.

    Query ``i`` reads after slack ``i``; further queries and the ordered stream after the last. With
    qualities every query has its own buffer, further ones with the last error, and the ordered
    stream is that of the last query.
    """

    ks_ns: tuple[int, ...] = ()
    qualities: tuple[AqKSlackSettings, ...] = ()

    listed = "ks"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        texts = [text.strip(" []") for text in pairs.get("ks", "").split(",")[1:]]
        if "error" in pairs:
            return cls((), cls._qualities(pairs, texts, time_unit), **shared(pairs))
        only_known(pairs, ("ks", *SHARED, "error"))
        ks_ns = tuple(parse_duration(text, time_unit) for text in texts or ("500ms",))
        if list(ks_ns) != sorted(ks_ns):
            raise UserError("give the slacks in ascending order, as in kslack-chain:100ms,1s")
        if ks_ns[-1] > SLACK_MAX_NS:
            raise UserError(f"a slack is at most {SLACK_MAX_NS} ns")
        return cls(ks_ns, (), **shared(pairs))

    @staticmethod
    def _qualities(
        pairs: dict[str, str], texts: list[str], time_unit: str
    ) -> tuple[AqKSlackSettings, ...]:
        """Return the settings per error; ``texts``: the list after the first error."""
        names = list(pairs)
        if texts and names.index("ks") < names.index("error"):
            raise UserError(
                "give slacks or errors, not both: kslack-chain:100ms,1s or "
                "kslack-chain:error=0.05,0.01"
            )
        others = {key: value for key, value in pairs.items() if key != "ks"}
        errors = (pairs["error"], *texts)
        return tuple(AqKSlackSettings.read({**others, "error": e}, time_unit) for e in errors)

    def build(self, site: OrderSite) -> Order:
        if self.qualities:
            return AqKSlack(self._by_query(site.plans), site)
        return fixed_buffers(self.ks_ns[:-1][: len(site.plans)] + self.ks_ns[-1:], self, site)

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for quality, served in self._by_query(plans) if self.qualities else ():
            for name, number in quality.attributes(served).items():
                found[name] = number or found.get(name, False)
        return found

    def _by_query(self, plans: Sequence[Plan]) -> list[tuple[AqKSlackSettings, Sequence[Plan]]]:
        """Return the settings of each query's buffer; without queries only the last one."""
        if not plans:
            return [(self.qualities[-1], ())]
        last = len(self.qualities) - 1
        return [(self.qualities[min(n, last)], (plan,)) for n, plan in enumerate(plans)]
