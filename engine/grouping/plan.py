"""The plan of a dataflow as a query of a chain: Python code builds it, functions and all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from engine.grouping.dataflow import Dataflow
from engine.query.fields import attributes_of
from engine.query.plan import Attribute

if TYPE_CHECKING:
    from engine.query.plan import SeqPlan, Step, WindowPlan


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

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What an item has."""
        return tuple(map(Attribute, self.reads if self.flow.item is None else self.flow.item))


attributes_of.register(GroupingPlan, lambda plan: iter(plan.attributes))
