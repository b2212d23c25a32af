"""A recording as frames of an arrival log: a site per file, a source per device.

The log needs some fields that the recording lacks:

* **incarnation**: the join (see ``scenarios.lorawan.recording``). A sync record at the arrival of
  a join's first frame announces it, as a bridge beside the network server would on a join.
* **first_seq**: the first number of the recording's devices (``first_numbers``).
* **offset, delay**: unknown, and none is invented. The time of a frame is its hotspot's, which
  take theirs from GPS or the network; no frame of these files arrives before its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import ATTR_PREFIX, STRING, Frame
from slackwater.log import records as r
from slackwater.scenarios.lorawan.recording import Receptions, first_numbers, join_rows, lost_frames

TYPE: Final = "uplink"
FRAME_ROWS: Final = 1_024


def join_table(recording: Receptions) -> pa.Table:
    """One sync record per join: ``site source incarnation first_seq ts arrival``, times in ns."""
    rows = join_rows(recording)
    return pa.table(
        {
            "site": pa.repeat(recording.name, len(rows)),
            r.SOURCE: pa.array(recording.devices).take(pa.array(recording.device[rows])),
            r.INCARNATION: pa.array(recording.join[rows]),
            r.FIRST_SEQ: pa.array(first_numbers(recording)),
            r.TS: pa.array(recording.ts[rows]),
            r.ARRIVAL: pa.array(recording.arrival[rows]),
        }
    )


def recording_frames(recording: Receptions) -> Iterator[Frame]:
    """The recording's joins and receptions in order of arrival, each join before its frames."""
    announced = join_rows(recording)
    # Row i of the recording is preceded by its join's record, if it is the first of its join.
    row = np.concatenate([announced, np.arange(len(recording))])
    is_event = np.arange(len(row)) >= len(announced)
    order = np.lexsort((is_event, row))
    row, is_event = row[order], is_event[order]
    first = np.zeros(len(row), np.int64)
    first[~is_event] = first_numbers(recording)
    kinds = np.where(is_event, int(r.Kind.EVENT), int(r.Kind.SYNC)).astype(np.int8)
    types = pa.array(np.zeros(len(row), np.int32), mask=~is_event)
    of_event = pa.array(row, mask=~is_event)
    batch = pa.record_batch(
        {
            r.KIND: pa.array(kinds),
            r.SOURCE: pa.DictionaryArray.from_arrays(
                recording.device[row], pa.array(recording.devices, pa.string())
            ),
            r.SEQ: pa.array(recording.seq[row], mask=~is_event),
            r.INCARNATION: pa.array(recording.join[row]),
            r.TYPE: pa.DictionaryArray.from_arrays(types, pa.array([TYPE])).cast(STRING),
            r.TS: pa.array(recording.ts[row]),
            r.ARRIVAL: pa.array(recording.arrival[row]),
            r.FIRST_SEQ: pa.array(first, mask=is_event),
            **{ATTR_PREFIX + name: of.take(of_event) for name, of in recording.attrs.items()},
        }
    )
    for start in range(0, batch.num_rows, FRAME_ROWS):
        yield Frame(recording.name, batch.slice(start, FRAME_ROWS))


def truth_table(recording: Receptions) -> pa.Table:
    """The recording's data about each reception, in order of arrival."""
    return pa.table(
        {
            "site": pa.repeat(recording.name, len(recording)),
            "source": pa.array(recording.devices).take(pa.array(recording.device)),
            "incarnation": pa.array(recording.join),
            "seq": pa.array(recording.seq),
            "arrival": pa.array(recording.arrival),
            "ts": pa.array(recording.ts),
            "is_repeat": pa.array(recording.is_repeat),
        }
    )


def device_table(recording: Receptions) -> pa.Table:
    """Receptions, repeats, joins and lost numbers of each device."""
    devices = len(recording.devices)
    return pa.table(
        {
            "site": pa.repeat(recording.name, devices),
            "source": pa.array(recording.devices, pa.string()),
            "receptions": pa.array(np.bincount(recording.device, minlength=devices)),
            "repeats": pa.array(
                np.bincount(recording.device[recording.is_repeat], minlength=devices)
            ),
            "joins": pa.array(
                np.bincount(recording.device[join_rows(recording)], minlength=devices)
            ),
            "lost": pa.array(lost_frames(recording)),
        }
    )
