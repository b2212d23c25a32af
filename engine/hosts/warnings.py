"""Warnings about likely mistakes in queries, inputs and options."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_in_force
from slackwater.engine.core.clocks.arrivals import clock_option
from slackwater.engine.core.clocks.prediction import UNSTATED_PPB
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import kinds_of
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.core.units import neat, unit_ns
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.clock_faults import clocks_set_back
from slackwater.engine.log.arrival_log import Log, opened
from slackwater.engine.log.input.numbering import CountedLane
from slackwater.engine.order.base import OrderSettings, numbers_mislead
from slackwater.engine.order.registry import is_order
from slackwater.engine.query.explain_operators import cost_of_repetition, cost_without_key
from slackwater.engine.query.fields import named_types, needed_types
from slackwater.engine.query.language.mistakes import closest
from slackwater.engine.query.monitor_plan import monitored_plans
from slackwater.engine.query.plan import Plan

# Queries whose matches wait for the end of the input, as nothing promises their types.


def never_promised(
    log: Path | Log, plans: Iterable[Plan], order: OrderSettings, barrier: BarrierSettings | None
) -> dict[str, list[str]]:
    """Return, per query, the types that it awaits and that no punctuation of ``log`` promises.

    Only the order ``none`` leaves promises to the input. The log is read until every type has been
    promised once; a punctuation without a type promises all types of its source, so it counts for
    any.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    if not order.leaves_promises:
        return {}
    awaited = {plan.name: _awaited(plan, barrier) for plan in plans}
    missing = set().union(*awaited.values())
    if missing:
        for frame in opened(log).one_by_one():
            promised = _promised(frame.batch)
            missing = set() if None in promised else missing - promised
            if not missing:
                break
    found = {name: sorted(types & missing) for name, types in awaited.items()}
    return {name: types for name, types in found.items() if types}


def _awaited(plan: Plan, option: BarrierSettings | None) -> set[str]:
    """Return the types whose promises decide when ``plan`` releases matches or closes windows."""
    if plan.windows:
        by_promise = option is not None and BARRIERS[option.name].closes is Closes.PROMISE
        return {ANY_TYPE} if by_promise else set()
    if not plan.steps:
        return set()
    barrier = barrier_in_force(option, plan.realtime)
    closes = BARRIERS[barrier.name].closes
    by_promise = closes is Closes.PROMISE
    in_order = barrier.ordered and closes is not Closes.SLACK
    return {step.type for step in plan.steps if (by_promise if step.negated else in_order)}


def _promised(batch: pa.RecordBatch) -> set[str | None]:
    """Return the types of a frame's punctuations; None: a punctuation without a type."""
    rows = np.flatnonzero(kinds_of(batch) == r.Kind.POG)
    if not len(rows):
        return set()
    if r.TYPE not in batch.schema.names:
        return {None}
    return set(pc.unique(batch.column(r.TYPE).take(pa.array(rows)).cast(pa.string())).to_pylist())


# Types that a pattern names and no event has: most likely misspelt.


_LISTED = 8


