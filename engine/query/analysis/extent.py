"""What a WINDOW clause says of the windows' borders: by the clock, by silence, by numbers."""

from __future__ import annotations

from typing import Any, Final

from engine.query.analysis.conditions import duration_ns
from engine.query.analysis.typed import Context
from engine.query.emit import Emit
from engine.query.language import syntax as s
from engine.query.plan import Drift, WindowKind

Window = s.TimeWindow | s.SessionWindow | s.CountWindow
SLIDES_MAX: Final = 10_000
"""Windows that hold one event: more are a mistake in the units."""
_ROWS_MAX: Final = 1 << 24
"""Of a window: every group keeps so many events."""


def extent_of(window: Window, context: Context) -> dict[str, Any]:
    """The fields of a ``WindowPlan`` that follow from ``window``.

    Raises:
        UserError: a length or number that no window can have.
    """
    match window:
        case s.TimeWindow():
            size, every = _time(window, context)
            return {"size_ns": size, "every_ns": every, "drift": Drift(window.drift or "none")}
        case s.SessionWindow():
            gap = duration_ns(window.gap, context, "the gap")
            return {"size_ns": gap, "kind": WindowKind.SESSION}
        case s.CountWindow():
            rows, every = _rows(window, context)
            return {"size_ns": 0, "rows": rows, "every_rows": every, "kind": WindowKind.ROWS}


def _time(window: s.TimeWindow, context: Context) -> tuple[int, int | None]:
    """Size and slide, which is None for a window that tumbles [ns]."""
    size = duration_ns(window.size, context, "the window")
    if window.every is None:
        return size, None
    every = duration_ns(window.every, context, "the slide")
    if every > size:
        message = "the slide is longer than the window, so events between two are in none"
        raise context.refuse(window.every.at, message, "make EVERY at most as long as the window")
    if size // every > SLIDES_MAX:
        message = f"{size // every} windows would hold an event; at most {SLIDES_MAX} may"
        raise context.refuse(window.every.at, message, "make EVERY longer")
    return size, every


def _rows(window: s.CountWindow, context: Context) -> tuple[int, int]:
    """Events of a window, and from one window's first event to the next one's."""
    rows = _number(window.rows, context)
    if window.every is None:
        return rows, rows
    every = _number(window.every, context)
    if every > rows:
        message = "the slide is larger than the window, so events between two are in none"
        raise context.refuse(window.every.at, message, "make EVERY at most as large as ROWS")
    if rows // every > SLIDES_MAX:
        message = f"{rows // every} windows would hold an event; at most {SLIDES_MAX} may"
        raise context.refuse(window.every.at, message, "make EVERY larger")
    return rows, every


def emit_of(
    clause: s.EmitClause | None, extent: dict[str, Any], context: Context
) -> dict[str, Any]:
    """The fields of a ``WindowPlan`` that follow from EMIT, beside those of ``extent``.

    Raises:
        UserError: early results of windows that are over then.
    """
    if clause is None:
        return {}
    if clause.every is None:
        return {"emit": Emit(clause.when)}
    every = duration_ns(clause.every, context, "EMIT EARLY EVERY")
    tumbles = extent.get("kind") is None and extent["every_ns"] in (None, extent["size_ns"])
    if tumbles and every % extent["size_ns"] == 0:
        message = "every window closes where it would be told early"
        hint = "make EMIT EARLY EVERY shorter than the window, or leave EMIT out"
        raise context.refuse(clause.every.at, message, hint)
    return {"emit": Emit.EARLY, "early_ns": every}


def _number(number: s.Number, context: Context) -> int:
    if not number.text.isdecimal() or not 1 <= int(number.text[:20]) <= _ROWS_MAX:
        message = f"a window has 1 to {_ROWS_MAX} events"
        raise context.refuse(number.at, message, "as in ROWS 100 EVERY 10")
    return int(number.text)
