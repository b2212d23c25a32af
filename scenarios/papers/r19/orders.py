"""The ways of ordering that R19 compares, as our engine runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slackwater.scenarios.papers.r19.published import AQ, MP, SEQUENCE

_R19: Final = "sequence:timeout=r19,latency=500ms,alpha=0.6,beta=0.6"


@dataclass(frozen=True, slots=True)
class Approach:
    """``name``: in our tables. ``order``: short form; empty: not an order of ours but
    ``scenarios.papers.r19.aq_extension``. ``of``: R19's name for it, None: ours.
    """

    name: str
    order: str
    of: str | None = None


PRINTED: Final = Approach("sequence as printed", f"{_R19},late=pass", SEQUENCE)
"""R19 Query 5.3: timeout of Eq 3.11, threshold 500 ms, factors 0.6, late events passed on."""
DROPPING: Final = Approach("sequence as printed, late dropped", f"{_R19},late=drop")
CODE: Final = Approach(
    "sequence, its author's code",
    "sequence:timeout=r19-code:ps,latency=500ms,late=pass",
    SEQUENCE,
)
"""The same settings by docs/papers/r19.md; DEBS 2013's football events have times in ps."""
OURS: Final = Approach("sequence, our default", "sequence")
MP_KSLACK: Final = Approach("mp-kslack", "mp-kslack", MP)
AQ_KSLACK: Final = Approach("aq-kslack, R19's extension", "", AQ)
AQ_SERVING: Final = "aq-kslack:error=0.03,confidence=0.95,agg=avg,attr=v_abs"
"""Ours, with the extension's defaults for error and confidence; lacks its window."""
AQ_OURS: Final = Approach("aq-kslack, ours", f"{AQ_SERVING},window=10s")
"""For the window of R19's query."""

APPROACHES: Final = (PRINTED, DROPPING, CODE, OURS, MP_KSLACK, AQ_KSLACK, AQ_OURS)
COMPARED: Final = (PRINTED, MP_KSLACK, AQ_KSLACK)
"""R19's three."""
