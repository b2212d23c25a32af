"""The events of one device, given to its agent as they become due.

Batches of the workload are pulled lazily. Each is stamped by the device's clock and packed for the
agent as a whole (a reading is a pure function of true time, so the result is the same as stamping
each event when it happens); the agent then takes slices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.edge_agent.messages import Data, StreamSchema, Texts, Values
from slackwater.edge_agent.packing import data_message
from slackwater.edge_agent.pull_back import EventBatch
from slackwater.simulator.clocks import Clock
from slackwater.simulator.truth import StampedBatch
from slackwater.simulator.workload import AttributeViews, Batch

_NAMES_MAX: Final = 32
"""Message sizes are cached for batches with at most this many names; others differ each time."""


@dataclass(slots=True, eq=False)
class OpenBatch:
    """A batch with rows that were not taken yet; rows ``low`` to ``high`` were taken last.

    ``batch``: the agent's form, to be cut; ``columns``: its attributes, for streams that the device
    abstracts; ``due_ns``: of each row.
    """

    stamped: StampedBatch
    batch: EventBatch
    columns: AttributeViews | None
    due_ns: list[int]
    low: int = 0
    high: int = 0


class DeviceFeed:
    """The events of a device that the agent has not taken yet.

    Args:
        batches: of the workload, in order of their first due times.
        clock: the device's wall clock, which stamps.
        streams: streams of the batches, in the order in which the agent declares them.
        read: names of streams that the device abstracts.
    """

    def __init__(
        self,
        batches: Iterator[Batch],
        clock: Clock,
        streams: Sequence[StreamSchema],
        read: Container[str] = (),
    ) -> None:
        self.generated: list[StampedBatch] = []
        """All batches pulled so far, for the truth table."""
        self._batches = batches
        self._clock = clock
        self._streams = {schema.name: (place, schema) for place, schema in enumerate(streams)}
        self._read = read
        self._open: list[OpenBatch] = []
        self._sizes: dict[tuple[object, ...], dict[int, int]] = {}
        self._ahead_ns: int | None = None
        """When the first event of ``_ahead`` is due."""
        self._ahead = self._pull()
        self.due_ns: int | None = self._ahead_ns
        """True instant of the device's next event; None: there is none."""

    def take(self, now_ns: int) -> list[OpenBatch]:
        """All events due at true time ``now_ns``, batch by batch; each event once.

        The returned batches give the rows until the next call.
        """
        while self._ahead_ns is not None and self._ahead_ns <= now_ns:
            assert self._ahead is not None
            self._open.append(self._ahead)
            self._ahead = self._pull()
        taken: list[OpenBatch] = []
        ended = False
        next_ns = self._ahead_ns
        for each in self._open:
            due_ns, low = each.due_ns, each.high
            high = bisect_right(due_ns, now_ns, low)
            if high > low:
                each.low, each.high = low, high
                taken.append(each)
                if high == len(due_ns):
                    ended = True
                    continue
            if next_ns is None or due_ns[high] < next_ns:
                next_ns = due_ns[high]
        self.due_ns = next_ns
        if ended:
            self._open = [each for each in self._open if each.high < len(each.due_ns)]
        return taken

    def _pull(self) -> OpenBatch | None:
        batch = next(self._batches, None)
        if batch is None:
            self._ahead_ns = None
            return None
        stamped = StampedBatch.stamp(batch, self._clock)
        place, schema = self._streams[batch.stream]
        columns = AttributeViews(batch)
        data = data_message(
            place,
            schema,
            ts=stamped.ts.data,
            te=None if stamped.te is None else stamped.te.data,
            ids=None if batch.ids is None else batch.ids.data,
            types=batch.types,
            attrs=columns.attrs(0, stamped.ts.size),
        )
        batch.attrs = {}  # only the agent's form is needed from here on
        self.generated.append(stamped)
        read = columns if batch.stream in self._read else None
        whole = EventBatch(data, schema.name, self._sizes_of(data))
        opened = OpenBatch(stamped, whole, read, batch.due_ns.tolist())
        self._ahead_ns = opened.due_ns[0]
        return opened

    def _sizes_of(self, data: Data) -> dict[int, int] | None:
        """Message sizes by number of rows, shared by batches with messages of equal length."""
        texts = [each for each in (data.types, *data.attrs) if isinstance(each, Texts)]
        if sum(len(each.names) for each in texts) > _NAMES_MAX:
            return None
        shapes = [_shape(each) for each in (data.types, *data.attrs)]
        key = (data.stream, data.te is None, data.ids is None, *shapes)
        return self._sizes.setdefault(key, {})


def _shape(column: Values | Texts | None) -> object:
    """All that determines the length of a column on the wire, except its rows."""
    if column is None:
        return None
    if isinstance(column, Texts):
        return tuple(column.names), column.codes is None
    return column.valid is None
