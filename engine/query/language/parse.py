"""From the text of a query to its parts (``language.syntax``), by the grammar alone."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from engine.errors import UserError
from engine.query.language import syntax as s
from engine.query.language.grammar_tables import parser
from engine.query.language.mistakes import syntax_error
from engine.query.language.place import Span, refuse

MAX_QUERY_CHARS: Final = 65_536
MAX_DEPTH: Final = 100
"""Levels of nesting; bounds the recursion of everything that walks a condition."""


class _TooDeepError(Exception):
    """Raised inside the parser, which does not know the text."""

    def __init__(self, at: Span) -> None:
        super().__init__(at)
        self.at = at


def parse(text: str) -> s.Query:
    """Reads one query.

    Raises:
        UserError: not a query; the message has the line, a caret and what was expected.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise UserError(f"the query has {len(text)} characters; at most {MAX_QUERY_CHARS} are read")
    if not text.strip():
        raise UserError("the query is empty; it begins with EVENT, SELECT or EXPLAIN")
    try:
        tree = _parser().parse(text)
    except UnexpectedToken as error:
        raise syntax_error(text, error.token, set(error.accepts or error.expected)) from None
    except UnexpectedCharacters as error:
        place = error.pos_in_stream
        assert place is not None
        raise syntax_error(text, Token("", text[place], place), set(error.allowed)) from None
    except _TooDeepError as error:
        message = f"nested more than {MAX_DEPTH} levels deep"
        raise refuse(text, error.at, message, "a long sum counts one level per sign") from None
    assert isinstance(tree, s.EventQuery | s.SelectQuery | s.ExplainQuery)
    return tree


@cache
def _parser() -> Lark:
    return parser(_Build())


def _at(token: Token) -> Span:
    assert token.start_pos is not None
    return token.start_pos, token.start_pos + len(token)


def _over(first: Span, last: Span) -> Span:
    return first[0], last[1]


