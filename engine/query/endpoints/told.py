"""What EXPLAIN tells of an ISEQ: what its TList implies, the indexed path, and what is dropped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.query.endpoints.order import LESS
from engine.query.endpoints.path import IBP, indexed_path
from engine.query.language.place import listed
from engine.query.plan import PointRelation, SeqPlan
from engine.query.render import render_relation
from engine.query.shape import endpoint_order

Section = tuple[str, list[str]]
_ENDS = ("ts", "te")


def interval_sections(plan: SeqPlan, index: str, *, promises: bool) -> Iterator[Section]:
    """Of the plan of an ISEQ. ``promises``: what these leave without a partner is purged."""
    negated = {step.alias for step in plan.steps if step.negated}
    asked = [each for each in plan.relations if not negated & {each.left.alias, each.right.alias}]
    yield "related", [", ".join(map(render_relation, asked)) or "in no way: any combination"]
    reach = endpoint_order(plan)
    inferred = list(_inferred(plan, reach, asked))
    if inferred:
        yield "inferred", [", ".join(inferred)]
    path = indexed_path(plan, index)
    chain = " < ".join(_point(plan, point) for point in path)
    yield "index", [f"{index}: {chain or 'none; every interval in the window is tested'}"]
    yield "drops", list(_drops(plan, index, promises=promises))


def counts_when(plan: SeqPlan, alias: str) -> str:
    """When an event of a negated step counts."""
    told = [
        render_relation(each)
        for each in plan.relations
        if alias in (each.left.alias, each.right.alias)
    ]
    near = "" if plan.within_ns is None else "it lies WITHIN with the whole match"
    return " and ".join([*told, near] if near else told)


def _inferred(plan: SeqPlan, reach: np.ndarray, asked: list[PointRelation]) -> Iterator[str]:
    """Orders of two steps' end points that follow, beside those asked."""
    known = {frozenset((_name(each, left=True), _name(each, left=False))) for each in asked}
    for below, above in np.argwhere(reach > 0).tolist():
        one, two = _point(plan, below), _point(plan, above)
        if below // 2 != above // 2 and frozenset((one, two)) not in known:
            yield f"{one} {'<' if reach[below, above] == LESS else '<='} {two}"


def _drops(plan: SeqPlan, index: str, *, promises: bool) -> Iterator[str]:
    """Which intervals need not be kept when they come, without IBPs and with them."""
    if not promises:
        yield "nothing before its time: late intervals may still come (--purge promises drops)"
        return
    path = indexed_path(plan, index)
    if not path:
        yield "nothing: no chain of end points is indexed"
        return
    for number, point in enumerate(path[1:], 1):
        name = plan.steps[point // 2].alias
        below = [p for p in path[:number] if p // 2 != point // 2]
        ends = [_point(plan, p) for p in below if p % 2]
        starts = [_point(plan, p) for p in below if not p % 2]
        if ends:
            yield f"{name} without {_each(ends)} below its {_ENDS[point % 2]}"
        if starts and index == IBP:
            yield f"with IBPs: {name} also without {_each(starts)} below its {_ENDS[point % 2]}"
    yield "what loses those as they leave the window goes with them"


def _each(points: list[str]) -> str:
    return points[0] if len(points) == 1 else f"a chain of {listed(points)}"


def _name(each: PointRelation, *, left: bool) -> str:
    of = each.left if left else each.right
    return f"{of.alias}.{of.name}"


def _point(plan: SeqPlan, point: int) -> str:
    return f"{plan.steps[point // 2].alias}.{_ENDS[point % 2]}"
