"""From tags in the field to the events that a reader's agent sends.

A reader polls many times a second and may miss any answer of a tag: books shade each other, people
shade books. The agent does not send reads. It groups them into *presences*: reads of one antenna
and tag with no gap longer than ``GAP_NS``. A shelf reports when a tag has left (the last read of a
presence, known only when the gap is over); counters and exits report at once when a tag appears
(the first read). Some of RFID's disorder remains: each of several antennas reports a presence of
its own, a presence that missed reads cut is reported twice, and a tag that no antenna sees is not
reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.scenarios.bookstore.shop import SECOND, Visit

READ_EVERY_NS: Final = SECOND // 5
"""Polling period of each antenna; shop time, as all times in this file."""
GAP_NS: Final = 3 * SECOND
"""A tag unread for longer has left."""
LOOKED_BACK_NS: Final = 30 * SECOND
"""Only the end of a long visit is simulated; the tag does not move before it."""
ANSWERS: Final = (0.6, 0.25)
"""Chance that a tag in the field answers one poll, by antenna; the second is placed worse."""


@dataclass(frozen=True, slots=True)
class Presences:
    """Presences of one tag at one reader, in columns: shop times, and the antenna."""

    first_ns: np.ndarray
    last_ns: np.ndarray
    antenna: np.ndarray


def presences_of(visit: Visit, missed: float, generator: np.random.Generator) -> Presences:
    """The presences that the antennas see of a visit.

    Args:
        visit: a tag in the field.
        missed: chance that an antenna never sees it.
        generator: draws misses and answers.
    """
    start_ns = max(visit.start_ns, visit.end_ns - LOOKED_BACK_NS)
    polls_ns = np.arange(start_ns, visit.end_ns, READ_EVERY_NS, dtype=np.int64)
    found = []
    for antenna, chance in enumerate(ANSWERS):
        shaded = generator.random() < missed
        answered = generator.random(polls_ns.size) < chance
        first_ns, last_ns = cut_at_gaps(polls_ns[answered & (not shaded)], GAP_NS)
        found.append((first_ns, last_ns, np.full(first_ns.size, antenna, np.int64)))
    return Presences(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def cut_at_gaps(reads_ns: np.ndarray, gap_ns: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last read of each run of reads that are at most ``gap_ns`` apart.

    >>> cut_at_gaps(np.array([0, 2, 4, 9, 10]), 3)
    (array([0, 9]), array([ 4, 10]))
    """
    if not reads_ns.size:
        return reads_ns, reads_ns
    breaks = np.flatnonzero(np.diff(reads_ns) > gap_ns)
    starts = np.concatenate(([0], breaks + 1))
    ends = np.concatenate((breaks, [reads_ns.size - 1]))
    return reads_ns[starts], reads_ns[ends]
