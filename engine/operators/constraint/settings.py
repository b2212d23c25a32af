"""How monitored patterns are followed, and the short form ``horizon=10s``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import DURATION_MAX_NS, parse_duration
from slackwater.engine.output.schema import ALERTS
from slackwater.engine.query.plan import Plan

_FORM: Final = "use horizon=DURATION, as in horizon=10s"


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """How traces are followed.

    ``horizon_ns``: events of the last so many ns are kept, so that a late one rewrites its trace;
    None: events count in the order in which they are released.
    """

    horizon_ns: int | None = None


def parse_monitor(text: str, time_unit: str = "ns") -> MonitorSettings:
    """Settings of monitors from their short form.

    >>> parse_monitor("horizon=10s")
    MonitorSettings(horizon_ns=10000000000)

    Args:
        text: ``horizon=D``.
        time_unit: unit of durations written without one.

    Raises:
        UserError: anything else.
    """
    name, _, value = (each.strip() for each in text.partition("="))
    if name != "horizon" or not value:
        raise UserError(f"monitor {text[:40]!r} is unknown; {_FORM}")
    horizon = parse_duration(value, time_unit)
    if horizon > DURATION_MAX_NS:
        raise UserError(f"monitor {text[:40]!r}: at most {DURATION_MAX_NS} ns")
    return MonitorSettings(horizon)


def read_monitor(text: str | None, time_unit: str, plans: Iterable[Plan]) -> MonitorSettings:
    """The settings of ``--monitor``; those by default if it is not given.

    Raises:
        UserError: no query is under a constraint; as ``parse_monitor``.
    """
    if text is None:
        return MonitorSettings()
    if not any(plan.result_kind == ALERTS for plan in plans):
        raise UserError("--monitor is for patterns UNDER CONSTRAINT; no query has one")
    return parse_monitor(text, time_unit)
