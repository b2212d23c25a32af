"""The automata of a run's patterns under constraints, as its report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from engine.query.automata.picture import pictures
from engine.query.plan import Plan
from engine.scenario import Drawing

_CAPTION: Final = (
    "A box is what a trace has been so far: open, alert (every way to go on has a match) or "
    "cleared (none has); a second frame: a trace may end there. Events that change nothing, and "
    "those that break the constraint, are left out."
)


def drawings_of(plans: Iterable[Plan]) -> Iterator[Drawing]:
    """One of each that is not too large to be looked at."""
    for query, constraint, drawn in pictures(plans):
        yield Drawing(f"{query}: what constraint {constraint} makes certain", _CAPTION, drawn)
