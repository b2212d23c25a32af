"""Parse the text of a query into its syntax tree (``language.syntax``) by the grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import lark
from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from slackwater.engine.cache_home import own_cache
from slackwater.engine.core.errors import UserError
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import Span, check_length, refuse, syntax_error


def at_of(token: Token) -> Span:
    """Return the token's place in the text."""
    assert token.start_pos is not None
    return token.start_pos, token.start_pos + len(token)


def over(first: Span, last: Span) -> Span:
    """Return the range from the start of ``first`` to the end of ``last``."""
    return first[0], last[1]


_GRAMMAR: Final = Path(__file__).with_name("grammar.lark")
MAX_DEPTH: Final = 100
"""Most levels of nesting; bounds the recursion of functions that walk a condition."""


class _TooDeepError(Exception):
    """Raised inside the parser, which does not have the text for a message."""

    def __init__(self, at: Span) -> None:
        super().__init__(at)
        self.at = at


def parse(text: str) -> s.Query:
    """Parse one query.

    Raises:
        UserError: the text does not parse; the message has line, caret and what is expected.
    """
    check_length(text)
    if not text.strip():
        raise UserError("the query is empty; it begins with EVENT, SELECT or EXPLAIN")
    try:
        tree: Any = _parser().parse(text)
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
    """Build the parser (0.35 s, once per process) or load it from the user's cache."""
    folder = own_cache()
    return Lark(
        _GRAMMAR.read_text(encoding="utf-8"), parser="lalr", lexer="contextual",
        maybe_placeholders=False, transformer=_Build(),
        cache=False if folder is None else str(folder / f"grammar-{lark.__version__}.pickle"),
    )  # fmt: skip


def _deeper(at: Span, *nodes: s.Node | s.PatternNode | s.TListNode | s.TraceNode) -> int:
    depth = 1 + max(node.depth for node in nodes)
    if depth > MAX_DEPTH:
        raise _TooDeepError(at)
    return depth


def _operation(op: str, *parts: Any, at: Span | None = None) -> s.Operation[Any]:
    """``at``: the place in the text, if it is wider than that of ``parts``."""
    at = at or over(parts[0].at, parts[-1].at)
    return s.Operation(op, parts, at, _deeper(at, *parts))


def _number(word: Token) -> s.Number:
    """Return a number without a unit."""
    return s.Number(str(word), None, at_of(word))


