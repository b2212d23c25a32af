"""Ordering operators by name, and their short form ``name:key=value,key=value`` (DESIGN, CLI).

Adding one: a file with its class and settings, and a line in ``ORDERS``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from slackwater.edge_agent.errors import near_miss
from slackwater.engine.core.errors import UserError
from slackwater.engine.order.base import OrderSettings

ORDERS: Final = {
    "sequence": "slackwater.engine.order.sequence.order:SequenceSettings",
    "kslack": "slackwater.engine.order.slack.kslack:KSlackSettings",
    "mp-kslack": "slackwater.engine.order.slack.kslack:MpKSlackSettings",
    "kslack-chain": "slackwater.engine.order.slack.aq_kslack:KSlackChainSettings",
    "aq-kslack": "slackwater.engine.order.slack.aq_kslack:AqKSlackSettings",
    "ldop": "slackwater.engine.order.slack.ldop:LdopSettings",
    "none": "slackwater.engine.order.none:NoneSettings",
}
"""Settings of each, loaded when they are asked for."""


def settings_named(name: str) -> type[OrderSettings]:
    """The settings of the operator ``name``, one of ``ORDERS``."""
    module, _, settings = ORDERS[name].partition(":")
    found: type[OrderSettings] = getattr(import_module(module), settings)
    return found


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
    settings = settings_named(name)
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


def is_order(text: str) -> bool:
    """Whether ``text`` is the short form of an ordering operator, so that advice can name it.

    >>> is_order("kslack:2s"), is_order("kslack:397222.23h")
    (True, False)
    """
    try:
        parse_order(text)
    except UserError:
        return False
    return True
