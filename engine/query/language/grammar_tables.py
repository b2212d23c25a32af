"""The parser's tables, kept as MessagePack: to make them takes longer than many a query.

A file per state of the grammar, as versions that take turns would else make each other's anew.
Lark's own cache is a pickle, which runs what is in it. These are plain data of the grammar that
they name; anything else there is made anew.
"""

from __future__ import annotations

import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import lark
import msgspec
from lark import Lark, Token, Transformer
from lark.grammar import Rule
from lark.lexer import TerminalDef

from engine.cache_home import own_bytes, own_cache
from engine.query.language.lexer import StateLexer

_PLUGINS: Final = {"ContextualLexer": StateLexer}
_GRAMMAR: Final = Path(__file__).with_name("grammar.lark")


def parser(transformer: Transformer[Token, Any]) -> Lark:
    """The parser of the query language, which hands what it reads to ``transformer``."""
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    state = _digest(f"{lark.__version__}\n{grammar}".encode())
    folder = own_cache()
    path = None if folder is None else folder / f"grammar-{state}.msgpack"
    kept = None if path is None else _kept(path, state)
    if kept is not None:
        data, memo = kept
        loaded: Lark = Lark._load_from_dict(  # type: ignore[no-untyped-call]  # noqa: SLF001
            data, memo, transformer=transformer, _plugins=_PLUGINS
        )
        return loaded
    made = Lark(
        grammar, parser="lalr", lexer="contextual", maybe_placeholders=False,
        transformer=transformer, _plugins=_PLUGINS,
    )  # fmt: skip
    if path is not None:
        _keep(path, state, made)
    return made


def _kept(path: Path, state: str) -> tuple[dict[str, Any], dict[int, Any]] | None:
    """Tables of the grammar of that ``state``, if they are whole."""
    content = own_bytes(path)
    if content is None:
        return None
    head, _, tables = content.partition(b"\n")
    if head.decode(errors="replace") != f"{state} {_digest(tables)}":
        return None
    data, memo = msgspec.msgpack.decode(tables)
    return data, memo


def _keep(path: Path, state: str, made: Lark) -> None:
    data, memo = made.memo_serialize([TerminalDef, Rule])
    data["options"] = {**data["options"], "transformer": None, "_plugins": {}}
    tables = msgspec.msgpack.encode([data, memo])
    try:
        # A name of its own: commands that start at once may all be making them.
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(f"{state} {_digest(tables)}\n".encode() + tables)
        Path(file.name).replace(path)
    except OSError:
        return  # a disk that is full or read-only: they are made each time, as without a cache


def _digest(tables: bytes) -> str:
    return blake2b(tables, digest_size=16).hexdigest()
