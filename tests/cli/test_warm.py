"""What ``make setup`` compiles ahead is all that the README's first commands need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.watch import COMPILING

ROOT = Path(__file__).resolve().parents[2]


def taste() -> str:
    """The README's commands."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## A taste\n.*?```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.slow  # all kernels are compiled: minutes
@pytest.mark.timeout(1500)
def test_the_readme_compiles_nothing(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "here"
    folder.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = os.environ | {"SLACKWATER_CACHE": str(cache), "PATH": path}
    subprocess.run([sys.executable, "-m", "engine.cli.warm"], check=True, cwd=ROOT, env=settings)
    warmed = {file for file in cache.rglob("*") if file.is_file()}
    assert warmed
    ran = subprocess.run(
        ["bash", "-e", "-c", taste()],
        check=True, capture_output=True, text=True, cwd=folder, env=settings,
    )  # fmt: skip
    assert ran.stdout.count("\n") == 5  # four events in order, one match
    assert COMPILING.strip() not in ran.stderr
    assert {file for file in cache.rglob("*") if file.is_file()} == warmed
