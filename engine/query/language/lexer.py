"""Tokens of a query, each looked for among the terminals that its first character can begin.

Lark puts the terminals that a state of the parser allows into one regular expression per state. To
compile the twenty that a short query comes by takes longer than all the rest of reading it. Here a
terminal is compiled by itself, when a character that may begin it is met where it is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lark.lexer import BasicLexer, ContextualLexer, PatternStr, TerminalDef

if TYPE_CHECKING:
    from lark.common import LexerConf
    from lark.utils import TextSlice

_WORD: Final = re.compile(r"[a-z]+(?![a-z?*+{|])")
"""What a terminal that is a word of the language, in any case, begins with."""


class _OneByOne:
    """What stands at a place, of ``terminals``: the first of them to match, as of a union."""

    def __init__(self, terminals: Iterable[TerminalDef], flags: int) -> None:
        self.terminals = list(terminals)
        self.allowed_types = {terminal.name for terminal in self.terminals}
        self._flags = flags
        self._beginning: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def match(self, text: TextSlice[str], at: int) -> tuple[str, str] | None:
        """The text and the name of the terminal at ``at``."""
        first = text.text[at]
        found = self._beginning.get(first)
        if found is None:
            found = self._beginning[first] = [
                (terminal.name, re.compile(terminal.pattern.to_regexp(), self._flags))
                for terminal in self.terminals if may_begin(terminal, first)
            ]  # fmt: skip
        for name, pattern in found:
            matched = pattern.match(text.text, at, text.end)
            if matched is not None:
                return matched.group(), name
        return None


def may_begin(terminal: TerminalDef, first: str) -> bool:
    """Whether a text that begins with the character ``first`` may be the terminal.

    True of a regular expression that is no plain word, and of letters beyond ASCII, as some are
    ASCII ones in another case.
    """
    value, flags = terminal.pattern.value, terminal.pattern.flags
    if isinstance(terminal.pattern, PatternStr) and not flags:
        return value[0] == first
    alternatives = "|" in re.sub(r"\(.*\)", "", value)
    word = None if alternatives or not first.isascii() else _WORD.match(value)
    return word is None or value[0] == first.lower()


class _OfState(BasicLexer):
    """The tokens that one state of the parser allows, in the order in which Lark tries them."""

    def __init__(self, conf: LexerConf, names: Collection[str]) -> None:
        mine = copy(conf)
        mine.terminals = [terminal for terminal in conf.terminals if terminal.name in names]
        super().__init__(mine)
        self.callback = {}  # no terminal of a fixed text is a name, too
        self._scanner = _OneByOne(self.terminals, self.g_regex_flags)  # type: ignore[assignment]


class _Lexers(dict[int, _OfState]):
    """By the parser's state, each made when the parser first comes into it."""

    def __init__(self, conf: LexerConf, states: Mapping[int, Collection[str]]) -> None:
        super().__init__()
        self._conf, self._states = conf, states

    def __missing__(self, state: int) -> _OfState:
        found = self[state] = _OfState(self._conf, {*self._states[state], *self._conf.ignore})
        return found


class StateLexer(ContextualLexer):
    """As Lark's own, whose tokens and errors it gives."""

    def __init__(
        self, conf: LexerConf, states: Mapping[int, Collection[str]],
        always_accept: Collection[str] = (),
    ) -> None:  # fmt: skip
        assert not always_accept, "what comes behind the lexer asks for no token"
        assert not conf.callbacks
        self.lexers = _Lexers(conf, states)  # type: ignore[assignment] # values are invariant
        self._conf = conf

    @cached_property
    def root_lexer(self) -> _OfState:  # type: ignore[override]
        """Of all terminals, for errors alone: what is a word, but not here."""
        return _OfState(self._conf, self._conf.terminals_by_name)
