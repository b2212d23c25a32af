"""The texts that join predicates name, and the order of all texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine.query.fields import parts_of
from engine.query.plan import Constant, Expression, Membership, Predicate
from engine.stream.released import Strings


def awaits_text(predicates: Iterable[Predicate], strings: Strings) -> bool:
    """Whether ``predicates`` name a text that is not yet in ``strings``."""
    return any(strings.find(text) < 0 for text in text_constants(predicates))


def text_constants(predicates: Iterable[Predicate]) -> tuple[str, ...]:
    """The texts that ``predicates`` name, each once, for ``text_ranks``."""
    constants = (each.value for predicate in predicates for each in _constants_in(predicate))
    return tuple(dict.fromkeys(value for value in constants if isinstance(value, str)))


def text_ranks(strings: Strings, constants: Sequence[str]) -> np.ndarray:
    """Places of texts in the order of their code points; equal texts have equal places.

    To be made again when ``strings`` has grown.

    Args:
        strings: the string table.
        constants: of ``text_constants``.

    Returns:
        int64, of texts and constants: by code; the constants' from the end backwards.
    """
    texts = [*strings.texts, *reversed(constants)]
    place = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([place[text] for text in texts], np.int64)


def _constants_in(node: Expression | Predicate | None) -> Iterator[Constant]:
    if isinstance(node, Constant):
        yield node
    if isinstance(node, Membership):
        yield from node.options
    for part in parts_of(node):
        yield from _constants_in(part)
