"""Uncompiled, the quick tests of what has kernels run nearly all lines of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.uncompiled.kernel_lines import ROOT, kernel_files, kernels

ROOMS = ("barrier", "cascade", "check", "constraint", "grouping", "interval", "join", "order",
         "pattern", "window")  # fmt: skip
LONG = (
    "permutation", "every_arrival_order", "every_interleaving", "million", "endless", "straggler",
    "any_cut_gives", "every_pair_of_extreme_values", "long_streams", "stays_flat",
    "memory_is_bounded", "does_not_grow", "panes_and_nodes", "panes_are_forgotten", "pandas",
    "state_on_disk", "traces_that_are_over", "what_an_open_trace_takes", "without_end",
    "six_times_as_long",
)  # fmt: skip
"""In the names of tests of many events or of all cases, which take minutes each as plain Python."""
SHARE = 0.9


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_nine_tenths_of_the_lines_of_kernels_are_run(tmp_path: Path) -> None:
    data = tmp_path / "coverage"
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [
            sys.executable, "-m", "coverage", "run", f"--data-file={data}",
            f"--include={','.join(map(str, kernel_files()))}", "-m", "pytest", "-q",
            "-m", "not slow and not spark", "-p", "no:cacheprovider",
            "-o", "timeout=0", "-o", "faulthandler_timeout=0",
            "-k", f"not ({' or '.join(LONG)})", *(f"tests/{room}" for room in ROOMS),
        ],
        cwd=ROOT, env=environ | {"SLACKWATER_UNCOMPILED": "1"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = kernels(data)
    lines, missing = (sum(len(each[place]) for each in found) for place in (2, 3))
    share = 1 - missing / lines
    reported = [f"{share:.1%} of {lines} lines of {len(found)} kernels"]
    for each in sorted(found, key=lambda each: -len(each.missing))[:20]:
        if each.missing:
            reported.append(f"{each.place} {each.name}: not run {each.missing}")
    print("", *reported, sep="\n")
    assert share >= SHARE, "\n".join(reported)
