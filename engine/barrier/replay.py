"""What happens to matches that are held, one after another: the loop behind every barrier.

Matches are numbered as entries; whether one is held, due and so on is in columns. The fates of
matches steer ``adaptive``: their rate is smoothed here, at their places in the stream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels import tables as heap
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import Record, record

# What happens.
NEW: Final = 0
CHANGED: Final = 1
DUE: Final = 2
LAST_DUE: Final = 3
"""No earlier match can come any more."""

# Where a match is.
TO_COME: Final = 0
HELD: Final = 1
GONE: Final = 2

FATES: Final = record("rate_ppm", "waits", "adapts", "dropped", "corrected")
"""``rate_ppm``: of matches that a later row changed. ``waits``: 1: new matches wait until they are
due; 0: they leave at once; ``adapts``: 1: the rate decides that. Counters.
"""

_ONE: Final = 1_000_000
_SMOOTHING: Final = 64
_WAIT_ABOVE_PPM: Final = 100_000
_AT_ONCE_BELOW_PPM: Final = 50_000


class ReplayEntries(NamedTuple):
    """Matches, by entry, in order of their numbers. ``heap``: scratch of as many entries."""

    where: np.ndarray
    due: np.ndarray
    last_due: np.ndarray
    last_ns: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    heap: np.ndarray


class Happenings(NamedTuple):
    """What happens, in order: ``kind``, to which ``entry`` (-1: one that is not held), by which
    ``change`` (-1: none), ``at`` which instant of the arrival clock.
    """

    kind: np.ndarray
    entry: np.ndarray
    change: np.ndarray
    at: np.ndarray


class StateChanges(NamedTuple):
    """Changes of older matches, by change: as they stood, and as they stand now."""

    was_confirmed: np.ndarray
    was_chance: np.ndarray
    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray


class Releases(NamedTuple):
    """What is let go: an entry, or (-1) the match of a change; ``n``: how many."""

    entry: np.ndarray
    change: np.ndarray
    plus: np.ndarray
    at: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    n: np.ndarray


def room_for(entries: int, changes: int) -> Releases:
    """Each entry is let go once at most, each change corrects with two results at most."""
    room = entries + 2 * changes
    return Releases(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.bool_),
        np.empty(room, np.int64), np.empty(room, np.bool_), np.empty(room, np.float64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inline
def _observe(state: Record, spoilt: int) -> None:
    """A match was let go or, ``spoilt``, changed by a later row."""
    if state.adapts:
        state.rate_ppm += ((_ONE if spoilt else 0) - state.rate_ppm) // _SMOOTHING
        if state.rate_ppm > _WAIT_ABOVE_PPM:
            state.waits = 1
        elif state.rate_ppm < _AT_ONCE_BELOW_PPM:
            state.waits = 0


@inline
def _write(
    let: Releases, entry: int, change: int, plus: bool, at: int, confirmed: bool, chance: float
) -> None:
    n = let.n[0]
    let.entry[n], let.change[n], let.plus[n], let.at[n] = entry, change, plus, at
    let.confirmed[n], let.chance[n] = confirmed, chance
    let.n[0] = n + 1


@inline
def _let_go(e: ReplayEntries, entry: int, at: int, state: Record, let: Releases) -> None:
    _observe(state, 0)
    e.where[entry] = GONE
    _write(let, entry, -1, True, at, e.confirmed[entry], e.chance[entry])


@inline
def _let_go_ordered(e: ReplayEntries, size: int, at: int, state: Record, let: Releases) -> int:
    """Those that are due and before which none is held or can come; the heap's new size.

    By their last event, then by number, in which order entries are.
    """
    while size > 0:
        first = e.heap[0]
        if e.where[first] == HELD:
            if not (e.due[first] and e.last_due[first]):
                return size
            _let_go(e, first, at, state, let)
        heap.pop(e.heap, size, e.last_ns)
        size -= 1
    return size


@kernel
def replay(
    happens: Happenings,
    e: ReplayEntries,
    turns: StateChanges,
    ordered: bool,
    fates: np.ndarray,
    let: Releases,
) -> None:
    """Go through ``happens``.

    Args:
        happens: in order.
        e: the matches; those held already are HELD.
        turns: by change.
        ordered: whether matches leave by their last event's time.
        fates: one FATES.
        let: has room (``room_for``).
    """
    state, size = fates[0], 0
    if ordered:
        for entry in range(len(e.where)):
            if e.where[entry] == HELD:
                heap.push(e.heap, size, e.last_ns, entry)
                size += 1
    for i in range(len(happens.kind)):
        kind, entry, at = happens.kind[i], happens.entry[i], happens.at[i]
        if kind == NEW:
            e.where[entry] = HELD
            if ordered:
                heap.push(e.heap, size, e.last_ns, entry)
                size += 1
            if not state.waits:
                e.due[entry] = True
        elif kind == CHANGED:
            _observe(state, 1)
            change = happens.change[i]
            if entry < 0 or e.where[entry] != HELD:
                state.corrected += 1
                _write(
                    let, -1, change, False, at, turns.was_confirmed[change],
                    turns.was_chance[change],
                )  # fmt: skip
                if turns.stands[change]:
                    _write(let, -1, change, True, at, turns.confirmed[change], turns.chance[change])
            elif turns.stands[change]:
                e.confirmed[entry], e.chance[entry] = turns.confirmed[change], turns.chance[change]
            else:
                e.where[entry] = GONE
                state.dropped += 1
        elif kind == DUE:
            e.due[entry] = True
        else:
            e.last_due[entry] = True
        if ordered:
            size = _let_go_ordered(e, size, at, state, let)
        elif entry >= 0 and e.where[entry] == HELD and e.due[entry]:
            _let_go(e, entry, at, state, let)
