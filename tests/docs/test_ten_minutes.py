"""A new user's path, whole: from nothing to "is my shop good enough", as the tutorial has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, page_blocks, run

TEN_MINUTES = 600.0


@pytest.mark.deep
def test_two_commands_and_one_file_answer_in_ten_minutes(tmp_path: Path) -> None:
    (block,) = (
        each for each in page_blocks(ROOT / "docs" / "tutorial.md")
        if each.commands.startswith("slackwater new shop.toml")
    )  # fmt: skip
    assert len(block.commands.splitlines()) == 2
    began = time.monotonic()
    run(block, tmp_path)
    assert time.monotonic() - began < TEN_MINUTES
    assert {path.name for path in tmp_path.iterdir()} == {"shop.toml", "out"}
    report = json.loads((tmp_path / "out" / "shop" / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"]["holds"]
    bounds = {each["name"]: each["bound"] for each in report["kpis"] if each["bound"]}
    assert bounds["theft: detection_delay_p95"] == "<= 3 s"
    page = (tmp_path / "out" / "shop" / "report.html").read_text(encoding="utf-8")
    assert page.index("PASS") < page.index('class="tile holds"') < page.index('class="hero"')
    slow = [
        "--set",
        "engine.barrier=bounded:5s",
        "--out",
        "out/slow",
        "--against",
        "out/shop",
        "--quiet",
    ]
    tool = Path(sys.executable).parent / "slackwater"
    done = subprocess.run(
        [tool, "run", "shop.toml", "--in-process", *slow],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "theft: detection_delay_p95: " in done.stderr
    assert (tmp_path / "out" / "slow" / "against.html").exists()
