"""Events of the simulated world with their true times, in columns.

A workload gives each source its events in batches; it knows nothing of clocks, links or sequence
numbers. ``Periodic`` and ``Poisson`` are the plain ones, found by name in ``WORKLOADS``; a scenario
writes its own class with the same two methods.

>>> from slackwater.simulator.seeds import Seeds
>>> tenth = Periodic(period_ns=100)
>>> [batch.true_ns.tolist() for batch in tenth.batches(Span(1000, 300), Seeds(1), "s0")]
[[1000, 1100, 1200]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Codes, Column, MaskedColumn
from slackwater.edge_agent.records import DEFAULT_STREAM
from slackwater.engine.core.errors import ContractViolation
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import check, parse_model

SECOND: Final = 10**9
ROWS_MAX: Final = 16_384
"""Longest batch of the plain workloads: bounds what a source keeps in memory."""

AttrColumn = np.ndarray | Codes | MaskedColumn


class Span(NamedTuple):
    """True time during which things happen: from ``start_ns`` (in) for ``length_ns``."""

    start_ns: int
    length_ns: int


@dataclass(slots=True)
class Batch:
    """Events of one stream of one source, in the order in which the device has them.

    Attributes:
        stream: its name, one of the workload's schemas.
        true_ns: true event times (starts of intervals), int64.
        types: None, one type for all, or a column.
        attrs: columns as ``AgentSession.emit`` takes them.
        end_ns: true ends of interval events, int64; None: point events.
        ids: of interval events, int64, or None.
        truth: columns that no device knows (what really went on); they go to the truth table.
        known_ns: when the device has each event, int64, of devices that are sure of an event only
            some time after it; None: at its (end) time.
    """

    stream: str
    true_ns: np.ndarray
    types: str | Codes | None = None
    attrs: Mapping[str, AttrColumn] = field(default_factory=dict)
    end_ns: np.ndarray | None = None
    ids: np.ndarray | None = None
    truth: Mapping[str, np.ndarray] = field(default_factory=dict)
    known_ns: np.ndarray | None = None

    def __post_init__(self) -> None:
        rows = self.true_ns.size
        if self.true_ns.dtype != np.int64 or not rows:
            raise ContractViolation(f"batch of {self.stream}: true times are int64, at least one")
        if np.any(np.diff(self.due_ns) < 0):
            raise ContractViolation(f"batch of {self.stream}: true (end) times are not sorted")
        if np.any(self.due_ns < (self.true_ns if self.end_ns is None else self.end_ns)):
            raise ContractViolation(f"batch of {self.stream}: an event is known before it ends")
        if self.end_ns is not None and np.any(self.end_ns < self.true_ns):
            raise ContractViolation(f"batch of {self.stream}: an interval ends before it starts")
        if any(column.size != rows for column in self.truth.values()):
            raise ContractViolation(f"batch of {self.stream}: a truth column is not as long")

    @property
    def due_ns(self) -> np.ndarray:
        """When the device has each event: at its end, or later. Sorted."""
        if self.known_ns is not None:
            return self.known_ns
        return self.true_ns if self.end_ns is None else self.end_ns


class Workload(Protocol):
    """The events of one source."""

    def streams(self) -> Sequence[StreamSchema]:
        """The streams that the source announces."""

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """Its events within ``span``, lazily: batches in order of their first ``due_ns``, and
        of one stream each batch after the one before.

        Randomness comes from ``seeds.generator(f"workload/{source}/...")`` only.
        """


@runtime_checkable
class ForeseenWorkload(Workload, Protocol):
    """A workload that knows its number of events beforehand."""

    def expected(self, length_ns: int) -> int:
        """How many events it has in a span of this length, on average."""


def expected_events(workload: Workload, length_ns: int) -> int:
    """How many events it has in a span of this length, as far as it says so; else 0."""
    return workload.expected(length_ns) if isinstance(workload, ForeseenWorkload) else 0


class AttributeViews:
    """A batch's attributes, cut without copying.

    Views are made once for the batch: a cut of a view costs a third of one of an array.
    """

    __slots__ = ("_codes", "_masked", "_plain")

    def __init__(self, batch: Batch) -> None:
        columns = batch.attrs.items()
        self._codes = [
            (n, c.names, memoryview(c.codes)) for n, c in columns if isinstance(c, Codes)
        ]
        self._masked = [
            (n, memoryview(c.values), memoryview(c.valid))
            for n, c in columns
            if isinstance(c, MaskedColumn)
        ]
        self._plain = [(n, c.data) for n, c in columns if isinstance(c, np.ndarray)]

    def attrs(self, low: int, high: int) -> dict[str, Column]:
        """Attributes of rows ``low`` to ``high``."""
        cut: dict[str, Column] = {name: view[low:high] for name, view in self._plain}
        for name, names, codes in self._codes:
            cut[name] = Codes(names, codes[low:high])
        for name, values, valid in self._masked:
            cut[name] = MaskedColumn(values[low:high], valid[low:high])
        return cut


@dataclass(frozen=True, slots=True)
class Periodic:
    """One event every ``period_ns``, the first at ``phase_ns`` after the start.

    Attributes:
        period_ns: distance of events.
        phase_ns: of the first.
        type: of all events.
        stream: of all events.
    """

    period_ns: int
    phase_ns: int = 0
    type: str | None = None
    stream: str = DEFAULT_STREAM

    def __post_init__(self) -> None:
        check(self.period_ns > 0, "period", "must be positive")
        check(self.phase_ns >= 0, "phase", "must not be negative")

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(self.stream),)

    def expected(self, length_ns: int) -> int:
        return length_ns // self.period_ns

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:  # noqa: ARG002 - nothing is drawn
        first, end = span.start_ns + self.phase_ns, span.start_ns + span.length_ns
        step = self.period_ns * ROWS_MAX
        for begin in range(first, end, step):
            times = np.arange(begin, min(begin + step, end), self.period_ns, dtype=np.int64)
            yield Batch(self.stream, times, self.type)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Events at random instants, ``mean_ns`` apart on average.

    Attributes:
        mean_ns: mean distance of events.
        type: of all events.
        stream: of all events.
    """

    mean_ns: int
    type: str | None = None
    stream: str = DEFAULT_STREAM

    def __post_init__(self) -> None:
        check(self.mean_ns > 0, "mean", "must be positive")

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(self.stream),)

    def expected(self, length_ns: int) -> int:
        return length_ns // self.mean_ns

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        last, end = span.start_ns, span.start_ns + span.length_ns
        while last < end:
            gaps = np.rint(generator.standard_exponential(ROWS_MAX) * self.mean_ns)
            times = last + np.cumsum(gaps.astype(np.int64))
            last = int(times[-1])
            times = times[: int(np.searchsorted(times, end))]
            if times.size:
                yield Batch(self.stream, times, self.type)


WORKLOADS: Final[dict[str, type[Any]]] = {"periodic": Periodic, "poisson": Poisson}


def parse_workload(value: object, place: str) -> Workload:
    """A workload from a dict with the key ``model``; any object of the protocol passes as it is.

    Raises:
        UserError: unknown model or key, value out of range.
    """
    if hasattr(value, "streams") and hasattr(value, "batches"):
        return value
    workload: Workload = parse_model(WORKLOADS, value, place)
    return workload
