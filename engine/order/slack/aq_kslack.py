"""``aq-kslack``: K-slack that waits only as long as the wanted quality of results needs.

Source: R19 2.3.3, Eq 2.2 and 2.3, Fig 2.7 and 2.8 (Ji et al.). The parts:

* Buffer: an event goes once ``time + alpha*K <= clock``. K is that of ``mp-kslack``; alpha is in
  [0, 1] and starts at 1. Everything is looked at only when the clock advances.
* Windows [end - window, end) with ends at multiples of ``slide`` since the epoch. The result of a
  window is produced when an event with ``time >= end`` is released. Its coverage is the number of
  its events that had arrived by then over those that have arrived by now: what arrives before is
  let go before. With an attribute, events without it do not count.
* Coverage is measured as soon as the clock is L past where it was when the result was produced, L
  being the ``horizon``-quantile of how late out-of-order events were (``order.slack.buffer``,
  which forgets). By default it leaves out a tenth of the error: what comes later than L is not
  seen to be missing, and where delays have a long tail a fixed 0.95 overlooks half of the loss.
* Threshold: the error model below, with the window's own number of events and variation.
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
queries read are looked at (``engine.order.query_defaults``).

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

# How much of a window must be there for its result to be good enough (aq-kslack's error model).
#
# Source: the manner of R19 2.3.3 (Ji et al.): what came too late for a window is missing from it
# like what a sampler left out. A sampling rate then has an error, and an error a least rate, which
# is the coverage to be held. R19 gives no formulas; these are derived here.
#
# Let N events belong to the window, with values of mean M and coefficient of variation cv
# (standard deviation over ``|M|``). Each is in time with probability p, whatever its value and
# the luck of its neighbours; q = 1 - p. With ``confidence`` the relative error shall be at most
# e. By the central limit theorem an error lies within z standard deviations of its mean, where z
# is the normal quantile of that confidence.
#
# ``count`` and ``sum``. The result adds up what is there, and is not scaled up, since the operator
# does not know p. The sum of B_i * x_i with B_i = 1 for what is in time has the mean p*N*M and the
# variance p*q * sum(x_i**2) = p*q * N * M**2 * (1 + cv**2). So relative to N*M the loss is q, and
#
#     q + a * sqrt(p*q) <= e,    a = z * sqrt((1 + cv**2) / N).
#
# Squared, (1 + a**2) q**2 - (2e + a**2) q + e**2 >= 0, whose smaller root is the largest loss:
#
#     q = 2 e**2 / (2e + a**2 + a * sqrt(a**2 + 4e(1 - e))).
#
# A count is the sum of ones: cv = 0, and z is one-sided, since nothing is counted twice. A window's
# count is within e just when its coverage is at least 1 - e; this p is the mean coverage at which
# the share ``confidence`` of the windows is there. It tends to 1 - e for large N.
#
# ``avg``. Of n = p*N of N values, drawn without replacement, the mean has the standard error
# ``M * cv * sqrt((1 - p) / n)``, so
#
#     z * cv * sqrt((1 - p) / (p*N)) <= e,    p = (z*cv)**2 / (e**2 * N + (z*cv)**2).
#
# The theorem is leaned on from 30 values up: p is at least 30/N, and 1 where N is below.
#
# Events that are late together make the share that is in time vary more than chance would. How much
# more is measured: ``spread`` is the mean square of how many events were missing from a window
# beyond the usual share, over p*q*N; it multiplies the variance of a count and of a sum.
#
# Not covered: values that go with lateness, and groups: N is the whole window's.

COUNT, SUM, AVG = AGGREGATES.values()
PPM: Final = 1_000_000
MOMENTS: Final = np.dtype([
    ("events", "f8"), ("missing", "f8"), ("expected", "f8"), ("observed", "f8")
])  # fmt: skip
"""Running means over windows: events, those missing, and the variance of these."""
_SAMPLE_LEAST: Final = 30.0
_EASE: Final = 64.0
"""Windows that a running mean remembers, about."""


def normal_quantile_ppm(confidence_ppm: int, aggregate: int) -> int:
    """The z of a confidence of at least a half, in millionths; one-sided for a count."""
    share = confidence_ppm / PPM
    return round(NormalDist().inv_cdf(share if aggregate == COUNT else (1 + share) / 2) * PPM)


@inline
def _eased(mean: float, value: float) -> float:
    return mean + (value - mean) / _EASE


@kernel
def spread(moments: Record, n: int, missing: int) -> float:
    """How much more the numbers of missing events vary than independent ones would; at least 1.

    Args:
        moments: MOMENTS; learns of this window.
        n: its events.
        missing: those that were not in time.
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
    """The least mean coverage of a window, in billionths.

    Only + - * / and square roots, each correctly rounded everywhere, so that equal logs give equal
    results on all machines.

    Args:
        aggregate: COUNT, SUM or AVG.
        error_ppm: relative error allowed, in millionths.
        z_ppm: see ``normal_quantile_ppm``.
        dispersion: see ``spread``.
        n: events of the window, at least 1.
        total: sum of their values; of no interest to a count.
        squares: sum of the squares of their values.
    """
    error, z = error_ppm / 1e6, z_ppm / 1e6
    variation = 0.0  # cv squared
    if aggregate != COUNT:
        variation = n * squares / (total * total) - 1.0
        # Also where the mean is 0 or a sum is beyond a float: then nothing may be missing.
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
"""Windows that are followed at a time."""
_OVERLAP: Final = 8
"""Windows that are followed of those over one instant."""
_REFRESH: Final = 64
"""Late arrivals between two looks at the sketch."""
_ERR_MAX: Final = 10**13
_LEAST_PPB: Final = PPB / 16
_STEP_MAX: Final = 1 << 57

