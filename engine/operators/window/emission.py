"""Emission of window results: the emitted results and their updates.

A retraction repeats the content of the result that it retracts. So emitted results are kept, per
key of a window and stage, until the window is final.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE
from slackwater.engine.kernels.tables import POOL, chained, free_place, take_place
from slackwater.engine.operators.window.settings import PART_BITS
from slackwater.engine.operators.window.state.accumulate import WORDS, same_numbers
from slackwater.engine.operators.window.state.cells import HEADER, Cells
from slackwater.engine.operators.window.state.content import (
    COUNTS,
    EACH,
    NUMBERS,
    STAGE_LAST,
    Content,
    WindowStore,
    has_result,
    is_refuted,
    read_content,
    without_bounds,
)
from slackwater.engine.operators.window.state.panes import Entries, Panes

STAGES: Final = 3
SPARE: Final = 64
"""More results than one late row can change, times its ``room_factor``."""
PLACES_SPARE: Final = 16
"""More places than one late row can need: two for each window."""


class EmittedResults(NamedTuple):
    """Emitted results: ``s`` places, one per key of a window; three stages with DRIFT EACH, else
    one.

    ``next``: chain of free places. ``there`` (s, stages): whether there is a result. ``kinds`` and
    ``words`` (s, stages, numbers), ``counts`` (s, stages): see ``Content``. ``rows`` (s, stages):
    number of rows processed before the emission; ``~rows``: it is emitted again, as it became
    unknown. ``tally``: one POOL.
    """

    next: np.ndarray
    there: np.ndarray
    kinds: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    rows: np.ndarray
    tally: np.ndarray


class ResultRows(NamedTuple):
    """Results, in order. ``plus``: inserted, else retracted.

    ``at``: instant of release. ``window``: index. ``nulls``, ``keys``: the key. ``block``: 1 at the
    first of the results that are updated together, in one stage of a window. ``rows``: number of
    rows processed before the insertion; its retraction has the same, and so the same status of
    clocks. ``compares``: this status (``IS_UNKNOWN``, ``IS_MIXED``), set after the pass.
    """

    plus: np.ndarray
    at: np.ndarray
    window: np.ndarray
    stage: np.ndarray
    nulls: np.ndarray
    keys: np.ndarray
    kinds: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    block: np.ndarray
    rows: np.ndarray
    compares: np.ndarray


class ResultBuffer(NamedTuple):
    """The output of a pass; its first ``tally`` places are used."""

    results: ResultRows
    tally: np.ndarray


class PassState(NamedTuple):
    """The state that a pass changes.

    ``state``: one STATE. ``assigner``: the state of a kind of windows: ``TimeState``, ``RowState``
    or ``Sessions``.
    """

    state: np.ndarray
    store: WindowStore
    results: EmittedResults
    outbox: ResultBuffer
    scratch: Content
    entries: Entries
    assigner: Any


class TimeState(NamedTuple):
    """The state of the assigner of time windows.

    ``headers``, ``leaders``: headers and leaders of the closed windows that the current row is in;
    the first ``changed`` are in use. ``no_key``: the key of a header.
    """

    panes: Panes
    headers: np.ndarray
    leaders: np.ndarray
    no_key: np.ndarray


def new_emitted(capacity: int, mode: int, aggregates: int) -> EmittedResults:
    """Return emitted results without any; ``capacity``: number of places."""
    stages, numbers = STAGES if mode == EACH else 1, aggregates * NUMBERS
    return EmittedResults(
        chained(capacity), np.zeros((capacity, stages), np.bool_),
        np.zeros((capacity, stages, numbers), np.int8),
        np.zeros((capacity, stages, numbers), WORDS),
        np.zeros((capacity, stages), COUNTS), np.zeros((capacity, stages), np.int64),
        np.zeros(1, POOL),
    )  # fmt: skip


def new_outbox(capacity: int, columns: int, aggregates: int) -> ResultBuffer:
    """Return room for ``capacity`` results with keys of ``columns`` columns."""
    numbers = aggregates * NUMBERS
    results = ResultRows(
        np.zeros(capacity, np.bool_), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int8), np.zeros(capacity, np.int64),
        np.zeros((capacity, columns), np.int64), np.zeros((capacity, numbers), np.int8),
        np.zeros((capacity, numbers), WORDS), np.zeros(capacity, COUNTS),
        np.zeros(capacity, np.int8), np.zeros(capacity, np.int64), np.zeros(capacity, np.int8),
    )  # fmt: skip
    return ResultBuffer(results, np.zeros(1, np.int64))


def in_words(outbox: ResultBuffer) -> ResultRows:
    """Return a copy of the results in ``outbox``, with blocks numbered.

    ``words`` (n, numbers, 2) and ``counts`` (n, 4) are int64.
    """
    n = int(outbox.tally[0])
    found = ResultRows(*(column[:n].copy() for column in outbox.results))
    words, counts = (column.view(np.int64) for column in (found.words, found.counts))
    return found._replace(
        words=words.reshape(*found.kinds.shape, 2), counts=counts.reshape(n, 4),
        block=np.cumsum(found.block),
    )  # fmt: skip


@kernel
def forget_emitted(cells: Cells, results: EmittedResults, leader: int) -> None:
    """Drop the emitted results of ``leader``."""
    slot = cells.slot[leader]
    if slot != NONE:
        free_place(results.next, results.tally, slot)
        cells.slot[leader] = NONE


@inline
def _send(book: PassState, leader: int, stage: int, place: int, plus: bool, at: int) -> None:
    """Write the emitted result of ``leader`` to the output, as an insertion or a retraction."""
    cells, results, outbox = book.store.cells, book.results, book.outbox
    slot = cells.slot[leader]
    n, out = outbox.tally[0], outbox.results
    outbox.tally[0] = n + 1
    out.plus[n] = plus
    out.at[n] = at
    out.window[n] = cells.window[leader]
    out.stage[n] = stage
    out.block[n] = 0
    columns = cells.keys.shape[1]
    # A header has no key: all of its columns are null.
    header = cells.tag[leader] == HEADER
    out.nulls[n] = (1 << columns) - 1 if header else cells.tag[leader] >> PART_BITS
    for j in range(columns):
        out.keys[n, j] = cells.keys[leader, j]
    for j in range(out.kinds.shape[1]):
        out.kinds[n, j] = results.kinds[slot, place, j]
        out.words[n, j] = results.words[slot, place, j]
    out.counts[n] = results.counts[slot, place]
    out.rows[n] = results.rows[slot, place]
    out.compares[n] = 0


@inline
def update_result(
    book: PassState, leader: int, stage: int, place: int, there: bool, at: int
) -> None:
    """Update the emitted result of ``leader`` from the scratch.

    Args:
        book: the state of the pass; its outbox has room for two more results.
        leader: the leader of the key, or a header.
        stage: the stage of the result.
        place: the place of the stage.
        there: whether the scratch has a result; else the emitted one is retracted.
        at: the instant of release.
    """
    cells, results, scratch = book.store.cells, book.results, book.scratch
    if cells.slot[leader] == NONE:
        if not there:
            return
        cells.slot[leader] = take_place(results.next, results.tally)
        results.there[cells.slot[leader], :] = False
    slot = cells.slot[leader]
    stood, rows = results.there[slot, place], results.rows[slot, place]
    if rows < 0:
        results.rows[slot, place] = ~rows
    if stood and there and rows >= 0:
        one, other = results.counts[slot, place], scratch.counts[0]
        if (
            one.certain == other.certain
            and one.ambiguous == other.ambiguous
            and one.missing == other.missing
            and one.clocks == other.clocks
            and same_numbers(
                results.kinds[slot, place], results.words[slot, place],
                scratch.kinds, scratch.words,
            )
        ):  # fmt: skip
            return
    if stood:
        _send(book, leader, stage, place, False, at)
    results.there[slot, place] = there
    if there:
        for j in range(len(scratch.kinds)):
            results.kinds[slot, place, j] = scratch.kinds[j]
            results.words[slot, place, j] = scratch.words[j]
        results.counts[slot, place] = scratch.counts[0]
        results.rows[slot, place] = book.state[0].taken + book.state[0].row
        _send(book, leader, stage, place, True, at)


@kernel
def emit_keys(
    book: PassState,
    header: int,
    keys: np.ndarray,
    every: bool,
    stage: int,
    extent: tuple[int, int],
    at: int,
) -> None:
    """Update the emitted results of one ``stage`` of a window, for each of its leaders ``keys``.

    A window without results but with missing events, or with an event of a refuted clock bound, has
    one result without a key, stored at its header. ``every``: ``keys`` are all keys of the window.
    """
    some, store, scratch = False, book.store, book.scratch
    start, end = extent
    refuted = is_refuted(book.state[0], start, end)
    before = book.outbox.tally[0]
    for leader in keys:
        some = some or has_result(store, leader, stage)
    missing = store.cells.missing[header]
    nobody = every and not some and (missing > 0 or refuted)
    place = stage if book.results.there.shape[1] == STAGES else 0
    settled = nobody or ((every or some) and store.cells.slot[header] != NONE)
    for j in range(-1 if stage == STAGE_LAST else 0, len(keys)):
        leader = header if j < 0 else keys[j]
        if j >= 0 or settled:
            there = j >= 0 or nobody
            there = there and read_content(store, leader, stage, missing, extent, scratch)
            if there and stage == STAGE_LAST and refuted:
                without_bounds(store, scratch)
            update_result(book, leader, stage, place, there, at)
    if book.outbox.tally[0] > before:
        book.outbox.results.block[before] = 1
