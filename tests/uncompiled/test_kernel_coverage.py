"""Uncompiled, tests of orders, windows, patterns and barriers run nearly all lines of kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.uncompiled.kernel_lines import ROOT, kernel_files, kernels

TESTS = ()
SHARE = 0.9


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_nine_tenths_of_the_lines_of_kernels_are_run(tmp_path: Path) -> None:
    data = tmp_path / "coverage"
    done = subprocess.run(
        [
            sys.executable, "-m", "coverage", "run", f"--data-file={data}",
            f"--include={','.join(map(str, kernel_files()))}", "-m", "pytest", "-q", "-m", "not slow",
            "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "timeout=0",
            "-p", "tests.uncompiled.few_examples", *TESTS,
        ],
        cwd=ROOT, env=os.environ | {"SLACKWATER_UNCOMPILED": "1"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = kernels(data)
    lines, missing = (sum(len(each[place]) for each in found) for place in (2, 3))
    share = 1 - missing / lines
    told = [f"{share:.1%} of {lines} lines of {len(found)} kernels"]
    for each in sorted(found, key=lambda each: -len(each.missing))[:20]:
        if each.missing:
            told.append(f"{each.place} {each.name}: {len(each.missing)} of {len(each.lines)} not run: {each.missing}")
    print("", *told, sep="\n")
    assert share >= SHARE, "\n".join(told)
