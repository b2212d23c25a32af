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
from msgspec import Struct
from msgspec.structs import astuple

from slackwater.engine.core.released import Released
from slackwater.engine.kernels.records import copy_of

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
    """Of which kind they are (``engine.output.result_kinds``)."""

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


class Restorable:
    """A part of the state of a chain: its snapshot is the attributes that ``state_fields`` names.

    Each is plain data, an array, a set, a struct or named tuple of such, a list, tuple or dict of
    such, or another part, which is restored where it is. ``restore`` goes by what the attribute is
    before: so a list or dict of structs, and what may be None, is for the class itself to save.
    """

    __slots__ = ()
    state_fields: ClassVar[tuple[str, ...]] = ()

    def snapshot(self) -> dict[str, Any]:
        """Plain data that shares nothing with it."""
        return {name: _saved(getattr(self, name)) for name in self.state_fields}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of one with equal settings."""
        for name in self.state_fields:
            setattr(self, name, _restored(getattr(self, name), state[name]))


def _saved(value: Any) -> Any:
    if hasattr(value, "snapshot"):
        return value.snapshot()
    if isinstance(value, np.ndarray):
        in_words = value.flags.c_contiguous and value.dtype.itemsize % 4 == 0
        return copy_of(value) if value.dtype.names and in_words else value.copy()
    if isinstance(value, dict):
        return {name: _saved(each) for name, each in value.items()}
    if isinstance(value, set):  # in order, so that equal states are equal bytes
        return sorted(value)
    if isinstance(value, Struct):
        value = astuple(value)
    if isinstance(value, tuple):
        return tuple(map(_saved, value))
    return [_saved(each) for each in value] if isinstance(value, list) else value


def _restored(now: Any, state: Any) -> Any:
    """``state`` as what ``now`` is."""
    if hasattr(now, "restore"):
        now.restore(state)
        return now
    if isinstance(now, Struct) or hasattr(now, "_fields"):
        parts = astuple(now) if isinstance(now, Struct) else now
        return type(now)(*map(_restored, parts, state))
    if isinstance(now, dict):
        return type(now)({name: _restored(now.get(name), each) for name, each in state.items()})
    return set(state) if isinstance(now, set) else _saved(state)
