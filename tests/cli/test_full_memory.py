"""Memory that does not suffice: one line that says what can be less, and no traceback."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import app

EVENTS = 60_000
ROOM = 600 << 20
"""Bytes of addresses beyond what the program itself takes."""
LIMITED = f"""
import re, resource, sys
from pathlib import Path
import numpy, pyarrow.parquet
from engine.cli.app import run
size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + {ROOM}, resource.RLIM_INFINITY))
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_join_of_all_with_all_that_does_not_fit(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    with (tmp_path / "all.jsonl").open("w") as file:
        for n in range(EVENTS):
            record = {"source": "s", "seq": n, "ts": n, "type": "AB"[n % 2], "arrival": n}
            file.write(json.dumps(record) + "\n")
    query = f"EVENT SEQ(A a, B b) WITHIN {EVENTS}"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "query", query, "--input", "all.jsonl", "--quiet",
         "--time-unit", "ns", "--out", "found.jsonl"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("slackwater: out of memory")
    assert line.endswith("or --spill")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "said"), [(MemoryError(), ""), (MemoryError("8 GiB"), ": 8 GiB")]
)
def test_what_is_known_of_it_is_said(
    error: MemoryError,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_names: list[str]) -> None:
        raise error

    monkeypatch.setattr(app, "_application", full)
    assert app.run(["query"]) == 1
    assert capsys.readouterr().err.startswith(f"slackwater: out of memory{said}; ")
