"""FROM and PARTITION BY of a pattern: conditions on all of its steps."""

from __future__ import annotations

from collections.abc import Sequence

from engine.query.analysis.clauses import only
from engine.query.analysis.roles import partition_name
from engine.query.analysis.split import Term
from engine.query.language import syntax as s
from engine.query.language.repetition import PartitionBy
from engine.query.language.sources import From
from engine.query.plan import Attribute, Comparison, Constant, Membership, Step


def whole_pattern_of(parsed: s.EventQuery) -> s.EventQuery:
    """``EVENT A a`` as the SEQ that it is."""
    step = parsed.pattern
    if not isinstance(step, s.StepNode):
        return parsed
    return parsed._replace(pattern=s.GroupNode("SEQ", (step,), (), step.at, step.depth + 1))


def terms_of_clauses(
    clauses: tuple[s.Clause, ...], branches: Sequence[Sequence[Step]], text: str
) -> list[Term]:
    """What FROM and PARTITION BY ask of a pattern with these steps, by alternative.

    Raises:
        UserError: one is given twice, or PARTITION BY names what is no attribute of all events.
    """
    sources, partition = only(clauses, From, text), only(clauses, PartitionBy, text)
    known = {step.alias: step for steps in branches for step in steps}
    found: list[Term] = []
    if sources is not None:
        names = tuple(Constant(each.text) for each in sources.streams)
        for alias in known:
            inside = Membership(Attribute("stream", alias), names)
            found.append(Term(inside, frozenset({alias}), sources.at))
    for reference in partition.references if partition is not None else ():
        assert partition is not None
        name = partition_name(reference, text, known)
        pairs: dict[tuple[str, str], None] = {}
        for steps in branches:
            anchor = next(step.alias for step in steps if not step.negated)
            pairs |= {(anchor, step.alias): None for step in steps if step.alias != anchor}
        for one, two in pairs:
            same = Comparison("=", Attribute(name, one), Attribute(name, two))
            found.append(Term(same, frozenset({one, two}), reference.at))
    return found
