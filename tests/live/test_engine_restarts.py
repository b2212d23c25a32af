"""The server's engine waits for an earlier one, starts again for ever, and compiles to the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.live.program import Task
from slackwater.engine.hosts.live.questions import Questions
from slackwater.engine.output.part_store import FolderInUseError, sole_use, wait_for_sole_use
from slackwater.engine.server import engine_process
from slackwater.engine.server.engine_process import EngineProcess
from slackwater.engine.server.overview import AnswersState
from tests.live.conftest import ROOT, Field, free_port, until
from tests.live.test_answers import answered, asked, assert_all_answered
from tests.live.test_page import ask, status


def test_attack_02_a_lock_is_waited_for_however_long_it_is_held(tmp_path: Path) -> None:
    """Two thousand looks are 100 s; it was given up after 60."""
    said: list[str] = []
    looks = 0
    with ExitStack() as holder, ExitStack() as stack:
        holder.enter_context(sole_use(tmp_path))

        def over_within(_seconds: float) -> bool:
            nonlocal looks
            looks += 1
            if looks == 2000:
                holder.close()
            return False

        assert wait_for_sole_use(tmp_path, stack, over_within, said.append)
        with pytest.raises(FolderInUseError):
            stack.enter_context(sole_use(tmp_path))
    assert looks == 2000
    assert len(said) == 1
    assert "in use by the engine of an earlier server" in said[0]


def test_who_waits_for_a_lock_ends_when_the_server_does_and_a_read_only_folder_is_said(
    tmp_path: Path,
) -> None:
    with sole_use(tmp_path), ExitStack() as stack:
        assert not wait_for_sole_use(tmp_path, stack, lambda _: True, lambda _: None)
    with ExitStack() as stack, pytest.raises(UserError, match="cannot be written"):
        wait_for_sole_use(Path("/proc/none"), stack, lambda _: True, lambda _: None)


HEAD = """
import os, sys, time
def send(kind, content=b""):
    sys.stdout.buffer.write(kind + len(content).to_bytes(4, "big") + content)
    sys.stdout.buffer.flush()
sys.stdin.readline()
"""


class Engine:
    """An ``EngineProcess`` whose process runs a script."""

    def __init__(self, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.state = AnswersState()
        self.lives = 0
        task = Task(
            kind="embedded", log="", answers="", questions=Questions(queries=()), save_every_s=1,
            parquet_every_s=0, master="", durable=1,
        )  # fmt: skip
        self.process = EngineProcess(task, self.said.append, lambda _: None, self.state)
        start = asyncio.create_subprocess_exec

        async def started(*_: str, **options: Any) -> asyncio.subprocess.Process:
            self.lives += 1
            return await start(sys.executable, "-c", HEAD + script, **options)

        monkeypatch.setattr(asyncio, "create_subprocess_exec", started)

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not true():
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("code", [1, 2, -9])
def test_attack_02_an_engine_that_ends_is_started_again_for_as_long_as_the_server_lives(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its exit code; what it says each time is said once."""
    monkeypatch.setattr(engine_process, "_AGAIN_S", (0.01, 0.02))
    script = 'send(b"R"); send(b"T", b"at fault"); time.sleep(0.05)\n'
    end = "os.kill(os.getpid(), 9)" if code == -9 else f"sys.exit({code})"

    async def lived() -> None:
        engine = Engine(script + end, monkeypatch)
        assert not engine.state.running
        engine.process.start()
        await engine.until(lambda: engine.state.running)
        await engine.until(lambda: engine.lives > 4)
        await engine.until(lambda: not engine.state.running)
        await engine.process.stop()
        assert engine.said.count("at fault") == 1
        assert engine.said[1] == f"answers: the engine ended ({code}); starts again in 0 s"
        assert len(engine.said) == 3

    asyncio.run(lived())


@pytest.mark.parametrize(("compiles_s", "ends"), [(1.5, True), (60, False)])
def test_attack_02_a_stop_waits_for_what_is_compiled(
    compiles_s: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_process, "STOP_S", 0.7)
    monkeypatch.setattr(engine_process, "COMPILING_STOP_S", 3.0)
    script = f"""
send(b"R")
sys.stdin.read()
over = time.monotonic() + {compiles_s}
while time.monotonic() < over:
    send(b"C")
    time.sleep(0.1)
send(b"T", b"compiled")
"""

    async def lived() -> None:
        engine = Engine(script, monkeypatch)
        engine.process.start()
        await engine.until(lambda: engine.state.running)
        begun = time.monotonic()
        await engine.process.stop()
        assert time.monotonic() - begun < 10
        assert ("compiled" in engine.said) is ends
        assert "answers: waits until the engine has compiled, which is kept" in engine.said
        assert ("answers: not all are written yet; the next start goes on" in engine.said) != ends

    asyncio.run(lived())


def children(process: int) -> list[int]:
    """Engines of a server."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [
        int(child) for child in found
        if b"slackwater.engine.hosts.live.program" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("held_s", [1, pytest.param(75, marks=pytest.mark.deep)])
def test_attack_02_a_stopped_engine_of_a_killed_server_is_waited_for(
    field: Field, held_s: float
) -> None:
    """Health is red meanwhile; then the new engine answers all."""
    page = free_port()
    field.site(asked() + f"[page]\nport = {page}\n")
    gateway = field.serve()
    field.run_through("door", range(300))
    until(lambda: answered(field, "q2"), "answers")
    (former,) = children(gateway.process.pid)
    os.kill(former, signal.SIGSTOP)
    gateway.process.kill()  # its standard error is the engine's, too: it stays open
    gateway.process.wait()
    gateway = field.serve()
    gateway.says("is in use by the engine of an earlier server")
    threading.Timer(held_s, os.kill, (former, signal.SIGCONT)).start()
    assert status(page, "/readyz") == 503
    assert ask(page, "/healthz") == b"alive\n"
    assert b"slackwater_answers_running 0.0" in ask(page, "/metrics")
    field.run_through("gate", range(300))
    until(lambda: status(page, "/readyz") == 200, "answers again", held_s + 30)
    assert gateway.end() == 0, gateway.text
    assert_all_answered(field)


@pytest.mark.slow
def test_what_is_put_right_while_the_server_lives_brings_answers_back(field: Field) -> None:
    """A folder with answers to another query, which ended the engine for good."""
    field.site(asked())
    gateway = field.serve()
    folder = field.folder / "site.log.answers" / "q1"
    folder.mkdir(parents=True)
    (folder / "query.json").write_text('{"query": "another"}')
    field.run_through("door", range(300))
    gateway.says("query q1: ")
    gateway.says("starts again in 2 s")
    shutil.rmtree(folder)
    until(lambda: answered(field, "q2"), "answers")
    assert gateway.end() == 0, gateway.text
    assert_all_answered(field)


def test_an_engine_whose_server_is_gone_before_its_task_ends_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slackwater.engine.hosts.live.program"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
