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
"""Bins of a sketch of times (see ``waits.wait_bin``)."""
LEARNS_FROM: Final = 16
"""The event, the first being 1, from which on a lane learns quantiles and has a MEMORY."""
HIGHS_KEPT: Final = 32
"""Arrivals of new highest numbers remembered per lane and level (see ``waits.saw_high``)."""
HIGH_LEVELS: Final = 5

# Why a record was set aside.
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

``earlier_start``: late ones of a smaller incarnation than the lane is in, which is late for good:
incarnations of a source increase (SPEC 3.1). The gateway sees to it; logs of others may break it.
"""
PROGRESS: Final = ("silences", "blocked_ns", "backwards", "backwards_ns")
"""How a lane held the others back: times nothing came of it for longer than its idle timeout, and
how long in all events of others stood ready that then went on because of it. And how many of its
events lay before one with a smaller number, by how much at most [ns]: then its numbers are not in
the order of event times."""

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
"""A pending or new record, as the kernels see it, in one line of the processor's cache.

Fields of one place are never needed together: ``deadline dq_next dq_prev`` (neighbours in the
lane's staircase) belong to a row in the ring, ``unc epoch nxt`` to one that has left it.
"""

LANE_FIELDS: Final = (
    # the sequence stage: which numbers are expected, and the reorder buffer
    "source", "stream", "next_lane", "started", "inc", "expected", "prev_inc", "prev_expected",
    # the smallest number so far of a start without an announced one; its latest time
    "front", "front_high",
    "far_seq", "ann_inc", "ann_first", "ring_off", "ring_cap", "ring_count", "runs_off", "runs_cap",
    "held_head", "held_tail", "dq_head", "dq_tail",
    # markers of how far the source has got: punctuation and end of stream
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
    # what `quantile` has learnt (see ``order/waits.py``), and the memory of missing numbers
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
"""What a lane that has seen nothing starts with; 0 where not named.

Idle: a lane is unknown, and so holds nobody back, until its first record or announcement.
"""
LANE: Final = record(*LANE_FIELDS, *COUNTERS, *PROGRESS)
"""A lane: its numbers and its counters. What it remembers is a MEMORY."""
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
"""What a lane learns for ``timeout=quantile``, 7 KB; those that learn nothing share a clear one.

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
"""One released event; what every operator reads is here in release order."""


NOTE_GAP: Final = 0
NOTE_PROGRESS: Final = 1
NOTE_QUARANTINE: Final = 2
NOTE: Final = record(
    "kind", "released", "lane", "inc", "first", "count", "low", "high", "frontier", "at", "row",
    "reason",
)  # fmt: skip
"""What comes between events, after so many of the call were ``released``. A gap: of a ``lane``
and incarnation, the ``first`` number and how many, that happened between ``low`` and ``high``.
Progress: a ``frontier``, ``at`` an instant. A record that is set aside: its ``row`` and the
``reason``.
"""

STATE: Final = record(
    # settings
    "mode", "fixed", "latency", "alpha", "beta", "tail_ppm", "late_pass", "residual_drop",
    "guard", "default_uncertainty", "window", "bits", "silence_window", "interval_factor",
    # what changes
    "clock", "frontier", "events", "notes", "gone", "most", "queued", "blocker", "since",
)  # fmt: skip
"""Settings of the operator, and how far it is. ``guard``: -1: none. ``window``,
``silence_window``: waits and silences that are remembered. ``bits``: waiting times are known to
2 ** this ns. ``interval_factor``: by which ``r19-code`` multiplies an interval of event times.

``clock``: the last arrival. ``frontier``: the largest ref released, or promised to readers of
the ordered stream. Of this call: ``events``, ``notes`` written, and events that are ``gone``, being
refused: duplicates and quarantined ones. ``most``: events held at once so far. ``queued``: events
in the lanes' queues. ``blocker``: the lane that the merge waits for, or NONE, and ``since`` when
some event has stood ready, or INT_MAX.
"""


class Sequencer(NamedTuple):
    """All that the kernels read and write.

    ``rows``: ROW, pending ones and then new ones. ``lanes``: LANE. ``memories``: MEMORY, at the
    lanes' ``memory``. ``runs``: RUN, of each lane from its ``runs_off`` on, oldest first. ``ring``:
    the lanes' rings one after another, of rows. ``merge``, ``timer``: trees of NODE; keys of the
    latter are the lanes' next deadlines. ``clocks``: of the site, by code. ``clock``: the code of
    each row's clock, or empty where every row has its source's own. ``state``: one STATE.
    ``events``, ``notes``: EVENT and NOTE, what a call gives.
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
