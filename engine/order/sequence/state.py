"""Columns that the ordering kernels work on: rows, lanes and clocks, as groups of NumPy arrays.

A *lane* is one (source, stream): it has its own sequence numbers, its own reorder buffer and its
own queue in front of the merge. Kernels never allocate; the host (``order/sequence.py``) sizes
everything before each call, and ``engine/kernels/jit.py`` caches what is compiled.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.records import INT_MAX, INT_MIN, NONE, record

# Stages of a pending row, kept between calls.
STAGE_RING: Final = 1
"""In the reorder buffer of its lane: a smaller number has not come yet."""
STAGE_QUEUE: Final = 2
"""In its lane's queue before the merge."""
STAGE_HELD: Final = 3
"""Of a later incarnation than the lane's present one, which is not drained yet."""

MAX_RING: Final = 1 << 18
"""Largest distance between the expected number and a buffered one; more is a jump."""
MISSING_KEPT: Final = 128
"""Runs of missing numbers remembered per lane, to tell a late event from a duplicate."""
WAIT_BINS: Final = 273
"""Bins of a sketch of times (see ``timeouts.wait_bin``)."""
LEARNS_FROM: Final = 16
"""The event, the first being 1, from which on a lane learns quantiles and has a MEMORY."""
HIGHS_KEPT: Final = 32
"""Arrivals of new highest numbers remembered per lane and level (see ``timeouts.note_high``)."""
HIGH_LEVELS: Final = 5

# Why a record is refused.
QUARANTINED_FUTURE: Final = 0
QUARANTINED_JUMP: Final = 1
DUPLICATE: Final = 2
MARKER_JUMP: Final = 3
"""Of a punctuation or end of stream, which is no event."""

COUNTERS: Final = (
    "arrived", "in_order", "residual", "late_passed", "late_dropped", "duplicate",
    "quarantined_future", "quarantined_jump", "missing_total", "missing_filled",
    "residual_dropped", "earlier_start",
)  # fmt: skip
"""Counters kept per lane; every event that arrived is in exactly one of the next seven.

``earlier_start``: late events of a smaller incarnation than the lane's; they are never in time, as
incarnations of a source increase (SPEC 3.1). The gateway ensures that; other logs may violate it.
"""
PROGRESS: Final = ("silences", "blocked_ns", "backwards", "backwards_ns")
"""How a lane blocked the others: how often it was silent for longer than its idle timeout, and the
total time [ns] that events of others waited for it. And the number of its events with a time before
that of a smaller number, and the largest difference [ns]: then its numbers are not in the order of
event times."""

_ROW_FIELDS: Final = (
    ("seq", "i8", 0), ("inc", "i8", 8), ("ts", "i8", 16), ("arrival", "i8", 24), ("ref", "i8", 32),
    ("unc", "i8", 40), ("deadline", "i8", 40),
    ("lane", "i4", 48),
    # next row of the lane's queue or held list; source of a record that is no event
    ("nxt", "i4", 52), ("dq_next", "i4", 52), ("source", "i4", 52),
    ("epoch", "i4", 56), ("dq_prev", "i4", 56),
    ("kind", "i1", 60), ("stage", "i1", 61), ("late", "i1", 62),
    ("plain", "i1", 63),  # 1: a punctuation without a type covers all of its source's types
)  # fmt: skip
ROW: Final = np.dtype(
    {
        "names": [name for name, _, _ in _ROW_FIELDS],
        "formats": [kind for _, kind, _ in _ROW_FIELDS],
        "offsets": [offset for _, _, offset in _ROW_FIELDS],
        "itemsize": 64,
    }
)
"""A pending or new record, in one line of the processor's cache.

Fields at one offset are never used together: ``deadline dq_next dq_prev`` (neighbours in the lane's
staircase) are of a row in the ring, ``unc epoch nxt`` of one that has left it.
"""

