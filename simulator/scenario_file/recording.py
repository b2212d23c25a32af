"""A recording as what happened: its events are the devices' own, its times are true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edge_agent.columns import Codes
from edge_agent.messages import StreamSchema
from simulator.scenario_file.generated import taken
from simulator.seeds import Seeds
from simulator.workload import ROWS_MAX, Batch, Span


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
        pieces = [piece for each in self.recorded for piece in _pieces(each, span)]
        yield from sorted(pieces, key=lambda piece: int(piece.due_ns[0]))


def _pieces(given: RecordedStream, span: Span) -> Iterator[Batch]:
    known = given.since_ns if given.until_ns is None else given.until_ns
    rows = int(np.searchsorted(known, span.length_ns))
    for low in range(0, rows, ROWS_MAX):
        cut = slice(low, min(low + ROWS_MAX, rows))
        columns = {name: (column[cut], kind) for name, (column, kind) in given.attrs.items()}
        codes = np.asarray(given.types.codes, np.int32)[cut]
        yield Batch(
            given.name,
            span.start_ns + given.since_ns[cut],
            Codes(given.types.names, codes.data),
            {name: taken(column, kind) for name, (column, kind) in columns.items()},
            end_ns=None if given.until_ns is None else span.start_ns + given.until_ns[cut],
            truth={name: column for name, (column, _) in columns.items()},
        )
