"""The quality of every clock and link of a site, from its arrival log's syncs and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.apps.validate.logs.clock_reports import (
    DeclaredBound,
    declared_bounds,
    synced_clock,
)
from slackwater.engine.apps.validate.logs.two_logs import NONE, LogColumns, read_columns
from slackwater.engine.apps.validate.quality import (
    IN_TIME,
    ClockQuality,
    LinkQuality,
    Setup,
    SourceQuality,
)
from slackwater.engine.apps.validate.tables import Validation, validation
from slackwater.engine.apps.validate.verdict import Measured, ResultRequirements
from slackwater.engine.core.clocks.arrivals import SLOW_NS, slow_text
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.kernels.records import NS_PER_S
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.describe import group_rows
from slackwater.engine.output.part_store import HELD_BYTES, PartStore
from slackwater.engine.query.plan import asked_plan

# What a log's own answers say: its queries are answered, and the uncertain results counted.


def measured_answers(
    log: Path, settings: ChainSettings, folder: Path,
    advanced: Callable[[int], None] = lambda _rows: None,
) -> dict[str, Measured]:  # fmt: skip
    """By query: matches, and those that are uncertain; of windows their events, and the ambiguous.

    Results that were taken back count as often as they were given, so with a minus.

    Args:
        log: an arrival log.
        settings: of the chains that answer.
        folder: for what does not fit into memory.
        advanced: receives the number of records, for progress.

    Raises:
        UserError: see ``engine.hosts.pipeline``.
    """
    store = PartStore(folder, hold=HELD_BYTES)
    run_in_process(log, settings, store, advanced)
    found: dict[str, Measured] = {}
    for plan in map(asked_plan, settings.plans):
        name = "windows" if plan.windows else "matches"
        results = uncertain = 0
        batches = store.open(name)
        for _, table in batches.tables(sorted(batches.sites)):
            own = table.filter(pc.equal(table.column("query").cast(pa.string()), plan.name))
            sign = pc.if_else(pc.equal(own.column("op").cast(pa.string()), "+"), 1, -1)
            if plan.windows:
                certain, doubtful = own.column("certain"), own.column("ambiguous")
            else:
                is_doubtful = pc.equal(own.column("certainty").cast(pa.string()), "uncertain")
                doubtful, certain = is_doubtful.cast(pa.int64()), pc.invert(is_doubtful)
            doubt = pc.sum(pc.multiply(doubtful.cast(pa.int64()), sign)).as_py() or 0
            sure = pc.sum(pc.multiply(certain.cast(pa.int64()), sign)).as_py() or 0
            results, uncertain = results + doubt + sure, uncertain + doubt
        found[plan.name] = Measured(results, uncertain)
    return found


Watch = Callable[[str], AbstractContextManager[Callable[[int], None]]]
"""Of what is done, shows how many records it has taken."""


def judged(
    log: Path, name: str, settings: ChainSettings | None, wanted: ResultRequirements, watch: Watch
) -> Validation:
    """Whether the clocks and links that a log shows are good enough for the queries.

    Args:
        log: an arrival log.
        name: of what was looked at, for people.
        settings: of the chains that answer the queries; None: there are none.
        wanted: of the results.
        watch: for progress.

    Raises:
        UserError: the log or a query is at fault.
    """
    with watch("reading") as advanced:
        setup = setup_of_log(read_columns(log, advanced), declared_bounds(LogReader(log)))
    if settings is None:
        return validation(name, "log", setup, (), wanted)
    with TemporaryDirectory(prefix="slackwater-") as folder, watch("answering") as advanced:
        answers = measured_answers(log, settings, Path(folder), advanced)
    return validation(name, "log", setup, settings.plans, wanted, answers.get)


# The quality of every clock and link of a site, from its arrival log's syncs, delays and gaps.
#
# Whole columns throughout. A source's offset at an event is the straight line between the syncs
# before and after it, in its own time; before the first and after the last it is held. Syncs are of
# the clock that they name, and a source whose events several clocks stamped is as good as the worst
# of them. An event's
# transit is its arrival less its time so corrected: the way from the event to the gateway, with the
# device's own waiting in it, wrong by what the clock is.


_QUANTILES: Final = (0.0, 0.5, 0.95, IN_TIME, 1.0)
_STREAMS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class _Syncs:
    """Measured offsets by clock, then the clock's time; ``starts[code]``: its first."""

    source: np.ndarray
    ts: np.ndarray
    offset: np.ndarray
    delay: np.ndarray
    precision: np.ndarray
    skew_error: np.ndarray
    starts: np.ndarray

    def of(self, code: int) -> slice:
        """Those of one clock."""
        return slice(int(self.starts[code]), int(self.starts[code + 1]))


