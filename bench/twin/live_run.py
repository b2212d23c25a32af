"""A setting live: links, gateway and engine, a validation of one device, then all agents.

The validation measures before the events: a set-up is measured before it is used.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.real_sockets import device_clock
from bench.real_sockets.device_clock import Bend
from bench.real_sockets.programs import PATIENCE_SECONDS, SLACKWATER, RunningPrograms
from bench.real_sockets.real_run import check_bend
from bench.twin.settings import (
    DEVICES,
    GATEWAY,
    MEASURED,
    QUERY,
    RECORDING,
    SECOND,
    TwinSetting,
    bend_words,
)
from slackwater.simulator.emulator.settings import read_links_file

TWIN = "twin.toml"
VALIDATE_SECONDS = 15
_LOOK_S = 0.002
_NOT_FIT = 1
"""Exit code of a validation that finds the set-up unfit: a measurement as good as another."""


@dataclass(frozen=True)
class LiveRun:
    """What came of it.

    Attributes:
        log: the gateway's.
        answers: each line of the engine's answers and when it was seen in the file [ns].
        start_ns: true time from which the events count.
        bends: of the clocks.
        twin: the scenario file that the validation wrote.
        validation: what it measured.
    """

    log: Path
    answers: list[tuple[dict[str, Any], int]]
    start_ns: int
    bends: dict[str, Bend]
    twin: Path
    validation: dict[str, Any]


def run_live(setting: TwinSetting, folder: Path, validate_s: int = VALIDATE_SECONDS) -> LiveRun:
    """Runs the setting once in ``folder``.

    Raises:
        RuntimeError: a program failed; says what it said.
    """
    prefix = f"swtwin{os.getpid()}-"
    with RunningPrograms(folder, prefix) as programs:
        programs.start_links(setting.links_file(prefix), [GATEWAY, *DEVICES])
        gateway = read_links_file(folder / "links.toml").addresses[GATEWAY]
        setting.write(folder, gateway)
        serve = [*SLACKWATER, "serve", "--config", "site.toml"]
        programs.start(GATEWAY, [*programs.inside(GATEWAY), *serve])
        programs.until(GATEWAY, lambda: "listening" in programs.said(GATEWAY))
        _validate(setting, programs, validate_s)
        for name in DEVICES:
            program = [sys.executable, "-m", "bench.real_sockets.bent_agent", str(folder), name]
            bent = ["faketime", "-f", bend_words(setting, name), *program]
            programs.start(name, [*programs.inside(name), *bent])
        bends = {}
        for number, name in enumerate(DEVICES):
            path = folder / f"{name}.clock"
            programs.until(name, path.exists)
            rate = 1 + setting.rate_ppm[number] / 1_000_000
            bends[name] = Bend(device_clock.load(path)[0], rate)
        for name in DEVICES:
            programs.until(name, lambda name=name: ": running" in programs.said(name))
        with _AnswerWatch(folder / "site.log.answers" / QUERY / "main.jsonl") as watching:
            # As in the simulation: some time to synchronise before the first event.
            start_ns = device_clock.true_ns() + 5 * SECOND
            for name in DEVICES:
                start = folder / f"{name}.start"
                start.with_suffix(".writing").write_text(str(bends[name].device_ns(start_ns)))
                start.with_suffix(".writing").replace(start)
            for name in DEVICES:
                programs.ended(name, setting.seconds + PATIENCE_SECONDS)
                check_bend(folder, name, bends[name])
            programs.stop(GATEWAY)
        programs.stop("links")
    validation = json.loads((folder / "validated" / "validate.json").read_text())
    return LiveRun(folder / "site.log", watching.seen, start_ns, bends, folder / TWIN, validation)


def _validate(setting: TwinSetting, programs: RunningPrograms, seconds: int) -> None:
    words = [
        *SLACKWATER, "validate", "--config", f"{MEASURED}.toml", "--site", "site.toml",
        "--duration", f"{seconds}s", "--scenario", TWIN, "--recording", RECORDING,
        "--out", "validated", "--quiet",
    ]  # fmt: skip
    bent = ["faketime", "-f", bend_words(setting, MEASURED), *words]
    programs.start("validate", [*programs.inside(MEASURED), *bent])
    programs.ended("validate", seconds + PATIENCE_SECONDS, (0, _NOT_FIT))


class _AnswerWatch:
    """Looks at a file of answers and keeps each line with the time at which it was there.

    It runs before other work of the machine, as the set-up's programs do: one that waits for a
    processor sees lines late, and measures that.
    """

    def __init__(self, path: Path) -> None:
        self._seen: list[tuple[bytes, int]] = []
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _AnswerWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def seen(self) -> list[tuple[dict[str, Any], int]]:
        """Lines and times [ns], so far."""
        return [(json.loads(line), at_ns) for line, at_ns in self._seen]

    def _run(self) -> None:
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_RR, os.sched_param(1))
        read, rest = 0, b""
        while True:
            over = self._over.is_set()
            if self._path.exists() and self._path.stat().st_size > read:
                with self._path.open("rb") as file:
                    file.seek(read)
                    new = file.read()
                at_ns = time.time_ns()
                read += len(new)
                *lines, rest = (rest + new).split(b"\n")
                self._seen += [(line, at_ns) for line in lines]
            if over:
                return
            time.sleep(_LOOK_S)
