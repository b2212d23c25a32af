"""Sink and exports of what did not go its way: late and quarantined events, with reasons.

Late events in release order, after them the quarantined ones in the order of their refusal: both
are the same however a log is cut. Sites one after another.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from engine.results.aside import DROPPED, LATENESS, REASON, REASONS
from engine.results.ordered import (
    EVENT_FIELDS,
    EVENT_TIMES,
    NO_EVENTS,
    STATUS,
    UNCERTAINTY,
    EventFiles,
    released_table,
)
from engine.stream.released import Released

LATE: Final = "late"
QUARANTINED: Final = "quarantined"


def aside_table(site: str, released: Released) -> pa.Table:
    """As ``released_table``, with ``reason`` (text), ``lateness`` (ns or null), ``dropped``."""
    table = released_table(site, released)
    columns = released.columns
    reasons = pa.array(REASONS).take(pa.array(columns[REASON]))
    lateness = columns[LATENESS].astype(np.int64, copy=False)
    table = table.append_column(REASON, reasons)
    table = table.append_column(LATENESS, pa.array(lateness, mask=lateness < 0))
    return table.append_column(DROPPED, pa.array(columns[DROPPED]))


def _shown(table: pa.Table) -> pa.Table:
    return table.drop_columns([STATUS, UNCERTAINTY])


SIDE_OUTPUT: Final = EventFiles(
    (LATE, QUARANTINED),
    (*EVENT_FIELDS, REASON, LATENESS, DROPPED),
    (*EVENT_TIMES, LATENESS),
    _shown,
    pa.schema([*NO_EVENTS, (REASON, pa.string()), (LATENESS, pa.int64()), (DROPPED, pa.bool_())]),
)
"""Records of the events as in a trace, with ``ref release reason lateness dropped``."""
