"""True intervals and their matches, for the scenarios with intervals.

This module groups readings into intervals by definition, all at once and with their true times;
the devices group them one by one, with their own clocks. An interval of the log equals the true
interval that begins and ends with the same readings of the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.scenario import Bar, Pass, Table
from slackwater.scenarios.runs import emitted, standing
from slackwater.simulation import TRUTH

CONFIRMED: Final = "confirmed"
Identity = tuple[str, str, int, int]
"""Source, type, begin and end at the source's clock of an interval of the log."""


class Interval(NamedTuple):
    """``start_ns`` and ``end_ns`` in true time; ``thing``: the observed thing."""

    type: str
    thing: Any
    start_ns: int
    end_ns: int
    identity: Identity


@dataclass(frozen=True, slots=True, eq=False)
class TrueReadings:
    """Readings of one thing by one source, in order: true times, the device's, and values."""

    source: str
    thing: Any
    true_ns: np.ndarray
    device_ns: np.ndarray
    values: np.ndarray


def runs_of(readings: TrueReadings, labels: np.ndarray) -> list[Interval]:
    """Intervals of equal ``labels`` (text per reading): each ends where the next one begins, the
    last one at the last reading.
    """
    if not labels.size:
        return []
    starts = np.concatenate(([0], np.flatnonzero(labels[1:] != labels[:-1]) + 1))
    ends = np.append(starts[1:], labels.size - 1)
    return _made(readings, starts, ends, labels[starts].tolist())


def bands_of(
    readings: TrueReadings, names: Sequence[str], edges: Sequence[float], hysteresis: float = 0.0
) -> list[Interval]:
    """Bands of a value: a value at an edge is in the band below. A band ends when the value passes
    its edge by more than ``hysteresis`` upwards, or by at least that much downwards.
    """
    plain = np.searchsorted(np.array(edges, np.float64), readings.values, side="left").tolist()
    band_places: list[int] = []
    for value, place in zip(readings.values.tolist(), plain, strict=True):
        last = band_places[-1] if band_places else place
        above = last == 0 or value > edges[last - 1] - hysteresis
        below = last == len(edges) or value <= edges[last] + hysteresis
        band_places.append(last if above and below else place)
    return runs_of(readings, np.array(names, object)[band_places])


def stays_of(readings: TrueReadings, name: str, gap_ns: int) -> list[Interval]:
    """Presences: readings that are at most ``gap_ns`` apart, from the first to the last."""
    if not readings.true_ns.size:
        return []
    breaks = np.flatnonzero(np.diff(readings.device_ns) > gap_ns)
    starts = np.concatenate(([0], breaks + 1))
    ends = np.append(breaks, readings.true_ns.size - 1)
    return _made(readings, starts, ends, [name] * starts.size)