WINDOW: Final = np.dtype(
    [("seen", "i8"), ("met", "i8"), ("made", "i8"), ("sum", "f8"), ("squares", "f8")]
)
"""A followed window: events seen, those in time, the clock at production; of their values."""
AQ_KSLACK: Final = np.dtype(
    [
        *((name, "i8") for name in (
            # settings
            "aggregate", "error", "z", "kp", "kd", "size", "tail", "base", "printed",
            # what changes
            "slack", "lowest", "alpha", "err", "horizon", "late_n", "late_new", "step", "first",
            "open", "top",
        )),
        ("moments", MOMENTS, (1,)), ("sketch", "i8", (DELAY_BINS,)),
        ("windows", WINDOW, (FOLLOWED,)),
    ]
)  # fmt: skip
"""``base``: the least distance between followed windows [ns]; ``printed``: 1: Eq 2.3 as it is.

``slack``: K [ns]; ``lowest``: the smallest event time since the clock advanced; ``alpha``: in
billionths; ``err``: the last error, in millionths of its scale (billionths where ``printed``);
``horizon``: L [ns]; ``late_n``, ``late_new``: delays in the ``sketch``, and since it was looked at.
``step``: distance between followed windows: ``base`` times a power of two; window g ends at
g * step. ``first``: the first one that is not measured yet, INT_MIN before the first event;
``open``: the first whose result is not produced yet; ``top``: the last that an event can belong to.
``windows``: window g is at g modulo their number.
"""