def unseen_types(log: Path | Log, plans: Iterable[Plan]) -> list[str]:
    """Return one line per query and type that no event of ``log`` has: place, and known types.

    The log is read until every type has been seen once. It is no error: the type of a negated step
    may be absent, and any type may still come on an endless stream.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    return [unseen.said for unseen in _unseen_types(log, plans)]


def check_names(log: Path | Log, plans: Sequence[Plan]) -> list[str]:
    """Return lines on types that no event of a finite input has; refuse likely mistakes.

    A missing type may be intended for an optional or negated step, or for one of several
    alternatives, but not if its name is close to that of a known type.

    Raises:
        UserError: no event has the stream or type; the message names the known ones.
    """
    results = {plan.name for plan in plans}
    named = {stream for plan in plans for stream in plan.streams}
    seen = _seen(log, named - results, _streams)
    for plan in plans:
        for stream in sorted({*plan.streams} - seen - results):
            where = _place(plan.text, stream)
            raise UserError(
                f"{plan.name}{where}: no event is of stream {stream!r}{_there_is(stream, seen)}"
            )
    found = [each for each in _unseen_types(log, plans) if each.type not in results]
    unseen = {each.type for each in found}
    for each in found:
        if each.near or all(needed & unseen for needed in needed_types(each.plan)):
            raise UserError(each.said)
    return [each.said for each in found]


class _Unseen(NamedTuple):
    """A type of a plan that no event has; ``near``: a known type with a similar name."""

    plan: Plan
    type: str
    near: str
    said: str


def _unseen_types(log: Path | Log, plans: Iterable[Plan]) -> list[_Unseen]:
    named = [(plan, kinds) for plan in plans if (kinds := named_types(plan))]
    missing = {kind for _, kinds in named for kind in kinds}
    seen = _seen(log, missing, _types)
    return [
        _Unseen(
            plan, kind, closest(kind, seen),
            f"{plan.name}{_place(plan.text, kind)}: no event is of type {kind!r}"
            f"{_there_is(kind, seen)}",
        )
        for plan, kinds in named
        for kind in kinds
        if kind not in seen
    ]  # fmt: skip


def _seen(log: Path | Log, named: set[str], of: Callable[[pa.RecordBatch], set[str]]) -> set[str]:
    """Collect values from the frames of the log until all of ``named`` have been seen."""
    seen: set[str] = set()
    for frame in opened(log).one_by_one() if named else ():
        seen |= of(frame.batch)
        if named <= seen:
            break
    return seen


def _streams(batch: pa.RecordBatch) -> set[str]:
    if r.STREAM in batch.schema.names:
        return set(pc.unique(batch.column(r.STREAM)).to_pylist())
    return {r.DEFAULT_STREAM}


def _place(text: str, kind: str) -> str:
    """Return where a query first names it, in words."""
    found = re.search(rf"(?<!\w){re.escape(kind)}(?!\w)", text)
    if found is None:
        return ""
    start = found.start()
    column = start - text.rfind("\n", 0, start)
    return f", line {text.count(chr(10), 0, start) + 1}, column {column}"


def _there_is(wrong: str, seen: set[str]) -> str:
    near = closest(wrong, seen)
    more = len(seen) - _LISTED
    listed = ", ".join(sorted(seen)[:_LISTED]) + (f" and {more} more" if more > 0 else "")
    there = f"; there is {listed}" if seen else "; --map type=COLUMN says which column has it"
    return there + (f"; {near}" if near else "")


_EVENTS: Final = tuple(map(int, (r.Kind.EVENT, r.Kind.IBP, r.Kind.IBE)))


def _types(batch: pa.RecordBatch) -> set[str]:
    """Return the types of a frame's events and half intervals, without those of punctuations."""
    if r.TYPE not in batch.schema.names:
        return set()
    column = batch.column(r.TYPE).filter(pa.array(np.isin(kinds_of(batch), _EVENTS)))
    return {kind for kind in pc.unique(column).to_pylist() if kind is not None}


# Each function returns lines for the user, none if all is well.


_LINES: Final = 3
_AFTER_STEP: Final = (
    "give a sync record (offset, delay) after each step, or a column incarnation that rises with "
    "each start of the device"
)
_NAMED: Final = 5


def of_promises(
    log: Path | Log, plans: Iterable[Plan], order: OrderSettings, barrier: BarrierSettings | None
) -> list[str]:
    """Warn of queries that would wait for the end of the input."""
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
    """Warn of a barrier that would count lines instead of time."""
    if arrival_given or barrier is None or not BARRIERS[barrier.name].by_arrival:
        return []
    lines = barrier.span_ns // unit_ns(time_unit)
    text = (
        "the input has no arrival times, line numbers replace them: barrier "
        f"{barrier.name} keeps each match for {lines:,} lines; give each record its "
        "arrival, or take a barrier that "
        "goes by event time, such as bounded:1s"
    )
    return [text]