def _node(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule that builds ``kind``; a keyword becomes its place, a number a node."""
    return lambda _self, *parts: kind(*map(_read, parts))


def _read(part: Any) -> Any:
    if not isinstance(part, Token):
        return part
    return _number(part) if part.type == "NUMBER" else at_of(part)


def _clause_of_all(kind: Callable[[Span, Any], s.Clause]) -> Callable[..., s.Clause]:
    """Return the rule for a keyword and the parts after it."""
    return lambda _self, word, *parts: kind(at_of(word), parts)


def _selection(entries: Sequence[s.Item | s.Everything]) -> tuple[tuple[s.Item, ...], Any]:
    """Return the items of SELECT or RETURN, and ``*`` if it is among them."""
    stars = [entry for entry in entries if isinstance(entry, s.Everything)]
    return tuple(entry for entry in entries if isinstance(entry, s.Item)), next(iter(stars), None)


@v_args(inline=True)
class _Build(Transformer[Token, Any]):
    """One method per rule of the grammar, named after it."""

    def repeated_step(self, kind: s.Name, words: tuple[Token, ...], *rest: Any) -> s.StepNode:
        """``rest``: an optional alias, then the results of ``array`` and ``until``, if any."""
        alias = next((each for each in rest if isinstance(each, s.Name)), None)
        until = next((each for each in rest if isinstance(each, s.Where)), None)
        words_at = over(at_of(words[0]), at_of(words[-1]))
        often = s.OftenNode(
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

    def returns(self, word: Token, *entries: s.Item | s.Everything) -> s.Returns:
        return s.Returns(at_of(word), *_selection(entries))

    def contiguity(self, words: Token) -> s.ContiguityClause:
        return s.ContiguityClause(at_of(words), words.lower().split()[-1])

    def skip(self, words: Token) -> s.SkipClause:
        return s.SkipClause(at_of(words), "last" if "last" in words.lower().split() else "next")

    def most(self, number: Token) -> s.LimitClause:
        return s.LimitClause(at_of(number), _number(number))

    def lookup(self, word: Token, table: s.Name, *rest: Any) -> s.LookupClause:
        *alias, on = rest
        return s.LookupClause(at_of(word), table, alias[0] if alias else None, on)

    def index(self, *words: Token) -> s.StepIndex:
        at = over(at_of(words[0]), at_of(words[-1]))
        if words[0].type == "NUMBER":
            return s.StepIndex(None, 0, at)
        less = s.whole(words[2]) if len(words) > 2 else len(words) - 1
        return s.StepIndex(s.Name(str(words[0]), at_of(words[0])), less, at)

    def event_query(self, _event: Token, pattern: Any, *clauses: s.Clause) -> s.EventQuery:
        return s.EventQuery(pattern, clauses)

    def select_query(self, select: Token, *rest: Any) -> s.SelectQuery:
        entries = [entry for entry in rest if isinstance(entry, s.Item | s.Everything)]
        return s.SelectQuery(at_of(select), *_selection(entries), rest[len(entries) :])

    def group(self, op: Token, *rest: Any) -> s.GroupNode:
        return self._group(str(op).upper(), at_of(op), rest)

    def composite(self, *rest: Any) -> s.GroupNode:
        return self._group("SEQ", over(rest[0].at, rest[-1].at), rest)

    def _group(self, op: str, at: Span, rest: tuple[Any, ...]) -> s.GroupNode:
        """Build a group; insert the comma that Z10 omits before a negated part."""
        parts, links = [rest[0]], list[s.Relation]()
        for entry in rest[1:]:
            if isinstance(entry, Token):
                links.append(s.Relation(",", at_of(entry)))
            elif isinstance(entry, s.Relation):
                links.append(entry)
            else:
                if len(links) < len(parts):
                    links.append(s.Relation(",", entry.at))
                parts.append(entry)
        return s.GroupNode(op, tuple(parts), tuple(links), at, _deeper(at, *parts))

    def relation(self, word: Token, *counts: Token) -> s.Relation:
        return s.Relation(str(word).upper(), at_of(word), tuple(map(_number, counts)))

    def iseq(self, op: Token, *rest: Any) -> s.IseqNode:
        kinds = s.StepNode | s.NegatedNode | s.GroupNode | s.IseqNode
        parts = tuple(entry for entry in rest if isinstance(entry, kinds))
        restrictions = rest[: -len(parts)]
        depth = _deeper(at_of(op), *restrictions, *parts)
        return s.IseqNode(restrictions, parts, at_of(op), depth)

    def endpoints(self, *rest: Any) -> s.EndpointChain:
        ends = rest[0::2]
        return s.EndpointChain(
            ends, tuple(str(op) for op in rest[1::2]), over(ends[0].at, ends[-1].at)
        )

    def endpoint(self, step: s.Name, end: Token) -> s.Endpoint:
        return s.Endpoint(step, str(end).lower(), over(step.at, at_of(end)))

    def allen(self, left: s.Name, word: Token, right: s.Name) -> s.AllenNode:
        return s.AllenNode(left, str(word), right, over(left.at, right.at))

    def negated(self, bang: Token, part: Any) -> s.NegatedNode:
        return s.NegatedNode(part, at_of(bang), _deeper(at_of(bang), part))

    def step(self, type_name: s.Name, alias: s.Name | None = None) -> s.StepNode:
        return s.StepNode(type_name, alias, over(type_name.at, (alias or type_name).at))

    explain, everything, item = _node(s.ExplainQuery), _node(s.Everything), _node(s.Item)
    where, having, within = _node(s.Where), _node(s.Having), _node(s.Within)
    realtime, source = _node(s.Realtime), _node(s.JoinSide)
    rows, session = _node(s.CountWindow), _node(s.SessionWindow)
    group_by, partition = _clause_of_all(s.GroupBy), _clause_of_all(s.PartitionBy)
    history_by = _clause_of_all(s.HistoryBy)

    def check(self, word: Token, name: s.Name, condition: s.Node, *rest: Any) -> s.CheckNode:
        hold = next((each for each in rest if isinstance(each, s.Duration)), None)
        return s.CheckNode(at_of(word), name, condition, hold, len(rest) > (hold is not None))

    def under(self, word: Token, name: s.Name, trace: s.Reference, *rest: Any) -> s.Under:
        *timeout, expression = rest
        duration, zone = (*timeout, None, None)[:2]
        return s.Under(at_of(word), name, trace, duration, zone, expression)

    def occurrence(self, event_type: s.Name, where: s.Node | None = None) -> s.OccurrenceNode:
        at = event_type.at if where is None else over(event_type.at, where.at)
        return s.OccurrenceNode(event_type, where, at, 0 if where is None else _deeper(at, where))

    def choice(self, *rest: Any) -> s.Operation[s.TraceNode]:
        return _operation(str(rest[1]), *rest[0::2])

    interleaving = chain = choice

    def times(self, *words: Any) -> tuple[Any, ...]:
        return words

    join_kind = when = times

    def repetition(self, part: s.TraceNode, words: tuple[Token, ...]) -> s.RepetitionNode:
        at = over(part.at, at_of(words[-1]))
        written = tuple(str(word) for word in words)
        return s.RepetitionNode(part, written, over(at_of(words[0]), at), at, _deeper(at, part))

    def from_(self, word: Token, *streams: s.Name) -> s.From:
        return s.From(at_of(word), streams, (None,) * len(streams))

    def reads(self, word: Token, *sides: s.JoinSide) -> s.From:
        return s.From(at_of(word), *zip(*sides, strict=True))

    def on(self, condition: s.Node) -> s.Node:
        return condition

    def join(
        self, word: Token, left: s.JoinSide, words: tuple[Token, ...], right: s.JoinSide,
        condition: s.Node | None = None,
    ) -> s.Join:  # fmt: skip
        named = {str(each).lower() for each in words}
        kind = next((each for each in ("anti", "left", "right", "full") if each in named), "inner")
        kind_at = over(at_of(words[0]), at_of(words[-1]))
        return s.Join(at_of(word), left, kind, kind_at, right, condition)

    def ranked(self, node: s.Node, word: Token | None = None) -> s.Ranked:
        return s.Ranked(node, word is not None and word.type == "DESC")

    def order_by(self, word: Token, *rest: Any) -> s.OrderBy:
        return s.OrderBy(at_of(word), rest[:-1], _number(rest[-1]))

    def tumbling(self, word: Token, size: s.Duration, *rest: Any) -> s.TimeWindow:
        """``rest``: optionally the slide, the zone, and the use of drift."""
        every = next((each for each in rest if isinstance(each, s.Duration)), None)
        zone = next((each for each in rest if isinstance(each, s.Literal)), None)
        drift = next((str(each).lower() for each in rest if isinstance(each, Token)), None)
        return s.TimeWindow(at_of(word), size, drift, every, zone)

    sliding = tumbling

    def emit(self, word: Token, when: Token | s.Duration) -> s.EmitClause:
        if isinstance(when, s.Duration):
            return s.EmitClause(at_of(word), "early", when)
        return s.EmitClause(at_of(word), str(when).lower(), None)

    def emit_limit(
        self, word: Token, most: Token, every: s.Duration, *values: s.Node
    ) -> s.EmitLimitClause:
        return s.EmitLimitClause(at_of(word), _number(most), every, values)

    def either(self, *terms: Any) -> s.Operation[Any]:
        return _operation("or", *terms)

    def both(self, *terms: Any) -> s.Operation[Any]:
        return _operation("and", *terms)

    one_of, all_of = either, both

    def not_(self, word: Token, term: s.Node) -> s.Operation[s.Node]:
        return _operation("not", term, at=over(at_of(word), term.at))

    def compare(self, left: s.Node, op: Token, right: s.Node) -> s.Operation[s.Node]:
        return _operation({"==": "=", "<>": "!="}.get(str(op), str(op)), left, right)

    def among(self, item: s.Node, *options: s.Node) -> s.Operation[s.Node]:
        return _operation("in", item, *options)

    def not_among(self, item: s.Node, _not: Token, *options: s.Node) -> s.Operation[s.Node]:
        return _operation("not", self.among(item, *options))

    def between(self, item: s.Node, *rest: Any) -> s.Operation[s.Node]:
        """Build two comparisons; ``rest``: optionally NOT, then the lower and upper bounds."""
        *negated, low, high = rest
        inside = self.both(_operation(">=", item, low), _operation("<=", item, high))
        return self.not_(negated[0], inside) if negated else inside

    def like(self, item: s.Node, *rest: Token) -> s.Operation[s.Node]:
        *negated, pattern = rest
        inside = _operation("like", item, self.text(pattern))
        return self.not_(negated[0], inside) if negated else inside

    def is_null(self, item: s.Node, *rest: Token) -> s.Operation[s.Node]:
        *negated, null = rest
        inside = _operation("is null", item, at=over(item.at, at_of(null)))
        return self.not_(negated[0], inside) if negated else inside

    def null(self, word: Token) -> s.Literal:
        return s.Literal(None, at_of(word))

    def case(self, word: Token, *rest: Any) -> s.Operation[s.Node]:
        """``rest``: an optional operand, the pairs of WHEN, an optional ELSE, and END."""
        *parts, end = rest
        operand = parts.pop(0) if type(parts[0]) is not tuple else None
        otherwise = parts.pop() if type(parts[-1]) is not tuple else s.Literal(None, at_of(end))
        pairs = [
            (when if operand is None else _operation("=", operand, when, at=when.at), then)
            for when, then in parts
        ]
        inside = [node for pair in pairs for node in pair]
        return _operation("case", *inside, otherwise, at=over(at_of(word), at_of(end)))

    def arithmetic(self, left: s.Node, op: Token, right: s.Node) -> s.Operation[s.Node]:
        return _operation(str(op), left, right)

    def negative(self, minus: Token, term: s.Node) -> s.Operation[s.Node]:
        return _operation("-", term, at=over(at_of(minus), term.at))

    def number(self, value: Token, *rest: Token) -> s.Number:
        if not rest:
            return _number(value)
        words = (value, *rest)
        first, *more = (
            s.Number(str(number), s.Name(str(unit), at_of(unit)), over(at_of(number), at_of(unit)))
            for number, unit in zip(words[::2], words[1::2], strict=True)
        )
        return first._replace(at=over(first.at, at_of(rest[-1])), more=tuple(more))

    def duration(self, *rest: Any) -> s.Duration:
        number = rest[-1]
        first = at_of(rest[0]) if len(rest) > 1 else number.at
        return s.Duration(number, len(rest) > 1, over(first, number.at))

    def text(self, value: Token) -> s.Literal:
        return s.Literal(str(value)[1:-1].replace("''", "'"), at_of(value))

    zone = text

    def truth(self, value: Token) -> s.Literal:
        return s.Literal(str(value).lower() == "true", at_of(value))

    def call(self, function: Token, *rest: Any) -> s.Call:
        star = bool(rest) and isinstance(rest[0], Token) and rest[0].type == "STAR"
        distinct = bool(rest) and isinstance(rest[0], Token) and not star
        arguments = () if star else rest[distinct:]
        at = over(at_of(function), rest[-1].at if arguments else at_of(function))
        name = s.Name(str(function), at_of(function))
        depth = _deeper(at, *arguments) if arguments else 0
        return s.Call(name, arguments, star, at, depth, distinct)

    def reference(self, *rest: s.Name | s.StepIndex) -> s.Reference:
        parts = tuple(each for each in rest if isinstance(each, s.Name))
        index = next((each for each in rest if isinstance(each, s.StepIndex)), None)
        return s.Reference(parts, over(rest[0].at, rest[-1].at), step_index=index)

    def name(self, word: Token) -> s.Name:
        if word.type != "QUOTED":
            return s.Name(str(word), at_of(word))
        mark = word[0]
        return s.Name(str(word)[1:-1].replace(mark * 2, mark), at_of(word), quoted=True)

    member = name
