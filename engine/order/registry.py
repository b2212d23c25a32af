"""Ordering operators by name, and their short form ``name:key=value,key=value`` (DESIGN, CLI).

Adding one: a file with its class and settings, and a line in ``_BUILDERS`` and ``_PARSERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from edge_agent.near_miss import near_miss
from engine.clocks.reference import SourceClocks
from engine.errors import UserError
from engine.kernels.integers import INT_MAX
from engine.order.base import Guards, Order
from engine.order.correction import Correction
from engine.order.sequence.order import Sequence as SequenceOrder
from engine.order.sequence.order import SequenceSettings
from engine.order.served import Window, longest_window, reads_of, window_of
from engine.order.short_form import SLACK_MAX_NS, choice, factor, only_known, share, span
from engine.order.slack.aq_kslack import (
    CONTROLS,
    HORIZON_PART,
    KD_MILLI,
    KP_MILLI,
    AqKSlack,
    AqKSlackSettings,
)
from engine.order.slack.aq_threshold import AGGREGATES
from engine.order.slack.kslack import KSlackSettings, kslack
from engine.order.slack.kslack_chain import KSlackChain, KSlackChainSettings
from engine.order.slack.ldop import FACTOR_MAX, Ldop, LdopSettings
from engine.order.slack.mp_kslack import MpKSlackSettings, mp_kslack
from engine.order.unordered.none import NoneSettings, NoOrder
from engine.query.plan import Plan
from engine.stream.frame import ATTR_PREFIX
from engine.units import parse_duration

_SOURCES_MOST: Final = 1_000_000
_TIMES: Final = ("ref", "ts", "hold")
_LATE: Final = ("pass", "drop")
_DUPLICATES: Final = ("drop", "pass")
_SHARED: Final = ("late", "time", "duplicates")
_GAIN_MAX: Final = 100
_LISTED: Final = {"kslack-chain": "ks"}
"""The setting that a short form may list, without its name: ``kslack-chain:1s,5s``."""
_FIRST: Final = {"kslack": "k", "ldop": "factor"}
"""The setting that a short form may begin with, without its name: ``kslack:2s``."""

OrderSettings = (
    SequenceSettings | KSlackSettings | KSlackChainSettings | MpKSlackSettings
    | AqKSlackSettings | LdopSettings | NoneSettings
)  # fmt: skip


def parse_order(text: str, time_unit: str = "ns") -> OrderSettings:
    """Settings of an ordering operator from its short form.

    >>> parse_order("sequence:timeout=fixed:10ms,late=pass").fixed_ns
    10000000

    Args:
        text: e.g. ``none`` or ``sequence:timeout=quantile:0.999,latency=500ms``.
        time_unit: unit of durations written without one.

    Raises:
        UserError: unknown operator, key or value; the message lists the known ones.
    """
    name, _, rest = text.strip().partition(":")
    if name not in _PARSERS:
        known = f"{', '.join(_PARSERS)}{near_miss(name, _PARSERS)}"
        raise UserError(f"order {text!r}: unknown operator; use one of {known}")
    pairs: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals and name in _LISTED:
            pairs[_LISTED[name]] = f"{pairs.get(_LISTED[name], '')},{item}"
            continue
        if not equals and name in _FIRST and not pairs:
            key, value = _FIRST[name], item
        elif not equals:
            raise UserError(f"order {text!r}: {item!r} is not key=value")
        if key in pairs:
            raise UserError(f"order {text!r}: {key} is given twice")
        pairs[key] = value
    try:
        return _PARSERS[name](pairs, time_unit)
    except UserError as error:
        raise UserError(f"order {text!r}: {error}") from error


def order_names() -> tuple[str, ...]:
    """The names that a short form may begin with."""
    return tuple(_PARSERS)


def build_order(
    settings: OrderSettings,
    clocks: SourceClocks,
    guards: Guards,
    wanted: set[str] | None,
    plans: Sequence[Plan] = (),
) -> Order:
    """The operator with these settings, for the queries ``plans``.

    ``wanted`` columns travel with the events, None = all.

    Raises:
        UserError: the operator cannot serve these queries (``engine.order.served``).
    """
    if isinstance(settings, SequenceSettings):
        return SequenceOrder(settings, clocks, guards, wanted)
    correction = Correction(clocks, guards, settings.duplicates)
    if isinstance(settings, KSlackSettings):
        return kslack(settings, correction, wanted)
    if isinstance(settings, MpKSlackSettings):
        return mp_kslack(settings, correction, wanted)
    if isinstance(settings, AqKSlackSettings):
        served = _window_of(settings, plans)
        return AqKSlack(settings, served, reads_of(plans), clocks.strings, correction, wanted)
    if isinstance(settings, LdopSettings):
        window_ns = longest_window(plans, settings.window_ns)
        return Ldop(settings, window_ns, reads_of(plans), clocks.strings, correction, wanted)
    if isinstance(settings, KSlackChainSettings):
        return KSlackChain(settings, correction, wanted, len(plans))
    # Everything that came in goes on at once: nothing is copied for later.
    return NoOrder(settings, clocks, correction, len(plans))


def order_attributes(settings: OrderSettings, plans: Sequence[Plan]) -> dict[str, bool]:
    """Attributes that the operator itself looks at, and whether each must be a number.

    Raises:
        UserError: the operator cannot serve these queries (``engine.order.served``).
    """
    if isinstance(settings, LdopSettings):
        longest_window(plans, settings.window_ns)
    if not isinstance(settings, AqKSlackSettings):
        return {}
    served = _window_of(settings, plans)
    return {} if served.attr is None else {served.attr: served.agg != "count"}


def _window_of(settings: AqKSlackSettings, plans: Sequence[Plan]) -> Window:
    return window_of(plans, settings.window_ns, settings.agg, settings.attr)


def _parse_sequence(pairs: dict[str, str], time_unit: str) -> SequenceSettings:
    keys = ("timeout", "latency", "alpha", "beta", "late", "residual", "time", "sources")
    only_known(pairs, keys)
    sources = pairs.get("sources", "10000")
    if not sources.isdecimal() or not 1 <= int(sources) <= _SOURCES_MOST:
        raise UserError(f"sources={sources}: use a whole number from 1 to {_SOURCES_MOST:,}")
    kind, _, value = pairs.get("timeout", "quantile:0.999").partition(":")
    if kind not in ("quantile", "r19", "fixed") or (kind == "r19" and value):
        raise UserError(f"timeout={pairs['timeout']}: use quantile:SHARE, r19 or fixed:DURATION")
    if kind == "fixed" and not value:
        raise UserError("timeout=fixed needs a duration, as in fixed:10ms")
    return SequenceSettings(
        timeout=kind,
        quantile_ppm=share(value or "0.999", "quantile", 10**6) if kind == "quantile" else 999_000,
        fixed_ns=parse_duration(value, time_unit) if kind == "fixed" else 0,
        latency_ns=parse_duration(pairs.get("latency", "500ms"), time_unit),
        alpha_milli=share(pairs.get("alpha", "0.6"), "alpha", 1000),
        beta_milli=share(pairs.get("beta", "0.6"), "beta", 1000),
        late=choice(pairs, "late", ("drop", "pass")),
        residual=choice(pairs, "residual", ("emit", "drop")),
        time=choice(pairs, "time", _TIMES),
        sources=int(sources),
    )


def _parse_kslack(pairs: dict[str, str], time_unit: str) -> KSlackSettings:
    only_known(pairs, ("k", *_SHARED))
    if "k" not in pairs:
        raise UserError("kslack needs its slack, as in kslack:2s")
    k_ns = parse_duration(pairs["k"], time_unit)
    if k_ns > SLACK_MAX_NS:
        raise UserError(f"k={pairs['k']}: at most {SLACK_MAX_NS} ns")
    return KSlackSettings(k_ns, **_shared(pairs))


def _parse_kslack_chain(pairs: dict[str, str], time_unit: str) -> KSlackChainSettings:
    only_known(pairs, ("ks", *_SHARED))
    texts = [text.strip(" []") for text in pairs.get("ks", ",500ms").split(",")[1:]]
    ks_ns = tuple(parse_duration(text, time_unit) for text in texts)
    if list(ks_ns) != sorted(ks_ns):
        raise UserError("give the slacks in ascending order, as in kslack-chain:100ms,1s")
    if ks_ns[-1] > SLACK_MAX_NS:
        raise UserError(f"a slack is at most {SLACK_MAX_NS} ns")
    return KSlackChainSettings(ks_ns, **_shared(pairs))


def _parse_mp_kslack(pairs: dict[str, str], time_unit: str) -> MpKSlackSettings:
    del time_unit
    only_known(pairs, _SHARED)
    return MpKSlackSettings(**_shared(pairs))


def _parse_aq_kslack(pairs: dict[str, str], time_unit: str) -> AqKSlackSettings:
    keys = ("error", "confidence", "window", "slide", "agg", "attr", "horizon", "control", "kp",
            "kd", *_SHARED)  # fmt: skip
    only_known(pairs, keys)
    if "error" not in pairs:
        raise UserError("aq-kslack needs the relative error allowed, as in aq-kslack:error=0.05")
    error_ppm = share(pairs["error"], "error", 10**6)
    confidence_ppm = share(pairs.get("confidence", "0.95"), "confidence", 10**6)
    if not error_ppm:
        raise UserError("error=0: must be above 0; mp-kslack waits for everything")
    if confidence_ppm < 500_000:
        raise UserError(f"confidence={pairs['confidence']}: must be at least 0.5")
    agg = choice(pairs, "agg", tuple(AGGREGATES)) if "agg" in pairs else None
    attr = pairs.get("attr", "").removeprefix(ATTR_PREFIX)
    if (agg in (None, "count")) != (not attr):
        raise UserError("sum and avg need their attribute and count has none: agg=avg,attr=NAME")
    return AqKSlackSettings(
        error_ppm=error_ppm,
        confidence_ppm=confidence_ppm,
        window_ns=_span_if_given(pairs, "window", time_unit),
        slide_ns=_span_if_given(pairs, "slide", time_unit),
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
        **_shared(pairs),
    )


def _parse_ldop(pairs: dict[str, str], time_unit: str) -> LdopSettings:
    only_known(pairs, ("factor", "window", *_SHARED))
    low, dots, high = pairs.get("factor", "1").partition("..")
    low_milli = factor(low, "factor", FACTOR_MAX)
    high_milli = factor(high, "factor", FACTOR_MAX) if dots else low_milli
    if high_milli < low_milli:
        raise UserError(f"factor={pairs['factor']}: the lower end comes first")
    window_ns = _span_if_given(pairs, "window", time_unit)
    return LdopSettings(window_ns, low_milli, high_milli, **_shared(pairs))


def _span_if_given(pairs: dict[str, str], key: str, time_unit: str) -> int | None:
    return span(pairs, key, time_unit) if key in pairs else None


def _parse_none(pairs: dict[str, str], time_unit: str) -> NoneSettings:
    only_known(pairs, ("time", "wait", "duplicates"))
    wait_ns = min(parse_duration(pairs.get("wait", "1s"), time_unit), INT_MAX)
    time, duplicates = choice(pairs, "time", _TIMES), choice(pairs, "duplicates", _DUPLICATES)
    return NoneSettings(time, wait_ns, duplicates)


def _shared(pairs: dict[str, str]) -> dict[str, str]:
    """The settings that all slack orders have, ``_SHARED``."""
    choices = (_LATE, _TIMES, _DUPLICATES)
    return {key: choice(pairs, key, of) for key, of in zip(_SHARED, choices, strict=True)}


_PARSERS: Final[dict[str, Callable[[dict[str, str], str], OrderSettings]]] = {
    "sequence": _parse_sequence,
    "kslack": _parse_kslack,
    "mp-kslack": _parse_mp_kslack,
    "kslack-chain": _parse_kslack_chain,
    "aq-kslack": _parse_aq_kslack,
    "ldop": _parse_ldop,
    "none": _parse_none,
}
