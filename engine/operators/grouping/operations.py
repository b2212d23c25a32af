"""Operations of a dataflow, and its plan as a query of a chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.operators.grouping.buckets import Hash, Key
from slackwater.engine.operators.grouping.maps import (
    Combine,
    PythonCombine,
    PythonTupleMap,
    Remembered,
    TupleMap,
)
from slackwater.engine.query.fields import attributes_of
from slackwater.engine.query.plan import Attribute

if TYPE_CHECKING:
    from slackwater.engine.operators.grouping.dataflow import Dataflow
    from slackwater.engine.query.plan import SeqPlan, Step, WindowPlan


# Operations of a dataflow, as they are asked for: maps, groupings, and what is built of them.


WINDOW_MAX = 1024
"""Items of a tuple."""


class Grouped(Protocol):
    """An operation with buckets."""

    @property
    def window(self) -> int: ...
    @property
    def cyclic(self) -> bool: ...
    @property
    def key(self) -> Key | None: ...
    @property
    def hash(self) -> Hash | None: ...
    def remembered(self, item: np.dtype[Any]) -> Remembered: ...


@dataclass(frozen=True, eq=False)
class Map:
    """A map of single items (K18 V.B.1).

    Args:
        function: of a structured array: (the new payload, per item of it the place of the one that
            it was made of, ascending), or the new payload alone, one for one; of one Python object:
            a sequence of objects.
        most: items made of one.
    """

    function: Callable[[Any], Any]
    most: int = 1


@dataclass(frozen=True, eq=False)
class Grouping:
    """Windowed grouping, and a map of its tuples (K18 V.B.2); without one they go on as they are.

    A tuple is an item and, before it, up to ``window - 1`` items of its bucket. Buckets are those
    of ``hash(key(item))``.
    """

    window: int
    key: Key | None = None
    hash: Hash | None = None
    map: TupleMap | PythonTupleMap | None = None

    cyclic = False

    def __post_init__(self) -> None:
        if not 1 <= self.window <= WINDOW_MAX:
            raise UserError(f"window={self.window}: a tuple has 1 to {WINDOW_MAX} items")

    def remembered(self, item: np.dtype[Any]) -> Remembered:
        """What its maps remember, before any item."""
        if self.map is None:
            return PythonTupleMap(lambda items: (items,)).remembered()
        if isinstance(self.map, PythonTupleMap):
            return self.map.remembered()
        return self.map.remembered(_records(item), self.window)


@dataclass(frozen=True, eq=False)
class Stateful:
    """A stateful transformation: a grouping of window 2, ``combine``, and the cycle (K18 V.C)."""

    combine: Combine | PythonCombine
    key: Key | None = None
    hash: Hash | None = None

    window = 2
    cyclic = True

    def remembered(self, item: np.dtype[Any]) -> Remembered:
        """What its map remembers, before any item."""
        if isinstance(self.combine, PythonCombine):
            return self.combine.remembered()
        return self.combine.remembered(_records(item))


def _records(item: np.dtype[Any]) -> np.dtype[Any]:
    """``item``, of which a compiled map can read fields."""
    if item.names is None:
        raise UserError(
            f"a compiled map reads records, and items are {item}: give a structured array, or a "
            "map in plain Python"
        )
    return item


Operation = Map | Grouping | Stateful


# The plan of a dataflow as a query of a chain: Python code builds it, functions and all.


@dataclass(frozen=True, eq=False)
class GroupingPlan:
    """``flow`` over the events of a site.

    Args:
        name: of the query.
        flow: what is done. The items of compiled maps have the attributes that ``flow.item``
            names; ``ts``, ``seq`` and the other record fields are as in a query.
        reads: attributes that items of plain Python maps have: they are dicts.
        types: of the events that are read; none: all.
        streams: likewise.
        keep_ns: under ``immediate``, how far behind the event clock an event may come; what comes
            later is left out. None: as far as punctuations and the order say.
    """

    name: str
    flow: Dataflow
    reads: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    keep_ns: int | None = None

    text: ClassVar[str] = ""
    result_kind: ClassVar[str] = "items"
    steps: ClassVar[tuple[Step, ...]] = ()
    branches: ClassVar[tuple[SeqPlan, ...]] = ()
    windows: ClassVar[tuple[WindowPlan, ...]] = ()
    realtime: ClassVar[None] = None
    checks: ClassVar[None] = None

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What an item has."""
        return tuple(map(Attribute, self.reads if self.flow.item is None else self.flow.item))


attributes_of.register(GroupingPlan, lambda plan: iter(plan.attributes))
