"""A recording as what happened: its events are the devices' own, its times are true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edge_agent.columns import Codes
from edge_agent.messages import StreamSchema
from simulator.scenario_file.generated import taken
from simulator.seeds import Seeds
from simulator.settings import check
from simulator.workload import ROWS_MAX, SECOND, Batch, Span


@dataclass(frozen=True, slots=True, eq=False)
class RecordedStream:
    """Events of one stream of one source, in order of their (end) times; equally long columns.

    Attributes:
        name: of the stream.
        since_ns: starts [ns] after the recording's first event, int64.
        until_ns: ends, int64; None: point events.
        types: of each event; -1: none.
        attrs: column and its kind (``int float bool str``) by name; objects with ``None`` for null.
    """

    name: str
    since_ns: np.ndarray
    until_ns: np.ndarray | None
    types: Codes
    attrs: Mapping[str, tuple[np.ndarray, str]]

    @property
    def known_ns(self) -> np.ndarray:
        """When the device has each event [ns] after the recording's first one, int64; sorted."""
        return self.since_ns if self.until_ns is None else self.until_ns


@dataclass(frozen=True, slots=True)
class OnAround:
    """How long before its first and after its last event a recorded source is on."""

    on_around_ns: int = 60 * SECOND

    def __post_init__(self) -> None:
        check(self.on_around_ns >= 0, "on_around", "must not be negative")


@dataclass(frozen=True, slots=True)
class RecordedEvents:
    """The workload of one source of a recording; what lies beyond the run's end is left out."""

    recorded: tuple[RecordedStream, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        """Those of the recording."""
        return tuple(
            StreamSchema(each.name, {name: kind for name, (_, kind) in each.attrs.items()})
            for each in self.recorded
        )

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:  # noqa: ARG002 - nothing is drawn
        """As ``simulator.workload.Workload``."""
        cuts = [cut for each in self.recorded for cut in _cuts(each, span)]
        cuts.sort(key=lambda cut: int(cut[0].known_ns[cut[1].start]))
        for given, rows in cuts:
            yield _batch(given, rows, span)

    def expected(self, length_ns: int) -> int:
        """As ``simulator.workload.ForeseenWorkload``."""
        return sum(int(np.searchsorted(each.known_ns, length_ns)) for each in self.recorded)

    def first_ns(self) -> int:
        """When its first event begins [ns] after the recording's first one."""
        return min(int(each.since_ns.min()) for each in self.recorded)

    def last_ns(self) -> int:
        """When the device has its last event, as ``first_ns``."""
        return max(int(each.known_ns[-1]) for each in self.recorded)


def _cuts(given: RecordedStream, span: Span) -> Iterator[tuple[RecordedStream, slice]]:
    """The stream and the rows of each of its batches within ``span``."""
    rows = int(np.searchsorted(given.known_ns, span.length_ns))
    for low in range(0, rows, ROWS_MAX):
        yield given, slice(low, min(low + ROWS_MAX, rows))


def _batch(given: RecordedStream, rows: slice, span: Span) -> Batch:
    columns = {name: (column[rows], kind) for name, (column, kind) in given.attrs.items()}
    codes = np.asarray(given.types.codes, np.int32)[rows]
    return Batch(
        given.name,
        span.start_ns + given.since_ns[rows],
        Codes(given.types.names, codes.data),
        {name: taken(column, kind) for name, (column, kind) in columns.items()},
        end_ns=None if given.until_ns is None else span.start_ns + given.until_ns[rows],
        truth={name: column for name, (column, _) in columns.items()},
    )
