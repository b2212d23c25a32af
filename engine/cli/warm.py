"""``slackwater warm`` compiles in advance what most commands use, so that these answer at once.

Its two halves run small commands: each order, windows and patterns over events with late ones, lost
ones and uncertain clocks, and a scenario. Each finished kernel prints a line. Kernels that were not
used for 30 days are removed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Final

from slackwater.engine.cli.terminal import watched
from slackwater.engine.core.errors import SlackwaterError
from slackwater.engine.kernels.jit import cache_directory, when_ready

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
"""Two halves, which are compiled in parallel on two cores."""
TASTE: Final = (
    ("order", "--order", "sequence:timeout=fixed:10"),
    ("query", "EVENT SEQ(A a, B b, C c) WITHIN 30"),
)
"""The README's query, on events only: frames without some columns have other array types."""


SCENARIOS: Final = (
    ("run", "bookstore", "--in-process", "--set", "duration=3h"),
    ("run", "soccer", "--in-process", "--set", "duration=200ms"),
)
KERNELS: Final = 77
"""Number of kernels, with the extra sim; those of both halves count twice."""


def records() -> Iterator[dict[str, Any]]:
    """A trace of two sources: late events, a lost one, and a clock known to within 4 ns.

    It is longer than what passes before kernels are loaded (``engine.hosts.pipeline``).
    """
    yield {"kind": "sync", "source": "s1", "offset": 1, "delay": 8, "arrival": 1}
    for seq in (*range(20), 22, 21, *range(24, 200)):
        for source in ("s0", "s1"):
            yield {
                "source": source, "seq": seq, "ts": 10 * seq, "type": "ABC"[seq % 3],
                "arrival": 10 * max(seq, 22 if seq == 21 else 0) + 5, "attrs": {"k": seq % 2},
            }  # fmt: skip
    yield {"kind": "pog", "source": "s0", "ts": 2000, "arrival": 2000}


def compile_ahead(*, quiet: bool) -> None:
    """Compile both halves in parallel, each in its own process.

    Raises:
        SlackwaterError: one of them failed; quotes the end of its output.
    """
    reads, writes = os.pipe()
    with (
        tempfile.TemporaryFile("w+") as said,
        watched("compiling", quiet=quiet, unit="kernels", total=KERNELS) as advanced,
    ):
        programs = [
            subprocess.Popen(  # noqa: S603 - this program
                [sys.executable, "-c", "from slackwater.engine.cli import main; main()",
                 "warm", "--half", of],
                env=os.environ | {"SLACKWATER_COMPILED": "1"}, stdout=writes, stderr=said,
            )
            for of in COMMANDS
        ]  # fmt: skip
        os.close(writes)
        with os.fdopen(reads) as ready:
            for _ in ready:
                advanced(1)
        codes = [program.wait() for program in programs]
        if any(codes):
            said.seek(0)
            raise SlackwaterError(f"compiling ahead failed: {said.read()[-500:].strip()}")
    kept = cache_directory()
    if kept is not None:
        _remove_old(kept)
        shutil.rmtree(kept.with_name("numba"), ignore_errors=True)  # cache of earlier versions


def compile_half(half: str, run: Callable[[Sequence[str]], int]) -> None:
    """Run the commands of a half over the trace; a failure ends with its exit code.

    Args:
        half: a key of ``COMMANDS``.
        run: runs one command, as ``engine.cli.app.run``.
    """
    when_ready.append(partial(print, "ready", file=sys.stdout, flush=True))
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
        whole, bare = Path(folder, "trace.jsonl"), Path(folder, "bare.jsonl")
        of_events = [
            {name: record[name] for name in ("type", "seq", "ts")}
            for record in records()
            if record.get("source") == "s0" and "type" in record
        ]
        for trace, content in ((whole, records()), (bare, of_events)):
            trace.write_text("\n".join(map(json.dumps, content)) + "\n", encoding="utf-8")
        command_lines = [[*each, "--input", str(whole)] for each in COMMANDS[half]]
        if half == "patterns":
            command_lines += [[*each, "--input", str(bare)] for each in TASTE]
            command_lines += (
                map(list, SCENARIOS) if find_spec("simpy") and find_spec("plotly") else ()
            )
        elif find_spec("plotly"):
            command_lines.append(["compare", "--input", str(whole)])
        for place, command in enumerate(command_lines):
            name = f"{place}.jsonl" if command[0] in ("query", "order") else f"{place}"
            with redirect_stdout(StringIO()):
                code = run([*command, "--out", str(Path(folder, name)), "--quiet"])
            if code:
                sys.exit(code)


def _remove_old(folder: Path) -> None:
    """Remove kernels that no process has read for long; they are compiled again if needed."""
    oldest = time.time() - _KEPT_SECONDS
    for kernel in folder.iterdir() if folder.is_dir() else ():
        used = kernel / "lock"  # reading the kernel updates its time
        if (used if used.exists() else kernel).stat().st_mtime < oldest:
            shutil.rmtree(kernel, ignore_errors=True)
