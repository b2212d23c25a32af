"""The words of a validation's page, for who has not read the papers; headings lead here."""

from __future__ import annotations

from typing import Final

from engine.report.glossary import places_of, with_anchors

_WORDS: Final = (
    ("verdict", "fit; fit with care: it works, and something should be mended; not fit", ""),
    (
        "order gap",
        "two events further apart than this are surely in order: how wrong both clocks may be",
        "time",
    ),
    (
        "smallest",
        "from this WITHIN on a match can be certain; of this window few events lie near a border",
        "time",
    ),
    (
        "uncertain",
        "results that other times within the clocks' bounds would change; of a window, its events",
        "%",
    ),
    ("timeout", "how long to wait for a missing number: 999 of 1,000 come in time", "time"),
    ("hold", "how long the events of one source must wait for those of the others", "time"),
    ("detection p95", "95 of 100 events are answered within it: the way and the hold", "time"),
    ("offset", "what must be added to the source's times; positive: its clock is slow", "time"),
    ("bound there", "by how much the offset may be wrong right where it was measured", "time"),
    ("delay", "how long question and answer of the time sync took together", "time"),
    ("between syncs", "the longest time that the clock is left alone", "time"),
    (
        "wrong by at most",
        "a clock: until its next sync, after correction; a way: as far as its clock is known",
        "time",
    ),
    ("skew", "how much too fast the clock runs; 1 ppm is 86 ms a day", "ppm"),
    ("jitter", "how much single readings of the offset scatter", "time"),
    ("steps", "how often somebody, or something, set the clock meanwhile", ""),
    ("least", "the fastest event; a clock that is wrong makes it wrong, even negative", "time"),
    ("p50, p95, p99.9", "so many of 100 events take at most this long", "time"),
    ("lost", "numbers that never came, of all up to the last", "events"),
    ("95 % between", "where the share that is lost lies, judging by so many events (Wilson)", "%"),
    ("reordered", "events that came after a later one of their source", "events"),
    ("Allan deviation", "how much the frequency differs from one stretch to the next", "ppb"),
)  # fmt: skip
GLOSSARY: Final = with_anchors(
    {"term": term, "definition": definition, "unit": unit} for term, definition, unit in _WORDS
)
_PLACES: Final = places_of(GLOSSARY)
_QUANTILES: Final = "p50, p95, p99.9"
TERMS: Final = _PLACES | dict.fromkeys(_QUANTILES.split(", "), _PLACES[_QUANTILES])
"""Word -> anchor and definition."""
