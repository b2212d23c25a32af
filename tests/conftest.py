"""For all tests: those that start Spark run in one worker, and none has a deadline.

A JVM fills a machine, so one Spark after the other. And what is timed by Hypothesis may be the
first call of a kernel, which compiles or loads it.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("slackwater", deadline=None)
settings.load_profile("slackwater")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
