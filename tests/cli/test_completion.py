"""Completion as a person has it: a real bash, a real terminal, the Tab key."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.engine.apps.scenario_run import scenario_names

READY = "ready> "
PATIENCE_SECONDS = 60.0


class Terminal:
    """A bash with the completion that ``slackwater --show-completion`` prints in one."""

    def __init__(self, folder: Path) -> None:
        script = folder / "completion.bash"
        tool = Path(sys.executable).parent
        path = f"{tool}{os.pathsep}{os.environ['PATH']}"
        reported = subprocess.run(
            # For the shell that it is called by, whatever this test was called by.
            ["bash", "-c", "slackwater --show-completion; exit $?"],
            check=True, capture_output=True, text=True, env=os.environ | {"PATH": path},
        )  # fmt: skip
        script.write_text(reported.stdout)
        settings = {"PATH": path, "PS1": READY, "TERM": "dumb", "HOME": str(folder)}
        try:
            child, self._screen = pty.fork()
        except OSError as problem:
            pytest.skip(f"no terminals on this machine: {problem}")
        if child == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], os.environ | settings)
        self._child = child
        self.until(READY)
        self.type(f". {script}; bind 'set bell-style none'\n")
        self.until(f"\n{READY}")

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def until(self, wanted: str) -> str:
        """What is shown, up to the end of ``wanted``."""
        shown, deadline = "", time.monotonic() + PATIENCE_SECONDS
        while wanted not in shown:
            if not select.select([self._screen], [], [], max(0, deadline - time.monotonic()))[0]:
                pytest.fail(f"{wanted!r} does not appear, only {shown!r}")
            shown += os.read(self._screen, 4096).decode().replace("\r", "")
        return shown

    def close(self) -> None:
        self.type("\x15exit\n")
        os.waitpid(self._child, 0)
        os.close(self._screen)


@pytest.fixture(name="terminal", scope="module")
def _terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("home"))
    yield terminal
    terminal.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("slackwater sim", "ulate "),
        ("slackwater run so", "ccer "),
        ("slackwater simulate boo", "kstore "),
        ("slackwater query --barr", "ier "),
    ],
)
def test_tab_completes_what_is_unique(terminal: Terminal, typed: str, completed: str) -> None:
    terminal.type(f"{typed}\t")
    terminal.until(f"{typed}{completed}")
    terminal.type("\x15")


@pytest.mark.slow
def test_two_tabs_list_the_scenarios(terminal: Terminal) -> None:
    terminal.type("slackwater run \t\t")
    shown = terminal.until(f"\n{READY}slackwater run ")
    listed = shown.partition("slackwater run")[2].partition(READY)[0].split()
    assert sorted(listed) == scenario_names()
    terminal.type("\x15")