LANE_FIELDS: Final = (
    # the sequence stage: expected numbers, and the reorder buffer
    "source", "stream", "next_lane", "started", "inc", "expected", "prev_inc", "prev_expected",
    # the smallest number so far of a start without an announced one; its latest time
    "front", "front_high",
    "far_seq", "ann_inc", "ann_first", "ring_off", "ring_cap", "ring_count", "runs_off", "runs_cap",
    "held_head", "held_tail", "dq_head", "dq_tail",
    # markers of the source's progress: punctuation and end of stream
    "pog_seq", "pog_ts", "pog_clock", "pog_deadline",
    "next_pog_seq", "next_pog_ts", "next_pog_clock", "next_pog_deadline",
    "eos_seq", "eos_deadline",
    # the merge
    "head", "tail", "idle", "closed", "bound", "last_low", "top_ref", "last_arrival", "max_ts",
    "rank",
    # averages of R19 Eq 3.1-3.11, in 1/1000 ns, and the timeouts in force [ns]
    # (``r19-code``: 0 while unset, ``last_in_order`` is an event time)
    "last_in_order", "inter_n", "inter_avg", "inter_dev", "hold_n", "hold_avg", "hold_dev",
    "gap_timeout", "idle_timeout",
    # what `quantile` has learnt (see ``sequence.timeouts``), and the memory of missing numbers
    "waits_n", "shape_n", "fresh_n", "fresh_instants", "doubt_n", "settling", "bins",
    "born", "inters_n", "highs_n", "max_seq", "missing_n", "forgotten",
    "memory",  # its place among the memories
)  # fmt: skip
"""int64 each."""
LANE_FIRST: Final[dict[str, int]] = {
    "source": NONE, "next_lane": NONE, "prev_inc": -1, "far_seq": -2, "ann_inc": -1,
    "held_head": NONE, "held_tail": NONE, "dq_head": NONE, "dq_tail": NONE, "head": NONE,
    "tail": NONE, "pog_seq": -1, "pog_deadline": INT_MAX, "next_pog_seq": -1,
    "next_pog_deadline": INT_MAX, "eos_seq": -1, "eos_deadline": INT_MAX,
    "bound": INT_MIN, "last_low": INT_MIN, "top_ref": INT_MIN, "last_arrival": INT_MIN,
    "max_ts": INT_MIN, "front": INT_MIN, "front_high": INT_MIN,
    "last_in_order": INT_MIN, "max_seq": -1, "forgotten": -1, "born": INT_MIN, "idle": 1,
}  # fmt: skip
"""Initial values of a lane; 0 if not named.

Idle: a lane is unknown, so it blocks no others, until its first record or announcement.
"""
LANE: Final = record(*LANE_FIELDS, *COUNTERS, *PROGRESS)
"""A lane: its numbers and its counters. Its sketches are a MEMORY."""
RUN: Final = record("inc", "first", "end", "as_missing")
"""Skipped numbers [first, end) of an incarnation; ``as_missing``: 1: they count as missing."""
HIGH: Final = record("seq", "at")
"""A lane's highest number, and when it came."""
MEMORY: Final = np.dtype(
    [
        ("highs", HIGH, (HIGHS_KEPT * HIGH_LEVELS,)),
        ("waits", "i4", (WAIT_BINS,)),
        ("tail_shape", "i4", (WAIT_BINS,)),
        ("fresh", "i2", (WAIT_BINS,)),
        ("doubt", "i2", (WAIT_BINS,)),
        ("silences", "i4", (WAIT_BINS,)),
    ]
)
"""The sketches of a lane for ``timeout=quantile``, 7 KB; lanes that learn nothing share one.

For ``r19-code`` its ``highs`` are the last events released by timeout.
"""

NODE: Final = record("key", "tie", "lane")
"""A node of a winner tree over the lanes: 1 is the root, lane ``i`` is leaf ``len // 2 + i``."""
EVENT: Final = np.dtype(
    [
        ("row", "i4"),
        ("lane", "i4"),
        ("release", "i8"),
        ("ref", "i8"),
        ("unc", "i8"),
        ("status", "i1"),
    ],
    align=True,
)
"""One released event: the columns that every operator reads, in release order."""


NOTE_GAP: Final = 0
NOTE_PROGRESS: Final = 1
NOTE_QUARANTINE: Final = 2
NOTE: Final = record(
    "kind", "released", "lane", "inc", "first", "count", "low", "high", "frontier", "at", "row",
    "reason",
)  # fmt: skip
"""A note between events, after ``released`` events of the call. A gap: of a ``lane`` and
incarnation, the ``first`` number and the ``count``, with times between ``low`` and ``high``.
Progress: a ``frontier``, ``at`` an instant. A refused record: its ``row`` and the ``reason``.
"""

STATE: Final = record(
    # settings
    "mode", "fixed", "latency", "alpha", "beta", "tail_ppm", "late_pass", "residual_drop",
    "guard", "default_uncertainty", "window", "bits", "silence_window", "interval_factor",
    # state
    "clock", "frontier", "events", "notes", "gone", "most", "queued", "blocker", "since",
)  # fmt: skip
"""Settings and state of the operator. ``guard``: -1: none. ``window``, ``silence_window``: numbers
of remembered waits and silences. ``bits``: the resolution of waiting times is 2 ** bits ns.
``interval_factor``: the factor of ``r19-code`` for intervals of event times.

``clock``: the last arrival. ``frontier``: the largest ref released, or promised to readers of the
ordered stream. Of this call: ``events``, ``notes``: numbers written; ``gone``: number of refused
events (duplicates and quarantined ones). ``most``: the most events buffered at once so far.
``queued``: events in the lanes' queues. ``blocker``: the lane that the merge waits for, or NONE;
``since``: the instant from which an event waits for it, or INT_MAX.
"""


class Sequencer(NamedTuple):
    """The arrays of the kernels.

    ``rows``: ROW, pending ones and then new ones. ``lanes``: LANE. ``memories``: MEMORY, at the
    lanes' ``memory``. ``runs``: RUN, of each lane from its ``runs_off`` on, oldest first. ``ring``:
    the lanes' rings one after another, of rows. ``merge``, ``timer``: trees of NODE; keys of the
    latter are the lanes' next deadlines. ``clocks``: of the site, by code. ``clock``: the code of
    each row's clock; empty: each row's clock is its source. ``state``: one STATE. ``events``,
    ``notes``: EVENT and NOTE, the output of a call.
    """

    rows: np.ndarray
    lanes: np.ndarray
    memories: np.ndarray
    runs: np.ndarray
    ring: np.ndarray
    merge: np.ndarray
    timer: np.ndarray
    clocks: np.ndarray
    clock: np.ndarray
    state: np.ndarray
    events: np.ndarray
    notes: np.ndarray


MODE_R19: Final = 0
MODE_FIXED: Final = 1
MODE_QUANTILE: Final = 2
MODE_R19_CODE: Final = 3
