"""Which released rows satisfy the conditions of which steps on a single event."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.columns import LEAST_PREFIX, MOST_PREFIX, VARIES_PREFIX
from slackwater.engine.core.released import Released
from slackwater.engine.core.timeline import ANY_TYPE, CHANCE, length_errors
from slackwater.engine.operators.match.compiler.tables import Layout
from slackwater.engine.query.expression import View, column, may_be, view_mask
from slackwater.engine.query.fields import (
    attributes_in,
    attributes_of,
    own_attribute,
    released_columns,
    shows_everything,
)
from slackwater.engine.query.plan import Attribute, OrPlan, Predicate, SeqPlan, Step
from slackwater.engine.query.shape import of_intervals, of_streams


class StepFilter(NamedTuple):
    """The conditions of a step on a single event.

    ``where``: conditions that do not depend on clock errors. ``joined``: attributes that must have
    a value, as null equals nothing. ``columns``: the columns of ``Released`` that these read.
    ``longest_ns``: largest duration of an event that fits into WITHIN; None: any.
    """

    step: Step
    where: Predicate | None
    joined: tuple[Attribute, ...]
    columns: frozenset[str]
    longest_ns: int | None


def members(filters: Sequence[StepFilter], released: Released) -> np.ndarray:
    """Return int64 per row; bit k: it satisfies the conditions of step k on a single event.

    Args:
        filters: the filters of the steps.
        released: the batch.
    """
    found = np.zeros(released.n, np.int64)
    rows_of: dict[tuple[str, tuple[str, ...], tuple[str, ...]], np.ndarray] = {}
    for place, each in enumerate(filters):
        step = each.step
        kind = step.type, step.streams, step.types
        if kind not in rows_of:
            rows_of[kind] = _of_kind(step, released)
        rows = rows_of[kind]
        if each.longest_ns is not None and len(rows):
            length = released.columns["te"][rows] - released.columns["ts"][rows]
            if (length > each.longest_ns).any():
                # No event that the kernel accepts is dropped (engine.operators.match.search.state).
                rows = rows[length - length_errors(released, rows) <= each.longest_ns]
        found[_chosen(each, released, rows)] |= 1 << place
    return found


@lru_cache(maxsize=64)
def step_filters(
    layout: Layout, partition: tuple[str, ...] | None = None
) -> tuple[StepFilter, ...]:
    """Return the filters of the steps of ``layout``.

    ``partition``: attributes that every event must have; None: those that join its step.
    """
    plan, found = layout.branches[0], []
    # A negated event of an ISEQ must fit into WITHIN as a whole; elsewhere only its start counts.
    negated_too = of_intervals(plan)
    of_steps = zip(layout.steps, layout.step_conditions, _joined_attributes(layout), strict=True)
    for step, where, others in of_steps:
        joined = others
        if partition is not None:
            joined = [Attribute(name, step.alias) for name in partition]
        columns = released_columns([*attributes_in(where), *joined, Attribute("ref")])
        attributes = [own_attribute(each.name) for each in attributes_in(where)]
        moved = (VARIES_PREFIX, LEAST_PREFIX, MOST_PREFIX)
        columns |= {
            f"{prefix}{name}" for name in attributes if name is not None for prefix in moved
        }
        bounded = not of_streams(plan) and (negated_too or not step.negated)
        longest_ns = plan.within_ns if bounded else None
        found.append(StepFilter(step, where, tuple(joined), frozenset(columns), longest_ns))
    return tuple(found)


def _of_kind(step: Step, released: Released) -> np.ndarray:
    """Return the rows of the step's type and stream."""
    fine = np.ones(released.n, np.bool_)
    if step.type != ANY_TYPE:
        fine &= released.columns["type"] == released.strings.find(step.type)
    for name, texts in (("type", step.types), ("stream", step.streams)):
        if texts:
            codes = [released.strings.find(each) for each in texts]
            fine &= np.isin(released.columns[name], [code for code in codes if code >= 0])
    return np.flatnonzero(fine)


def _joined_attributes(layout: Layout) -> list[list[Attribute]]:
    """Return per step the attributes that join it with positive steps in all of its branches.

    An event without a value there matches nothing. Joins with negated steps only do not count.
    """
    found = []
    for step in layout.steps:
        attributes = [_joined(plan, step) for plan in layout.branches if step in plan.steps]
        found.append([a for a in attributes[0] if all(a in other for other in attributes[1:])])
    return found


def _joined(plan: SeqPlan, step: Step) -> list[Attribute]:
    positive = {other.alias for other in plan.steps if not other.negated and other != step}
    groups = [group for group in plan.equalities if any(a.alias in positive for a in group)]
    return [a for group in groups for a in group if a.alias == step.alias]


@lru_cache(maxsize=64)
def kept_attributes(plan: SeqPlan | OrPlan, layout: Layout) -> set[str] | None:
    """Return the user attributes that ``plan`` needs after the steps' own conditions; None: all."""
    if any(map(shows_everything, plan.branches)):
        return None
    used = [a for predicate in layout.predicates for a in attributes_in(predicate)]
    for branch in plan.branches:
        bare = tuple(replace(step, where=None) for step in branch.steps)
        used += attributes_of(replace(branch, steps=bare))
    names = (own_attribute(attribute.name) for attribute in used)
    return {name for name in names if name is not None}


def _chosen(step: StepFilter, released: Released, rows: np.ndarray) -> np.ndarray:
    """Return the ``rows`` that satisfy ``where`` and have values in ``joined``."""
    if not len(rows) or (step.where is None and not step.joined):
        return rows
    columns = {n: released.columns[n][rows] for n in step.columns if n in released.columns}
    view = View.of(columns, released.attr_types, released.strings)
    fine = _has_values(step.joined, view, len(rows)) if step.joined else np.True_
    if step.where is not None:
        holds = may_be if CHANCE in released.columns else view_mask
        fine = fine & holds(step.where, view, len(rows))
    return np.asarray(rows[fine])


def _has_values(attributes: Sequence[Attribute], view: View, n: int) -> np.ndarray:
    """Return where no attribute is null; NaN counts as null."""
    fine = np.ones(n, np.bool_)
    for attribute in attributes:
        value = column(attribute.name, view)
        if value.kind == "null":
            return np.zeros(n, np.bool_)
        if value.valid is not None:
            fine &= value.valid
        if value.kind == "float":
            fine &= ~np.isnan(value.data)
    return fine
