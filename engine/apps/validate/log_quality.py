"""The quality of every clock and link of a site, from its arrival log's syncs and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.report.measure.events import RunRows, quantiles
from slackwater.engine.apps.validate.clock_reports import (
    DeclaredBound,
    declared_bounds,
    synced_clock,
)
from slackwater.engine.apps.validate.quality import (
    ClockQuality,
    LinkQuality,
    Setup,
    SourceQuality,
)
from slackwater.engine.apps.validate.tables import Validation, validation
from slackwater.engine.apps.validate.two_logs import NONE, read_columns
from slackwater.engine.apps.validate.verdict import Measured, ResultRequirements
from slackwater.engine.core.clocks.arrivals import SLOW_NS, slow_text
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.kernels.records import NS_PER_S
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.output.part_store import HELD_BYTES, PartStore
from slackwater.engine.query.plan import statement_plan

# Results of a log's own queries: the queries are run, and uncertain results counted.


def measured_answers(
    log: Path, settings: ChainSettings, folder: Path,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Measured]:  # fmt: skip
    """Per query, matches and uncertain ones; for windows, their events and ambiguous ones.

    Retracted results are subtracted.

    Args:
        log: an arrival log.
        settings: of the chains that run the queries.
        folder: for data that does not fit into memory.
        advanced: takes the number of records, for progress.

    Raises:
        UserError: see ``engine.hosts.pipeline``.
    """
    store = PartStore(folder, hold=HELD_BYTES)
    run_in_process(log, settings, store, advanced)
    found: dict[str, Measured] = {}
    for plan in map(statement_plan, settings.plans):
        name = "windows" if plan.windows else "matches"
        results = uncertain = 0
        batches = store.open(name)
        for _, table in batches.tables(sorted(batches.sites)):
            query_rows = table.filter(pc.equal(table.column("query").cast(pa.string()), plan.name))
            sign = pc.if_else(pc.equal(query_rows.column("op").cast(pa.string()), "+"), 1, -1)
            if plan.windows:
                certain, doubtful = query_rows.column("certain"), query_rows.column("ambiguous")
            else:
                is_doubtful = pc.equal(
                    query_rows.column("certainty").cast(pa.string()), "uncertain"
                )
                doubtful, certain = is_doubtful.cast(pa.int64()), pc.invert(is_doubtful)
            doubt = pc.sum(pc.multiply(doubtful.cast(pa.int64()), sign)).as_py() or 0
            sure = pc.sum(pc.multiply(certain.cast(pa.int64()), sign)).as_py() or 0
            results, uncertain = results + doubt + sure, uncertain + doubt
        found[plan.name] = Measured(results, uncertain)
    return found


Watch = Callable[[str], AbstractContextManager[Callable[[int], None]]]
"""Called with the name of a step; yields the function that takes its number of records."""


def judged(
    log: Path, name: str, settings: ChainSettings | None, requirements: ResultRequirements,
    choice: ClockChoice, watch: Watch,
) -> Validation:  # fmt: skip
    """Judge whether the clocks and links of a log are good enough for the queries.

    Args:
        log: an arrival log.
        name: name of the input, for people.
        settings: of the chains that run the queries; None: there are none.
        requirements: of the results.
        choice: declarations of clocks without a sync.
        watch: for progress.

    Raises:
        UserError: the log or a query is invalid.
    """
    with watch("reading") as advanced:
        bounds = declared_bounds(LogReader(log), choice)
        setup = setup_of_log(read_columns(log, advanced), bounds, choice)
    if settings is None:
        return validation(name, "log", setup, (), requirements)
    with TemporaryDirectory(prefix="slackwater-") as folder, watch("answering") as advanced:
        answers = measured_answers(log, settings, Path(folder), advanced)
    return validation(name, "log", setup, settings.plans, requirements, answers.get)


# The quality of every clock and link of a site, from its arrival log's syncs, delays and gaps.
#
# A source's offset at an event is interpolated linearly between the syncs before and after it, in
# its own time, and constant before the first and after the last. Syncs belong to the clock that
# they name; a source with several stamping clocks is as good as the worst of them. An event's
# transit is its arrival minus its corrected time: the path from the event to the gateway, including
# waits on the device, with the error of the clock.


_STREAMS_SHOWN: Final = 8
_NAMED: Final = 3
_CLOCK: Final = (r.SITE, r.CLOCK)
_SOURCE: Final = (r.SITE, r.SOURCE)
_LANE: Final = (*_SOURCE, r.STREAM, r.INCARNATION)


_NOTHING_SAID: Final = ClockChoice(exact=False)


def setup_of_log(
    log: RunRows, declared: Mapping[tuple[str, str], DeclaredBound] | None = None,
    choice: ClockChoice = _NOTHING_SAID,
) -> Setup:  # fmt: skip
    """Quality of every source that sent events, per site.

    ``declared``: by (site, clock) the engine's bounds. ``choice``: declarations of clocks without a
    sync.
    """
    bounds = declared or {}
    events, syncs = log.only(log[r.KIND] == Kind.EVENT), _syncs(log)
    synced, ref = dict(syncs.groups(*_CLOCK)), events[r.TS].copy()
    clocks: dict[tuple[str, ...], ClockQuality] = {}
    lags: dict[str, int] = {}
    stated = _stated(choice, [clock for clock, _ in events.groups(*_CLOCK)])
    for clock, mine in events.groups(*_CLOCK):
        clock_syncs, ts = syncs.only(synced.get(clock, np.zeros(0, np.int64))), ref[mine]
        known = bounds.get(clock)
        if len(clock_syncs):
            quality = _clock(clock_syncs, int(ts.min()), int(ts.max()))
            ref[mine] += offsets_at(clock_syncs, ts)
        elif clock in stated:  # like a sync that does not age
            offset, bound = stated[clock]
            quality = ClockQuality(
                offset_ns=offset, offset_bound_ns=bound, delay_ns=2 * bound, skew_error_ppb=0,
                age_ns=0,
            )  # fmt: skip
            ref[mine] += offset
        else:
            quality = _UNKNOWN
        clocks[clock] = replace(quality, declared_ns=None if known is None else known.most)
        if quality is not _UNKNOWN and known is not None:
            lags[clock[1]] = known.lag
    worst: dict[tuple[str, ...], ClockQuality] = {}
    for (site, source, clock), _ in events.groups(*_SOURCE, r.CLOCK):
        two = (clocks[site, clock], worst.get((site, source), clocks[site, clock]))
        worst[site, source] = max(two, key=_badness)
    lanes = _lanes(log, events)
    found = [
        _source(key, events.only(mine), ref[mine], worst[key], lanes.get(key, []))
        for key, mine in events.groups(*_SOURCE)
    ]
    if len({each.site for each in found}) > 1:
        found = [replace(each, name=f"{each.site}/{each.name}") for each in found]
    return Setup(
        sources=tuple(found), alike=False, lateness_ns=_lateness(events, ref),
        facts={"events": len(events), "syncs": len(syncs)},
        concerns=(*_concerns(found, len(clocks)), *_slow(lags)),
    )  # fmt: skip


def _stated(
    choice: ClockChoice, clocks: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], tuple[int, int]]:
    """Offset and bound [ns] by (site, clock). If exactly one clock of a site is undeclared, it is
    the reference of the others.
    """
    declared = {name: (offset, bound) for name, offset, bound in choice.declared}
    found = {clock: declared[clock[1]] for clock in clocks if clock[1] in declared}
    for site in {clock[0] for clock in clocks}:
        mine = [clock for clock in clocks if clock[0] == site]
        rest = [clock for clock in mine if clock not in found]
        if choice.exact or (len(rest) == 1 < len(mine)):
            found |= dict.fromkeys(rest, (0, 0))
    return found


def _syncs(log: RunRows) -> RunRows:
    """Syncs in order of time. One without a time holds from its arrival."""
    syncs = log.only((log[r.KIND] == Kind.SYNC) & (log[r.OFFSET] != NONE) & (log[r.DELAY] != NONE))
    ts, precision = syncs[r.TS], syncs[r.PRECISION]
    ts = np.where(ts == NONE, syncs[r.ARRIVAL] - syncs[r.OFFSET], ts)
    columns = {r.TS: ts, r.PRECISION: np.where(precision == NONE, 0, precision)}
    return RunRows(syncs.numbers | columns, syncs.texts).only(np.argsort(ts, kind="stable"))


def offsets_at(syncs: RunRows, ts: np.ndarray) -> np.ndarray:
    """Offset [ns] of a clock at its times ``ts``, int64; ``syncs``: its syncs, at least one."""
    place, last = np.searchsorted(syncs[r.TS], ts, side="right"), len(syncs) - 1
    before, after = np.maximum(place - 1, 0), np.minimum(place, last)
    run = syncs[r.TS][after] - syncs[r.TS][before]
    rise = syncs[r.OFFSET][after] - syncs[r.OFFSET][before]
    share = np.where(run > 0, (ts - syncs[r.TS][before]) / np.maximum(run, 1), 0.0).clip(0, 1)
    return np.asarray(syncs[r.OFFSET][before] + np.rint(rise * share).astype(np.int64))


_UNKNOWN: Final = ClockQuality(offset_ns=None)


def _badness(clock: ClockQuality) -> tuple[bool, int]:
    return clock.offset_ns is None, clock.bound_ns() if clock.offset_ns is not None else 0


def _clock(syncs: RunRows, first: int, last: int) -> ClockQuality:
    """Quality of a clock whose events are between ``first`` and ``last``, by its own time."""
    names = (r.TS, r.OFFSET, r.DELAY, r.PRECISION, r.SKEW_ERROR_PPB)
    ts, offset, delay, precision, stated = (syncs[name] for name in names)
    error = None if stated[-1] == NONE else int(stated[-1])
    clock = synced_clock(ts, offset, delay, precision, (first, last), error)
    fits = clock.samples > 2
    return ClockQuality(
        offset_ns=int(offset[-1]), offset_bound_ns=int(clock.bound[-1]), delay_ns=int(delay.max()),
        precision_ns=int(precision.max()), skew_ppb=clock.line.skew_ppb if fits else None,
        skew_bound_ppb=clock.line.skew_error_ppb if fits else None, skew_error_ppb=error,
        age_ns=clock.age_ns, syncs=len(ts), jitter_ns=clock.jitter_ns,
        steps=tuple(np.diff(offset)[clock.stepped].tolist()),
    )  # fmt: skip


class LaneNumbers(NamedTuple):
    """Counts of one (source, stream, incarnation); ``waits_ns``: how long each late number was
    missing.
    """

    expected: int
    lost: int
    duplicates: int
    waits_ns: np.ndarray


def _lanes(log: RunRows, events: RunRows) -> dict[tuple[str, ...], list[LaneNumbers]]:
    """By (site, source); a lane begins with the announced number, or the first one."""
    said = log.only((log[r.KIND] == Kind.SYNC) & (log[r.FIRST_SEQ] != NONE))
    firsts = {lane: int(said[r.FIRST_SEQ][mine].min()) for lane, mine in said.groups(*_LANE)}
    numbered = events.only(events[r.SEQ] >= 0)
    found: dict[tuple[str, ...], list[LaneNumbers]] = {}
    for lane, mine in numbered.groups(*_LANE):
        seq, arrival = numbered[r.SEQ][mine], numbered[r.ARRIVAL][mine]
        low = min(int(seq.min()), firsts.get(lane, int(seq.min())))
        expected, is_copy = int(seq.max()) - low + 1, np.ones(len(seq), np.bool_)
        is_copy[np.unique(seq, return_index=True)[1]] = False
        newest, copies = np.maximum.accumulate(seq), int(is_copy.sum())
        late = (seq < newest) & ~is_copy
        # The gap was detected at the lane's first event with a larger number.
        waits = arrival[late] - arrival[np.searchsorted(newest, seq[late], side="right")]
        numbers = LaneNumbers(expected, expected - (len(seq) - copies), copies, waits)
        found.setdefault(lane[:2], []).append(numbers)
    return found


def _source(
    key: tuple[str, ...], events: RunRows, ref: np.ndarray, clock: ClockQuality,
    lanes: Sequence[LaneNumbers],
) -> SourceQuality:  # fmt: skip
    """Quality of a source whose events are at ``ref`` by the engine's clock."""
    transits, ts, count = np.sort(events[r.ARRIVAL] - ref), events[r.TS], len(events)
    waits = np.sort(np.concatenate([np.zeros(0, np.int64), *(lane.waits_ns for lane in lanes)]))
    transit, lost = quantiles(transits), sum(lane.lost for lane in lanes)
    p50, p95, p999 = (transit[name] or 0 for name in ("p50", "p95", "p999"))
    link = LinkQuality(
        least_ns=int(transits[0]), p50_ns=p50, p95_ns=p95, p999_ns=p999, most_ns=int(transits[-1]),
        transit_error_ns=clock.bound_ns() if clock.offset_ns is not None else None,
        round_trip_ns=clock.delay_ns or None, trials=sum(lane.expected for lane in lanes),
        lost=lost, duplicates=sum(lane.duplicates for lane in lanes), reordered=len(waits),
        gap_wait_ns=quantiles(waits)["p999"] or 0, resends=not lost,
    )  # fmt: skip
    period = (int(ts.max()) - int(ts.min())) // (count - 1) if count > 1 else None
    return SourceQuality(
        site=key[0], name=key[1], clock=clock, link=link, events=count, period_ns=period,
        streams=_texts(events, r.STREAM), types=_texts(events, r.TYPE),
    )  # fmt: skip


