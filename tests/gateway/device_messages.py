"""Messages of a device with one stream of one attribute, as the gateway's tests send them."""

from __future__ import annotations

import struct
from typing import Any

from edge_agent import messages as m

SCHEMA = m.StreamSchema("events", {"v": "int"})


def a_hello(source: str = "d", incarnation: int = 1, acked: int = 0, **changes: Any) -> m.Hello:
    streams = (m.HelloStream(SCHEMA, 0, acked),)
    made = {"token": "", "resend": True, "control_acked": 0, "streams": streams, **changes}
    return m.Hello("main", source, incarnation=incarnation, **made)


def a_data(first: int, rows: int, ts: int = 100) -> m.Data:
    stamps = struct.pack(f"<{rows}q", *range(ts + first, ts + first + rows))
    return m.Data(0, first, rows, stamps, None, None, None, (m.Values(stamps, None),))


SYNC = m.Sync(0, 1000, 10, 50, 3, 50_000)
