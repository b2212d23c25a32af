"""``adaptive``: at once while that is seldom wrong, by promises while it is not (L09 XI, Z10).

The rate of spoilt matches is smoothed over about 64 fates: 1 for each match that a later row
changes, 0 for each that is let go. Above 10 % new matches wait as under ``punctuation``; below 5 %
they leave at once again. Fates count at their places in the released stream, so no cut changes it.

When not to use: when a single wrong alarm is one too many, or when there are no promises.
"""

from __future__ import annotations

from engine.barrier.punctuation import Punctuation


class Adaptive(Punctuation):
    """The policy of ``adaptive``; ``engine.barrier.replay`` smooths the rate."""

    adapts = True
