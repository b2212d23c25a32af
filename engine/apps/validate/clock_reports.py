"""Each clock of a log: how far off it is, how well that is known, and how to declare it.

The offset comes from its syncs or, without any, from arrivals minus stamps (``clocks.arrivals``).
The bounds of a clock's events are those that the engine declares: its chain is run over the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.edge_agent.device_clock import device_of, is_in_doubt
from slackwater.engine.apps.report.numbers import Cell, TimeLine, plain, versions
from slackwater.engine.apps.report.page.document import CHAPTER, write_page
from slackwater.engine.apps.report.page.figures import COLOURS, Figure, digits
from slackwater.engine.apps.validate.tables import ppm
from slackwater.engine.apps.validate.verdict import duration, nearest
from slackwater.engine.core.clocks.arrivals import (
    SLOW_NS,
    ArrivalEstimate,
    clock_option,
    declaration,
    estimate,
    fastest_delay,
    resolution,
    slow_text,
)
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.clocks.prediction import (
    SKEW_MAX_PPB,
    SYNCS_KEPT,
    Line,
    Sample,
    fit_newest,
)
from slackwater.engine.core.frame import by_site
from slackwater.engine.core.units import duration_unit
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.clock_faults import ClockReadings, clock_readings
from slackwater.engine.kernels.jit import for_rows
from slackwater.engine.kernels.records import NS_PER_S
from slackwater.engine.log.arrival_log import Log, opened
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.scenario import Table

_ROWS: Final = 1 << 18
_POINTS_MAX: Final = 240


class ClockReport(Struct, frozen=True):
    """One clock; times and durations in ns, None where unknown.

    ``known_by``: ``syncs``, ``arrivals`` (a largest offset, and an assumed least delay) or
    ``nothing`` (there are no arrivals). ``offset_ns``: to be added to its times, at its last event;
    ``low_ns``, ``high_ns``: its range over the whole log. ``skew_ppb``: d(offset)/dt. ``steps``:
    (event time, change of the offset). ``jitter_ns``: of the readings. ``age_ns``: the longest time
    without a sync, including before the first and after the last. ``declared_ns``: the largest
    bound that the engine declares for its events. ``lag_ns``: least time by which each event
    arrived later than it can have happened. ``clock``: value for ``--clock``. ``at_ns``,
    ``series_ns``: offsets over its own time, for a figure.
    """

    site: str
    name: str
    sources: tuple[str, ...]
    events: int
    known_by: str
    offset_ns: int | None
    low_ns: int | None
    high_ns: int | None
    skew_ppb: int | None
    steps: tuple[tuple[int, int], ...]
    resolution_ns: int
    jitter_ns: int | None
    syncs: int
    last_sync_ns: int | None
    age_ns: int | None
    declared_ns: int | None
    lag_ns: int | None
    clock: str | None
    at_ns: tuple[int, ...]
    series_ns: tuple[int, ...]


def clock_reports(
    log: Log, *, arrival_given: bool, advanced: Callable[[int], None] = lambda _rows: None
) -> list[ClockReport]:
    """Every clock that stamped events, by site and name.

    Args:
        log: records in order of arrival.
        arrival_given: whether arrivals are instants, not line numbers.
        advanced: takes the number of records, for progress.
    """
    readings = [of for of in clock_readings(opened(log).of_sites(None), advanced) if len(of.ts)]
    declared = declared_bounds(log)
    by_arrival = {
        (of.site, of.name): estimate(of.ts, of.arrival) for of in readings if arrival_given
    }
    fastest = {
        site: fastest_delay(each for (origin, _), each in by_arrival.items() if origin == site)
        for site in {of.site for of in readings}
    }
    return _with_epochs([
        _report(
            of, by_arrival.get((of.site, of.name)), fastest[of.site],
            declared.get((of.site, of.name)),
        )
        for of in readings
    ])  # fmt: skip


def _with_epochs(found: Sequence[ClockReport]) -> list[ClockReport]:
    """Merge the epochs of a device's clock, which have different names, as steps of one clock."""
    newest: dict[tuple[str, str], ClockReport] = {}
    stepped: dict[tuple[str, str], ClockReport] = {}
    epochs = [each for each in found if each.at_ns and device_of(each.name) != each.name]
    for each in sorted(epochs, key=lambda of: of.at_ns[0] + of.series_ns[0]):
        if is_in_doubt(each.name):
            continue
        device = (each.site, device_of(each.name))
        before, newest[device] = newest.get(device), each
        if before is not None:
            step = (each.at_ns[0], each.series_ns[-1] - before.series_ns[-1])
            stepped[each.site, each.name] = replace(each, steps=(step, *each.steps))
    return [stepped.get((each.site, each.name), each) for each in found]