def setup_of_log(
    log: LogColumns, declared: Mapping[tuple[str, str], DeclaredBound] | None = None
) -> Setup:
    """Every source that sent events; those of different sites apart.

    ``declared``: by (site, clock) what the engine declares of its events.
    """
    bounds = declared or {}
    syncs = _syncs(log)
    events = log.rows(Kind.EVENT)
    source, clock_of = log.source[events], log.clocks[events]
    offset = offsets_at(syncs, clock_of, log[r.TS][events])
    ref = log[r.TS][events] + offset
    transit = log[r.ARRIVAL][events] - ref
    lanes = _lanes(log, events)
    facts = _Facts(log, events, source, transit, lanes)
    present = np.flatnonzero(np.bincount(source, minlength=len(log.sources)))
    several = len({log.sources[code][0] for code in present.tolist()}) > 1
    found = []
    first, last = _range(log[r.TS][events], clock_of, len(log.sources))
    clocks = {
        code: replace(
            _clock(syncs, syncs.of(code), first[code], last[code]),
            declared_ns=None if (of := bounds.get(log.sources[code])) is None else of.most,
        )
        for code in np.unique(clock_of).tolist()
    }
    lags = {
        log.sources[code][1]: bounds[log.sources[code]].lag for code, clock in clocks.items()
        if clock.offset_ns is not None and log.sources[code] in bounds
    }  # fmt: skip
    for code in present.tolist():
        own = [clocks[each] for each in np.unique(clock_of[source == code]).tolist()]
        found.append(facts.source(code, max(own, key=_badness), several=several))
    return Setup(
        sources=tuple(found), alike=False, lateness_ns=_lateness(log, source, ref),
        facts={"events": len(events), "syncs": len(syncs.ts)},
        concerns=(*_concerns(found, len(clocks)), *_slow(lags)),
    )  # fmt: skip


def _syncs(log: LogColumns) -> _Syncs:
    rows = log.rows(Kind.SYNC)
    rows = rows[(log[r.OFFSET][rows] != NONE) & (log[r.DELAY][rows] != NONE)]
    source, ts = log.clocks[rows], log[r.TS][rows]
    # A sync of a trace may lack its time: then it holds from its arrival on, as near as is known.
    ts = np.where(ts == NONE, log[r.ARRIVAL][rows] - log[r.OFFSET][rows], ts)
    order = np.lexsort((ts, source))
    columns = (log[name][rows][order] for name in (r.OFFSET, r.DELAY, r.PRECISION))
    starts = np.searchsorted(source[order], np.arange(len(log.sources) + 1))
    skew = log[r.SKEW_ERROR_PPB][rows][order]
    offset, delay, precision = columns
    return _Syncs(
        source[order], ts[order], offset, delay, np.where(precision == NONE, 0, precision), skew,
        starts,
    )  # fmt: skip


