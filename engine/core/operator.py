"""The contract of a query operator, and the results it gives.

An operator is a small class; adding one is one file, one registry line and its tests. One that
finds matches is a ``engine.barrier.base.Matcher``, and its barrier makes an operator of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, overload

import numpy as np
import pyarrow as pa

from slackwater.engine.core.released import Released

Result = dict[str, Any]
"""One result with the fields of DESIGN "Results". Times in ns; the writer converts units."""


class ReadOneByOne(Sequence[Result]):
    """Results that read like a list, from whatever they are made of when they are looked at."""

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> list[Result]: ...
    def __getitem__(self, place: int | slice) -> Result | list[Result]:
        return list(self)[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class ResultColumns(ReadOneByOne):
    """Results of one query and site as columns, which sinks take as they are."""

    kind: ClassVar[str]
    """Of which kind they are (``engine.output.kinds``)."""

    @classmethod
    @abstractmethod
    def tables(cls, pieces: Sequence[Self]) -> Iterator[pa.Table]:
        """``pieces`` of one query and site, in order, as tables of the kind's schema.

        Raises:
            ContractViolation: a value that JSON does not have.
        """


@dataclass(eq=False, slots=True)
class ResultPieces(ReadOneByOne):
    """Results of one query in order, in the pieces in which an operator gave them.

    A piece may be columns that make a dict of a result only when it is looked at; sinks take the
    ``pieces``, everybody else reads this like a list.
    """

    pieces: list[Sequence[Result]] = field(default_factory=list)

    def extend(self, piece: Sequence[Result]) -> None:
        """Put ``piece`` behind what there is."""
        if isinstance(piece, ResultPieces):
            self.pieces += piece.pieces
        elif len(piece):
            self.pieces.append(piece)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __iter__(self) -> Iterator[Result]:
        for piece in self.pieces:
            yield from piece


class Operator(Protocol):
    """Settings -> logic -> state: ``snapshot`` is plain data (dict of numbers, lists, arrays).

    Results must not depend on how the released stream is cut into batches.
    """

    @property
    def types(self) -> tuple[str, ...] | None:
        """Types whose rows and promises it reads in the ordered stream, by that stream's clocks.

        None: it reads every row, also what the order dropped, and no such clocks.
        """

    def required_columns(self) -> set[str]:
        """Names of the columns that ``process`` reads, so that others need not be gathered."""

    def process(self, released: Released) -> Sequence[Result]:
        """Called for every batch, in release order; gives the results it makes known."""

    def advance(self, now: int) -> Sequence[Result]:
        """The arrival clock has come to ``now``: gives what was due before it.

        No later row is released before ``now``. Called after ``process``, and when nothing came.
        """

    def finish(self, at: int) -> Sequence[Result]:
        """End of input at arrival-clock instant ``at``: every scope is closed. Called once."""

    def counters(self) -> dict[str, int]:
        """What was dropped, refused or purged, and how much is held; for reports."""

    def codes(self) -> np.ndarray | None:
        """Codes of texts that the state holds; None: of any text, as it cannot tell."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data (``engine.hosts.chain.state_bytes``); must not change afterwards."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of an operator with equal settings."""
