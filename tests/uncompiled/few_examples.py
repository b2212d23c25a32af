"""A plugin of pytest: property tests try few examples, as uncompiled kernels are slow."""

from __future__ import annotations

import pytest
from hypothesis import settings

FEW = 12


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        own = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public way
        if own is not None:
            few = min(FEW, own.max_examples)
            test._hypothesis_internal_use_settings = settings(own, max_examples=few)