def offsets_at(syncs: _Syncs, source: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Offset [ns] of each event, int64; 0 of a source that was never synchronised."""
    if not len(syncs.ts):
        return np.zeros(len(ts), np.int64)
    place = _place(syncs, source, ts)
    first, last = syncs.starts[source], syncs.starts[source + 1] - 1
    known = last >= first
    before = np.clip(place - 1, first, np.maximum(last, first)).clip(0, len(syncs.ts) - 1)
    after = np.clip(place, first, np.maximum(last, first)).clip(0, len(syncs.ts) - 1)
    run = syncs.ts[after] - syncs.ts[before]
    rise = syncs.offset[after] - syncs.offset[before]
    share = np.where(run > 0, (ts - syncs.ts[before]) / np.maximum(run, 1), 0.0).clip(0, 1)
    between = syncs.offset[before] + np.rint(rise * share).astype(np.int64)
    return np.where(known, between, 0)


def _place(syncs: _Syncs, source: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """How many syncs stand before (source, ts): all of smaller sources, own ones up to ts."""
    both = np.concatenate([ts, syncs.ts])
    of = np.concatenate([source, syncs.source])
    is_sync = np.concatenate([np.ones(len(ts), np.int64), np.zeros(len(syncs.ts), np.int64)])
    order = np.lexsort((is_sync, both, of))
    passed = np.cumsum(is_sync[order] == 0)
    found = np.empty(len(both), np.int64)
    found[order] = passed
    return found[: len(ts)]


def _badness(clock: ClockQuality) -> tuple[bool, int]:
    return clock.offset_ns is None, clock.bound_ns() if clock.offset_ns is not None else 0


def _range(ts: np.ndarray, code: np.ndarray, count: int) -> tuple[list[int], list[int]]:
    """The least and the largest of each code's times; without any, the wrong way round."""
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, NONE)
    np.minimum.at(first, code, ts)
    np.maximum.at(last, code, ts)
    return first.tolist(), last.tolist()


