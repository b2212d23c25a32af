"""Sources whose clocks exclude their events from results or disturb the order, with remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.clocks.arrivals import (
    ArrivalEstimate,
    clock_option,
    declaration,
    estimate,
    fastest_delay,
)
from slackwater.engine.core.frame import Frame, clock_names
from slackwater.engine.core.units import duration
from slackwater.engine.kernels.records import NS_PER_S
from slackwater.engine.log.arrival_log import Log, opened
from slackwater.engine.log.describe import group_rows, ints, string_codes

# Clock readings in a log: times and arrivals of events, and syncs.


_OF_SYNC: Final = (r.TS, r.ARRIVAL, r.OFFSET, r.DELAY, r.PRECISION)


class ClockReadings(Struct, frozen=True):
    """Readings of one clock; int64 [ns], in order of arrival.

    ``sources``: sources whose events it stamped. ``ts``, ``arrival``: of these events. ``syncs``:
    syncs with an offset, by field (``ts arrival offset delay precision``).
    """

    site: str
    name: str
    sources: tuple[str, ...]
    ts: np.ndarray
    arrival: np.ndarray
    syncs: dict[str, np.ndarray]


class _Parts(Struct):
    """Collected parts of one clock's readings."""

    sources: dict[str, None]
    events: list[tuple[np.ndarray, np.ndarray]]
    syncs: list[dict[str, np.ndarray]]


def clock_readings(
    frames: Iterable[Frame], advanced: Callable[[int], None] = lambda _rows: None
) -> list[ClockReadings]:
    """Return the readings of every clock with events or syncs, by site and name.

    Args:
        frames: frames of a log.
        advanced: takes the number of records after each frame.
    """
    found: dict[tuple[str, str], _Parts] = {}
    for frame in frames:
        _add(found, frame)
        advanced(frame.rows)
    none = np.zeros(0, np.int64)
    return [
        ClockReadings(
            site, name, tuple(of.sources),
            np.concatenate([none, *(ts for ts, _ in of.events)]),
            np.concatenate([none, *(arrival for _, arrival in of.events)]),
            {field: np.concatenate([none, *(each[field] for each in of.syncs)])
             for field in _OF_SYNC},
        )
        for (site, name), of in sorted(found.items())
    ]  # fmt: skip


def _add(found: dict[tuple[str, str], _Parts], frame: Frame) -> None:
    batch = frame.batch
    names = set(batch.schema.names)

    def numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
        if name in names and not pa.types.is_null(batch.column(name).type):
            return ints(batch.column(name))
        return np.zeros(frame.rows, np.int64), np.zeros(frame.rows, np.bool_)

    kind = numbers(r.KIND)[0]
    source, sources = string_codes(batch.column(r.SOURCE))
    clock, clocks = string_codes(clock_names(batch))
    offset, measured = numbers(r.OFFSET)
    rows = np.flatnonzero((source >= 0) & ((kind == Kind.EVENT) | ((kind == Kind.SYNC) & measured)))
    if not len(rows):
        return
    groups = group_rows([clock[rows], kind[rows]])
    ts, stamped = numbers(r.TS)
    arrival = numbers(r.ARRIVAL)[0]
    for group in np.split(rows[groups.order], groups.starts[1:]):
        name = clocks[int(clock[group[0]])]
        parts = found.setdefault((frame.site, name), _Parts({}, [], []))
        if kind[group[0]] == Kind.EVENT:
            parts.sources |= dict.fromkeys(sources[code] for code in np.unique(source[group]))
            parts.events.append((ts[group], arrival[group]))
        else:
            # A sync without a time is taken to be from its arrival.
            when = np.where(stamped[group], ts[group], arrival[group] - offset[group])
            columns = {name: numbers(name)[0][group] for name in _OF_SYNC}
            parts.syncs.append(columns | {r.TS: when})


# Excluded events by source, with the likely reason and a remedy.


_UNIT_NS: Final = 30 * 86_400 * NS_PER_S
"""A clock is rarely this far ahead; a wrong time unit is more likely."""
_MOST: Final = 3
"""Largest number of sources with a line of their own."""


