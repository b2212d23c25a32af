"""``punctuation``: a match leaves when promises close its scopes (SPEC 4.2; L09 VI: conservative).

A promise p of a negated step's type closes the open end x of its scope when p >= x, the closed end
when p > x. A match without negated steps leaves at once. L09 Example 5.

When not to use: sources that promise nothing, with no order before the query: everything waits for
the end of the input.
"""

from __future__ import annotations

from engine.barrier.holding import Need
from engine.barrier.promised import Promised
from engine.pattern.matches import Change


class Punctuation(Promised):
    """The policy of ``punctuation``."""

    def needs(self, change: Change) -> list[Need]:
        return self._needs(self._asked.negated, change.closes[:-1])
