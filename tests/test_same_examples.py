"""`make test` tries the same examples in every checkout, with xdist or without: half of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
DRAWS = """
import json
import pytest
from hypothesis import given, settings, strategies as st

DRAWN = []

@pytest.mark.parametrize("name", ["a", "b@c"])
@given(n=st.integers())
@settings(max_examples=40)
def test_draws(name, n):
    DRAWN.append((name, n))

def test_tells(request):
    folder = request.config.rootpath
    (folder / "drawn.json").write_text(json.dumps(DRAWN))
"""
INI = "[pytest]\nmarkers = slow deep spark\npythonpath = .\n"


@pytest.mark.parametrize("options", [(), ("-n", "1", "--dist", "loadgroup")])
def test_examples_are_those_of_any_other_checkout(options: tuple[str, ...], tmp_path: Path) -> None:
    drawn = []
    for name, how in (("here", ()), ("there", options)):
        tests = tmp_path / name / "tests" / "of"
        tests.mkdir(parents=True)
        for ours in ("conftest.py", "fewer_examples.py"):
            (tests.parent / ours).write_text((TESTS / ours).read_text())
        (tests / "test_draws.py").write_text(DRAWS)
        (tmp_path / name / "pytest.ini").write_text(INI)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *how]
        known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
        ran = subprocess.run(
            command, cwd=tmp_path / name, env=known, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        drawn.append(json.loads((tmp_path / name / "drawn.json").read_text()))
    assert drawn[0] == drawn[1]
    of_a, of_b = ([n for name, n in drawn[0] if name == one] for one in ("a", "b@c"))
    assert len(of_a) == len(of_b) == 20
    assert of_a != of_b
