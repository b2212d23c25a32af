"""The texts that join predicates name, and the order of all texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine.query.plan import (
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)
from engine.stream.released import Strings


def awaits_text(predicates: Iterable[Predicate], strings: Strings) -> bool:
    """Whether ``predicates`` name a text that is not yet in ``strings``."""
    return any(
        isinstance(constant.value, str) and strings.find(constant.value) < 0
        for leaf in _leaves(predicates)
        for constant in _constants_in(leaf)
    )


def text_constants(predicates: Iterable[Predicate]) -> tuple[str, ...]:
    """The texts that ``predicates`` name, each once, for ``text_ranks``."""
    found = {
        constant.value: None
        for leaf in _leaves(predicates)
        for constant in _constants_in(leaf)
        if isinstance(constant.value, str)
    }
    return tuple(found)


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


def _leaves(predicates: Iterable[Predicate]) -> Iterator[Comparison | Membership]:
    for predicate in predicates:
        if isinstance(predicate, Logic):
            yield from _leaves(predicate.terms)
        else:
            yield predicate


def _constants_in(leaf: Comparison | Membership) -> Iterator[Constant]:
    stack: list[Expression] = (
        [leaf.left, leaf.right] if isinstance(leaf, Comparison) else [leaf.item, *leaf.options]
    )
    while stack:
        node = stack.pop()
        if isinstance(node, Constant):
            yield node
        elif not isinstance(node, Attribute):
            stack += [node.left, node.right]
