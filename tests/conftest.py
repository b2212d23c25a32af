"""For all tests: who runs them, and none has a deadline.

Those that start Spark run in one worker, and so do those of one folder (but the slow ones, which
are few and long): they compile the same kernels and share what their modules prepare, and two
workers side by side would do both twice.

``make test`` tries the same examples on every machine; ``make fuzz`` fresh ones (profile ``fuzz``).
A JVM fills a machine, so one Spark after the other. And what is timed by Hypothesis may be the
first call of a kernel, which compiles or loads it.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("slackwater", deadline=None, derandomize=True, database=None)
settings.register_profile("fuzz", deadline=None, database=None, print_blob=True)
settings.load_profile("slackwater")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif not any(item.get_closest_marker(name) for name in ("slow", "xdist_group")):
            item.add_marker(pytest.mark.xdist_group(str(item.path.parent)))
