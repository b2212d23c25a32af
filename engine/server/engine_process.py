"""The engine as a child process of the server, so that receiving and acking never wait for it.

It receives how far the log is durable, and returns lines of answers for the live page. When it ends
by itself the server restarts it, with a growing delay: the cause may be fixed meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from typing import Final

from engine.live.program import COMPILING, FAILED, HEAD, LINES, RUNS, SAVED, Task
from engine.server.watch.overview import AnswersState

OnResults = Callable[[Sequence[bytes]], None]
"""Takes lines of answers that have just been written, each a JSON object without its newline."""
_AGAIN_S: Final = (1.0, 15.0)
"""Waits between its lives [s]: the first, and the longest."""
_AGAIN_AFTER_ANSWERS_S: Final = 4.0
"""The longest after a life in which it was at work, so that answers are soon back."""
ENDED: Final = 1
_STEADY_S: Final = 60.0
"""Who ran so long is started again soon."""
STOP_S: Final = 45.0
"""So long the engine may take to answer what is in the log, when the server stops."""
COMPILING_STOP_S: Final = 240.0
"""The same, with what it compiles meanwhile: that would be lost, and compiled at the next start."""


class EngineProcess:
    """From ``start`` to ``stop``, on one event loop.

    Args:
        task: what it is to do.
        durable: number of the log's last file so far.
        tell: takes a line for people.
        on_results: takes new answers.
        state: is kept up to date.
    """

    def __init__(
        self, task: Task, durable: int, tell: Callable[[str], None], on_results: OnResults,
        state: AnswersState,
    ) -> None:  # fmt: skip
        self._task = task
        self._number = durable
        self.saved = 0
        """The log's files up to this number are needed no more, not by a restart either."""
        self._tell = tell
        self._on_results = on_results
        self._state = state
        state.running = False
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._compiled_at = -COMPILING_STOP_S
        self._was_at_work = False
        self._before: set[str] = set()
        self._said: set[str] = set()
        """Lines of the engine's life, and of the one before: what each says again is said once."""
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """The engine runs from now on."""
        self._running = asyncio.create_task(self._run())

    def durable(self, number: int) -> None:
        """The log is durable up to the file of that number."""
        self._number = number
        self._notify()

    async def stop(self) -> None:
        """Returns when the engine has answered all that is durable and ended, or took too long."""
        assert self._running is not None
        self._stopping.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if not await self._ended_in_time() and self._process is not None:
            self._process.kill()
        await self._running

    async def _ended_in_time(self) -> bool:
        assert self._running is not None
        now = asyncio.get_running_loop().time
        begun, reported = now(), False
        while (left := max(begun, self._compiled_at) + STOP_S - now()) > 0:
            if now() > begun + COMPILING_STOP_S:
                break
            done, _ = await asyncio.wait([self._running], timeout=min(left, 1.0))
            if done:
                return True
            if self._compiled_at > begun and not reported:
                reported = True
                self._tell("answers: waits until the engine has compiled, which is kept")
        return False

    def _say(self, line: str) -> None:
        """Unless the engine's life before said so: it may end four times a minute, for days."""
        if line not in self._before:
            self._tell(line)
        self._said.add(line)

    def _notify(self) -> None:
        if self._process is not None and not self._stopping.is_set():
            self._say_number(self._process)

    def _say_number(self, process: Process) -> None:
        assert process.stdin is not None
        if self._number:
            process.stdin.write(b"%d\n" % self._number)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = _AGAIN_S[0]
        while not self._stopping.is_set():
            begun, self._was_at_work = loop.time(), False
            code = await self._once()
            if self._stopping.is_set():
                if not code:
                    return
                break
            if loop.time() - begun > _STEADY_S:
                wait_s, self._before = _AGAIN_S[0], set()
            if self._was_at_work:
                wait_s = min(wait_s, _AGAIN_AFTER_ANSWERS_S)
            self._say(f"answers: the engine ended ({code}); starts again in {wait_s:.0f} s")
            self._before, self._said = self._said, set()
            done = asyncio.create_task(self._stopping.wait())
            await asyncio.wait([done], timeout=wait_s)
            done.cancel()
            wait_s = min(2 * wait_s, _AGAIN_S[1])
        # It was killed, waited for its next start, or for an earlier server's engine to end.
        self._tell("answers: not all are written yet; the next start goes on")

    async def _once(self) -> int:
        """One life of the process; gives its exit code."""
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "engine.live.program",
                stdin=PIPE, stdout=PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._tell(f"answers: the engine cannot be started: {error.strerror}")
            return ENDED
        assert process.stdin is not None
        process.stdin.write(self._task.as_line())
        self._say_number(process)  # also one that is to stop answers what there is
        if self._stopping.is_set():
            process.stdin.close()
        await self._hear(process)
        self._process = None
        self._state.running = False
        return await process.wait()

    async def _hear(self, process: Process) -> None:
        """Takes what the process says, until it says no more."""
        assert process.stdout is not None
        try:
            while True:
                head = await process.stdout.readexactly(HEAD)
                content = await process.stdout.readexactly(int.from_bytes(head[1:], "big"))
                if head[:1] == LINES:
                    self._on_results(content.splitlines())
                elif head[:1] == SAVED:
                    self.saved = int(content)
                elif head[:1] == FAILED:
                    self._state.failed = json.loads(content)
                elif head[:1] == RUNS:
                    self._state.running = self._was_at_work = True
                elif head[:1] == COMPILING:
                    self._compiled_at = asyncio.get_running_loop().time()
                else:
                    self._say(content.decode())
        except asyncio.IncompleteReadError:
            return
