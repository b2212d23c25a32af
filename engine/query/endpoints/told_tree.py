"""What EXPLAIN tells of a SEQ/PAL tree: end points, which halves are enough, how it is joined."""

from __future__ import annotations

from engine.query.endpoints.five_counts import representation
from engine.query.endpoints.series import series_of
from engine.query.endpoints.tree_joins import in_order
from engine.query.language.place import listed
from engine.query.plan import SeqPlan
from engine.query.render import render_relation


def tree_sections(plan: SeqPlan, joins: str) -> list[tuple[str, list[str]]]:
    """Sections of ``engine.query.explain``, none of them empty.

    ``5 counts``: Z10's representation, if the tree asks for one order of all end points.
    """
    ends = [render_relation(relation) for relation in plan.relations]
    negated = {step.alias for step in plan.steps if step.negated}
    enough = {"start": plan.starts, "end": plan.ends}
    halves = [
        f"the {half} of {listed(some)} is enough for a match"
        for half, aliases in enough.items()
        if (some := [alias for alias in aliases if alias not in negated])
    ]
    found = [("end points", [", ".join(ends) or "in any order"])]
    series = series_of(plan)
    if series is not None and all(alias.isidentifier() for alias in series):
        found.append(("5 counts", [representation(series)]))
    if halves:
        found.append(("halves", halves))
    return [*found, ("joins", [f"{joins}: {_found_in(plan, joins)}"])]


def _found_in(plan: SeqPlan, joins: str) -> str:
    """``after a: b, c; after b: ...``."""
    alias = [step.alias for step in plan.steps]
    told = []
    for place, step in enumerate(plan.steps):
        others = [alias[other] for other in in_order(plan, joins, place)]
        if not step.negated and others:
            told.append(f"after {step.alias}: {', '.join(others)}")
    return "; ".join(told) or "one step alone"
