"""Every number of the page: its name, what it is, its unit. Shown at the end of the report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from engine.report.terms import BEFORE, PASS

_MORE: Final = (
    ("arrival", "when the receiver got an event, on the engine's clock", "s since first arrival"),
    ("balanced", "both sides of an equation are equal, for every source and in total", "events"),
    (
        "out of order",
        "some event of the site that arrived (or was released) earlier has a larger event time",
        "events",
    ),
    ("inversions", "pairs of events of a site in the wrong order", "pairs"),
    (
        "lateness",
        "largest event time seen so far minus the event's own; of events out of order only",
        "ms",
    ),
    ("ts", "event time at the source's own clock", "ns in files"),
    ("ref", "event time on the engine's clock: ts plus the source's offset", "ns in files"),
    ("hold time", "release minus arrival: how long ordering kept the event", "ms"),
    (
        "p50, p95, p99, p99.9",
        "at least this share of all values are at most this large; a value that occurred",
        "as its column",
    ),
    (
        "clock error",
        "ref minus the engine clock's reading when the event truly happened; positive = too late",
        "ms",
    ),
    (
        "declared bound",
        "half the time-sync delay plus the clocks' precision, growing with the offset's age",
        "ms",
    ),
    ("inside the bound", "events whose clock error is at most their declared bound", "%"),
    ("T_a", "largest filtered time-sync delay over a site's sources (R19 Eq 3.16)", "ms"),
    ("most buffered", "largest number of events held at one time, of the site with most", "events"),
    ("error bar of a window", "what the clocks' errors could have made of it", "as the value"),
    ("missing in a window", "events known to be missing that could belong to it", "events"),
    (
        "ambiguous",
        "events of a window that the clocks' errors could move out of it or into it",
        "events",
    ),
    ("inserted, retracted", "results given out (+), and taken back (-) later", "results"),
    (
        "confirmed, uncertain",
        "no clock error within the bounds could undo the match; some could",
        "matches",
    ),
    ("unknown", "matches that compare clocks of which one is unknown: nobody knows", "matches"),
    ("taken back", "matches that were retracted and not given out again", "matches"),
    ("told after", "instant a match was given out minus the end of its last event", "ms"),
    ("seconds of a pass", "how long the computer took for it; not part of any result", "s"),
)  # fmt: skip


def glossary(known: Collection[str]) -> list[dict[str, str]]:
    """``term``, ``definition`` and ``unit`` of each reported number.

    Args:
        known: keys of the terms that are known from before the arrival log.
    """
    before = [term for term in BEFORE if term.key in known]
    counted = [(term.heading, term.definition, "events") for term in (*before, *PASS)]
    return [
        {"term": term, "definition": definition, "unit": unit}
        for term, definition, unit in (*counted, *_MORE)
    ]


def with_anchors(words: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The words of a glossary, each with the ``anchor`` under which a page has it."""
    return [{**each, "anchor": f"term-{at}"} for at, each in enumerate(words)]


def places_of(words: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, str]]:
    """Word -> anchor and definition, of words with anchors."""
    return {each["term"]: (each["anchor"], each["definition"]) for each in words}
