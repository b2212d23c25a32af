"""What the text of L10 4.6 says about Figures 4.8 to 4.11; their curves are pictures only."""

from __future__ import annotations

from typing import Final

SIZES: Final = (20_000, 40_000, 60_000, 80_000, 100_000)
"""Events in the five data sets of Figures 4.8 and 4.9."""
GAIN_SIZE: Final = 80_000
GAINS: Final = {0.9: 8, 0.3: 43}
"""Gain of AIS-CLOCK in CPU cost [%] with ``GAIN_SIZE`` events, by their share out of order."""
OVERHEAD: Final = (5.1, 24.6)
"""Least and largest overhead of handling disorder over the five data sets in order [%]."""