def _made(
    readings: TrueReadings, starts: np.ndarray, ends: np.ndarray, names: Sequence[str]
) -> list[Interval]:
    rows = zip(
        names, readings.true_ns[starts].tolist(), readings.true_ns[ends].tolist(),
        readings.device_ns[starts].tolist(), readings.device_ns[ends].tolist(), strict=True,
    )  # fmt: skip
    return [
        Interval(name, readings.thing, start, end, (readings.source, name, *of_device))
        for name, start, end, *of_device in rows
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Endpoints:
    """Intervals of one type as columns, for brute force: each pair is compared."""

    intervals: tuple[Interval, ...]
    ts: np.ndarray
    te: np.ndarray
    thing: np.ndarray

    @classmethod
    def of(
        cls, intervals: Iterable[Interval], type_: str, thing: Callable[[Any], Any]
    ) -> Endpoints:
        """Those of ``type_``; ``thing(each.thing)``: what must be equal in a match."""
        chosen = tuple(each for each in intervals if each.type == type_)
        things = np.empty(len(chosen), object)
        things[:] = [thing(each.thing) for each in chosen]
        return cls(
            chosen,
            np.array([each.start_ns for each in chosen], np.int64),
            np.array([each.end_ns for each in chosen], np.int64),
            things,
        )


Match = tuple[Identity, ...]


def pairs(
    first: Endpoints, second: Endpoints, within_ns: int,
    holds: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> set[Match]:  # fmt: skip
    """All pairs of one thing within ``within_ns`` for which ``holds(ts, te, ts', te')``."""
    ts, te = first.ts[:, None], first.te[:, None]
    span = np.maximum(te, second.te) - np.minimum(ts, second.ts)
    same = first.thing[:, None] == second.thing[None, :]
    found = holds(ts, te, second.ts[None, :], second.te[None, :]) & same & (span <= within_ns)
    return {
        (first.intervals[i].identity, second.intervals[j].identity)
        for i, j in np.argwhere(found).tolist()
    }


def identity_of(event: Mapping[str, Any]) -> Identity:
    """Identity of an event in a result; a source outside site ``main`` has the site before it."""
    source = event["source"] if event["site"] == "main" else f"{event['site']}/{event['source']}"
    return source, event["type"], event["ts"], event["te"]


def _of_result(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """Identity of a match, which its retraction shares, also without numbers."""
    events = result["events"]
    return (result["query"], *((*identity_of(each), each["seq"]) for each in events))


@dataclass(frozen=True, slots=True)
class FoundMatches:
    """The matches of one query in one pass.

    Attributes:
        at_ns: final matches, with the time of their first emission (engine's clock).
        confirmed: those with certainty ``confirmed``.
        retracted: number of retractions.
    """

    at_ns: Mapping[Match, int]
    confirmed: frozenset[Match]
    retracted: int

    @classmethod
    def read(cls, directory: Path, each: Pass, query: str) -> FoundMatches:
        """Raises UserError: the pass wrote no results."""
        stands = [
            result
            for result in standing(directory, each.label, "matches", _of_result)
            if result["query"] == query
        ]
        retracted = sum(
            result["op"] == "-" and result["query"] == query
            for result in emitted(directory, each.label, "matches")
        )
        named = {tuple(map(identity_of, result["events"])): result for result in stands}
        return cls(
            at_ns={match: result["at"] for match, result in named.items()},
            confirmed=frozenset(
                m for m, result in named.items() if result["certainty"] == CONFIRMED
            ),
            retracted=retracted,
        )

    def right(self, expected: set[Match]) -> bool:
        """Whether every true match is emitted, and every confirmed one is true."""
        return self.confirmed <= expected <= self.at_ns.keys()


def found_in(
    directory: Path, passes: Iterable[Pass], queries: Iterable[str]
) -> dict[tuple[str, str], FoundMatches]:
    """The matches of each query in each pass, by query and barrier.

    Raises:
        UserError: a pass wrote no results.
    """
    each_pass = list(passes)
    return {
        (query, str(each.barrier)): FoundMatches.read(directory, each, query)
        for query in queries
        for each in each_pass
    }


def of_sources(directory: Path) -> Iterator[tuple[str, pa.Table]]:
    """The true events of a run, source by source."""
    events = pq.read_table(directory / TRUTH / "events.parquet")
    sources = events["source"].cast(pa.string())
    for source in pc.unique(sources).to_pylist():
        yield source, events.filter(pc.equal(sources, source))


def found_table(
    found: Mapping[tuple[str, str], FoundMatches], expected: Mapping[str, set[Match]], note: str
) -> Table:
    """One row per query and pass, compared with the truth."""
    return Table(
        "Matches against the truth",
        ("query", "barrier", "true matches", "emitted", "confirmed", "missed",
         "wrongly confirmed", "retracted"),
        tuple(
            (query, barrier, len(expected[query]), len(each.at_ns), len(each.confirmed),
             len(expected[query] - each.at_ns.keys()), len(each.confirmed - expected[query]),
             each.retracted)
            for (query, barrier), each in found.items()
        ),
        note,
    )  # fmt: skip


def bars(
    intervals: Iterable[Interval], lane: Callable[[Interval], str],
    matches: Mapping[str, Iterable[Match]], first: Sequence[str] = (), limit: int = 400,
) -> tuple[Bar, ...]:  # fmt: skip
    """Bars of a timeline: intervals, strong where they are in a match, and a line per query with
    the span of each match.

    Args:
        intervals: of one picture.
        lane: the line of each.
        matches: by query.
        first: lanes in their order from above; the others come after them by name.
        limit: of bars, and of matches per query.
    """
    places = {name: place for place, name in enumerate(first)}
    listed = list(intervals)
    times = {each.identity: (each.start_ns, each.end_ns) for each in listed}
    strong = {identity for those in matches.values() for match in those for identity in match}
    made = [
        Bar(lane(each), each.type, each.start_ns, each.end_ns,
            f"{each.type} {each.thing}", each.identity in strong)
        for each in sorted(
            listed, key=lambda each: (places.get(lane(each), len(places)), lane(each),
                                      each.start_ns)
        )[:limit]
    ]  # fmt: skip
    for query, those in matches.items():
        for match in sorted(those)[:limit]:
            spans = [times[identity] for identity in match if identity in times]
            if len(spans) == len(match):
                low, high = min(a for a, _ in spans), max(b for _, b in spans)
                name = " + ".join(identity[1] for identity in match)
                made.append(Bar(query, "match", low, high, name, True))
    return tuple(made)
