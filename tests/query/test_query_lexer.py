"""The lexer of queries against Lark's own: the same trees, the same errors at the same places."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternRE, TerminalDef

from engine.query.language import grammar_tables
from engine.query.language.lexer import StateLexer, may_begin
from tests.hand_worked.cases import cases

HERE = Path(__file__).parent
GRAMMAR = Path(grammar_tables.__file__).with_name("grammar.lark").read_text("utf-8")
BOOKS = [HERE / "query_errors.txt", HERE / "habits_of_others.txt"]
WRONG = [
    entry.split("\n=>\n")[0] for book in BOOKS for entry in book.read_text("utf-8").split("\n\n")
]
TEXTS = sorted({*WRONG, *(case.query for case in cases())})
LONG_S, KELVIN, DOTTED_I = "\u017f", "\u212a", "\u0130"
SIGNS = sorted({*"".join(TEXTS), LONG_S, KELVIN, DOTTED_I, *"'\"`\n\t\x00_0"})
"""Among them letters that are s, k and i in another case."""


@cache
def lark(plugins: bool) -> Lark:
    more = {"_plugins": {"ContextualLexer": StateLexer}} if plugins else {}
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", maybe_placeholders=False, **more)


def read(text: str, *, plugins: bool) -> Any:
    """The tree with the places of its tokens, or what is wrong with the text, and where."""
    try:
        tree = lark(plugins).parse(text)
    except UnexpectedToken as error:
        token = error.token
        expected = sorted(error.accepts or error.expected)
        return token.type, str(token), token.start_pos, token.line, token.column, expected
    except UnexpectedCharacters as error:
        return error.pos_in_stream, error.line, error.column, sorted(error.allowed)
    tokens = [
        (token.type, str(token), token.start_pos, token.end_pos, token.end_line, token.end_column)
        for token in tree.scan_values(lambda value: hasattr(value, "start_pos"))
    ]
    return tree, tokens


def test_the_tree_or_the_error_is_larks() -> None:
    for text in TEXTS:
        assert read(text, plugins=True) == read(text, plugins=False), text


@given(st.sampled_from(TEXTS), st.data())
def test_so_it_is_of_what_was_mistyped(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        gone, come = data.draw(st.integers(0, 2)), data.draw(st.text(SIGNS, max_size=3))
        text = text[:at] + come + text[at + gone :]
    assert read(text, plugins=True) == read(text, plugins=False)


@given(st.lists(st.sampled_from(sorted({*" ".join(TEXTS).split()})), max_size=12).map(" ".join))
@example(f"{LONG_S}elect * FROM s")
@example("EVENT SEQ(A a) AFTER MATCH SKIP TO NEXT ROW")
def test_so_it_is_of_words_in_any_order(text: str) -> None:
    assert read(text, plugins=True) == read(text, plugins=False)


@pytest.mark.parametrize(
    ("regexp", "begins", "others"),
    [
        (r"event\b", "eE", "xX("), (r"group\s+by\b", "gG", "b"), (r"(after\s+)?skip\b", "aAsS", ""),
        (r"a|b", "aAbB", ""), (r"x?y", "xXyY", ""), (r"limit(?=\s|\))", "lL", "m"),
        (r"[^\W\d]\w*", "aZ", ""), (r"first\b", "fF", "g"),
    ],
)  # fmt: skip
def test_what_may_begin_a_terminal(regexp: str, begins: str, others: str) -> None:
    terminal = TerminalDef("T", PatternRE(regexp, ["i"]))
    assert all(may_begin(terminal, first) for first in begins)
    assert not any(may_begin(terminal, first) for first in others)