def _texts(events: RunRows, name: str) -> tuple[str, ...]:
    """A few of the texts that occur."""
    codes = np.unique(events[name])
    return tuple(events.texts[name][code] for code in codes[codes >= 0][:_STREAMS_SHOWN].tolist())


def _lateness(events: RunRows, ref: np.ndarray) -> tuple[int, int, int, int]:
    """By how much the ref of an earlier event of the site exceeds an event's: p50, p99, p99.9 and
    maximum over events out of order (L10 4.3.1); 0 without any.
    """
    sites = (ref[mine] for _, mine in events.groups(r.SITE))
    behind = [np.maximum.accumulate(site_times) - site_times for site_times in sites]
    late = np.sort(np.concatenate([np.zeros(0, np.int64), *behind]))
    found = quantiles(late[late > 0])
    p50, p99, p999, most = (found[name] or 0 for name in ("p50", "p99", "p999", "max"))
    return p50, p99, p999, most


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" ..." if len(names) > _NAMED else "")


def _slow(lags: Mapping[str, int]) -> list[tuple[str, bool]]:
    """Concerns about clocks whose events all arrive later than any bound allows."""
    slow = {name: lag for name, lag in lags.items() if lag >= SLOW_NS}
    if not slow:
        return []
    said = (
        f"{slow_text(list(slow), max(slow.values()))}: see that the clock that stamps them is right"
    )
    return [(said, False)]


def _concerns(sources: Sequence[SourceQuality], clocks: int) -> list[tuple[str, bool]]:
    made = []
    unknown = [each for each in sources if each.clock.offset_ns is None]
    if unknown and clocks > 1:
        said = "clocks are unknown, so events of different ones cannot be compared: "
        said += _few([each.name for each in unknown])
        made.append((f"{said}; slackwater clocks says how far off they seem", True))
    early = {
        each.name: -each.link.least_ns - each.link.transit_error_ns
        for each in sources
        if each.link is not None and each.link.transit_error_ns is not None
    }
    early = {name: by for name, by in early.items() if by > 0}
    if early:
        said = (
            f"events arrived up to {max(early.values()) * 1000 / NS_PER_S:,.1f} ms before they can "
            f"have happened, so a clock is off by more than its syncs say: {_few([*early])}; sync "
            "the clock that stamps them"
        )
        made.append((said, True))
    stepped = [each for each in sources if each.clock.steps]
    if stepped:
        names = ", ".join(each.name for each in stepped[:3])
        made.append((f"clocks were set meanwhile: {names}", False))
    return made