class DeclaredBound(NamedTuple):
    """The engine's bounds for the events of a clock [ns]: ``most``: the largest; ``lag``: least
    time by which each event arrived later than its bound allows.
    """

    most: int
    lag: int


def declared_bounds(
    log: Log, choice: ClockChoice | None = None
) -> dict[tuple[str, str], DeclaredBound]:
    """The engine's bounds for the events of each clock, by site and name.

    Computed by the engine itself, with every sync in its place among the events, and without its
    guard. ``choice``: declarations of clocks without a sync.
    """
    settings = ChainSettings(
        parse_order("none"), guards=Guards(None), ordered="full", clock=choice or ClockChoice()
    )
    chains: dict[str, Chain] = {}
    found: dict[tuple[str, str], DeclaredBound] = {}
    for frames in by_site(opened(log).of_sites(None), _ROWS):
        for site, site_frames in sorted(frames.items()):
            if site not in chains:
                chains[site] = Chain(settings, site)
            with for_rows(sum(frame.rows for frame in site_frames)):
                output = chains[site].process(site_frames)
            for released in output.ordered:
                columns = released.columns
                clock = columns.get(r.CLOCK, columns[r.SOURCE])
                codes, which = np.unique(clock, return_inverse=True)
                worst = np.zeros(len(codes), np.int64)
                np.maximum.at(worst, which, columns["unc"])
                lag = np.full(len(codes), np.iinfo(np.int64).max)
                np.minimum.at(lag, which, columns[r.ARRIVAL] - columns["ref"] - columns["unc"])
                for code, *of in zip(codes.tolist(), worst.tolist(), lag.tolist(), strict=True):
                    key = (site, str(released.strings.text(code)))
                    before = found.get(key, DeclaredBound(*of))
                    found[key] = DeclaredBound(max(before.most, of[0]), min(before.lag, of[1]))
    return found


def _report(
    of: ClockReadings, known: ArrivalEstimate | None, fastest: int, declared: DeclaredBound | None
) -> ClockReport:
    common: dict[str, Any] = {
        "site": of.site, "name": of.name, "sources": of.sources, "events": len(of.ts),
        "resolution_ns": resolution(of.ts), "syncs": len(of.syncs[r.TS]),
    }  # fmt: skip
    if len(of.syncs[r.TS]):
        lag = None if known is None or declared is None else declared.lag
        most = None if declared is None else declared.most
        return ClockReport(**common, **_synced(of), declared_ns=most, lag_ns=lag, clock=None)
    nothing: dict[str, Any] = dict.fromkeys(
        ("offset_ns", "low_ns", "high_ns", "skew_ppb", "jitter_ns", "last_sync_ns", "age_ns",
         "declared_ns", "lag_ns", "clock")
    )  # fmt: skip
    if known is None:
        return ClockReport(
            **common, **nothing, known_by="nothing", steps=(), at_ns=(), series_ns=()
        )
    low, high = known.between(fastest)
    return ClockReport(**common, **nothing | {
        "known_by": "arrivals", "offset_ns": known.most_ns - fastest, "low_ns": low,
        "high_ns": high, "skew_ppb": known.skew_ppb, "jitter_ns": known.jitter_ns,
        "clock": declaration(of.name, low, high), "steps": known.steps, "at_ns": known.at_ns,
        "series_ns": tuple(each - fastest for each in known.least_ns),
    })  # fmt: skip


class SyncedClock(NamedTuple):
    """The syncs of a clock, by its own time.

    ``bound``: bound of each offset's error [ns]; ``stepped``: indices of the syncs before a step;
    ``line``: through the last ``samples`` syncs, since the last step; ``age_ns``: as in
    ``ClockReport``.
    """

    bound: np.ndarray
    stepped: np.ndarray
    line: Line
    samples: int
    jitter_ns: int | None
    age_ns: int


