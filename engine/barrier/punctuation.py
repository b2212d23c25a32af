"""``punctuation``: a match leaves when promises close its scopes (SPEC 4.2; L09 VI: conservative).

A promise p of a negated step's type closes the open end x of its scope when p >= x, the closed end
when p > x. A match without negated steps leaves at once. L09 Example 5.

When not to use: sources that promise nothing, with no order before the query: everything waits for
the end of the input.
"""

from __future__ import annotations

import numpy as np

from engine.barrier.promised import Promised
from engine.stream.timeline import LONG_AGO


class Punctuation(Promised):
    """The policy of ``punctuation``."""

    def targets(self, closes: np.ndarray) -> np.ndarray:
        found = np.full((len(closes), len(self._types)), LONG_AGO)
        for scope, kind in enumerate(self._asked.negated):
            column = self._types.index(kind)
            found[:, column] = np.maximum(found[:, column], closes[:, scope])
        return found
