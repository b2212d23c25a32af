"""Queries whose matches can wait only for the end: of types that nothing in the input promises."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_in_force
from engine.log.held_log import Log, opened
from engine.order.base import OrderSettings
from engine.query.plan import Plan
from engine.stream.timeline import ANY_TYPE


def never_promised(
    log: Path | Log, plans: Iterable[Plan], order: OrderSettings, barrier: BarrierSettings | None
) -> dict[str, list[str]]:
    """Per query, the types for which it waits and which no punctuation of ``log`` promises.

    Of the orders only ``none`` leaves promises to the input. The log is read no further than until
    every type was promised once; one that names no type promises all of its source's, so it is
    taken to promise any.

    Raises:
        UserError: not an arrival log, or a damaged one.
    """
    if not order.leaves_promises:
        return {}
    awaited = {plan.name: _awaited(plan, barrier) for plan in plans}
    missing = set().union(*awaited.values())
    if missing:
        for frame in opened(log).one_by_one():
            promised = _promised(frame.batch)
            missing = set() if None in promised else missing - promised
            if not missing:
                break
    found = {name: sorted(types & missing) for name, types in awaited.items()}
    return {name: types for name, types in found.items() if types}


def _awaited(plan: Plan, given: BarrierSettings | None) -> set[str]:
    """Types whose promises decide when a match of ``plan`` leaves, or its windows close."""
    if plan.windows:
        by_promise = given is not None and BARRIERS[given.name].closes is Closes.PROMISE
        return {ANY_TYPE} if by_promise else set()
    if not plan.steps:
        return set()
    barrier = barrier_in_force(given, plan.realtime)
    closes = BARRIERS[barrier.name].closes
    by_promise = closes is Closes.PROMISE
    in_order = barrier.ordered and closes is not Closes.SLACK
    return {step.type for step in plan.steps if (by_promise if step.negated else in_order)}


def _promised(batch: pa.RecordBatch) -> set[str | None]:
    """Types that the punctuations of a frame name; None: one that names no type."""
    if r.KIND not in batch.schema.names:
        return set()
    rows = np.flatnonzero(np.asarray(batch.column(r.KIND).fill_null(0)) == int(r.Kind.POG))
    if not len(rows):
        return set()
    if r.TYPE not in batch.schema.names:
        return {None}
    return set(pc.unique(batch.column(r.TYPE).take(pa.array(rows)).cast(pa.string())).to_pylist())
