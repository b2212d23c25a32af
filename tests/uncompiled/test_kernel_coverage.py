"""Uncompiled, tests of orders, windows, patterns and barriers run nearly all lines of kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.uncompiled.kernel_lines import ROOT, kernel_files, kernels

TESTS = (
    "tests/cascade/test_worlds.py",
    "tests/check",
    "tests/constraint",
    "tests/interval",
    "tests/join",
    "tests/window",
    "tests/barrier/test_adaptive_twin.py",
    "tests/barrier/test_promise_book.py",
    "tests/grouping/test_golden.py",
    "tests/grouping/test_any_order.py",
    "tests/order/test_aq_kslack.py",
    "tests/order/test_source_clocks.py",
    "tests/order/test_duplicates.py",
    "tests/order/test_kslack.py",
    "tests/order/test_promise_proof.py",
    "tests/order/test_quantile_timeout.py::test_whatever_the_waits_are_the_twin_learns_the_same",
    "tests/order/test_sequence_against_twin.py",
    "tests/order/test_sequence_golden.py",
    "tests/order/test_sources_come_and_go.py",
    "tests/pattern/test_barriers.py",
    "tests/pattern/test_groups.py",
    "tests/pattern/test_join_programs.py",
    "tests/pattern/repetition",
    "tests/pattern/test_pattern_probability.py",
    "tests/pattern/test_promises_and_purges.py",
    "tests/pattern/test_spill.py",
    "tests/pattern/test_seq.py",
    "tests/pattern/test_stacks.py",
    "tests/pattern/test_time_predicates.py",
    "tests/report/test_report_measures.py",
)
LONG = (
    "permutation", "every_arrival_order", "every_interleaving", "million", "endless", "straggler",
    "windows_are_covered", "any_cut_gives", "alpha_falls", "every_pair_of_extreme_values",
    "taken_back_repeats", "long_streams", "stays_flat", "memory_is_bounded", "wrap_at_16",
    "does_not_grow", "may_become_fractions", "panes_and_nodes",
    "panes_are_forgotten", "pandas", "state_on_disk", "late_events_and_any_cut",
    "what_memory_does_not", "chunks_of_that_time", "traces_that_are_over",
    "what_an_open_trace_takes",
)  # fmt: skip
"""In the names of tests of many events or of all cases."""
SHARE = 0.9


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_nine_tenths_of_the_lines_of_kernels_are_run(tmp_path: Path) -> None:
    data = tmp_path / "coverage"
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [
            sys.executable, "-m", "coverage", "run", f"--data-file={data}",
            f"--include={','.join(map(str, kernel_files()))}", "-m", "pytest", "-q",
            "-m", "not slow", "-p", "no:cacheprovider", "-o", "timeout=0",
            "-p", "tests.uncompiled.few_examples", "-k", f"not ({' or '.join(LONG)})", *TESTS,
        ],
        cwd=ROOT, env=environ | {"SLACKWATER_UNCOMPILED": "1"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = kernels(data)
    lines, missing = (sum(len(each[place]) for each in found) for place in (2, 3))
    share = 1 - missing / lines
    told = [f"{share:.1%} of {lines} lines of {len(found)} kernels"]
    for each in sorted(found, key=lambda each: -len(each.missing))[:20]:
        if each.missing:
            told.append(f"{each.place} {each.name}: not run {each.missing}")
    print("", *told, sep="\n")
    assert share >= SHARE, "\n".join(told)
