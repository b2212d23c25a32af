"""Property tests with fewer examples than they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import settings


def try_fewer(items: Iterable[pytest.Item], number: Callable[[int], int]) -> None:
    """Each property among ``items`` tries ``number`` of as many examples as it names.

    Not the first of those: how many there are to be tells Hypothesis how small to begin.
    """
    done = set()
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        own = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public way
        if own is not None and test not in done:
            done.add(test)  # once, however many parameters it has
            fewer = number(own.max_examples)
            test._hypothesis_internal_use_settings = settings(own, max_examples=fewer)
