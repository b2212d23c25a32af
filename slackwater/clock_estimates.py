"""Offsets of clocks, their bounds, and how to declare them."""

from __future__ import annotations

from typing import Any

from slackwater.engine.apps.report.numbers import plain
from slackwater.engine.apps.validate.clock_reports import clock_reports
from slackwater.engine.log.arrival_log import LogReader
from slackwater.inputs import Input, Source, opened
from slackwater.translate_options import translate_options


@translate_options
def clocks(source: Source | Input) -> list[dict[str, Any]]:
    """Each clock that stamped events: its offset, and the bound of that offset.

    It is estimated from syncs, or from arrivals minus stamps: an event arrives after it happened,
    so the least difference bounds the offset from above. A slow clock and a long delay look the
    same.

    Args:
        source: result of ``read``, or anything that ``read`` takes.

    Returns:
        per clock ``site name sources events known_by`` (``syncs arrivals nothing``), ``offset_ns``
        (to be added to its times), ``low_ns``, ``high_ns``, ``skew_ppb``, ``steps``,
        ``resolution_ns``, ``jitter_ns``, ``syncs``, ``last_sync_ns``, ``age_ns``, ``declared_ns``
        (the largest bound of its events), ``lag_ns`` (least time by which each event arrived later
        than that allows), ``clock`` (its declaration), and ``at_ns`` with ``series_ns``, its offset
        over time; None where unknown.

    >>> events = {"source": ["a"] * 5, "ts": [0, 10, 20, 30, 40], "arrival": [5, 16, 25, 35, 45]}
    >>> [(each["known_by"], each["high_ns"]) for each in clocks(events)]
    [('arrivals', 5)]

    Raises:
        UserError: the input is invalid.
    """
    with opened(source) as data:
        found = clock_reports(LogReader(data.log), arrival_given=data.arrival_given)
    return [plain(each) for each in found]