def of_numbers(
    counters: dict[str, Any], see: str, log: Path | Log, *, numbered: bool = True
) -> list[str]:
    """Warn of sequence numbers that do not follow event time.

    Args:
        counters: counters of a run, see ``engine.scenario``.
        see: command or function with more information.
        log: the input of the run.
        numbered: whether events have sequence numbers; False: lines were counted.
    """
    lanes = _lanes(counters)
    arrived, back = (sum(lane.get(name, 0) for lane in lanes) for name in ("arrived", "backwards"))
    if not numbers_mislead(back, arrived):
        return []
    from slackwater.engine.log.describe import readable_duration  # noqa: PLC0415 - brings rich, for few

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
        return [f"{text}{said}, and no order can repair that; {_AFTER_STEP}"]
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
    """Warn of clocks whose declared bounds are refuted: events arrived before they can have
    happened, or the offset moved between syncs by more than was stated.

    Args:
        counters: counters of a run, see ``engine.scenario``.
    """
    clocks = [each for site in counters["sites"].values() for each in site.get("clocks", ())]
    refuted = [(each["source"], each["refuted_ns"]) for each in clocks if each["refuted_ns"]]
    moved = [
        f"clock {each['source']}: its offset moved between syncs by "
        f"{each['skew_seen_ppb'] / 1000:,.10g} ppm, where {each['skew_stated_ppb'] / 1000:,.10g} "
        f"ppm are {'assumed' if each['skew_stated_ppb'] == UNSTATED_PPB else 'stated'}; what rests "
        "on the offset before is uncertain, and later offsets err as fast as was seen. State a "
        f"skew_error_ppb of {each['skew_seen_ppb']} or more in its syncs"
        for each in clocks if "skew_seen_ppb" in each
    ]  # fmt: skip
    if not refuted:
        return _few(moved)
    from slackwater.engine.log.describe import readable_duration  # noqa: PLC0415 - brings rich, for few

    early = [
        f"clock {name}: an event arrived {readable_duration(by)} before it can have happened by "
        "what the syncs say of its clock, which is ahead by that much or more; from there to the "
        "next sync what its events are compared with is uncertain. Sync the clock that stamps "
        "them, or state a larger skew_error_ppb or delay"
        for name, by in refuted
    ]  # fmt: skip
    return [*_few(early), *_few(moved)]


def of_tasks(counters: dict[str, Any]) -> list[str]:
    """Warn if a run on Spark has fewer tasks than its master supports."""
    tasks, possible = counters.get("tasks") or (0, 0)
    if tasks >= possible:
        return []
    said = (
        f"this run has {tasks} tasks at a time where {possible} could run: a checkpoint keeps what "
        "it began with. To use them all, answer again with another --work (an input that was "
        "converted is its folder log)"
    )
    return [said]


def of_windows(counters: dict[str, Any]) -> list[str]:
    """Warn of windows with incomplete bounds or results, where complete ones would be too many.

    Args:
        counters: counters of a run, see ``engine.scenario``.
    """
    found = Counter[tuple[str, str]]()
    for site in counters["sites"].values():
        for name, counts in site["queries"].items():
            found.update({(name, what): counts.get(what, 0) for what in _TOO_MUCH})
    return [f"{name}: {_TOO_MUCH[what].format(f'{n:,}')}" for (name, what), n in found.items() if n]


_TOO_MUCH: Final = {
    "wide_gaps": "{} times an event or a run of lost numbers may lie in so many windows that those "
    "without any other event have no row for it. Use longer windows, or a smaller --window "
    "horizon=, or clocks that err by less",
    "refused_groups": "{} events found no room in their windows, and no window beside has bounds. "
    "Use longer windows, fewer groups, or a smaller --window horizon=",
}


def numbering_warnings(lanes: Sequence[CountedLane]) -> list[str]:
    """Return lines on sequence numbers that were reinterpreted or removed."""
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
        + ", or --source-from name if each file is of one device" * (of.source == r.DEFAULT_SOURCE)
        for of, name in found if of.reused
    ]  # fmt: skip
    return [*_few(wrapped), *_few(restarted), *_few(reused)]


def with_lane_counts(counters: dict[str, Any], lanes: Sequence[CountedLane]) -> dict[str, Any]:
    """Add ``reused``, ``unnumbered`` and ``restarts`` to the lanes in ``counters``, if any."""
    sites = counters["sites"]
    by_site: dict[str, dict[tuple[str, str], list[CountedLane]]] = {}
    for each in lanes:
        of_site = by_site.setdefault(each.site, {})
        of_site.setdefault((each.source, each.stream), []).append(each)
    for name in by_site.keys() & sites.keys():
        site = sites[name]
        for lane in site["lanes"]:
            for each in by_site[name].get((lane["source"], lane["stream"]), ()):
                for count in ("reused", "unnumbered", "restarts"):
                    lane[count] = lane.get(count, 0) + getattr(each, count)
        sites[name] = site
    return counters


