"""The slow twin of the parser: what the text of an EVENT query asks, by a reader of its own.

Only what tests ask: SEQ, AND, OR, negation, repetition, WHERE, WITHIN and the clauses of
repetition. It trusts the text, which the engine's parser reads as well. Durations are in ns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from tests.query.slow_expression import (
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Membership,
    Predicate,
    Presence,
)

WORD = re.compile(r"'(?:[^']|'')*'|\d+(?:\.\d+)?|\w+|<=|>=|!=|[^\s\w]")
OFTEN = {"*": (0, None), "+": (1, None), "?": (0, 1)}
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
OF_ALL = {"sum", "min", "max", "avg", "first", "last", "count"}
"""Functions of all events of a repeated step."""


@dataclass(frozen=True)
class Group:
    """SEQ, AND or OR; a part is a group or the alias of a step."""

    op: str
    parts: tuple[Part, ...]


Part = Group | str


@dataclass(frozen=True)
class Step:
    """An event of one of ``types``, or from ``least`` to ``most`` (None: any number) of them."""

    types: tuple[str, ...]
    negated: bool = False
    least: int = 1
    most: int | None = 1
    until: Predicate | None = None


@dataclass
class ReadQuery:
    """A query: its steps by alias in written order, and the conditions that all must hold."""

    steps: dict[str, Step] = field(default_factory=dict)
    pattern: Part = ""
    conditions: list[Predicate] = field(default_factory=list)
    within: int | None = None
    partition: tuple[str, ...] = ()
    contiguity: str = "ANY"
    skip: str = ""
    limit: int | None = None


def read_query(text: str) -> ReadQuery:
    """What ``text``, with or without EVENT, asks."""
    return _Reader(text).query()


def attributes_in(node: Any) -> Iterator[Attribute]:
    """Every attribute that an expression or condition names."""
    if isinstance(node, Attribute):
        yield node
    elif isinstance(node, tuple):
        for each in node:
            yield from attributes_in(each)
    elif is_dataclass(node):
        for each in fields(node):
            yield from attributes_in(getattr(node, each.name))


def step_and_role(alias: str | None) -> tuple[str, str]:
    """Of ``b``, ``b i-1`` (one of its events) or ``b sum`` (all): the step, and which."""
    step, _, role = str(alias).partition(" ")
    return step, role


class _Reader:
    def __init__(self, text: str) -> None:
        self.words = [*WORD.findall(text), ""]
        self.found = ReadQuery()

    def is_next(self, *wanted: str) -> bool:
        return self.words[0].upper() in wanted

    def take(self, *wanted: str) -> str:
        """The next word if it is one of these, else nothing."""
        return self.words.pop(0).upper() if self.is_next(*wanted) else ""

    def must(self, wanted: str) -> None:
        assert self.take(wanted), (wanted, self.words)

    def listed(self, read: Callable[[], Any]) -> tuple[Any, ...]:
        found = [read()]
        while self.take(","):
            found.append(read())
        return tuple(found)

    # ---- the query -----------------------------------------------------------------------------
    def query(self) -> ReadQuery:
        self.take("EVENT")
        (self.found.pattern,) = self.part(negated=False)
        while clause := self.take(
            "WHERE", "WITHIN", "PARTITION", "CONTIGUITY", "SKIP", "LIMIT", "RETURN"
        ):
            if clause == "RETURN":
                return self.found
            self.clause(clause)
        assert self.words == [""], self.words
        return self.found

    def clause(self, clause: str) -> None:
        found = self.found
        if clause == "WHERE":
            found.conditions = list(_conjuncts(self.either()))
        elif clause == "WITHIN":
            found.within = (
                int(self.words.pop(0)) * UNITS[(self.take("US", "MS", "S", "NS") or "NS").lower()]
            )
        elif clause == "PARTITION":
            self.must("BY")
            found.partition = self.listed(lambda: self.words.pop(0))
        elif clause == "CONTIGUITY":
            found.contiguity = self.words.pop(0).upper()
        elif clause == "SKIP":
            found.skip = "PAST LAST" if self.take("PAST") else "TO NEXT"
            while self.take("TO", "LAST", "NEXT", "EVENT"):
                pass
        else:
            found.limit = int(self.words.pop(0))

    def part(self, *, negated: bool) -> list[Part]:
        """A part of a group; several where alternatives must not occur."""
        negated = bool(self.take("!")) or negated
        word = self.words.pop(0)
        if not self.take("("):
            return [self.step((word,), negated=negated)]
        if word.upper() == "OR" and self.words[1] in {",", ")"}:  # OR(A, B) a: one step
            types = self.listed(lambda: self.words.pop(0))
            self.must(")")
            return [self.step(types, negated=negated)]
        parts = [each for some in self.listed(lambda: self.part(negated=negated)) for each in some]
        self.must(")")
        return parts if negated else [Group(word.upper(), tuple(parts))]

    def step(self, types: tuple[str, ...], *, negated: bool) -> str:
        least, most, until = 1, 1, None
        if self.is_next(*OFTEN):
            least, most = OFTEN[self.take(*OFTEN)]
        elif self.take("{"):
            least = most = int(self.words.pop(0))
            if self.take(","):
                most = None if self.is_next("}") else int(self.words.pop(0))
            self.must("}")
        alias = self.words.pop(0)
        if self.take("["):
            self.must("]")
        if self.take("UNTIL"):
            until = self.either()
        self.found.steps[alias] = Step(types, negated, least, most, until)
        return alias

    # ---- conditions and values: OR binds least -------------------------------------------------
    def either(self) -> Any:
        return self.joined("OR", self.both)

    def both(self) -> Any:
        return self.joined("AND", self.inverse)

    def joined(self, word: str, read: Callable[[], Any]) -> Any:
        terms = [read()]
        while self.take(word):
            terms.append(read())
        return terms[0] if len(terms) == 1 else Logic(word.lower(), tuple(terms))

    def inverse(self) -> Any:
        return Logic("not", (self.inverse(),)) if self.take("NOT") else self.comparison()

    def comparison(self) -> Any:
        left = self.sum()
        if op := self.take("=", "!=", "<", "<=", ">", ">="):
            return Comparison(op, left, self.sum())
        if self.take("IS"):
            there = bool(self.take("NOT"))
            self.must("NULL")
            return Presence(left) if there else Logic("not", (Presence(left),))
        untrue = bool(self.take("NOT"))
        found = left
        if self.take("BETWEEN"):
            low = self.sum()
            self.must("AND")
            found = Logic("and", (Comparison(">=", left, low), Comparison("<=", left, self.sum())))
        elif self.take("IN"):
            self.must("(")
            found = Membership(left, self.listed(self.sum))
            self.must(")")
        elif self.take("LIKE"):
            found = Likeness(left, self.words.pop(0)[1:-1], regular=False)
        return Logic("not", (found,)) if untrue else found

    def sum(self) -> Any:
        left = self.product()
        while op := self.take("+", "-"):
            left = Arithmetic(op, left, self.product())
        return left

    def product(self) -> Any:
        left = self.signed()
        while op := self.take("*", "/", "%"):
            left = Arithmetic(op, left, self.signed())
        return left

    def signed(self) -> Any:
        if not self.take("-"):
            return self.atom()
        inner = self.signed()
        if isinstance(inner, Constant) and not isinstance(inner.value, str):
            return Constant(-inner.value)
        return Arithmetic("-", Constant(0), inner)

    def atom(self) -> Any:
        if self.take("("):
            found = self.either()
            self.must(")")
            return found
        if self.take("CASE"):
            return self.case()
        word = self.words.pop(0)
        if word[0] == "'":
            return Constant(word[1:-1].replace("''", "'"))
        if word[0].isdigit():
            return Constant(float(word) if "." in word else int(word))
        if word.upper() in {"TRUE", "FALSE"}:
            return Constant(word.upper() == "TRUE")
        return self.call(word.lower()) if self.take("(") else self.attribute(word)

    def case(self) -> Case:
        whens: list[tuple[Predicate, Expression | None]] = []
        while self.take("WHEN"):
            when = self.either()
            self.must("THEN")
            whens.append((when, None if self.take("NULL") else self.either()))
        other = self.either() if self.take("ELSE") else None
        self.must("END")
        return Case(tuple(whens), other)

    def call(self, function: str) -> Any:
        arguments = self.listed(self.either)
        self.must(")")
        if function == "regexp_like":
            return Likeness(arguments[0], arguments[1].value, regular=True)
        if function not in OF_ALL:
            return FunctionCall(function, arguments)
        (of,) = arguments  # a step that is counted has been read as an attribute without a step
        return Attribute(of.name if of.alias else "count", f"{of.alias or of.name} {function}")

    def attribute(self, step: str) -> Attribute:
        role = ""
        if self.take("["):
            role = " "
            while not self.take("]"):
                role += self.words.pop(0)
        if self.take("."):
            return Attribute(self.words.pop(0), step + role)
        return Attribute(step)


def _conjuncts(node: Predicate) -> Iterator[Predicate]:
    if isinstance(node, Logic) and node.op == "and":
        for term in node.terms:
            yield from _conjuncts(term)
    else:
        yield node
