"""Checks that EVENT and SELECT queries share: clauses given twice, and what is not built yet."""

from __future__ import annotations

from typing import TypeVar

from engine.errors import UserError
from engine.query.language import syntax as s
from engine.query.language.place import Span, refuse

C = TypeVar("C", bound=s.Clause)


def only(clauses: tuple[s.Clause, ...], kind: type[C], text: str) -> C | None:
    """The one clause of ``kind``, if there is one.

    Raises:
        UserError: there are two.
    """
    found = [clause for clause in clauses if isinstance(clause, kind)]
    if len(found) > 1:
        word = " ".join(text[found[1].at[0] : found[1].at[1]].upper().split())
        hint = "join the conditions with AND" if kind is s.Where else "keep one of them"
        raise refuse(text, found[1].at, f"{word} is given twice", hint)
    return found[0] if found else None


def unsupported(text: str, at: Span, what: str) -> UserError:
    """The error for what the grammar reads and no operator of this version does."""
    return refuse(text, at, f"{what} is not supported by this version")
