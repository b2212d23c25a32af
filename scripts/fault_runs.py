"""One fault planted in a copy of the checkout, and tests run on it: for mutants.py.

Also a pytest plugin of these runs: Hypothesis stops at the first example that fails, as to make it
smaller for a reader takes up to minutes.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hypothesis import Phase, settings

from scripts.faults import PlantedFault

ROOT: Final = Path(__file__).resolve().parent.parent
MEMORY_BYTES: Final = 4 << 30
"""Of one run: a fault may make a list endless."""
TIME_LIMIT: Final = "time limit"
"""Found a fault: all tests took longer than that, or one test half of it."""
NO_TESTS: Final = {4, 5}
"""pytest's exit codes for a wrong command line, and for no test selected."""


class UnfitError(Exception):
    """The tests cannot judge, as they fail or are absent without any fault."""


def pytest_configure() -> None:
    """Runs after tests/conftest.py chose its profile, before a test module reads it."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    settings.register_profile(
        "first failure", parent=settings(), phases=phases, report_multiple_bugs=False
    )
    settings.load_profile("first failure")


@dataclass
class Verdict:
    """What became of one run of tests."""

    found: bool
    by: str
    seconds: float
    output: str = field(repr=False, default="")

    @property
    def words(self) -> str:
        return f"found by {self.by}" if self.found else "NOT FOUND"


class KernelCache:
    """Compiled kernels of the code without faults, which each run begins with and cannot spoil."""

    def __init__(self, folder: Path) -> None:
        """It begins with the user's own, if there is one."""
        home = os.environ.get("SLACKWATER_CACHE") or os.environ.get("XDG_CACHE_HOME")
        user_cache = (Path(home) if home else Path.home() / ".cache") / "slackwater"
        self._folder, self._lock = folder, threading.Lock()
        folder.mkdir()
        if user_cache.is_dir():
            left_out = shutil.ignore_patterns("*.jsa")  # classes of Java
            shutil.copytree(user_cache, folder / user_cache.name, ignore=left_out)

    def lend(self, to: Path) -> None:
        """Make ``to`` a copy; what a run replaces there stays as it is here."""
        shutil.rmtree(to, ignore_errors=True)
        with self._lock:
            shutil.copytree(self._folder, to, copy_function=os.link)

    def keep(self, of: Path) -> None:
        """Take over what a run without a fault compiled."""
        with self._lock:
            for file in of.rglob("*"):
                mine = self._folder / file.relative_to(of)
                if file.is_file() and not mine.exists():
                    mine.parent.mkdir(parents=True, exist_ok=True)
                    os.link(file, mine)


class Copy:
    """A copy of the checkout's tracked files, in which one fault at a time is planted."""

    def __init__(self, folder: Path, tests: Path, kernels: KernelCache) -> None:
        self.root, self.kernels = folder / "checkout", kernels
        self.cache = folder / "cache"
        self._running: subprocess.Popen[str] | None = None
        copy_tracked(ROOT, self.root)
        if tests != ROOT:
            shutil.rmtree(self.root / "tests")
            copy_tracked(tests, self.root, "tests", "pyproject.toml")

    @contextlib.contextmanager
    def planted(self, fault: PlantedFault) -> Iterator[None]:
        """Within, the fault is in the copy."""
        file = self.root / fault.file
        before = file.read_bytes()
        try:
            _write(file, fault.planted(before))
            yield
        finally:
            _write(file, before)

    def test(self, tests: Iterable[str], limit: float, *options: str) -> Verdict:
        """Run some tests on what is in the copy."""
        self.kernels.lend(self.cache)
        command = [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-p", "scripts.fault_runs", "-m", "not slow",
            "-o", f"faulthandler_timeout={limit / 2}", "-o", "faulthandler_exit_on_timeout=true",
            *options, *tests,
        ]  # fmt: skip
        env = os.environ | {"PYTHONPATH": str(self.root), "SLACKWATER_CACHE": str(self.cache)}
        began = time.monotonic()
        with subprocess.Popen(
            command, cwd=self.root, env=env, text=True, errors="replace", start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            preexec_fn=_limit_memory,  # noqa: PLW1509 - it calls nothing that another thread locks
        ) as self._running:  # fmt: skip
            try:
                output, _ = self._running.communicate(timeout=limit)
                by = failure_named(self._running.returncode, output)
            except subprocess.TimeoutExpired:
                output, by = "", TIME_LIMIT
            finally:
                self.stop()
        return Verdict(bool(by), by, round(time.monotonic() - began, 1), output)

    def stop(self) -> None:
        """End the tests that run, with all that they started."""
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGKILL)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def failure_named(code: int, output: str) -> str:
    """What found the fault; nothing: all tests passed."""
    if code == 0:
        return ""
    if code in NO_TESTS:
        raise UnfitError(f"pytest could not run these tests\n{output}")
    if code > 0 and re.search(r"^Timeout \(\d+:\d\d:\d\d", output, re.MULTILINE):
        return TIME_LIMIT
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+(?:\[.*\])?)(?: - |$)", output, re.MULTILINE)
    if failed:
        return failed[1]
    return f"signal {-code}" if code < 0 else f"pytest's exit code {code}"


def _write(file: Path, content: bytes) -> None:
    """Python keeps the bytecode of a file by its size and second: two edits may share both."""
    file.write_bytes(content)
    for kept in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        kept.unlink()


def copy_tracked(checkout: Path, to: Path, *paths: str) -> None:
    """Copy what git knows of a checkout, as it is in its folder now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths], cwd=checkout, check=True, capture_output=True
    )
    for name in listed.stdout.decode().split("\0"):
        if name and ((checkout / name).is_file() or (checkout / name).is_symlink()):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, to / name, follow_symlinks=False)