def _source(lane: CountedLane) -> str:
    site = "" if lane.site == r.DEFAULT_SITE else f" of site {lane.site}"
    stream = "" if lane.stream == r.DEFAULT_STREAM else f", stream {lane.stream}"
    return f"source {lane.source}{site}{stream}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _few(lines: list[str]) -> list[str]:
    """Limit the lines of one kind to ``_LINES``."""
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"the same of {len(lines) - _LINES:,} more sources"]
    return lines


def of_joins(plans: Iterable[Plan]) -> list[str]:
    """Warn of joins that compare all events with all."""
    costly = [(plan.name, cost_without_key(plan)) for plan in plans]
    return [f"{name}: {cost}; add an equality to ON" for name, cost in costly if cost]


def of_repetition(plans: Iterable[Plan]) -> list[str]:
    """Warn of patterns with an unbounded number of matches."""
    costly = [(plan.name, cost_of_repetition(plan)) for plan in plans]
    return [f"{name}: {cost}" for name, cost in costly if cost]


def of_constraints(plans: Iterable[Plan]) -> list[str]:
    """Warn of patterns or alternatives that a constraint makes impossible."""
    monitored = monitored_plans(plans)
    if not monitored:
        return []
    from slackwater.engine.query.automata import excluded  # noqa: PLC0415 - for few queries

    return [f"{plan.name}: {each}" for plan in monitored for each in excluded(plan)]


def of_declared(log: Path | Log, settings: ChainSettings) -> list[str]:
    """Warn of clocks that ``--clock`` names and no event has: most likely misspelt."""
    named = {name for name, _, _ in settings.clock.declared}
    seen = _seen(log, named, _clocks)
    some = ", ".join(sorted(seen)[:_LISTED]) + " ..." * (len(seen) > _LISTED)
    return _few([
        f"no event is of clock {name}, which --clock names; there is {some}"
        + (f"; {near}" if (near := closest(name, seen)) else "")
        for name in sorted(named - seen)
    ])  # fmt: skip


def _clocks(batch: pa.RecordBatch) -> set[str]:
    """Return the clocks of a frame's events; the default clock of an event is its source."""
    names = [batch.column(each) for each in (r.CLOCK, r.SOURCE) if each in batch.schema.names]
    plain = [each.cast(pa.string()) for each in names]
    clocks = pc.coalesce(*plain, pa.scalar(r.DEFAULT_SOURCE))
    return set(pc.unique(clocks).to_pylist()) if names else {r.DEFAULT_SOURCE}


def before_pass(
    log: Path | Log, plans: Sequence[Plan], settings: ChainSettings, time_unit: str,
    *, arrival_given: bool,
) -> list[str]:  # fmt: skip
    """Return all warnings that need no pass, for the command line and Python."""
    return [
        *of_declared(log, settings),
        *of_promises(log, plans, settings.order, settings.barrier),
        *of_joins(plans),
        *of_repetition(plans),
        *of_constraints(plans),
        *of_line_numbers(settings.barrier, time_unit, arrival_given=arrival_given),
    ]


def of_streams(plans: Sequence[Plan], counters: dict[str, Any]) -> list[str]:
    """Warn of streams in queries without events: most likely misspelt."""
    seen = sorted({lane["stream"] for lane in _lanes(counters)})
    named = {stream for plan in plans for stream in plan.streams}
    return [
        f"no event of stream {stream}; there are {', '.join(seen)}"
        for stream in sorted(named)
        if stream not in seen
    ]


def of_clocks(counters: dict[str, Any], how: str = "--clock {}") -> list[str]:
    """Warn of sources with an unknown clock error, if other sources have a known one.

    ``how``: syntax for statements about clocks.
    """
    names = sorted({name for site in counters["sites"].values()
                    for name in site.get("unknown_clocks", ())})  # fmt: skip
    if not names:
        return []
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" * (len(names) > _NAMED))
    text = (
        f"nothing is known of the {'clock' if len(names) == 1 else 'clocks'} of {some}: what "
        "compares their events with those of another clock is unknown, as if they were right. If "
        f"one clock stamped all, say {how.format('exact')}; if one is off, "
        f"{clock_option(f'{names[0]}=-3.2s±0.1s', how)}; or give sync rows"
    )
    return [text]


def _lanes(counters: dict[str, Any]) -> list[dict[str, Any]]:
    return [lane for site in counters["sites"].values() for lane in site["lanes"]]
