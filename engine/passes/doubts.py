"""What is most likely not meant so, though it is no error: what the input lacks for what is asked.

Each function gives lines for a person, none where nothing is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from edge_agent import records as r
from engine.barrier.registry import BARRIERS, BarrierSettings
from engine.chain import ChainSettings
from engine.log.held_log import Log
from engine.log.input.numbering import CountedLane
from engine.order.backwards import numbers_mislead
from engine.order.base import OrderSettings
from engine.order.registry import is_order
from engine.passes.clock_faults import clocks_set_back
from engine.passes.unpromised import never_promised
from engine.query.explain_join import cost_without_key
from engine.query.explain_repetition import cost_of_repetition
from engine.query.monitor_plan import without_room
from engine.query.plan import Plan
from engine.stream.timeline import ANY_TYPE
from engine.units import neat, unit_ns

_LINES: Final = 3
_AFTER_STEP: Final = (
    "give a sync record (offset, delay) after each step, or a column incarnation that rises with "
    "each start of the device"
)
_NAMED: Final = 5


def of_promises(
    log: Path | Log, plans: Iterable[Plan], order: OrderSettings, barrier: BarrierSettings | None
) -> list[str]:
    """Queries that could only wait for the end of the input, and what helps."""
    return [
        f"{name}: nothing in the input promises {' or '.join(map(_type, types))} (kind pog), so "
        "results wait until its sources end or the input does; take an order such as sequence, or "
        "a barrier such as bounded:1s or hold:1s"
        for name, types in never_promised(log, plans, order, barrier).items()
    ]


def _type(name: str) -> str:
    return "anything of all types" if name == ANY_TYPE else name


def of_line_numbers(
    barrier: BarrierSettings | None, time_unit: str, *, arrival_given: bool
) -> list[str]:
    """A match that is to be held for lines instead of time."""
    if arrival_given or barrier is None or not BARRIERS[barrier.name].by_arrival:
        return []
    lines = barrier.span_ns // unit_ns(time_unit)
    text = (
        "the input has no arrival times, line numbers stand for them: barrier "
        f"{barrier.name} keeps each match for {lines:,} lines; give each record its "
        "arrival, or take a barrier that "
        "goes by event time, such as bounded:1s"
    )
    return [text]


def of_numbers(
    counters: dict[str, Any], see: str, log: Path | Log, *, numbered: bool = True
) -> list[str]:
    """Numbers that do not tell the order of events in time.

    Args:
        counters: of a run, see ``engine.scenario``.
        see: what says more.
        log: the input of the run.
        numbered: whether its events have numbers of their own; False: its lines were counted.
    """
    lanes = _lanes(counters)
    arrived, back = (sum(lane.get(name, 0) for lane in lanes) for name in ("arrived", "backwards"))
    if not numbers_mislead(back, arrived):
        return []
    from engine.log.show import readable_duration  # noqa: PLC0415 - brings rich, for few

    most = max(lane.get("backwards_ns", 0) for lane in lanes)
    text = (
        f"{back:,} of {arrived:,} events lie before one of their source with a smaller number, by "
        f"up to {readable_duration(most)}: "
    )
    behind = {
        (site, lane["source"]): lane["backwards_ns"]
        for site, of in counters["sites"].items()
        for lane in of["lanes"] if lane.get("backwards") and lane["source"] is not None
    }  # fmt: skip
    was_set = {
        source for (site, source), by in clocks_set_back(set(behind), log).items()
        if 2 * by >= behind[site, source]
    }  # fmt: skip
    if was_set:
        names = ", ".join(sorted(was_set)[:_LINES]) + (" ..." if len(was_set) > _LINES else "")
        said = f"the clock was set back, not the network slow (source {names})"
        return [f"{text}{said}, and no order can mend that; {_AFTER_STEP}"]
    slack = f"kslack:{neat(most)}"
    can = f"can: --order {slack}, or see" if is_order(slack) else "needs a slack beyond all; see"
    remedy = f"{can} {see}"
    if numbered:
        text += f"if the clock was set back, {_AFTER_STEP}. If numbers do not follow event time,"
    else:
        text += "the input has no numbers (its lines are counted), so"
    return [
        f"{text} order sequence cannot put these in their place, and one by event time {remedy}"
    ]


def of_refuted_clocks(counters: dict[str, Any]) -> list[str]:
    """Clocks whose declared bounds events have refuted: they arrived before they can have happened.

    Args:
        counters: of a run, see ``engine.scenario``.
    """
    refuted = [
        (each["source"], each["refuted_ns"])
        for site in counters["sites"].values() for each in site.get("clocks", ())
        if each["refuted_ns"]
    ]  # fmt: skip
    if not refuted:
        return []
    from engine.log.show import readable_duration  # noqa: PLC0415 - brings rich, for few

    return _few([
        f"clock {name}: an event arrived {readable_duration(by)} before it can have happened by "
        "what the syncs say of its clock, which is ahead by that much or more; from there to the "
        "next sync what its events are compared with is uncertain. Sync the clock that stamps "
        "them, or state a larger skew_error_ppb or delay"
        for name, by in refuted
    ])  # fmt: skip


def of_counted(lanes: Sequence[CountedLane]) -> list[str]:
    """Numbers that were taken otherwise than they stand in the input."""
    found = [(lane, _source(lane)) for lane in lanes]
    wrapped = [
        f"{name}: its numbers fall from near {2**of.bits - 1:,} to near 0, so they are taken for a "
        f"counter of {of.bits} bits that wrapped around {_times(of.wraps)}; --seq-bits {of.bits} "
        "says so from the first event on"
        for of, name in found if of.bits
    ]  # fmt: skip
    restarted = [
        f"{name}: its numbers begin again {_times(of.restarts)} while its time goes on, so it is "
        "taken to have restarted; a column incarnation that rises with each start says so, and a "
        "number that wraps around needs --seq-bits 8, 16 or 32"
        for of, name in found if of.restarts
    ]  # fmt: skip
    reused = [
        f"{name}: {of.reused:,} events have a number that another event of it had before, with "
        "another time or content; they are kept, without a number. Say how the device counts: "
        "--seq-bits 8, 16 or 32 if its counter wraps around, a column incarnation if it begins "
        "again, or --map attrs.number=COLUMN if these are no numbers of events"
        for of, name in found if of.reused
    ]  # fmt: skip
    return [*_few(wrapped), *_few(restarted), *_few(reused)]


def with_counted(counters: dict[str, Any], counted: Sequence[CountedLane]) -> dict[str, Any]:
    """``counters`` whose lanes have ``reused``, ``unnumbered`` and ``restarts``, where any are."""
    for of in counted:
        for lane in counters["sites"].get(of.site, {"lanes": ()})["lanes"]:
            if (lane["source"], lane["stream"]) == (of.source, of.stream):
                for name in ("reused", "unnumbered", "restarts"):
                    lane[name] = lane.get(name, 0) + getattr(of, name)
    return counters


def _source(lane: CountedLane) -> str:
    site = "" if lane.site == r.DEFAULT_SITE else f" of site {lane.site}"
    stream = "" if lane.stream == r.DEFAULT_STREAM else f", stream {lane.stream}"
    return f"source {lane.source}{site}{stream}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _few(lines: list[str]) -> list[str]:
    """At most so many lines of one kind as one reads."""
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"the same of {len(lines) - _LINES:,} more sources"]
    return lines


def of_joins(plans: Iterable[Plan]) -> list[str]:
    """Joins that compare all with all."""
    costly = [(plan.name, cost_without_key(plan)) for plan in plans]
    return [f"{name}: {cost}; add an equality to ON" for name, cost in costly if cost]


def of_repetition(plans: Iterable[Plan]) -> list[str]:
    """Patterns whose matches nothing bounds."""
    costly = [(plan.name, cost_of_repetition(plan)) for plan in plans]
    return [f"{name}: {cost}" for name, cost in costly if cost]


def of_constraints(plans: Iterable[Plan]) -> list[str]:
    """Patterns of which a constraint leaves no match, or an alternative no room."""
    return [f"{plan.name}: {told}" for plan in plans for told in without_room(plan)]


def before_pass(
    log: Path | Log, plans: Sequence[Plan], settings: ChainSettings, time_unit: str,
    *, arrival_given: bool,
) -> list[str]:  # fmt: skip
    """All warnings that need no pass, on the command line and in Python alike."""
    return [
        *of_promises(log, plans, settings.order, settings.barrier),
        *of_joins(plans),
        *of_repetition(plans),
        *of_constraints(plans),
        *of_line_numbers(settings.barrier, time_unit, arrival_given=arrival_given),
    ]


def of_streams(plans: Sequence[Plan], counters: dict[str, Any]) -> list[str]:
    """A stream of a query that nothing came of: most likely a slip of the pen."""
    seen = sorted({lane["stream"] for lane in _lanes(counters)})
    named = {stream for plan in plans for stream in plan.streams}
    return [
        f"no event of stream {stream}; there are {', '.join(seen)}"
        for stream in sorted(named)
        if stream not in seen
    ]


def of_clocks(counters: dict[str, Any]) -> list[str]:
    """Sources of which nobody knows how far their clocks are off, where there are others."""
    names = sorted({name for site in counters["sites"].values()
                    for name in site.get("unknown_clocks", ())})  # fmt: skip
    if not names:
        return []
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" * (len(names) > _NAMED))
    text = (
        f"nothing is known of the {'clock' if len(names) == 1 else 'clocks'} of {shown}: what "
        "compares their events with those of another clock is unknown, as if they were right. If "
        f"one clock stamped all, say --clock exact; if one is off, --clock {names[0]}=-3.2s±0.1s; "
        "or give sync rows"
    )
    return [text]


def _lanes(counters: dict[str, Any]) -> list[dict[str, Any]]:
    return [lane for site in counters["sites"].values() for lane in site["lanes"]]
