"""The command's process ends at once, but not before all that is to be done at its end is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, os, sys, threading, time
from engine import cli

def later():
    time.sleep(0.2)
    print("a thread", flush=True)

def main():
    atexit.register(print, "what was to be done at the end")
    threading.Thread(target=later).start()
    print("an answer that waits in the buffer")
    {ends}

cli.main = main
sys.stdout.reconfigure(line_buffering=False)
cli.program()
"""


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(2)", 2),
        ("sys.exit('said')", 1),
        ("raise KeyError('a fault of ours')", 1),
        ("os.fork() or os._exit(7); os.wait(); sys.exit(3)", 3),
    ],
)
def test_threads_and_what_was_registered_come_first(ends: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ends=ends)], capture_output=True, text=True,
        cwd=Path(__file__).resolve().parents[2], check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == code
    assert sorted(done.stdout.splitlines()) == [
        "a thread", "an answer that waits in the buffer", "what was to be done at the end",
    ]  # fmt: skip
    assert ("a fault of ours" in done.stderr) == ("KeyError" in ends)


def test_a_child_that_was_forked_ends_in_its_own_way() -> None:
    ends = """pid = os.fork()
    if not pid: raise SystemExit(9)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])); sys.exit(4)"""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ends=ends)], capture_output=True, text=True,
        cwd=Path(__file__).resolve().parents[2], check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 4
    assert "9" in done.stdout.splitlines()
