"""The contract of query operators, and their results.

An operator is a small class; a new one needs one file, one registry line and its tests. An operator
that finds matches is a ``engine.barrier.base.Matcher``; its barrier makes an operator of it.
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
"""A result with the fields of DESIGN "Results". Times in ns; the writer converts units."""


class ReadOneByOne(Sequence[Result]):
    """Results that read like a list, created when they are read."""

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
    """Results of one query and site as columns, which sinks take directly."""

    kind: ClassVar[str]
    """The kind of the results (``engine.output.result_kinds``)."""

    @classmethod
    @abstractmethod
    def tables(cls, pieces: Sequence[Self]) -> Iterator[pa.Table]:
        """Yield ``pieces`` of one query and site, in order, as tables of the kind's schema.

        Raises:
            ContractViolation: a value that JSON does not support.
        """


@dataclass(eq=False, slots=True)
class ResultPieces(ReadOneByOne):
    """Results of one query in order, in the pieces that an operator returned.

    A piece may be columns, which create dicts only when they are read; sinks use ``pieces``, other
    code reads this like a list.
    """

    pieces: list[Sequence[Result]] = field(default_factory=list)

    def extend(self, piece: Sequence[Result]) -> None:
        """Append ``piece``."""
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

        None: it reads every row, also those that the order dropped, and no stream clocks.
        """

    def required_columns(self) -> set[str]:
        """Return the columns that ``process`` reads; others are not gathered."""

    def process(self, released: Released) -> Sequence[Result]:
        """Process a batch, in release order; return the results that it adds."""

    def advance(self, now: int) -> Sequence[Result]:
        """Advance the arrival clock to ``now``; return the results that were due before it.

        No later row is released before ``now``. Called after ``process``, and without input.
        """

    def finish(self, at: int) -> Sequence[Result]:
        """End the input at arrival-clock instant ``at``: every scope is closed. Called once."""

    def counters(self) -> dict[str, int]:
        """Return counts of dropped, refused, purged and buffered events, for reports."""

    def codes(self) -> np.ndarray | None:
        """Return the codes of texts in the state; None: unknown, so all texts stay in use."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data (``engine.hosts.chain.state_bytes``), never modified
        later.
        """

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of an operator with equal settings."""


class Restorable:
    """A part of a chain's state: its snapshot has the attributes named in ``state_fields``.

    Each is plain data, an array, a set, a struct or named tuple of such, a list, tuple or dict of
    such, or another part, which is restored in place. ``restore`` uses the type of the current
    value, so lists or dicts of structs, and optional values, must be saved by the class itself.
    """

    __slots__ = ()
    state_fields: ClassVar[tuple[str, ...]] = ()

    def snapshot(self) -> dict[str, Any]:
        """Return plain data that shares nothing with the object."""
        return {name: _saved(getattr(self, name)) for name in self.state_fields}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of an object with equal settings."""
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
    """Return ``state`` with the type of ``now``."""
    if hasattr(now, "restore"):
        now.restore(state)
        return now
    if isinstance(now, Struct) or hasattr(now, "_fields"):
        parts = astuple(now) if isinstance(now, Struct) else now
        return type(now)(*map(_restored, parts, state))
    if isinstance(now, dict):
        return type(now)({name: _restored(now.get(name), each) for name, each in state.items()})
    return set(state) if isinstance(now, set) else _saved(state)
