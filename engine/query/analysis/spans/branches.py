"""The plan of a pattern of intervals: a branch for each alternative of its ORs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from engine.query.analysis.spans.meaning import ContradictionError, meaning_of
from engine.query.analysis.spans.tree import TreePattern, leaves, renumbered
from engine.query.analysis.split import Term
from engine.query.fields import attributes_in
from engine.query.plan import Attribute, Computed, Group, SeqPlan, TreePlan

_OF_END = frozenset({"te", "raw_te"})
_OF_START = frozenset({"ts", "raw_ts", "ref"})


def bare_branches(name: str, pattern: TreePattern) -> list[SeqPlan]:
    """Per alternative of ``pattern`` its steps, and what the tree asks of them.

    Raises:
        UserError: an alternative has no positive step, or its relations exclude one another.
    """
    known, found = list(pattern.steps.values()), []
    for tree in pattern.trees():
        kept = sorted(leaves(tree))
        steps = tuple(known[place] for place in kept)
        rank = {place: number for number, place in enumerate(kept)}
        try:
            meaning = meaning_of(renumbered(tree, rank), steps)
        except ContradictionError as error:
            raise pattern.refuse(pattern.links[id(error.link)], str(error)) from None
        found.append(
            SeqPlan(
                name, pattern.text, steps, others=tuple(meaning.conditions),
                pattern=Group("AND", meaning.positive), relations=tuple(meaning.relations),
                scopes=tuple(meaning.scopes), starts=meaning.starts, ends=meaning.ends,
            )
        )  # fmt: skip
    return found


def _negated(branch: SeqPlan) -> list[str]:
    """A negated step counts by its start."""
    return [step.alias for step in branch.steps if step.negated]


def tree_plan(
    whole: SeqPlan, branches: tuple[SeqPlan, ...], pattern: TreePattern, terms: Sequence[Term],
    returned: tuple[tuple[Attribute, ...], tuple[Computed, ...]],
) -> TreePlan:  # fmt: skip
    """The plan of ``branches``.

    A step needs the whole of its interval if the query reads the half that may be lacking.
    """
    named = [attribute for term in terms for attribute in attributes_in(term.predicate)]
    named += returned[0]
    named += [each for one in returned[1] for each in attributes_in(one.expression)]
    needs_end = {attribute.alias for attribute in named if attribute.name in _OF_END}
    needs_start = {attribute.alias for attribute in named if attribute.name in _OF_START}
    branches = tuple(
        replace(
            branch,
            starts=tuple(
                alias for alias in (*branch.starts, *_negated(branch)) if alias not in needs_end
            ),
            ends=tuple(alias for alias in branch.ends if alias not in needs_start),
        )
        for branch in branches
    )
    known = {step.alias: step for branch in branches for step in branch.steps}
    places = tuple(place for place, alias in enumerate(pattern.steps) if alias in known)
    return TreePlan(
        whole.name, whole.text, branches, whole.realtime,
        tuple(known[alias] for alias in pattern.steps), Group("AND", places),
        tuple(term.predicate for term in terms), *returned, tree=pattern.root,
    )  # fmt: skip
