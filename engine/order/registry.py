"""Ordering operators by name, and their short form ``name:key=value,key=value`` (DESIGN, CLI).

Adding one: a file with its class and settings, and a line in ``ORDERS``.
"""

from __future__ import annotations

from typing import Final

from edge_agent.near_miss import near_miss
from engine.errors import UserError
from engine.order.base import OrderSettings
from engine.order.sequence.order import SequenceSettings
from engine.order.slack.aq_settings import AqKSlackSettings
from engine.order.slack.kslack import KSlackSettings
from engine.order.slack.kslack_chain import KSlackChainSettings
from engine.order.slack.ldop import LdopSettings
from engine.order.slack.mp_kslack import MpKSlackSettings
from engine.order.unordered.none import NoneSettings

ORDERS: Final[dict[str, type[OrderSettings]]] = {
    "sequence": SequenceSettings,
    "kslack": KSlackSettings,
    "mp-kslack": MpKSlackSettings,
    "kslack-chain": KSlackChainSettings,
    "aq-kslack": AqKSlackSettings,
    "ldop": LdopSettings,
    "none": NoneSettings,
}


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
    if name not in ORDERS:
        known = f"{', '.join(ORDERS)}{near_miss(name, ORDERS)}"
        raise UserError(f"order {text!r}: unknown operator; use one of {known}")
    settings = ORDERS[name]
    pairs: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals and settings.listed is not None:
            pairs[settings.listed] = f"{pairs.get(settings.listed, '')},{item}"
            continue
        if not equals and settings.first is not None and not pairs:
            key, value = settings.first, item
        elif not equals:
            raise UserError(f"order {text!r}: {item!r} is not key=value")
        if key in pairs:
            raise UserError(f"order {text!r}: {key} is given twice")
        pairs[key] = value
    try:
        return settings.read(pairs, time_unit)
    except UserError as error:
        raise UserError(f"order {text!r}: {error}") from error