def synced_clock(
    ts: np.ndarray, offset: np.ndarray, delay: np.ndarray, precision: np.ndarray,
    used: tuple[int, int], skew_error_ppb: int | None = None,
) -> SyncedClock:  # fmt: skip
    """Evaluate syncs in order of ``ts``; ``used``: the clock's first and last time."""
    bound = (delay + 1) // 2 + precision
    allowed = bound[1:] + bound[:-1] + np.diff(ts) * SKEW_MAX_PPB // NS_PER_S
    stepped = np.flatnonzero(np.abs(np.diff(offset)) > allowed)
    recent: list[Sample] = []
    start = int(stepped[-1]) + 1 if len(stepped) else 0
    for each in zip(*(of[start:].tolist() for of in (ts, offset, bound)), strict=True):
        if not recent or each[0] > recent[-1].ts:
            recent.append(Sample(*each))
    recent = recent[-SYNCS_KEPT:]
    _, line = fit_newest(recent, skew_error_ppb)
    left = [each.offset - (each.ts - line.anchor) * line.skew_ppb // NS_PER_S for each in recent]
    jitter = round(float(np.std(left))) if len(left) > 2 else None
    # The time before the first sync and after the last one counts as well.
    age = max([*np.diff(ts).tolist(), int(ts[0]) - used[0], used[1] - int(ts[-1])])
    return SyncedClock(bound, stepped, line, len(recent), jitter, age)


def _synced(of: ClockReadings) -> dict[str, Any]:
    """Fields of the report from the clock's syncs, in order of its own time."""
    order = np.argsort(of.syncs[r.TS], kind="stable")
    ts, offset, delay, precision = (
        of.syncs[name][order] for name in (r.TS, r.OFFSET, r.DELAY, r.PRECISION)
    )
    last = int(of.ts.max())
    clock = synced_clock(ts, offset, delay, precision, (int(of.ts.min()), last))
    steps = zip(ts[1:][clock.stepped], np.diff(offset)[clock.stepped], strict=True)
    sample = np.unique(np.linspace(0, len(ts) - 1, min(len(ts), _POINTS_MAX)).astype(int))
    return {
        "known_by": "syncs", "offset_ns": clock.line.offset_at(last),
        "low_ns": int((offset - clock.bound).min()), "high_ns": int((offset + clock.bound).max()),
        "skew_ppb": clock.line.skew_ppb if clock.samples > 1 else None,
        "steps": tuple((int(at), int(by)) for at, by in steps), "jitter_ns": clock.jitter_ns,
        "last_sync_ns": int(ts[-1]), "age_ns": clock.age_ns,
        "at_ns": tuple(ts[sample].tolist()), "series_ns": tuple(offset[sample].tolist()),
    }  # fmt: skip


def remarks(found: Sequence[ClockReport]) -> list[str]:
    """Remarks for the user: unknown clocks, and what arrivals cannot show."""
    lines = []
    guessed = [each for each in found if each.known_by == "arrivals"]
    slow = {each.name: each.lag_ns for each in found if (each.lag_ns or 0) >= SLOW_NS}
    if slow:
        lines.append(slow_text(list(slow), max(by for by in slow.values() if by is not None)))
    if any(each.known_by == "nothing" for each in found):
        lines.append(
            "the input has no arrival times, so its clocks are not known: map their column, as in "
            "--map arrival=received_at, or give sync records, or say what you know: --clock exact "
            "if one clock stamped all, --clock NAME=OFFSET±BOUND if one is off"
        )
    if guessed:
        lines.append(
            "offsets without syncs are from arrivals less stamps: a clock that is slow and a way "
            "that is long look the same. They assume that the fastest message of each clock took "
            "as long as that of the fastest; pass what you believe as --clock NAME=OFFSET±BOUND"
        )
    return lines


# clocks.html and clocks.json: every clock of a log, and its offset over time.


HTML: Final = "clocks.html"
JSON: Final = "clocks.json"
_CHAPTERS: Final = {
    "verdict": "In short", "offset": "Offset over time", "clocks": "Clocks", **CHAPTER,
}  # fmt: skip
_CLOCKS_SHOWN: Final = 30


def called(each: ClockReport, found: Sequence[ClockReport]) -> str:
    """The clock's name, with its site if there are several."""
    several = len({other.site for other in found}) > 1
    return f"{each.site}/{each.name}" if several else each.name


def clocks_table(found: Sequence[ClockReport]) -> Table:
    """A row per clock, the largest offset first."""
    headings = (
        "clock", "events", "offset", "known by", "skew", "steps", "resolution", "jitter", "syncs",
        "longest without sync", "bound", "lag at least", "option to use",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            called(each, found), each.events, nearest(each.offset_ns), each.known_by,
            ppm(each.skew_ppb), len(each.steps), duration(each.resolution_ns),
            duration(each.jitter_ns), each.syncs, duration(each.age_ns),
            "unknown" if each.known_by != "syncs" else duration(each.declared_ns),
            duration(each.lag_ns),
            None if each.clock is None else clock_option(each.clock),
        )
        for each in sorted(found, key=lambda each: -abs(each.offset_ns or 0))
    ]  # fmt: skip
    return Table("", headings, tuple(rows))


