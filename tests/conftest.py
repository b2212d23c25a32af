"""Which worker runs a test, and how many examples a property tries.

``make test`` tries the same examples on every machine (Hypothesis's ``derandomize``), as many as a
test's ``max_examples`` names; ``make fuzz`` (profile ``fuzz``) draws fresh ones, round after round.
No example has a deadline: the first call of a kernel loads or compiles it. Hypothesis draws
constants of loaded modules too, so each worker loads all of ours first: else examples would depend
on which tests ran before.

Tests of one folder run in one worker, as they load the same kernels. So do all tests that start
Spark: a JVM fills a machine. These begin first, as they take longest. Slow tests run one by one.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
from collections import Counter
from typing import Final

import pytest
from hypothesis import settings

import slackwater

SPARK: Final = "spark"
settings.register_profile(
    "slackwater", max_examples=50, deadline=None, derandomize=True, database=None
)
settings.register_profile("fuzz", deadline=None, database=None, print_blob=True)
settings.load_profile("slackwater")
os.environ.setdefault("SLACKWATER_COMPILED", "1")  # what tests try is what many events get


class ByPackage:
    """Refuses our folders by the names that only a checkout's root gives them."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name in {"edge_agent", "engine", "scenarios", "simulator"}:
            raise ModuleNotFoundError(f"say slackwater.{name}", name=name)


def pytest_configure(config: pytest.Config) -> None:
    sys.meta_path.insert(0, ByPackage)
    if not hasattr(config, "workerinput"):  # a single test, run by hand, begins sooner
        return
    for found in pkgutil.walk_packages(slackwater.__path__, "slackwater."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    gc.freeze()  # modules stay: a tenth of compiling was looking for garbage among them
    gc.set_threshold(50_000)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = {}
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker("slow")
        groups[item] = group = _group(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    sizes = Counter(groups.values())
    sizes[SPARK], sizes[None] = len(items), 1
    items.sort(key=lambda item: (-sizes[groups[item]], -_declared_seconds(item)))


def _declared_seconds(item: pytest.Item) -> float:
    """A test's own time limit: a long test must not be the last to begin."""
    limit = item.get_closest_marker("timeout")
    return float(limit.args[0]) if limit is not None and limit.args else 0.0


def _group(item: pytest.Item) -> str | None:
    """Tests that one worker runs; None: any worker may run this one alone."""
    own = item.get_closest_marker("xdist_group")
    if own is not None:
        return str(own.args[0])
    if item.get_closest_marker("spark"):
        return SPARK
    if item.get_closest_marker("slow"):
        return None
    return item.path.parent.relative_to(item.config.rootpath).as_posix()
