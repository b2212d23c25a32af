"""What to do about a value of one kind where one of another is wanted: the remedies in messages."""

from __future__ import annotations

from engine.query.fields import ValueKind
from engine.query.plan import Constant, Expression


def to_compare(first: ValueKind, second: ValueKind, *values: Expression) -> str:
    """Of two values that are compared, or chosen among; ``values``: what they are, if known."""
    kinds = {first, second}
    texts = [each.value for each in values if isinstance(each, Constant)]
    if ValueKind.TRUTH in kinds:
        return "a truth value is compared with TRUE or FALSE"
    for text in texts:
        if isinstance(text, str) and _is_number(text):
            return f"a number stands without quotes: {text}"
    if ValueKind.TIME in kinds:
        return "a time is compared with other times and with durations, such as ts and 5 s"
    for number in texts:
        if not isinstance(number, str):
            return f"text stands in single quotes: '{number}'"
    return "compare text with text, and numbers with numbers"


def to_take(kind: ValueKind, wanted: set[ValueKind], value: Expression | None = None) -> str:
    """Of a value that a function or an operator takes."""
    if ValueKind.TEXT in wanted:
        if isinstance(value, Constant):
            return f"text stands in single quotes: '{value.value}'"
        return "it takes attributes that are text, such as source or type"
    if kind == ValueKind.TRUTH:
        return "CASE WHEN ... THEN 1 ELSE 0 END makes a number of it"
    if isinstance(value, Constant) and _is_number(str(value.value)):
        return f"a number stands without quotes: {value.value}"
    if kind == ValueKind.TEXT:
        return "name an attribute that is a number; length(...) is one of a text"
    return "name an attribute that is a number"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