def as_plain(found: Sequence[ClockReport], looked_at: str) -> dict[str, Any]:
    """The content of ``clocks.json``; durations in ns, skew in ppb."""
    return {
        "looked_at": looked_at, "clocks": [plain(each) for each in found],
        "remarks": remarks(found), "made_with": versions(),
    }  # fmt: skip


def write_clocks(found: Sequence[ClockReport], looked_at: str, out: Path, command: str) -> None:
    """Write ``clocks.json`` and ``clocks.html`` into ``out``, created if missing."""
    report = as_plain(found, looked_at)
    write_page(
        out, Path(HTML), f"Clocks of {Path(looked_at).name}", _CHAPTERS, report, command=command,
        figure=_over_time(found), table=clocks_table(found), headline=headline(found),
    )  # fmt: skip


def headline(found: Sequence[ClockReport]) -> str:
    """Text about the clock with the largest offset."""
    known = [each for each in found if each.offset_ns is not None]
    if not known:
        return "The input has no arrival times, so nothing is known of its clocks."
    worst = max(known, key=lambda each: abs(each.offset_ns or 0))
    offset = worst.offset_ns or 0
    way = "slow" if offset > 0 else "fast"
    about = "" if worst.known_by == "syncs" else "about "
    off = f"{worst.name} is {about}{nearest(abs(offset))} {way}" if offset else "No clock is off"
    steps = [each.name for each in found if each.steps]
    return f"{off}." + (f" Set meanwhile: {', '.join(steps[:3])}." if steps else "")


def _over_time(found: Sequence[ClockReport]) -> Figure | None:
    reports = sorted(found, key=lambda each: -abs(each.offset_ns or 0))
    reports = [each for each in reports if each.at_ns][:_CLOCKS_SHOWN]
    if not reports:
        return None
    first = min(
        at + by for each in reports for at, by in zip(each.at_ns, each.series_ns, strict=True)
    )
    last = max(
        at + by for each in reports for at, by in zip(each.at_ns, each.series_ns, strict=True)
    )
    time = TimeLine.of(first, last, "sync or event")
    unit, unit_ns = duration_unit(max(abs(by) for each in reports for by in each.series_ns))
    return Figure(
        "offset", "Offset of each clock over time",
        "What must be added to a clock's times: by its syncs, or by the least of arrival less "
        "stamp (less the assumed delay of the fastest message). Below 0 it is fast.",
        [
            {
                "name": called(each, found), "mode": "lines+markers",
                "y": digits(by / unit_ns for by in each.series_ns),
                "x": digits(time.place(at + by)
                            for at, by in zip(each.at_ns, each.series_ns, strict=True)),
                "marker": {"size": 4}, "line": {"width": 1, "color": COLOURS[n % len(COLOURS)]},
                "hovertemplate": f"%{{y:.4g}} {unit} after %{{x:.4g}} {time.unit}",
            }
            for n, each in enumerate(reports)
        ],
        {"xaxis": {"title": {"text": time.title}}, "yaxis": {"title": {"text": f"offset [{unit}]"}},
         "showlegend": len(reports) > 1},
    )  # fmt: skip
