"""Z10's buffer as its 5.2 has it: results come from memory, and the files are asked afterwards.

Memory holds the newest arrivals. A result whose events are all there leaves when its last one
arrives (Realtime) or when K has passed as well (Correct). The files hear of each event at once, and
answer after a while: they take back what an event that memory has lost shows to be wrong, and add
what memory could not find. The query is that of instants, A, B, !D, C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.paper import PaperRun
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    EmittedMatches,
    MethodRun,
    MethodSetup,
    events,
    in_both,
    k_ns,
)
from slackwater.scenarios.papers.z10.workload import NEGATED, TYPES, WITHIN_NS, IntervalArrivals

_NEVER: Final = 2**62
_POSITIVE: Final = TYPES[:3]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Every A, B, C in order within the window, D or not; equally long columns.

    ``events``: (candidates, 3). ``first``, ``last``: which arrival its first and its last one was.
    ``before``, ``after``: the arrival of a D between B and C, the newest before ``last`` (or -1),
    and the next one after it (or the number of events). ``time``: of each arrival, and of none
    [ns].
    ``clock``: the largest time of events up to each arrival [ns].
    """

    events: np.ndarray
    first: np.ndarray
    last: np.ndarray
    before: np.ndarray
    after: np.ndarray
    time: np.ndarray
    clock: np.ndarray


@dataclass(frozen=True, slots=True)
class AnsweredMatches:
    """``at_once``: (matches, 3), the results that memory gave. ``wrong``: of these, such as an
    event refutes that memory had lost; those of Correct never leave, and are none of them.
    """

    ran: MethodRun
    at_once: np.ndarray
    wrong: int

    def accuracy(self, right: np.ndarray) -> float:
        """Of the results that memory gave, those that are right [%]; 0 without any."""
        return 100 * in_both(self.at_once, right) / max(len(self.at_once), 1)


def answered(run: PaperRun, setup: MethodSetup, answer_ns: int) -> AnsweredMatches:
    """What a setup's buffer gives, if the files answer after ``answer_ns``."""
    made = events(run, setup)
    found = run.once(("candidates", setup.share), lambda: candidates(made))
    key = ("answered", setup, answer_ns)
    if setup.method == CORRECT:
        return run.once(key, lambda: correct(found, made, setup, answer_ns, k_ns(run, setup)))
    return run.once(key, lambda: realtime(found, made, setup, answer_ns))


def candidates(made: IntervalArrivals) -> Candidates:
    """Of instants."""
    order = np.argsort(made.arrival)
    rank = np.empty(len(made), np.int64)
    rank[order] = np.arange(len(made))
    of_a, of_b, of_c = (np.flatnonzero(made.kind == TYPES.index(kind)) for kind in _POSITIVE)
    of_d = np.flatnonzero(made.kind == TYPES.index(NEGATED))
    ts, parts = made.ts, [np.empty((0, 7), np.int64)]
    for b in of_b:
        for c in of_c[(ts[of_c] > ts[b]) & (ts[of_c] <= ts[b] + WITHIN_NS)]:
            a = of_a[(ts[of_a] < ts[b]) & (ts[of_a] >= ts[c] - WITHIN_NS)]
            absent = rank[of_d[(ts[of_d] > ts[b]) & (ts[of_d] < ts[c])]]
            absent = np.concatenate(([-1], np.sort(absent), [len(made)]))
            last = np.maximum(rank[a], max(rank[b], rank[c]))
            place = np.searchsorted(absent, last)
            parts.append(np.column_stack((
                a, np.full_like(a, b), np.full_like(a, c),
                np.minimum(rank[a], min(rank[b], rank[c])), last, absent[place - 1], absent[place],
            )))  # fmt: skip
    found = np.concatenate(parts)
    first, last, before, after = found[:, 3:].T
    time = np.append(made.arrival[order], _NEVER)
    clock = np.maximum.accumulate(made.te[order])
    return Candidates(found[:, :3], first, last, before, after, time, clock)


def realtime(
    found: Candidates, made: IntervalArrivals, setup: MethodSetup, answer_ns: int
) -> AnsweredMatches:
    """As ``answered``, of the method that gives results at once."""
    known = found.time[found.last]
    is_right, at_once = _judged(found, setup.buffer)
    is_wrong = at_once & ~is_right
    next_d = found.time[found.after]
    added = is_right & ~at_once & (next_d > known + answer_ns)
    given_at = np.where(at_once, known, known + answer_ns)
    refuted = (added | (at_once & is_right)) & (next_d < _NEVER)
    takes = np.where(found.after - found.first < setup.buffer, 0, answer_ns)
    ended = np.where(is_wrong, known + answer_ns, next_d + takes)
    inserted, gone = np.flatnonzero(at_once | added), np.flatnonzero(is_wrong | refuted)
    count = len(inserted) + len(gone)
    emissions = EmittedMatches(
        np.concatenate((found.events[inserted], found.events[gone])),
        np.arange(count) < len(inserted),
        np.concatenate((given_at[inserted], ended[gone])),
        np.concatenate((known[inserted], given_at[gone])),
        np.zeros(count, np.bool_),
    )
    wrong = int(is_wrong.sum())
    return AnsweredMatches(
        MethodRun(setup, made, emissions, np.zeros(1)), found.events[at_once], wrong
    )


def correct(
    found: Candidates, made: IntervalArrivals, setup: MethodSetup, answer_ns: int, waits_ns: int
) -> AnsweredMatches:
    """As ``answered``, of the method that holds results until K, ``waits_ns``, has passed."""
    is_right, at_once = _judged(found, setup.buffer)
    kept = is_right & (found.time[found.after] == _NEVER)
    known = found.time[found.last[kept]]
    passed = np.searchsorted(found.clock, made.te[found.events[kept, 2]] + waits_ns)
    released = found.time[passed]
    at = np.maximum(released, known + np.where(at_once[kept], 0, answer_ns))
    matches = found.events[kept]
    emissions = EmittedMatches(
        matches, np.ones(len(matches), np.bool_), at, known, released == _NEVER
    )
    return AnsweredMatches(
        MethodRun(setup, made, emissions, np.zeros(1)), matches[at_once[kept]], 0
    )


def _judged(found: Candidates, buffer: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether nothing before its last event refutes it; and whether memory gives it then."""
    in_memory = found.last - found.first < buffer
    seen = (found.before >= 0) & (found.last - found.before < buffer)
    return found.before < 0, in_memory & ~seen
