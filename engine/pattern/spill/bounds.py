"""What spilling means for a query: how far events look back, and the settings left open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import UserError
from engine.pattern.compiled.tables import Layout, layout_of, relations_in
from engine.pattern.spill.partition import keys_of
from engine.pattern.spill.settings import SpillSettings
from engine.query.plan import Plan

_PENDING: Final = 64
_WAIT_NS: Final = 10 * 10**9
_PENDING_ALL: Final = 1 << 16
"""Where every event waits, a turn must be worth loading all that WITHIN holds."""
_PARTS: Final = 4
"""At most, unless more are asked for: each chunk is so many files."""


@dataclass(frozen=True, slots=True)
class SpillBounds:
    """``SpillSettings`` with nothing left open; ``windows``: see ``windows_of``. Late events of one
    ``together_ns`` have their turn together: of a chunk, or of WITHIN if every event waits, as then
    a turn loads about the same whichever of them it is for.
    """

    folder: Path | None
    within_ns: int
    hot_ns: int
    chunk_ns: int
    pending: int
    wait_ns: int
    parts: int
    windows: int
    together_ns: int


def spill_bounds(plan: Plan, spill: SpillSettings) -> SpillBounds:
    """The settings in force for a query.

    Raises:
        UserError: the query has no WITHIN, or parts are asked for and its events have no key.
    """
    layout = layout_of(plan)
    within_ns = layout.branches[0].within_ns
    if within_ns is None:
        raise UserError(f"query {plan.name!r}: spill needs WITHIN, which says what is loaded again")
    keys = bool(keys_of(layout))
    if not keys and (spill.parts or 1) > 1:
        raise UserError(
            f"query {plan.name!r}: spill: parts={spill.parts} needs one key that all its events "
            "share; join every step by = in WHERE, with one attribute per type, or leave parts out"
        )
    windows = windows_of(layout)
    looks_back = windows * within_ns
    hot_ns = looks_back + looks_back // 4 if spill.hot_ns is None else spill.hot_ns
    chunk_ns, pending, wait_ns, parts = within_ns // 4, _PENDING, _WAIT_NS, 1
    if hot_ns < looks_back:
        chunk_ns, pending, wait_ns = min(chunk_ns, hot_ns), _PENDING_ALL, hot_ns
        parts = min(-(-looks_back // hot_ns), _PARTS) if keys else 1
    chunk_ns = max(chunk_ns, 1) if spill.chunk_ns is None else spill.chunk_ns
    return SpillBounds(
        spill.folder, within_ns, hot_ns, chunk_ns,
        pending if spill.pending is None else spill.pending,
        wait_ns if spill.wait_ns is None else spill.wait_ns,
        parts if spill.parts is None else spill.parts, windows,
        chunk_ns if hot_ns >= looks_back else max(chunk_ns, within_ns),
    )  # fmt: skip


def windows_of(layout: Layout) -> int:
    """How many times WITHIN lies between an event and the farthest one that bears on a match of
    its: two where steps are negated at both ends.
    """
    at_ends: set[str] = set()
    for number, step in enumerate(layout.tables.scopes["step"].tolist()):
        ends = relations_in(layout.tables, number)
        at_ends |= {
            side for side in ("left", "right") if (ends["strict"] == 0)[ends[side] == step].any()
        }
    return 2 if len(at_ends) == 2 else 1
