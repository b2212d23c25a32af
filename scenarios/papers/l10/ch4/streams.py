"""Event streams in the shape of L10 4.6.2: a share of the events is out of order, none beyond K.

An event happens at every unit of time (1 ns), of a type drawn at random. The in-order events are
chosen, one in each of equally long pieces of the stream; every other one is delayed by up to K, and
long enough to be out of order (L10 4.3.1). So exactly the wanted share is, and none breaks the
promise of K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.engine.core.released import Released
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.log import DEFAULT_SITE, STRING, Frame
from slackwater.log import records as r
from slackwater.scenarios.papers.disorder import arrivals

TYPES: Final = ("A", "B", "C", "D", "E", "F")
"""Of the query of length 6 (L10 4.6.3)."""


@dataclass(frozen=True, slots=True)
class PointStream:
    """Events in order of arrival.

    ``ts``: their times [ns], each of 0..n-1 once. ``kind``: place of their type in ``TYPES``.
    ``late``: whether they are out of order.
    """

    ts: np.ndarray
    kind: np.ndarray
    late: np.ndarray

    def __len__(self) -> int:
        return len(self.ts)


def stream(events: int, late_share: float, slack_ns: int, seed: int) -> PointStream:
    """``events`` events; ``late_share`` of them (in [0, 1)) is out of order, within ``slack_ns``.

    With one seed, streams of one size have the same events and differ in their arrivals.

    Raises:
        ValueError: so many cannot be out of order within so small a slack.
    """
    kind = np.random.default_rng((seed, events)).integers(0, len(TYPES), events)
    draw = np.random.default_rng((seed, events, round(1000 * late_share), slack_ns))
    in_order = max(events - round(events * late_share), 1)
    borders = np.linspace(0, events, in_order + 1).astype(np.int64)
    leaders = borders[:-1] + (draw.random(in_order) * np.diff(borders)).astype(np.int64)
    leaders[-1] = events - 1  # nothing could arrive after an event that is later than all
    late = np.ones(events, np.bool_)
    late[leaders] = False
    delay = draw.integers(1, slack_ns + 1, events)
    # In half units: between the instants of in-order events, so that no two of these tie.
    arrival = arrivals(2 * np.arange(events), 0, late, 2 * delay + 1)
    if (arrival // 2 - np.arange(events)).max() > slack_ns:
        raise ValueError(f"{late_share:.0%} cannot be out of order with a slack of {slack_ns}")
    order = np.lexsort((draw.random(events), arrival))
    return PointStream(order, kind[order], late[order])


def released(made: PointStream) -> Released:
    """What the order ``none`` hands to a matcher, in one batch: each event as it arrives.

    An event arrives at every ns of the arrival clock.
    """
    events = len(made)
    types = pa.DictionaryArray.from_arrays(pa.array(made.kind.astype(np.int32)), pa.array(TYPES))
    sources = pa.DictionaryArray.from_arrays(pa.array(np.zeros(events, np.int32)), pa.array(["s0"]))
    batch = pa.RecordBatch.from_pydict(
        {
            r.SOURCE: sources.cast(STRING),
            r.SEQ: pa.array(np.arange(events)),
            r.TYPE: types.cast(STRING),
            r.TS: pa.array(made.ts),
            r.ARRIVAL: pa.array(np.arange(events)),
        }
    )
    chain = Chain(ChainSettings(parse_order("none"), ordered="bare"), DEFAULT_SITE)
    parts = chain.process([Frame(DEFAULT_SITE, batch)]).ordered
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    return Released(events, columns, {}, chain.strings, t_a=0)
