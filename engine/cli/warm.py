"""Compiles ahead what most commands use, so that the first one answers at once (make setup).

Runs small commands in this process: each order, windows and patterns over events with late ones,
lost ones and uncertain clocks. Kernels that nobody has used for 30 days are removed.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from slackwater.engine.cli.app import run
from slackwater.engine.kernels.jit import cache_directory

_KEPT_SECONDS: Final = 30 * 24 * 3600
_PATTERN: Final = "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND c.k = a.k WITHIN 500"
_WINDOWS: Final = "SELECT count(*), avg(k), min(k), max(k) FROM events GROUP BY k WINDOW TUMBLING 5"
_DRIFT: Final = "SELECT count(*), avg(k) FROM events WINDOW TUMBLING 50 DRIFT together"
COMMANDS: Final = {
    "windows": (
        ("query", _WINDOWS, _DRIFT),
        ("query", _WINDOWS, _DRIFT, "--order", "none"),
        ("order", "--order", "kslack:5"),
    ),
    "patterns": (
        ("order",),
        ("order", "--order", "sequence:timeout=fixed:10"),
        ("query", _PATTERN),
        ("query", "EVENT SEQ(A a, B b) WITHIN 5", "--barrier", "punctuation"),
        ("query", _PATTERN, "--order", "none", "--barrier", "bounded:5"),
    ),
}
"""Two halves, which two cores can compile side by side."""
TASTE: Final = (
    ("order", "--order", "sequence:timeout=fixed:10"),
    ("query", "EVENT SEQ(A a, B b, C c) WITHIN 30"),
)
"""The README's, over events alone: columns that frames leave out are other arrays to a kernel."""


def records() -> Iterator[dict[str, Any]]:
    """A trace of two sources: late events, a lost one, a clock that is known to within 4 ns.

    More than pass before kernels are loaded (``engine.hosts.inprocess``).
    """
    yield {"kind": "sync", "source": "s1", "offset": 1, "delay": 8, "arrival": 1}
    for seq in (*range(20), 22, 21, *range(24, 200)):
        for source in ("s0", "s1"):
            yield {
                "source": source, "seq": seq, "ts": 10 * seq, "type": "ABC"[seq % 3],
                "arrival": 10 * max(seq, 22 if seq == 21 else 0) + 5, "attrs": {"k": seq % 2},
            }  # fmt: skip
    yield {"kind": "pog", "source": "s0", "ts": 2000, "arrival": 2000}


def main() -> None:
    """Runs the commands of the halves named (default: both) over the trace.

    What fails says why and ends with its exit code.
    """
    halves = sys.argv[1:] or list(COMMANDS)
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
        whole, bare = Path(folder, "trace.jsonl"), Path(folder, "bare.jsonl")
        of_events = [
            {name: record[name] for name in ("type", "seq", "ts")}
            for record in records()
            if record.get("source") == "s0" and "type" in record
        ]
        for trace, content in ((whole, records()), (bare, of_events)):
            trace.write_text("\n".join(map(json.dumps, content)) + "\n", encoding="utf-8")
        commands = [(each, whole) for half in halves for each in COMMANDS[half]]
        if "patterns" in halves:
            commands += [(each, bare) for each in TASTE]
        for command, trace in commands:
            out = str(Path(folder, "out.jsonl"))
            code = run([*command, "--input", str(trace), "--out", out, "--quiet"])
            if code:
                sys.exit(code)
    kept = cache_directory()
    if kept is not None:
        _remove_old(kept)
        shutil.rmtree(kept.with_name("numba"), ignore_errors=True)  # of earlier versions


def _remove_old(folder: Path) -> None:
    """Kernels that no process has read for long are removed; who needs one compiles it again."""
    oldest = time.time() - _KEPT_SECONDS
    for kernel in folder.iterdir() if folder.is_dir() else ():
        used = kernel / "lock"  # reading the kernel touches it
        if (used if used.exists() else kernel).stat().st_mtime < oldest:
            shutil.rmtree(kernel, ignore_errors=True)


if __name__ == "__main__":
    main()
