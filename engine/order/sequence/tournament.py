"""Winner trees over the lanes: which lane is first in the merge, and whose deadline is next.

A node keeps the winner's own key, so that replaying a lane's matches on the way to the root reads
one neighbour per level and nothing that depends on what was read before: O(log lanes), without a
chain of cache misses.

Source: Knuth, The Art of Computer Programming 3, 5.4.1 (tree of winners).
"""

from __future__ import annotations

import numpy as np

from engine.kernels.integers import INT_MAX
from engine.kernels.jit import inline, kernel
from engine.order.sequence.state import Sequencer


@kernel
def clear_trees(s: Sequencer) -> None:
    """Every lane absent from the merge, and without a deadline."""
    size = len(s.merge) // 2
    for place in range(2 * size - 1, 0, -1):
        s.merge[place].key = INT_MAX
        s.merge[place].tie = INT_MAX
        s.timer[place].when = INT_MAX
        lane = place - size if place >= size else s.merge[2 * place].lane
        s.merge[place].lane = lane
        s.timer[place].lane = lane


@inline
def set_merge(merge: np.ndarray, lane: int, key: int, tie: int) -> None:
    """``lane`` now stands at (key, tie); of equals the one in the left half wins."""
    place = lane + len(merge) // 2
    if merge[place].key == key and merge[place].tie == tie:
        return
    winner = lane
    while True:
        merge[place].key = key
        merge[place].tie = tie
        merge[place].lane = winner
        if place == 1:
            return
        other = place ^ 1
        first, second = merge[other].key, merge[other].tie
        if first < key or (first == key and (second < tie or (second == tie and other < place))):
            key, tie, winner = first, second, merge[other].lane
        place >>= 1


@kernel
def set_timer(timer: np.ndarray, lane: int, when: int) -> None:
    """The lane's next deadline; of equals the one in the left half is first."""
    place = lane + len(timer) // 2
    if timer[place].when == when:
        return
    winner = lane
    while True:
        timer[place].when = when
        timer[place].lane = winner
        if place == 1:
            return
        other = place ^ 1
        first = timer[other].when
        if first < when or (first == when and other < place):
            when, winner = first, timer[other].lane
        place >>= 1


@inline
def hurry(timer: np.ndarray, lane: int, when: int) -> None:
    """A deadline of the lane: the next one if it is earlier; a stale earlier one does no harm."""
    if when < timer[lane + len(timer) // 2].when:
        set_timer(timer, lane, when)
