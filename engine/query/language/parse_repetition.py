"""From the grammar's rules of repetition, and of which matches are asked for, to their parts."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from engine.query.language import syntax as s
from engine.query.language.place import Span
from engine.query.language.repetition import (
    ContiguityClause,
    Everything,
    LimitClause,
    OftenNode,
    PartitionBy,
    SkipClause,
    StepIndex,
)


def at_of(token: Token) -> Span:
    """Where it stands."""
    assert token.start_pos is not None
    return token.start_pos, token.start_pos + len(token)


def over(first: Span, last: Span) -> Span:
    """From the one to the other."""
    return first[0], last[1]


@v_args(inline=True)
class RepetitionRules(Transformer[Token, Any]):
    """One method per rule, named after it."""

    def repeated_step(self, kind: s.Name, words: tuple[Token, ...], *rest: Any) -> s.StepNode:
        """``rest``: perhaps an alias, then perhaps what ``array`` and ``until`` give."""
        alias = next((each for each in rest if isinstance(each, s.Name)), None)
        until = next((each for each in rest if isinstance(each, s.Where)), None)
        words_at = over(at_of(words[0]), at_of(words[-1]))
        often = OftenNode(
            tuple(map(str, words)), words_at, () in rest, None if until is None else until.condition
        )
        at = over(kind.at, (alias or kind).at)
        depth = 0 if until is None else 1 + until.condition.depth
        return s.StepNode(kind, alias, at, depth, often)

    def named(self, group: s.GroupNode, alias: s.Name) -> s.GroupNode:
        return group._replace(alias=alias)

    def array(self) -> tuple[()]:
        return ()

    def until(self, condition: s.Node) -> s.Where:
        return s.Where(condition.at, condition)

    def returns(self, word: Token, *entries: s.Item | Everything) -> s.Returns:
        stars = [entry for entry in entries if isinstance(entry, Everything)]
        items = tuple(entry for entry in entries if isinstance(entry, s.Item))
        return s.Returns(at_of(word), items, stars[0] if stars else None)

    def everything(self, star: Token) -> Everything:
        return Everything(at_of(star))

    def partition(self, word: Token, *references: s.Reference) -> PartitionBy:
        return PartitionBy(at_of(word), references)

    def contiguity(self, words: Token) -> ContiguityClause:
        return ContiguityClause(at_of(words), words.lower().split()[-1])

    def skip(self, words: Token) -> SkipClause:
        return SkipClause(at_of(words), "last" if "last" in words.lower().split() else "next")

    def most(self, number: Token) -> LimitClause:
        return LimitClause(at_of(number), s.Number(str(number), None, at_of(number)))

    def index(self, *words: Token) -> StepIndex:
        at = over(at_of(words[0]), at_of(words[-1]))
        if words[0].type == "NUMBER":
            return StepIndex(None, 0, at)
        less = int(words[2]) if len(words) > 1 and words[2].isdecimal() else len(words) - 1
        return StepIndex(s.Name(str(words[0]), at_of(words[0])), less, at)
