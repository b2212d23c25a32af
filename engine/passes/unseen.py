"""Types that a pattern names and no event has: most likely a slip of the pen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from engine.log.held_log import Log, opened
from engine.query.fields import named_types
from engine.query.language.place import closest
from engine.query.plan import Plan

_LISTED = 8


def unseen_types(log: Path | Log, plans: Iterable[Plan]) -> list[str]:
    """One line per query and type that no event of ``log`` has: where it stands, what there is.

    The log is read no further than until every type was seen once. A negated step's type may
    rightly be missing, and any type may still come on a stream without end: no error.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    named = [(plan, kinds) for plan in plans if (kinds := named_types(plan))]
    missing = {kind for _, kinds in named for kind in kinds}
    seen: set[str] = set()
    if missing:
        for frame in opened(log).one_by_one():
            seen |= _types(frame.batch)
            if missing <= seen:
                break
    return [
        f"{plan.name}{_place(plan.text, kind)}: no event is of type {kind!r}{_there_is(kind, seen)}"
        for plan, kinds in named
        for kind in kinds
        if kind not in seen
    ]


def _place(text: str, kind: str) -> str:
    """Where a query names it first."""
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
    return (f"; there is {listed}" if seen else "") + (f"; {near}" if near else "")


_EVENTS: Final = tuple(map(int, (r.Kind.EVENT, r.Kind.IBP, r.Kind.IBE)))


def _types(batch: pa.RecordBatch) -> set[str]:
    """The types of a frame's events and halves of such; its punctuations' do not count."""
    if r.TYPE not in batch.schema.names:
        return set()
    column = batch.column(r.TYPE)
    if r.KIND in batch.schema.names:
        kinds = pc.fill_null(batch.column(r.KIND), int(r.Kind.EVENT))
        column = column.filter(pc.is_in(kinds, pa.array(_EVENTS, kinds.type)))
    return {kind for kind in pc.unique(column).to_pylist() if kind is not None}
