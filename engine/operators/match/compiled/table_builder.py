"""The tables of a compiled query while they grow, and what predicates read of an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from slackwater.engine.kernels.records import NONE
from slackwater.engine.operators.match.compiled.records import RECORDS, Tables
from slackwater.engine.operators.match.compiled.relations import Related
from slackwater.engine.query.clocked import is_clocked
from slackwater.engine.query.fields import attributes_in, bare, parts_of
from slackwater.engine.query.plan import (
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Predicate,
    Presence,
    Step,
)

# What join predicates read of one event: attributes, and values that functions make of them.
#
# A function, a CASE or a LIKE of one event's attributes is evaluated once per event, on columns,
# and kept in a register of its own, as attributes are.


Read = str | FunctionCall | Case
"""An attribute's name, or a value of attributes without alias."""


def reads(node: Expression | Predicate | None) -> Iterator[Read]:
    """All that ``node`` reads, repeats included."""
    if isinstance(node, Attribute):
        yield node.name
    elif isinstance(node, Likeness):
        yield from reads(flag(node))
    elif isinstance(node, FunctionCall | Case) and len(aliases_of(node)) == 1:
        yield bare(node)
    else:
        written = chosen(node) if isinstance(node, FunctionCall) else None
        for part in parts_of(written or node):
            yield from reads(part)


def aliases_of(node: Expression) -> set[str | None]:
    """The events that ``node`` reads."""
    return {attribute.alias for attribute in attributes_in(node)}


def flag(node: Likeness) -> Case:
    """1 where ``node`` is true, 0 where it is false, else null."""
    false = Logic("not", (node,))
    return Case(((node, Constant(True)), (false, Constant(False))), None)


def chosen(node: FunctionCall) -> Case | None:
    """The CASE that a function of numbers is; None: it is none."""
    first, *_ = node.arguments
    *inner, last = node.arguments
    match node.function:
        case "abs":
            opposite = Comparison("<", first, Constant(0))
            return Case(((opposite, Arithmetic("-", Constant(0), first)),), first)
        case "coalesce":
            return Case(tuple((Presence(each), each) for each in inner), last)
        case "least" | "greatest":
            op = "<=" if node.function == "least" else ">="
            return Case(tuple((_best(each, node.arguments, op), each) for each in inner), last)
    return None


def _best(one: Expression, among: tuple[Expression, ...], op: str) -> Logic:
    """That ``one`` is there, and ``op`` all of the others that are."""
    beside = [
        Logic("or", (Logic("not", (Presence(other),)), Comparison(op, one, other)))
        for other in among
        if other is not one
    ]
    return Logic("and", (Presence(one), *beside))


# The tables of ``engine.operators.match.compiled.tables`` while they grow.


class Ranges(NamedTuple):
    """Of pairs of steps, and of their relations."""

    pairs: tuple[int, int]
    relations: tuple[int, int]


class Builder(Struct):
    """``steps``: by alias; ``rows``: by table."""

    steps: dict[str, Step]
    rows: dict[str, list[tuple[int, ...]]] = field(default_factory=lambda: {n: [] for n in RECORDS})
    registers: dict[Read, int] = field(default_factory=dict)
    keyed: dict[str, int] = field(default_factory=dict)
    predicates: list[Predicate] = field(default_factory=list)
    indexes: dict[tuple[int, tuple[str, ...], int], int] = field(default_factory=dict)

    def tables(self) -> Tables:
        """What has been added so far."""
        return Tables(**{name: np.array(self.rows[name], RECORDS[name]) for name in RECORDS})

    def add(self, table: str, more: Iterable[tuple[int, ...]]) -> tuple[int, int]:
        """Appends rows; gives their range."""
        rows = self.rows[table]
        start = len(rows)
        rows += more
        return start, len(rows)

    def pairs(self, step: int, related: dict[int, list[Related]]) -> Ranges:
        """How ``step`` is related to others: their range, and that of all their relations."""
        first, rows = len(self.rows["relations"]), []
        for other, relations in related.items():
            rows.append((step, other, *self.add("relations", relations)))
        return Ranges(self.add("pairs", rows), (first, len(self.rows["relations"])))

    def place(self, alias: str | None) -> int:
        return list(self.steps).index(str(alias))

    def key(self, name: str) -> int:
        """The register of an attribute that must be equal to others."""
        return self.keyed.setdefault(name, len(self.keyed))

    def condition(self, predicate: Predicate) -> tuple[int, int]:
        for read in reads(predicate):
            self.registers.setdefault(read, len(self.registers))
        if predicate not in self.predicates:
            self.predicates.append(predicate)
        return self.predicates.index(predicate), int(is_clocked(predicate))

    def known_index(self, step: int, own: Sequence[Attribute], by_end: int) -> int:
        """The number of an index, or NONE."""
        name = (step, tuple(attribute.name for attribute in own), by_end)
        return self.indexes.get(name, NONE)

    def index(self, step: int, own: Sequence[Attribute], by_end: int = 0) -> int:
        """The number of the index of ``step`` by its attributes ``own``."""
        name = (step, tuple(attribute.name for attribute in own), by_end)
        if name not in self.indexes:
            self.indexes[name] = len(self.indexes)
            registers = self.add("registers", [(self.key(a.name),) for a in own])
            self.add("indexes", [(step, *registers, by_end)])
        return self.indexes[name]


def exact_and_clocked(step: Step) -> tuple[list[Predicate], list[Predicate]]:
    """What is asked of the step's event alone, by whether clock errors change it."""
    where = step.where
    terms = where.terms if isinstance(where, Logic) and where.op == "and" else (where,)
    known = [term for term in terms if term is not None]
    return [t for t in known if not is_clocked(t)], [t for t in known if is_clocked(t)]
