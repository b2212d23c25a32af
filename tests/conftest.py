"""For all tests: who runs them, and none has a deadline.

Those that start Spark run in one worker, and so do those of one folder (but the slow ones, which
are few and long): they compile the same kernels and share what their modules prepare, and two
workers side by side would do both twice.

``make test`` tries the same examples on every machine, half as many as a test names; ``make fuzz``
(profile ``fuzz``) fresh ones, and all of them.
A JVM fills a machine, so one Spark after the other; they begin first, for together they take the
longest. And what is timed by Hypothesis may be the first call of a kernel, which compiles or loads
it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import Final

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.fewer_examples import try_fewer

_SPARK: Final = "spark"
ENOUGH: Final = 10
"""A test that names so many examples, or fewer, gets them: each is long."""
settings.register_profile("slackwater", deadline=None, derandomize=True, database=None)
settings.register_profile("fuzz", deadline=None, database=None, print_blob=True)
settings.load_profile("slackwater")


def pytest_sessionstart() -> None:
    """Hypothesis tries numbers and texts of the modules that are loaded, too: which those are hangs
    on what a worker did before, so they are left to ``make fuzz``.
    """
    if settings.default is not None and settings.default.derandomize:
        assert callable(providers._get_local_constants)  # no public way
        providers._get_local_constants = Constants


@pytest.hookimpl(wrapper=True, trylast=True)  # within Hypothesis's own
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Which examples a test with parameters gets, its name decides, where xdist has put its group:
    with the folder's path they were others in every checkout, and others than without xdist.
    """
    test = getattr(getattr(item, "obj", None), "hypothesis", None)
    inner = getattr(test, "inner_test", None)
    if hasattr(inner, "_hypothesis_internal_add_digest"):
        inner._hypothesis_internal_add_digest = _name_alone(item).encode()
    yield


def _name_alone(item: pytest.Item) -> str:
    """The test's name without its group."""
    groups = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
    return item.nodeid.removesuffix(f"@{'_'.join(sorted(groups))}")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker("slow")
    if settings.default is not None and settings.default.derandomize:
        quick = [item for item in items if not item.get_closest_marker("slow")]
        try_fewer(quick, lambda named: max(min(named, ENOUGH), named // 2))
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    sizes = Counter(groups.values())
    sizes[_SPARK], sizes[None] = len(items), 1
    items.sort(key=lambda item: (-sizes[groups[item]], -_may_take(item)))


def _may_take(item: pytest.Item) -> float:
    """Seconds, where a test says so: what is long and alone must not be the last to begin."""
    own = item.get_closest_marker("timeout")
    return float(own.args[0]) if own is not None and own.args else 0.0


def _group(item: pytest.Item) -> str | None:
    """Tests that one worker runs; None: it may be alone."""
    own = item.get_closest_marker("xdist_group")
    if own is not None:
        return str(own.args[0])
    if item.get_closest_marker("spark"):
        return _SPARK
    return (
        None
        if item.get_closest_marker("slow")
        else os.path.relpath(item.path.parent, item.config.rootpath)
    )