def excluded_lines(counters: dict[str, Any], log: Path | Log, how: str = "--clock {}") -> list[str]:
    """Return a line per source with excluded events, largest number first.

    Args:
        counters: counters of the pass.
        log: input of the pass, from which the clocks are estimated.
        how: syntax for statements about clocks.
    """
    lost = _excluded(counters)
    if not lost:
        return []
    frames = opened(log).of_sites(sorted({site for site, _ in lost}))
    readings: dict[tuple[str, str], ClockReadings] = {}
    known: dict[tuple[str, str], ArrivalEstimate] = {}
    of_site: dict[str, list[ArrivalEstimate]] = {}
    for of in clock_readings(frames):
        if not len(of.ts):
            continue
        found = estimate(of.ts, of.arrival)
        of_site.setdefault(of.site, []).append(found)
        for key in ((of.site, source) for source in of.sources):
            # If a source has several clocks, use the one that is furthest ahead.
            if key not in known or found.most_ns < known[key].most_ns:
                readings[key], known[key] = of, found
    fastest = {site: fastest_delay(estimates) for site, estimates in of_site.items()}
    several = len(counters["sites"]) > 1
    worst = sorted(lost.items(), key=lambda each: (-_out(each[1]), each[0]))[:_MOST]
    lines = [
        f"{_said_of(counts, f'{site}/{source}' if several else source)}: "
        + _why(counts, readings[site, source], known[site, source], fastest[site], how)
        for (site, source), counts in worst
    ]
    if len(lost) > _MOST:
        more = sum(map(_out, lost.values()))
        lines.append(f"events of {len(lost) - _MOST:,} more sources excluded, {more:,} in all")
    return lines


def behind_excluded(lines: Iterable[str], headline: str) -> str:
    """Put ``headline`` after these lines: events without results are mentioned first."""
    return " ".join([*(f"{line[0].upper()}{line[1:]}." for line in lines), headline])


def clocks_set_back(names: set[tuple[str, str]], log: Path | Log) -> dict[tuple[str, str], int]:
    """Return by how much the clocks of these sources were set back at most [ns], by arrivals.

    Args:
        names: (site, source).
        log: the input; without arrivals the result is empty.
    """
    reader = opened(log)
    found: dict[tuple[str, str], int] = {}
    if not reader.arrival_given:
        return found
    for of in clock_readings(reader.of_sites(sorted({site for site, _ in names}))):
        back = [by for _, by in estimate(of.ts, of.arrival).steps if by > 0] if len(of.ts) else []
        for source in of.sources if back else ():
            if (of.site, source) in names:
                found[of.site, source] = max(back)
    return found


def _excluded(counters: dict[str, Any]) -> dict[tuple[str, str], Counter[str]]:
    """Return ``arrived``, ``future`` and ``jump`` of each source with excluded events."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for site, of in counters["sites"].items():
        for lane in of["lanes"]:
            if lane["source"] is None:
                continue
            counts = found.setdefault((site, lane["source"]), Counter())
            counts["arrived"] += lane.get("arrived", 0)
            counts["future"] += lane.get("quarantined_future", 0)
            counts["jump"] += lane.get("quarantined_jump", 0)
    return {key: counts for key, counts in found.items() if _out(counts)}


def _out(counts: Counter[str]) -> int:
    return counts["future"] + counts["jump"]


def _said_of(counts: Counter[str], name: str) -> str:
    out = _out(counts)
    if out == counts["arrived"]:
        what = f"all {out:,} events" if out > 1 else "the only event"
        return f"{what} of {name} excluded"
    return f"{out:,} of {counts['arrived']:,} events of {name} excluded"


def _why(
    counts: Counter[str], of: ClockReadings, known: ArrivalEstimate, fastest: int, how: str
) -> str:
    if not counts["future"]:
        return (
            "their numbers jump ahead by more than 262,144; a column incarnation that rises with "
            "each start of the device lets them in, and so does --order kslack:5s"
        )
    if 2 * counts["future"] < counts["arrived"]:
        most = duration(int((of.ts - of.arrival).max())).replace("\N{NO-BREAK SPACE}", " ")
        return (
            f"they are stamped up to {most} after they arrived, the others are not; correct these "
            "times, or let them in with --guard off"
        )
    amount = duration(float(f"{abs(known.most_ns - fastest):.2g}"))
    said = f"its clock is about {amount} fast".replace("\N{NO-BREAK SPACE}", " ")
    if len(of.syncs["ts"]):
        return f"{said} even after its syncs; slackwater clocks shows it over time"
    if -known.most_ns > _UNIT_NS:
        return f"{said}, or --time-unit is another than you think"
    return f"{said}; try {clock_option(declaration(of.name, *known.between(fastest)), how)}"