def _deeper(at: Span, *nodes: s.Node | s.PatternNode | s.TListNode) -> int:
    depth = 1 + max(node.depth for node in nodes)
    if depth > MAX_DEPTH:
        raise _TooDeepError(at)
    return depth


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """One method per rule of the grammar, named after it."""

    def explain(self, word: Token, inner: s.EventQuery | s.SelectQuery) -> s.ExplainQuery:
        return s.ExplainQuery(_at(word), inner)

    def event_query(self, _event: Token, pattern: Any, *clauses: s.Clause) -> s.EventQuery:
        return s.EventQuery(pattern, clauses)

    def select_query(self, select: Token, *rest: Any) -> s.SelectQuery:
        items = tuple(entry for entry in rest if isinstance(entry, s.Item))
        return s.SelectQuery(_at(select), items, rest[len(items) :])

    def group(self, op: Token, *rest: Any) -> s.GroupNode:
        parts = rest[0::2]
        relations = tuple(s.Relation(str(word).upper(), _at(word)) for word in rest[1::2])
        depth = _deeper(_at(op), *parts)
        return s.GroupNode(str(op).upper(), parts, relations, _at(op), depth)

    def iseq(self, op: Token, *rest: Any) -> s.IseqNode:
        kinds = s.EndpointChain | s.AllenNode | s.TListJunction
        restrictions = tuple(entry for entry in rest if isinstance(entry, kinds))
        parts = rest[len(restrictions) :]
        depth = _deeper(_at(op), *restrictions, *parts)
        return s.IseqNode(restrictions, parts, _at(op), depth)

    def one_of(self, *terms: s.TListNode) -> s.TListJunction:
        return self._restrictions("or", terms)

    def all_of(self, *terms: s.TListNode) -> s.TListJunction:
        return self._restrictions("and", terms)

    def _restrictions(self, op: str, terms: tuple[s.TListNode, ...]) -> s.TListJunction:
        at = _over(terms[0].at, terms[-1].at)
        return s.TListJunction(op, terms, at, _deeper(at, *terms))

    def endpoints(self, *rest: Any) -> s.EndpointChain:
        ends = rest[0::2]
        return s.EndpointChain(
            ends, tuple(str(op) for op in rest[1::2]), _over(ends[0].at, ends[-1].at)
        )

    def endpoint(self, step: s.Name, end: Token) -> s.Endpoint:
        return s.Endpoint(step, str(end).lower(), _over(step.at, _at(end)))

    def allen(self, left: s.Name, word: Token, right: s.Name) -> s.AllenNode:
        return s.AllenNode(left, str(word), right, _over(left.at, right.at))

    def negated(self, bang: Token, part: Any) -> s.NegatedNode:
        return s.NegatedNode(part, _at(bang), _deeper(_at(bang), part))

    def step(self, type_name: s.Name, alias: s.Name | None = None) -> s.StepNode:
        return s.StepNode(type_name, alias, _over(type_name.at, (alias or type_name).at))

    def where(self, word: Token, condition: s.Node) -> s.Where:
        return s.Where(_at(word), condition)

    def within(self, word: Token, duration: s.Duration) -> s.Within:
        return s.Within(_at(word), duration)

    def realtime(self, word: Token, number: Token) -> s.Realtime:
        return s.Realtime(_at(word), s.Number(str(number), None, _at(number)))

    def returns(self, word: Token, *items: s.Item) -> s.Returns:
        return s.Returns(_at(word), items)

    def item(self, value: s.Node, label: s.Name | None = None) -> s.Item:
        return s.Item(value, label)

    def from_(self, word: Token, *streams: s.Name) -> s.From:
        return s.From(_at(word), streams)

    def join(
        self, word: Token, left: s.Name, join: Token, right: s.Name, condition: s.Node
    ) -> s.Join:
        return s.Join(_at(word), left, right, condition, _at(join))

    def group_by(self, word: Token, *references: s.Reference) -> s.GroupBy:
        return s.GroupBy(_at(word), references)

    def having(self, word: Token, condition: s.Node) -> s.Having:
        return s.Having(_at(word), condition)

    def tumbling(self, word: Token, size: s.Duration, drift: Token | None = None) -> s.TimeWindow:
        return s.TimeWindow(_at(word), size, str(drift).lower() if drift else None)

    def sliding(
        self, word: Token, size: s.Duration, every: s.Duration, drift: Token | None = None
    ) -> s.TimeWindow:
        return s.TimeWindow(_at(word), size, str(drift).lower() if drift else None, every)

    def rows(self, word: Token, kind: Token, count: Token) -> s.OtherWindow:
        number = s.Number(str(count), None, _at(count))
        return s.OtherWindow(_at(word), "ROWS", _at(kind), (number,))

    def session(self, word: Token, kind: Token, gap: s.Duration) -> s.OtherWindow:
        return s.OtherWindow(_at(word), "SESSION", _at(kind), (gap,))

    def either(self, *terms: s.Node) -> s.Junction:
        return self._junction("or", terms)

    def both(self, *terms: s.Node) -> s.Junction:
        return self._junction("and", terms)

    def not_(self, word: Token, term: s.Node) -> s.Junction:
        at = _over(_at(word), term.at)
        return s.Junction("not", (term,), at, _deeper(at, term))

    def _junction(self, op: str, terms: tuple[s.Node, ...]) -> s.Junction:
        at = _over(terms[0].at, terms[-1].at)
        return s.Junction(op, terms, at, _deeper(at, *terms))

    def compare(self, left: s.Node, op: Token, right: s.Node) -> s.Binary:
        at = _over(left.at, right.at)
        word = {"==": "=", "<>": "!="}.get(str(op), str(op))
        return s.Binary(word, left, right, at, _deeper(at, left, right))

    def among(self, item: s.Node, *options: s.Node) -> s.Among:
        at = _over(item.at, options[-1].at)
        return s.Among(item, options, at, _deeper(at, item, *options))

    def not_among(self, item: s.Node, _not: Token, *options: s.Node) -> s.Junction:
        inside = self.among(item, *options)
        return s.Junction("not", (inside,), inside.at, _deeper(inside.at, inside))

    def arithmetic(self, left: s.Node, op: Token, right: s.Node) -> s.Binary:
        at = _over(left.at, right.at)
        return s.Binary(str(op), left, right, at, _deeper(at, left, right))

    def negative(self, minus: Token, term: s.Node) -> s.Negative:
        at = _over(_at(minus), term.at)
        return s.Negative(term, at, _deeper(at, term))

    def number(self, value: Token, unit: Token | None = None) -> s.Number:
        if unit is None:
            return s.Number(str(value), None, _at(value))
        at = _over(_at(value), _at(unit))
        return s.Number(str(value), s.Name(str(unit), _at(unit)), at)

    def duration(self, *rest: Any) -> s.Duration:
        number = rest[-1]
        first = _at(rest[0]) if len(rest) > 1 else number.at
        return s.Duration(number, len(rest) > 1, _over(first, number.at))

    def text(self, value: Token) -> s.Literal:
        return s.Literal(str(value)[1:-1].replace("''", "'"), _at(value))

    def truth(self, value: Token) -> s.Literal:
        return s.Literal(str(value).lower() == "true", _at(value))

    def call(self, function: Token, *rest: Any) -> s.Call:
        star = bool(rest) and isinstance(rest[0], Token)
        arguments = () if star else rest
        at = _over(_at(function), rest[-1].at if arguments else _at(function))
        name = s.Name(str(function), _at(function))
        return s.Call(name, arguments, star, at, _deeper(at, *arguments) if arguments else 0)

    def reference(self, *parts: s.Name) -> s.Reference:
        return s.Reference(parts, _over(parts[0].at, parts[-1].at))

    def name(self, word: Token) -> s.Name:
        if word.type != "QUOTED":
            return s.Name(str(word), _at(word))
        mark = word[0]
        return s.Name(str(word)[1:-1].replace(mark * 2, mark), _at(word), quoted=True)

    member = name
