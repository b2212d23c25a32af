"""Optimistic dataflows (K18): stateful transformations of events that may come in any order.

Nothing waits before an operation: results that a late event makes wrong are retracted, and one
barrier at the end releases valid results in order.

>>> from slackwater.grouping import Dataflow, PythonCombine, Stateful
>>> def product(state, number):
...     new = number if state is None else 10 * state + number
...     return new, [new]
>>> run = Dataflow((Stateful(PythonCombine(product)),)).start()
>>> sent = run.send([10, 30, 20], [1, 3, 2])
>>> sent.payload.tolist(), sent.tombstone.tolist()
([1, 13, 13, 12, 123], [False, False, True, False, False])
>>> run.watermark(31).payload.tolist()
[1, 12, 123]
"""

from slackwater.engine.operators.grouping.dataflow import Dataflow, RunningDataflow
from slackwater.engine.operators.grouping.items import Items
from slackwater.engine.operators.grouping.maps import (
    Combine,
    PythonCombine,
    PythonTupleMap,
    TupleMap,
)
from slackwater.engine.operators.grouping.operations import Grouping, GroupingPlan, Map, Stateful

__all__ = [
    "Combine",
    "Dataflow",
    "Grouping",
    "GroupingPlan",
    "Items",
    "Map",
    "PythonCombine",
    "PythonTupleMap",
    "RunningDataflow",
    "Stateful",
    "TupleMap",
]
