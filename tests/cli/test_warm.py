"""What the README's commands need compiled: nothing for its events, what setup did for more."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.terminal.watch import COMPILING

ROOT = Path(__file__).resolve().parents[2]


def taste() -> str:
    """The README's commands."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## A taste\n.*?```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def ran(command: str, folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", command], check=True, capture_output=True, text=True, cwd=folder,
        env=os.environ | {"SLACKWATER_CACHE": str(cache), "PATH": path},
    )  # fmt: skip


def kernels(cache: Path) -> set[Path]:
    return {file for file in cache.rglob("*") if file.suffix in {".nbi", ".nbc"}}


@pytest.mark.slow
def test_the_readme_compiles_nothing_on_a_new_machine(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = ran(taste(), tmp_path / "here", cache)
    assert done.stdout.count("\n") == 5  # four events in order, one match
    assert COMPILING.strip() not in done.stderr
    assert not kernels(cache)


@pytest.mark.deep
def test_after_setup_many_events_compile_nothing_either(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "here"
    ran(f"cd {ROOT} && {sys.executable} -m engine.cli.warm", folder, cache)
    warmed = kernels(cache)
    assert warmed
    events = [{"type": "ACDB"[n % 4], "ts": 10 * n, "seq": n} for n in range(300)]
    (folder / "trace.jsonl").write_text("\n".join(map(json.dumps, events)) + "\n")
    commands = re.findall(r"^slackwater (?:order|query) .*$", taste(), re.MULTILINE)
    assert len(commands) == 2
    done = ran("\n".join(commands), folder, cache)
    assert done.stdout.count("\n") > 300
    assert COMPILING.strip() not in done.stderr
    assert kernels(cache) == warmed
