"""Results at a terminal: a table with what differs, nothing that a terminal would obey."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from engine.cli.terminal.result_table import ROWS_SHOWN, show_results

ROOT = Path(__file__).resolve().parents[2]
WINDOW = {
    "op": "+", "query": "q1", "site": "main", "at": 4, "window": {"start": 0, "end": 20},
    "key": {"type": "A"}, "value": {"count(*)": 1}, "low": {"count(*)": 1},
    "middle": {"count(*)": 1}, "high": {"count(*)": 2}, "certain": 1, "ambiguous": 0,
    "missing": 0, "bounds": {"count(*)": [1, 1]},
}  # fmt: skip
EVENT = {"site": "main", "source": "s0", "seq": 3, "type": "A\x1b[31m", "ts": 5, "attrs": {}}


def shown(tmp_path: Path, *records: dict[str, Any]) -> str:
    lines = tmp_path / "shown.jsonl"
    lines.write_text("".join(json.dumps(each) + "\n" for each in records))
    out = io.StringIO()
    show_results(lines, Console(file=out, width=200))
    return out.getvalue()


def test_a_window_shows_keys_values_and_what_differs(tmp_path: Path) -> None:
    header, row = (shown(tmp_path, WINDOW).splitlines()[place] for place in (1, 3))
    words = header.replace("┃", " ").split()
    assert words == ["op", "at", "start", "end", "type", "count(*)", "high.count(*)", "certain",
                     "ambiguous", "missing"]  # fmt: skip
    assert row.replace("│", " ").split() == ["+", "4", "0", "20", "A", "1", "2", "1", "0", "0"]


def test_a_match_shows_its_events_and_no_escape_code_gets_through(tmp_path: Path) -> None:
    text = shown(tmp_path, {"op": "+", "at": 7, "events": [EVENT, EVENT | {"type": "B"}]})
    assert "s0#3 @5, B s0#3 @5" in text
    assert "\x1b" not in text


def test_many_results_are_counted(tmp_path: Path) -> None:
    text = shown(tmp_path, *({"op": "+", "at": at} for at in range(ROWS_SHOWN + 1234)))
    assert "... and 1,234 more; --out FILE keeps all of them" in text
    assert "no results" in shown(tmp_path)


def test_a_terminal_gets_a_table_and_a_pipe_json(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"type": "A", "ts": 1}\n')
    code = "from engine.cli import main; main()"
    command = [sys.executable, "-c", code, "order", "--input", "t.jsonl", "--quiet"]
    given: dict[str, Any] = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
    piped = subprocess.run(command, **given, capture_output=True, check=True)
    assert json.loads(piped.stdout)["type"] == "A"
    master, terminal = pty.openpty()
    subprocess.run(command, **given, stdout=terminal, check=True)
    assert "┃" in os.read(master, 65536).decode()
    for end in (master, terminal):
        os.close(end)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]
