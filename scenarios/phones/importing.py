"""A recorded session as frames of an arrival log: one site, a source per phone.

The offset becomes a sync record before the phone's first event. Fields of such a record that the
recording lacks are reconstructed:

* **delay**, whose half bounds the offset's error. The round trip of the phones' NTP exchange was
  not recorded. The smallest round trip of the phone's own messages in the session stands for it:
  same phone, same radio, same minutes, the same kind of minimum that a filter over NTP exchanges
  picks, and an HTTP exchange is not faster than an NTP packet. It is an estimate, not a proof, so
  ``scenarios.phones.scoring`` holds it against every recorded exchange.
* **precision**: both clocks were read in ms: 1 ms each.
* **skew_error_ppb**: the phones never synchronised again within ten minutes; 50 ppm, the bound
  that our agents use for a crystal.
* **first_seq**: the phones count from 0. **arrival** of the record: an agent announces itself
  just before its first event, so it is the instant of that event by the corrected clock; no
  message of the phone came sooner. That is a choice, and a kind one: from then on the merge waits
  for the phone. The recording has another instant, the phone's last clock comparison, some 10 s
  before (``AT_SYNC``): a phone announced then is idle again when it begins, and messages that
  overtake its first ones are released. ``scenarios.phones.announcing`` shows the effect of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import ATTR_PREFIX, FIXED_TYPES, STRING, Frame
from slackwater.log import records as r
from slackwater.scenarios.phones.recording import MS, Session

TYPE: Final = "message"
AT_FIRST_EVENT: Final = "detected"
AT_SYNC: Final = "synced"
"""When a phone is announced: the field of a session whose least value it is."""
PRECISION_NS: Final = 2 * MS
SKEW_ERROR_PPB: Final = 50_000
FRAME_ROWS: Final = 1_024
_SYNC_FIELDS: Final = (r.OFFSET, r.DELAY, r.FIRST_SEQ, r.PRECISION, r.SKEW_ERROR_PPB)


def phone_table(session: Session, announced: str = AT_FIRST_EVENT) -> pa.Table:
    """One sync record per phone: ``site source ts arrival`` and its fields, in ns.

    Args:
        session: the recording.
        announced: when it arrives, ``AT_FIRST_EVENT`` or ``AT_SYNC``.
    """
    rows = []
    for code, device in enumerate(session.devices):
        mine = session.device == code
        offset = int(session.offset[mine][0])
        rows.append(
            {
                "site": session.name,
                r.SOURCE: device,
                r.TS: int(session.synced[mine].min()) - offset,
                r.ARRIVAL: int(getattr(session, announced)[mine].min()),
                r.OFFSET: offset,
                r.DELAY: int(session.round_trip[mine].min()),
                r.FIRST_SEQ: 0,
                r.PRECISION: PRECISION_NS,
                r.SKEW_ERROR_PPB: SKEW_ERROR_PPB,
            }
        )
    return pa.Table.from_pylist(rows)


def session_frames(session: Session, announced: str = AT_FIRST_EVENT) -> Iterator[Frame]:
    """The session's sync records and messages in order of arrival; see ``phone_table``."""
    phones = phone_table(session, announced)
    count, events = phones.num_rows, len(session)
    is_event = np.concatenate([np.zeros(count, np.bool_), np.ones(events, np.bool_)])
    nothing = np.zeros(count, np.int64)

    def both(name: str, of_events: np.ndarray) -> np.ndarray:
        return np.concatenate([phones.column(name).to_numpy(), of_events])

    def of_events(values: np.ndarray) -> pa.Array:
        return pa.array(np.concatenate([nothing, values]), mask=~is_event)

    def of_phones(name: str) -> pa.Array:
        values = both(name, np.zeros(events, np.int64))
        return pa.array(values, FIXED_TYPES[name], mask=is_event)

    codes = np.concatenate([np.arange(count, dtype=np.int32), session.device])
    kinds = np.where(is_event, int(r.Kind.EVENT), int(r.Kind.SYNC)).astype(np.int8)
    types = pa.array(np.zeros(count + events, np.int32), mask=~is_event)
    table = pa.table(
        {
            r.KIND: pa.array(kinds),
            r.SOURCE: pa.DictionaryArray.from_arrays(codes, pa.array(session.devices, pa.string())),
            r.SEQ: of_events(session.seq),
            r.TYPE: pa.DictionaryArray.from_arrays(types, pa.array([TYPE])).cast(STRING),
            r.TS: pa.array(both(r.TS, session.ts)),
            r.ARRIVAL: pa.array(both(r.ARRIVAL, session.arrival)),
            **{name: of_phones(name) for name in _SYNC_FIELDS},
            ATTR_PREFIX + "bytes": of_events(session.bytes),
            ATTR_PREFIX + "queued_ms": of_events((session.sent - session.detected) // MS),
        }
    )
    # Stable: at one instant announcements go first, and messages stay in the file's order.
    order = np.argsort(table.column(r.ARRIVAL).to_numpy(), kind="stable")
    (batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
    for start in range(0, batch.num_rows, FRAME_ROWS):
        yield Frame(session.name, batch.slice(start, FRAME_ROWS))


def truth_table(session: Session) -> pa.Table:
    """Data of the recording that the log lacks, in order of arrival."""
    return pa.table(
        {
            "site": pa.repeat(session.name, len(session)),
            "source": pa.array(session.devices).take(pa.array(session.device)),
            "seq": pa.array(session.seq),
            "arrival": pa.array(session.arrival),
            "ts": pa.array(session.ts),
            "corrected": pa.array(session.detected),
            "exchange_low": pa.array(session.exchange_low),
            "exchange_high": pa.array(session.exchange_high),
        }
    )
