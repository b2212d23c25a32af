"""Ctrl-C: one line, what it leaves, and how to go on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.passes.pipeline import Host

ROOT = Path(__file__).resolve().parents[2]
CODE = "import sys; from engine.cli import main; main()"


def heeds_interrupts() -> None:
    """As at a terminal: what a shell starts in the background, tests too, ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def at_work(folder: Path) -> int:
    """The open pipe's end for writing, as soon as the command reads from it."""
    for _ in range(600):
        try:
            return os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
            time.sleep(0.1)
    raise AssertionError("the command never opened its input")


def simulating(folder: Path) -> None:
    """Returns as soon as the command writes its log beside the pipe."""
    for _ in range(600):
        if len(list(folder.iterdir())) > 1:
            return
        time.sleep(0.1)
    raise AssertionError("the command never began its log")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("order", "--input", "pipe"),
        ("query", "EVENT SEQ(A a) WITHIN 1 s", "--input", "pipe", "--out", "o.jsonl"),
        ("run", "soccer", "--set", "duration=1h", "--out", "r"),
    ],
)
def test_one_line_and_nothing_left(arguments: tuple[str, ...], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes: reading it waits
    begun = subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=heeds_interrupts,  # noqa: PLW1509 - it takes no lock
    )  # fmt: skip
    writer = at_work(tmp_path) if "pipe" in arguments else simulating(tmp_path)
    begun.send_signal(signal.SIGINT)
    out, err = begun.communicate(timeout=120)
    assert (begun.returncode, out) == (130, "")
    assert err == "slackwater: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    if writer is not None:
        os.close(writer)


def test_a_run_whose_log_is_made_says_how_to_go_on(
    cli: Any, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Host, "run", interrupted)
    ran = cli("run", "soccer", "--in-process", "--set", "duration=50ms", "--out", "r", "--quiet")
    assert ran.code == 130
    assert ran.err == "slackwater: interrupted; the same command with --resume goes on\n"
    assert (here / "r" / "manifest.json").exists()
    (here / "t.jsonl").write_text('{"type": "A", "ts": 1}\n')
    ran = cli("order", "--input", "t.jsonl", "--spark", "--work", "w")
    assert ran.err == "slackwater: interrupted; the same command goes on\n"