def _clock(syncs: _Syncs, own: slice, first: int, last: int) -> ClockQuality:
    """The quality of a clock whose events lie between ``first`` and ``last``, by its own time."""
    ts, offset, delay = syncs.ts[own], syncs.offset[own], syncs.delay[own]
    if not len(ts):
        return ClockQuality(offset_ns=None)
    precision, stated = syncs.precision[own], int(syncs.skew_error[own][-1])
    error = None if stated == NONE else stated
    clock = synced_clock(ts, offset, delay, precision, (first, last), error)
    fits = clock.samples > 2
    return ClockQuality(
        offset_ns=int(offset[-1]), offset_bound_ns=int(clock.bound[-1]), delay_ns=int(delay.max()),
        precision_ns=int(precision.max()), skew_ppb=clock.line.skew_ppb if fits else None,
        skew_bound_ppb=clock.line.skew_error_ppb if fits else None, skew_error_ppb=error,
        age_ns=clock.age_ns, syncs=len(ts), jitter_ns=clock.jitter_ns,
        steps=tuple(np.diff(offset)[clock.stepped].tolist()),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LaneNumbers:
    """Numbers per (source, stream, incarnation), as columns of one entry per lane."""

    source: np.ndarray
    asked: np.ndarray
    lost: np.ndarray
    duplicates: np.ndarray
    reordered: np.ndarray
    wait_source: np.ndarray
    """Source of each number that came late, and how long it had been missed [ns]."""
    wait_ns: np.ndarray


def _lanes(log: LogColumns, events: np.ndarray) -> LaneNumbers:
    numbered = events[log[r.SEQ][events] >= 0]
    if not len(numbered):
        none = np.zeros(0, np.int64)
        return LaneNumbers(none, none, none, none, none, none, none)
    groups = group_rows(_lane_keys(log, numbered))
    rows = numbered[groups.order]
    seq, arrival, lane = log[r.SEQ][rows], log[r.ARRIVAL][rows], groups.code
    lanes = len(groups.starts)
    source = log.source[numbered[groups.first_row]]
    low = _first_numbers(log, numbered)[groups.first_row]
    asked = np.maximum.reduceat(seq, groups.starts) - low + 1
    by_number = np.lexsort((seq, lane))
    twice = (np.diff(seq[by_number]) == 0) & (np.diff(lane[by_number]) == 0)
    is_copy = np.zeros(len(seq), bool)
    is_copy[by_number[1:][twice]] = True
    copies = np.bincount(lane[is_copy], minlength=lanes)
    # Ranks, so that a lane's numbers all lie above those of the lane before it.
    rank = np.unique(seq, return_inverse=True)[1]
    place = lane * len(seq) + rank
    newest = np.maximum.accumulate(place)
    late = (place < newest) & ~is_copy
    # The first of the lane with a larger number is where the gap was seen.
    seen = np.searchsorted(newest, place[late], side="right")
    count = np.diff(np.append(groups.starts, len(seq)))
    return LaneNumbers(
        source, asked, asked - (count - copies), copies,
        np.bincount(lane[late], minlength=lanes), source[lane[late]],
        arrival[late] - arrival[seen],
    )  # fmt: skip


def _lane_keys(log: LogColumns, rows: np.ndarray) -> list[np.ndarray]:
    return [log.source[rows], log.stream[rows], log[r.INCARNATION][rows]]


def _first_numbers(log: LogColumns, numbered: np.ndarray) -> np.ndarray:
    """Of each event's lane: the number that it began with, as announced or as came."""
    syncs = log.rows(Kind.SYNC)
    announced = syncs[log[r.FIRST_SEQ][syncs] != NONE]
    both = np.concatenate([numbered, announced])
    first = np.concatenate([log[r.SEQ][numbered], log[r.FIRST_SEQ][announced]])
    groups = group_rows(_lane_keys(log, both))
    least = np.minimum.reduceat(first[groups.order], groups.starts)
    found = np.empty(len(both), np.int64)
    found[groups.order] = least[groups.code]
    return found[: len(numbered)]


class _Facts:
    """What the events say of each source; asked once per source."""

    def __init__(
        self, log: LogColumns, events: np.ndarray, source: np.ndarray, transit: np.ndarray,
        lanes: LaneNumbers,
    ) -> None:  # fmt: skip
        count = len(log.sources)
        self._log = log
        self._counts = np.bincount(source, minlength=count)
        self._starts = np.concatenate([[0], np.cumsum(self._counts)])
        self._transit = transit[np.lexsort((transit, source))]
        ts = log[r.TS][events]
        self._spans = _spans(ts, source, count)
        sums = [
            np.bincount(lanes.source, column, minlength=count).astype(np.int64)
            for column in (lanes.asked, lanes.lost, lanes.duplicates, lanes.reordered)
        ]
        self._asked, self._lost, self._duplicates, self._reordered = sums
        order = np.lexsort((lanes.wait_ns, lanes.wait_source))
        self._waits = lanes.wait_ns[order]
        late = np.bincount(lanes.wait_source, minlength=count)
        self._wait_starts = np.concatenate([[0], np.cumsum(late)])
        self._streams = _names(source, log.stream[events], log.streams, count)
        self._types = _names(source, log.type[events], log.types, count)

    def source(self, code: int, clock: ClockQuality, *, several: bool) -> SourceQuality:
        """The quality of one; ``several`` sites: it is called by its site, too."""
        site, name = self._log.sources[code]
        count = int(self._counts[code])
        mine = self._transit[self._starts[code] : self._starts[code + 1]]
        waits = self._waits[self._wait_starts[code] : self._wait_starts[code + 1]]
        least, p50, p95, p999, most = (_ranked(mine, share) for share in _QUANTILES)
        link = LinkQuality(
            least_ns=least, p50_ns=p50, p95_ns=p95, p999_ns=p999, most_ns=most,
            transit_error_ns=clock.bound_ns() if clock.offset_ns is not None else None,
            round_trip_ns=clock.delay_ns or None, asked=int(self._asked[code]),
            lost=int(self._lost[code]), duplicates=int(self._duplicates[code]),
            reordered=int(self._reordered[code]),
            gap_wait_ns=_ranked(waits, IN_TIME) if len(waits) else 0,
            resends=not self._lost[code],
        )  # fmt: skip
        return SourceQuality(
            site=site, name=f"{site}/{name}" if several else name, clock=clock, link=link,
            events=count, period_ns=int(self._spans[code]) // (count - 1) if count > 1 else None,
            streams=self._streams[code], types=self._types[code],
        )  # fmt: skip


def _ranked(ascending: np.ndarray, share: float) -> int:
    """The least value that ``share`` do not exceed."""
    return int(ascending[max(int(np.ceil(share * len(ascending))), 1) - 1])


def _spans(ts: np.ndarray, source: np.ndarray, count: int) -> np.ndarray:
    """From each source's first event to its last [ns]."""
    low, high = map(np.array, _range(ts, source, count))
    return np.where(high >= low, high - low, 0)


def _names(
    source: np.ndarray, codes: np.ndarray, texts: Sequence[str], count: int
) -> list[tuple[str, ...]]:
    """Texts that occur with each source, a few of them."""
    known = codes >= 0
    pairs = np.unique(source[known] * (len(texts) + 1) + codes[known])
    of, which = pairs // (len(texts) + 1), pairs % (len(texts) + 1)
    starts = np.searchsorted(of, np.arange(count + 1))
    return [
        tuple(texts[place] for place in which[starts[code] : starts[code + 1]][:_STREAMS_SHOWN])
        for code in range(count)
    ]


def _lateness(log: LogColumns, source: np.ndarray, ref: np.ndarray) -> tuple[int, int, int, int]:
    """By how much ref an earlier event of the site exceeds one: p50, p99, p99.9, most; of those
    events that are out of order (L10 4.3.1), 0 without any.
    """
    sites = sorted({site for site, _ in log.sources})
    site_of = np.array([sites.index(site) for site, _ in log.sources], np.int64)
    site = site_of[source]
    order = np.argsort(site, kind="stable")
    cuts = np.searchsorted(site[order], np.arange(1, len(sites)))
    lateness = []
    for own in np.split(ref[order], cuts):
        behind = np.maximum.accumulate(own) - own if len(own) else own
        lateness.append(behind[behind > 0])
    late = np.sort(np.concatenate(lateness)) if lateness else np.zeros(0, np.int64)
    if not len(late):
        return 0, 0, 0, 0
    p50, p99, p999 = (_ranked(late, share) for share in (0.5, 0.99, IN_TIME))
    return p50, p99, p999, int(late[-1])


def _slow(lags: Mapping[str, int]) -> list[tuple[str, bool]]:
    """Clocks of which all events come later than any bound allows: right or not, it is said."""
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
        names = ", ".join(each.name for each in unknown[:3]) + (" ..." if len(unknown) > 3 else "")
        said = f"clocks are unknown, so events of different ones cannot be compared: {names}"
        made.append((f"{said}; slackwater clocks says how far off they seem", True))
    early = {
        each.name: -each.link.least_ns - each.link.transit_error_ns
        for each in sources
        if each.link is not None and each.link.transit_error_ns is not None
    }
    early = {name: by for name, by in early.items() if by > 0}
    if early:
        names = ", ".join(list(early)[:3]) + (" ..." if len(early) > 3 else "")
        said = (
            f"events arrived up to {max(early.values()) * 1000 / NS_PER_S:,.1f} ms before they can "
            f"have happened, so a clock is off by more than its syncs say: {names}; sync the clock "
            "that stamps them"
        )
        made.append((said, True))
    stepped = [each for each in sources if each.clock.steps]
    if stepped:
        names = ", ".join(each.name for each in stepped[:3])
        made.append((f"clocks were set meanwhile: {names}", False))
    return made