class AqKSlack(SlackOrder):
    """The ordering operator ``aq-kslack``, and several of them over the same rows.

    Args:
        buffers: for each its settings, which differ in their errors alone, and the queries that it
            serves: of their window and aggregate it looks at the events that they read. What others
            do changes neither its K nor a coverage.
        site: for which it is.
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
        """The new rows' values as float64; NaN where there is none. Empty if none are needed.

        Raises:
            UserError: the attribute holds no numbers.
        """
        if served.attr is None:
            return np.empty(0, np.float64)
        columns, column = self._arena.columns, ATTR_PREFIX + served.attr
        if column not in columns:
            return np.full(end - start, np.nan)
        values = columns[column][start:end]
        if served.agg == "count":
            values = np.zeros(end - start)  # any kind of value is one
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
    """AQ_KSLACK before the first event."""
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
    """An event came ``delay_ns`` behind the clock."""
    policy.late_n = learn_delay(policy.sketch, policy.late_n, max(delay_ns, 0))
    policy.late_new += 1
    if policy.late_n <= _REFRESH or policy.late_new >= _REFRESH:
        policy.late_new = 0
        policy.horizon = delay_quantile(policy.sketch, policy.late_n, policy.tail)


@inline
def _follow_after(policy: Record, clock: int) -> None:
    """Follow windows from the first that starts after ``clock`` on, and no other."""
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
    """An event with time ``key`` arrived."""
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
    """Alpha times ``exp(change)``, change in billionths and cut to -1 .. 1."""
    x = min(max(change, -PPB), PPB)
    # The series to its third power: 2 % off at most, and equal on every machine.
    power = PPB + x + x * x // (2 * PPB) + x * x // PPB * x // (6 * PPB)
    if x > 0:
        least = np.float64(min(horizon, slack)) / np.float64(slack) * _LEAST_PPB
        alpha = max(alpha, int(least))
    return min(alpha * power // PPB, PPB)


@kernel
def _adapt(policy: Record, number: int, clock: int) -> None:
    """Eq 2.3 on the coverage of window ``number``, measured now."""
    window = policy.windows[number & (FOLLOWED - 1)]
    seen = window.seen
    if seen == 0 or policy.slack == 0:
        return  # no coverage; or nothing to take a share of
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
    """Every window whose result was produced L ago, in turn."""
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
    """``read``: whether each row is looked at; empty where every one is."""
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
            # A share in billionths, without leaving 64 bits.
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
"""L leaves out this part of the error: 1 - horizon is a tenth of it."""
KP_MILLI: Final = 200
KD_MILLI: Final = 100
CONTROLS: Final = ("relative", R19)
"""How alpha follows the coverage: as above, or by Eq 2.3 as printed."""
_GAIN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class AqKSlackSettings(SlackSettings):
    """``error_ppm``: relative error allowed to a window's result, with ``confidence_ppm``.

    ``window_ns``, ``agg`` (``count`` | ``sum`` | ``avg`` of the attribute ``attr``): None = as the
    queries say (``engine.order.query_defaults``). ``slide_ns``: None = the window. ``horizon_ppm``:
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
        """The window that is measured.

        Raises:
            UserError: as ``engine.order.query_defaults.window_of``.
        """
        return window_of(plans, self.window_ns, self.agg, self.attr)

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        served = self.served(plans)
        return {} if served.attr is None else {served.attr: served.agg != "count"}


# ``kslack-chain``: K-slack buffers in a row, each query reading after its own (R19 2.3.5).
#
# As printed, buffer ``i`` holds events for ``K(i) - K(i-1)`` more than the one before it, and query
# ``i`` reads after it. A chain gives what one buffer of the sum of its sizes gives, so here the
# buffers lie side by side over rows that are stored once: query ``i`` gets just what
# ``kslack:K(i)`` would give it, and no query waits longer than its own. (The papers hand on only
# events, whose clock stops where event times leave gaps.) Side by side, sizes may change, and
# overtake each other: with ``error=E`` query ``i`` gets just what ``aq-kslack:error=E`` would give
# it alone.
#
# When not to use: with a single query (``kslack`` is the same with less); with queries that can all
# wait equally long; where numbers tell what is missing (``sequence`` adds latency only there).


@dataclass(frozen=True, slots=True)
class KSlackChainSettings(SlackSettings):
    """``ks_ns``: the slacks, ascending. ``qualities``: the buffers, where an error sizes them; then
    there is no slack.

    Query ``i`` reads after slack ``i``; further queries, and the ordered stream, after the last. By
    quality every query has its own, which further ones size by the last error, and the ordered
    stream is what the last query reads.
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
        """``texts``: what is listed behind the first error."""
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
        """What sizes each query's buffer; without queries the last one alone."""
        if not plans:
            return [(self.qualities[-1], ())]
        last = len(self.qualities) - 1
        return [(self.qualities[min(n, last)], (plan,)) for n, plan in enumerate(plans)]
