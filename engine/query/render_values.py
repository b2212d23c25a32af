"""Values and conditions of a plan as text, as the language reads them back."""

from __future__ import annotations

import re
from typing import Final

from edge_agent.units import NS_PER
from engine.errors import ContractViolation
from engine.query.check_plan import RESULT, Lookup
from engine.query.fields import OWN
from engine.query.language.mistakes import RESERVED
from engine.query.looked_up import LookedUp
from engine.query.plan import (
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
from engine.query.repeat_plan import BEFORE, COUNT, EACH, step_and_role
from engine.stream.frame import ATTR_PREFIX

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that are no names in some places; quoted everywhere, so that no reader has to know where.
_SOFT: Final = frozenset({
    "seq", "pal", "iseq", "before", "after", "contain", "during", "overlap", "meet", "start",
    "finish", "equal", "meets", "overlaps", "starts", "contains", "finishes", "equals", "join",
    "tumbling", "drift", "each", "together", "sliding", "every",
    "rows", "session", "inner", "left", "right", "full", "outer", "anti", "history", "check",
    "hold", "drop", OWN,
})  # fmt: skip


def render_duration(duration_ns: int) -> str:
    """``5 s`` for 5_000_000_000, ``90 min`` for an hour and a half."""
    for unit, length in reversed(NS_PER.items()):
        if duration_ns % length == 0:
            return f"{duration_ns // length} {unit}"
    raise ContractViolation(f"{duration_ns!r} is not a whole number of ns")


def render_predicate(predicate: Predicate) -> str:
    """The text of one condition; AND, OR and NOT inside AND and OR in parentheses."""
    match predicate:
        case Comparison(op=op, left=left, right=right):
            return f"{render_expression(left)} {op} {render_expression(right)}"
        case Membership(item=item, options=options):
            listed = ", ".join(render_expression(option) for option in options)
            return f"{render_expression(item)} IN ({listed})"
        case Presence(item=item):
            return f"{render_expression(item)} IS NOT NULL"
        case Likeness(item=item, pattern=pattern, regular=regular):
            value, text = render_expression(item), render_expression(Constant(pattern))
            return f"regexp_like({value}, {text})" if regular else f"{value} LIKE {text}"
        case Logic(op="not", terms=(Presence(item=item),)):
            return f"{render_expression(item)} IS NULL"
        case Logic(op="not", terms=(term,)):
            return f"NOT ({render_predicate(term)})"
        case Logic(op=op, terms=terms):
            return f" {op.upper()} ".join(render_term(term) for term in terms)


def render_expression(expression: Expression, tightness: int = 0) -> str:
    """The text of one value, in parentheses if it binds less tightly than ``tightness``."""
    match expression:
        case Constant(value=bool() as truth):
            return "TRUE" if truth else "FALSE"
        case Constant(value=str() as text):
            return "'" + text.replace("'", "''") + "'"
        case Constant(value=number):
            return repr(number)
        case Attribute():
            return render_attribute(expression)
        case Arithmetic(op=op, left=left, right=right):
            own = 1 if op in "+-" else 2
            # Operators of one rank group to the left.
            first, second = render_expression(left, own), render_expression(right, own + 1)
            text = f"{first} {op} {second}"
            return f"({text})" if own < tightness else text
        case FunctionCall(function=function, arguments=arguments):
            return f"{function}({', '.join(map(render_expression, arguments))})"
        case Case(whens=whens, otherwise=otherwise):
            cases = [f"WHEN {render_predicate(w)} THEN {_or_null(then)}" for w, then in whens]
            return f"CASE {' '.join(cases)} ELSE {_or_null(otherwise)} END"


def _or_null(expression: Expression | None) -> str:
    return "NULL" if expression is None else render_expression(expression)


def quote(name: str) -> str:
    """``name`` as the grammar reads it back: plain where it can be."""
    if _PLAIN.fullmatch(name) and name.lower() not in RESERVED | _SOFT:
        return name
    return '"' + name.replace('"', '""') + '"'


def render_attribute(attribute: Attribute) -> str:
    """``a.v``, ``a[i].v``, ``first(a.v)``, ``v``."""
    if isinstance(attribute, LookedUp):
        return render_lookup(attribute.lookup)
    if attribute.alias == RESULT:
        return attribute.name
    name = attribute.name
    own = name.startswith(ATTR_PREFIX)
    text = f"{OWN}.{quote(name.removeprefix(ATTR_PREFIX))}" if own else quote(name)
    if attribute.alias is None:
        return text
    alias, role = step_and_role(attribute.alias)
    if role == COUNT:
        return f"count({quote(alias)})"
    if role in {EACH, BEFORE}:
        return f"{quote(alias)}[{'i' if role == EACH else 'i - 1'}].{text}"
    return f"{role}({quote(alias)}.{text})" if role else f"{quote(alias)}.{text}"


def render_lookup(lookup: Lookup) -> str:
    """``past_count(other, 1 h)``."""
    other = "" if lookup.query is None else f"{quote(lookup.query)}, "
    return f"{lookup.function}({other}{render_duration(lookup.within_ns)})"


def render_term(term: Predicate) -> str:
    """A condition beside others; an AND or OR in parentheses."""
    text = render_predicate(term)
    return f"({text})" if isinstance(term, Logic) and term.op != "not" else text


def render_conjunct(predicate: Predicate) -> str:
    """As ``render_term``, except that an AND joins the AND around it."""
    inner = isinstance(predicate, Logic) and predicate.op == "and"
    return render_predicate(predicate) if inner else render_term(predicate)
