"""``mp-kslack``: K-slack whose K is the largest delay seen so far (R19 2.3.2, Fig 2.6).

K starts at 0 and is looked at only when the clock advances: K becomes the largest distance of an
event since the last advance from the new clock, if that is more than before. Then everything with
``time + K <= clock`` goes. K never shrinks.

When not to use: a single straggler, or one event stamped in the future, makes every later event
wait as long as it was late, for ever. The future guard keeps the second from happening.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels.integers import INT_MAX
from engine.kernels.jit import kernel
from engine.order.correction import Correction
from engine.order.slack.buffer import CLOCK, OWN, Buffer, push, release_until
from engine.order.slack.held_order import SlackOrder

_SLACK = OWN
_LOWEST = OWN + 1
"""The smallest event time since the clock advanced."""


@dataclass(frozen=True, slots=True)
class MpKSlackSettings:
    """``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``; ``duplicates``: as
    ``engine.order.duplicates``, ``drop`` | ``pass``.
    """

    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"


def mp_kslack(
    settings: MpKSlackSettings, correction: Correction, wanted: set[str] | None
) -> SlackOrder:
    """The ordering operator ``mp-kslack``."""
    return SlackOrder(_run, (0, INT_MAX), settings.late, correction, wanted)


@kernel
def _run(b: Buffer, start: int, end: int, s: np.ndarray) -> None:
    for row in range(start, end):
        key = b.key[row]
        push(b, s, row)
        if key <= s[CLOCK]:
            s[_LOWEST] = min(s[_LOWEST], key)
            continue
        if s[_LOWEST] != INT_MAX:
            s[_SLACK] = max(s[_SLACK], key - s[_LOWEST])
            s[_LOWEST] = INT_MAX
        s[CLOCK] = key
        release_until(b, s, key - s[_SLACK], b.arrival[row])
