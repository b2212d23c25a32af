"""Charted events as frames of an arrival log: a site per patient, a source and stream per table.

Fields that the log could have and this one lacks:

* **seq**: nobody numbered these events. Numbers in the order of event time would reveal to an
  order what is still to come, which nobody at the bedside knew; numbers in the order of filing
  would say nothing. So there are none, and ``sequence`` is no choice for this recording.
* **offset, delay**: people read the hour off a wall; there is no clock to compare.
* **tick, eos**: no record marks the end of a stay; the event clock of a patient who went home
  stands still until the next admission.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import ATTR_PREFIX, Frame
from slackwater.log import records as r
from slackwater.scenarios.mimic.recording import ChartedEvents

FRAME_ROWS: Final = 1_024


def site_of(patient: int) -> str:
    """The site's name; it begins with a letter so that no tool takes it for a number."""
    return f"p{patient}"


def charted_frames(charted: ChartedEvents) -> Iterator[Frame]:
    """The events of one patient after another, each patient's in order of arrival."""
    names = pa.array(charted.tables, pa.string())
    of_table = pa.DictionaryArray.from_arrays(charted.table, names)
    batch = pa.record_batch(
        {
            r.SOURCE: of_table,
            r.STREAM: of_table,
            r.SEQ: pa.nulls(len(charted), pa.int64()),
            r.TYPE: charted.item,
            r.TS: pa.array(charted.ts),
            r.TE: pa.array(charted.te),
            r.ARRIVAL: pa.array(charted.arrival),
            ATTR_PREFIX + "value": charted.value,
            ATTR_PREFIX + "unit": charted.unit,
        }
    )
    starts = np.flatnonzero(np.diff(charted.patient, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(charted)], strict=True):
        site = site_of(charted.patient[start])
        for row in range(start, end, FRAME_ROWS):
            # Dictionaries of all patients would be many times as large as a frame's events.
            part = batch.slice(row, min(FRAME_ROWS, end - row))
            yield Frame(site, _own_words(part))


def _own_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with dictionaries of the values that it uses."""
    columns = [
        column.dictionary_decode().dictionary_encode()
        if isinstance(column, pa.DictionaryArray)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, batch.schema.names)


def source_counts(charted: ChartedEvents) -> dict[str, int]:
    """Events of each ``site/source``."""
    tables = len(charted.tables)
    keys, counts = np.unique(charted.patient * tables + charted.table, return_counts=True)
    return {
        f"{site_of(key // tables)}/{charted.tables[key % tables]}": events
        for key, events in zip(keys.tolist(), counts.tolist(), strict=True)
    }


def truth_table(charted: ChartedEvents) -> pa.Table:
    """True events, in order of arrival per patient."""
    return pa.table(
        {
            "site": pa.array(np.char.add("p", charted.patient.astype(str))),
            "source": pa.array(charted.tables).take(pa.array(charted.table)),
            "type": charted.item.cast(pa.string()),
            "ts": pa.array(charted.ts),
            "te": pa.array(charted.te),
            "arrival": pa.array(charted.arrival),
            "value": charted.value,
        }
    )
