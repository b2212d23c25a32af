"""Says what an input lacks for the order or the barrier that was asked for, and what helps."""

from __future__ import annotations

from typing import Any

from engine.barrier.settings import BarrierSettings
from engine.cli.visible import tell
from engine.compare.slacks import neat
from engine.log.show import readable_duration
from engine.order.backwards import numbers_mislead
from engine.report.units import number
from engine.units import unit_ns


def warn_line_numbers(
    barrier: BarrierSettings | None, time_unit: str, *, arrival_given: bool
) -> None:
    """A line on standard error where a match is to be held for lines instead of time."""
    if arrival_given or barrier is None or barrier.name != "hold":
        return
    lines = barrier.span_ns // unit_ns(time_unit)
    tell(
        "warning: the input has no arrival times, line numbers stand for them: barrier hold keeps "
        f"each match for {number(lines)} lines; give each record its arrival, or take a barrier "
        "that goes by event time, such as bounded:1s\n"
    )


def warn_backwards(counters: dict[str, Any], source: str) -> None:
    """A line on standard error where numbers do not tell the order of events in time.

    Args:
        counters: of a run, see ``engine.scenario``.
        source: its input, as the user named it.
    """
    lanes = [lane for site in counters["sites"].values() for lane in site["lanes"]]
    arrived, back = (sum(lane.get(name, 0) for lane in lanes) for name in ("arrived", "backwards"))
    if not numbers_mislead(back, arrived):
        return
    most = max(lane.get("backwards_ns", 0) for lane in lanes)
    tell(
        f"warning: {number(back)} of {number(arrived)} events lie before one of their source with "
        f"a smaller number, by up to {readable_duration(most)}: the input has no numbers (its "
        "lines are counted), or they do not follow event time, so order sequence cannot put these "
        f"in their place. One that goes by event time can: --order kslack:{neat(most)}, or see "
        f"slackwater compare --input {source}\n"
    )
