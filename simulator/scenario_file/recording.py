"""A recording as true events: its events are the devices' own, its times are true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.edge_agent.messages import ATTRS_MAX, NAME_MAX, TEXT_MAX, StreamSchema
from slackwater.edge_agent.packing import Codes
from slackwater.simulator.scenario_file.generated import taken
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.settings import check, value_text
from slackwater.simulator.workload import ROWS_MAX, SECOND, Batch, Span

_FEW: Final = 64
"""So many different texts of a column do not make messages much longer."""


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

    def __post_init__(self) -> None:
        """Refuses events that no agent could send.

        Raises:
            UserError: a name or a text is too long, or there are too many attributes.
        """
        _check_name("stream", self.name)
        for each in self.types.names:
            _check_name("type", each)
        check(
            len(self.attrs) <= ATTRS_MAX, f"stream {self.name!r}",
            f"has {len(self.attrs)} attributes, and can have {ATTRS_MAX}; name those to keep, as "
            'in attrs = ["tag"]',
        )  # fmt: skip
        for name, (column, kind) in self.attrs.items():
            _check_name("attribute", name)
            longest = max((len(text) for text in column if text), default=0) if kind == "str" else 0
            check(
                longest <= TEXT_MAX, f"attribute {name!r}",
                f"a text has {longest} characters, and can have {TEXT_MAX}; leave it out: name "
                'those to keep, as in attrs = ["tag"]',
            )  # fmt: skip

    @property
    def known_ns(self) -> np.ndarray:
        """When the device has each event [ns] after the recording's first one, int64; sorted."""
        return self.since_ns if self.until_ns is None else self.until_ns

    @property
    def rows_max(self) -> int:
        """Rows of a batch: a message carries all texts of the batch that it is of, so that batches
        of ever new texts are short.
        """
        texts = [column for column, kind in self.attrs.values() if kind == "str"]
        different = [len(self.types.names), *(len(set(column.tolist())) for column in texts)]
        return ROWS_MAX if max(different) <= _FEW else _FEW


def _check_name(what: str, name: str) -> None:
    right = 1 <= len(name) <= NAME_MAX
    check(right, f"{what} {value_text(name)}", f"a name has 1 to {NAME_MAX} characters")


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
        for stream, rows in cuts:
            yield _batch(stream, rows, span)

    def expected(self, length_ns: int) -> int:
        """As ``simulator.workload.ForeseenWorkload``."""
        return sum(int(np.searchsorted(each.known_ns, length_ns)) for each in self.recorded)

    def first_ns(self) -> int:
        """When its first event begins [ns] after the recording's first one."""
        return min(int(each.since_ns.min()) for each in self.recorded)

    def last_ns(self) -> int:
        """When the device has its last event, as ``first_ns``."""
        return max(int(each.known_ns[-1]) for each in self.recorded)


def _cuts(stream: RecordedStream, span: Span) -> Iterator[tuple[RecordedStream, slice]]:
    """The stream and the rows of each of its batches within ``span``."""
    rows, rows_max = int(np.searchsorted(stream.known_ns, span.length_ns)), stream.rows_max
    for low in range(0, rows, rows_max):
        yield stream, slice(low, min(low + rows_max, rows))


def _batch(stream: RecordedStream, rows: slice, span: Span) -> Batch:
    columns = {name: (column[rows], kind) for name, (column, kind) in stream.attrs.items()}
    names, codes = stream.types.names, np.asarray(stream.types.codes, np.int32)[rows]
    if len(names) > _FEW:
        names, codes = _those_of(names, codes)
    return Batch(
        stream.name,
        span.start_ns + stream.since_ns[rows],
        Codes(names, codes.data),
        {name: taken(column, kind) for name, (column, kind) in columns.items()},
        end_ns=None if stream.until_ns is None else span.start_ns + stream.until_ns[rows],
        truth={name: column for name, (column, _) in columns.items()},
    )


def _those_of(names: Sequence[str], codes: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The names that ``codes`` (-1: none) use, and the codes among these."""
    used, places = np.unique(codes[codes >= 0], return_inverse=True)
    new_codes = np.full(codes.size, -1, np.int32)
    new_codes[codes >= 0] = places
    return [names[each] for each in used], new_codes
