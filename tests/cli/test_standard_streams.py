"""Standard streams that are closed, full or no longer read, as a shell or a supervisor gives them.

Exit codes stay 0, 1 and 2: Python's own 120, of a flush that fails as the process ends, is none.
"""

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

from slackwater.engine.hosts.pipeline import Host

ROOT = Path(__file__).resolve().parents[2]
LINES = '{"type": "A", "ts": 3}\n{"type": "B", "ts": 5}\n'
ORDER = "slackwater.engine.cli order --input trace.jsonl --order none --quiet"
AGENT = "slackwater.edge_agent --config agent.toml --dry-run"
CHECK = "slackwater.edge_agent check agent.toml"
SETTINGS = """
[agent]
source = "door"
token = "change-me"
[[stream]]
name = "events"
[[input]]
kind = "stdin"
"""
MAIN = {
    "slackwater.engine.cli": "import slackwater.engine.cli; slackwater.engine.cli.main()",
    "slackwater.edge_agent": (
        "import runpy; runpy.run_module('slackwater.edge_agent', run_name='__main__')"
    ),
    "slackwater": "import runpy; runpy.run_module('slackwater', run_name='__main__')",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "trace.jsonl").write_text(LINES)
    (tmp_path / "agent.toml").write_text(SETTINGS)
    return tmp_path


def ran(command: str, streams: str, place: Path) -> tuple[int, str, str]:
    """Exit code, standard output and error of ``command`` with the shell's ``streams``."""
    module, *arguments = command.split()
    # Buffered, as it is for people; tests may run without.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-c", MAIN[module], *arguments],
        capture_output=True, text=True, cwd=place, input=LINES, check=False, timeout=300,
        env=environment | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", [ORDER, AGENT, CHECK])
@pytest.mark.parametrize(
    ("streams", "said"),
    [(">&-", "is closed"), (">/dev/full", "No space left on device")],
)
def test_output_that_cannot_be_written_is_a_failure_that_is_reported(
    place: Path, command: str, streams: str, said: str
) -> None:
    code, _, reported = ran(command, streams, place)
    assert code == 1
    program = "slackwater" if command is ORDER else "slackwater agent"
    whole = f"{program}: standard output: {said}; send it to a file on a disk with space"
    assert whole in reported.splitlines()
    assert "Traceback" not in reported
    assert "Exception ignored" not in reported


@pytest.mark.parametrize(("command", "code"), [(ORDER, 0), (CHECK, 0), (f"{ORDER} --x", 2)])
def test_the_package_runs_as_the_command_does(place: Path, command: str, code: int) -> None:
    arguments = command.split(maxsplit=1)[1]
    word = "agent " if command is CHECK else ""
    by_package = ran(f"slackwater {word}{arguments}", "", place)
    assert by_package == ran(command, "", place)
    assert by_package[0] == code


@pytest.mark.parametrize("command", [ORDER, AGENT])
def test_without_standard_error_the_answer_is_the_same(place: Path, command: str) -> None:
    code, answer, reported = ran(command, "2>&-", place)
    assert (code, reported) == (0, "")
    assert answer.count("\n") == 2
    assert ran(f"{command.split(maxsplit=1)[0]} --nonsense", "2>&-", place)[0] == 2


def test_what_is_said_to_a_closed_stream_goes_into_no_file(place: Path) -> None:
    """The file with the answer would have had the number of the closed stream."""
    code, _, _ = ran(f"{ORDER} --out o.jsonl --late l.jsonl", "2>&- >&-", place)
    assert code == 0
    kinds = {line.partition(":")[0] for line in (place / "o.jsonl").read_text().splitlines()}
    assert kinds == {'{"source"'}


def test_no_standard_input_is_an_empty_one(place: Path) -> None:
    code, _, reported = ran(ORDER.replace("trace.jsonl", "-"), "<&-", place)
    assert code == 2
    assert "<stdin>:1: the file is empty" in reported


@pytest.mark.parametrize("command", [ORDER, AGENT])
def test_a_reader_that_has_gone_ends_it_without_a_word(place: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        module, *arguments = command.split()
        done = subprocess.run(
            [sys.executable, "-c", MAIN[module], *arguments],
            stdout=writer, stderr=subprocess.PIPE, text=True, cwd=place, input=LINES, check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=300,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


CODE = "import sys; from slackwater.engine.cli import main; main()"


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
