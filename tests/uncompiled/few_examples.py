"""A plugin of pytest: property tests try few examples, as uncompiled kernels are slow."""

from __future__ import annotations

import pytest

from tests.fewer_examples import try_fewer

FEW = 12


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try_fewer(items, lambda named: min(FEW, named))
