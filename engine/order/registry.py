"""Ordering operators by name, and their short form ``name:key=value,key=value`` (DESIGN, CLI).

Adding one: a file with its class and settings, and a line in ``_BUILDERS`` and ``_PARSERS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.errors import UserError
from engine.order.base import Guards, Order
from engine.order.kslack import KSlackSettings, kslack
from engine.order.mp_kslack import MpKSlackSettings, mp_kslack
from engine.order.none import NoOrder
from engine.order.sequence import Sequence, SequenceSettings
from engine.reference import SourceClocks
from engine.units import parse_duration


@dataclass(frozen=True, slots=True)
class NoneSettings:
    """``time``: ``ref`` (offsets predicted) | ``ts`` (none used) | ``hold`` (each held, as in R19)."""

    time: str = "ref"


SLACK_MAX_NS: Final = 1 << 60
"""So that a time less a slack stays in int64."""
_TIMES: Final = ("ref", "ts", "hold")
_FIRST: Final = {"kslack": "k"}
"""The setting that a short form may begin with, without its name: ``kslack:2s``."""

OrderSettings = SequenceSettings | KSlackSettings | MpKSlackSettings | NoneSettings


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
        raise UserError(f"order {text!r}: unknown operator; use one of {', '.join(_PARSERS)}")
    pairs: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
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
    settings: OrderSettings, clocks: SourceClocks, guards: Guards, wanted: set[str] | None
) -> Order:
    """The operator with these settings; ``wanted`` columns travel with the events, None = all."""
    if isinstance(settings, SequenceSettings):
        return Sequence(settings, clocks, guards, wanted)
    if isinstance(settings, KSlackSettings):
        return kslack(settings, clocks, guards, wanted)
    if isinstance(settings, MpKSlackSettings):
        return mp_kslack(settings, clocks, guards, wanted)
    return NoOrder(clocks, guards, wanted)


def _known(pairs: dict[str, str], keys: tuple[str, ...]) -> None:
    for key in pairs:
        if key not in keys:
            raise UserError(f"unknown key {key!r}; known are {', '.join(keys)}")


def _choice(pairs: dict[str, str], key: str, choices: tuple[str, ...]) -> str:
    value = pairs.get(key, choices[0])
    if value not in choices:
        raise UserError(f"{key}={value}: use {' or '.join(choices)}")
    return value


def _share(text: str, name: str, unit: int) -> int:
    """``0.6`` as an integer number of 1/unit, exactly."""
    whole, point, digits = text.partition(".")
    scale = len(str(unit)) - 1
    plain = (whole + digits).isascii() and (whole + digits).isdecimal()
    if not plain or (point and not digits) or len(digits) > scale:
        raise UserError(f"{name}={text}: write a share such as 0.6, at most {scale} decimals")
    value = int(whole or "0") * unit + int(digits.ljust(scale, "0") or "0")
    if not 0 <= value < unit:
        raise UserError(f"{name}={text}: must be at least 0 and below 1")
    return value


def _parse_sequence(pairs: dict[str, str], time_unit: str) -> SequenceSettings:
    keys = ("timeout", "latency", "alpha", "beta", "late", "residual", "time")
    _known(pairs, keys)
    kind, _, value = pairs.get("timeout", "quantile:0.999").partition(":")
    if kind not in ("quantile", "r19", "fixed") or (kind == "r19" and value):
        raise UserError(f"timeout={pairs['timeout']}: use quantile:SHARE, r19 or fixed:DURATION")
    if kind == "fixed" and not value:
        raise UserError("timeout=fixed needs a duration, as in fixed:10ms")
    return SequenceSettings(
        timeout=kind,
        quantile_ppm=_share(value or "0.999", "quantile", 10**6) if kind == "quantile" else 999_000,
        fixed_ns=parse_duration(value, time_unit) if kind == "fixed" else 0,
        latency_ns=parse_duration(pairs.get("latency", "500ms"), time_unit),
        alpha_milli=_share(pairs.get("alpha", "0.6"), "alpha", 1000),
        beta_milli=_share(pairs.get("beta", "0.6"), "beta", 1000),
        late=_choice(pairs, "late", ("drop", "pass")),
        residual=_choice(pairs, "residual", ("emit", "drop")),
        time=_choice(pairs, "time", _TIMES),
    )


def _parse_kslack(pairs: dict[str, str], time_unit: str) -> KSlackSettings:
    _known(pairs, ("k", "late", "time"))
    if "k" not in pairs:
        raise UserError("kslack needs its slack, as in kslack:2s")
    k_ns = parse_duration(pairs["k"], time_unit)
    if k_ns > SLACK_MAX_NS:
        raise UserError(f"k={pairs['k']}: at most {SLACK_MAX_NS} ns")
    late, time = _choice(pairs, "late", ("pass", "drop")), _choice(pairs, "time", _TIMES)
    return KSlackSettings(k_ns, late, time)


def _parse_mp_kslack(pairs: dict[str, str], time_unit: str) -> MpKSlackSettings:
    del time_unit
    _known(pairs, ("late", "time"))
    late, time = _choice(pairs, "late", ("pass", "drop")), _choice(pairs, "time", _TIMES)
    return MpKSlackSettings(late, time)


def _parse_none(pairs: dict[str, str], time_unit: str) -> NoneSettings:
    del time_unit
    _known(pairs, ("time",))
    return NoneSettings(_choice(pairs, "time", _TIMES))


_PARSERS: Final[dict[str, Callable[[dict[str, str], str], OrderSettings]]] = {
    "sequence": _parse_sequence,
    "kslack": _parse_kslack,
    "mp-kslack": _parse_mp_kslack,
    "none": _parse_none,
}
