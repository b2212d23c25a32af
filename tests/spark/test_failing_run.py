"""A run on Spark that fails, as its user sees it: one line, and the same command goes on after."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.soak.watched import command, family
from slackwater.engine.hosts.spark.host import FILES_PER_BATCH
from slackwater.engine.log.arrival_log import LogReader
from tests.spark.both_hosts import log_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERY = "EVENT SEQ(A a, B b) WITHIN 100"
LIMITED = """#!/bin/bash
# Workers' Python: where the folder FLAG is, a package is not what it is elsewhere.
if [ -e "$FLAG" ]; then export PYTHONPATH="$FLAG"; fi
# Where the folder LATE is, the next one takes longer to begin than Spark waits.
if rmdir "$LATE" 2>/dev/null; then sleep 15; fi
exec "$REAL" "$@"
"""


@pytest.fixture(name="log", scope="module")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for several micro-batches, with texts that do not get smaller."""
    chance = random.Random(20261122)
    records = [
        {"source": f"s{n % 3}", "type": "AB"[n % 2], "ts": n, "seq": n // 3, "arrival": n,
         "attrs": {"k": f"{chance.getrandbits(8192):x}"}}
        for n in range(900)
    ]  # fmt: skip
    text = "".join(json.dumps(record) + "\n" for record in records)
    log = log_of(text, tmp_path_factory.mktemp("log"), 30, 10)
    assert len(LogReader(log).files) > 2 * FILES_PER_BATCH
    return log


@dataclass(frozen=True)
class User:
    """Types the same query again and again in a folder of their own."""

    folder: Path
    log: Path

    @property
    def flag(self) -> Path:
        return self.folder / "flag"

    @property
    def late(self) -> Path:
        return self.folder / "late"

    def asks(
        self, *more: str, killed_after_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``killed_after_s``: so long after it was first seen, the JVM is killed."""
        limited = self.folder / "python"
        limited.write_text(LIMITED)
        limited.chmod(0o755)
        settings = os.environ | {
            "PYSPARK_PYTHON": str(limited), "REAL": sys.executable, "FLAG": str(self.flag),
            "LATE": str(self.late), "TMPDIR": str(self.folder),
        }  # fmt: skip
        tool = Path(sys.executable).parent / "slackwater"
        with subprocess.Popen(
            [tool, "query", QUERY, "--input", self.log, "--out", "out.jsonl", "--quiet",
             "--clock", "exact", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env=settings,
        ) as ran:  # fmt: skip
            if killed_after_s is not None:
                kill_jvm(ran, killed_after_s)
            said, complained = ran.communicate()
        return subprocess.CompletedProcess(ran.args, ran.returncode, said, complained)

    def is_answered(self, *more: str) -> str:
        ran = self.asks(*more)
        assert (ran.returncode, ran.stderr) == (0, "")
        return (self.folder / "out.jsonl").read_text()


def kill_jvm(ran: subprocess.Popen[str], after_s: float) -> None:
    """So long after its launcher, which is one too, was seen."""
    while not javas(ran.pid) and ran.poll() is None:
        time.sleep(0.02)
    time.sleep(after_s)
    for pid in javas(ran.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def javas(pid: int) -> list[int]:
    found = []
    for each in family(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [each] if command(each) == "java" else []
    return found


ON_SPARK = ("--master", "local[1]", "--work", "work")


def test_a_damaged_file_is_named_and_once_restored_the_run_goes_on(
    log: Path, tmp_path: Path
) -> None:
    user = User(tmp_path, log)
    expected = user.is_answered()
    file = LogReader(log).files[FILES_PER_BATCH + 3]  # of the second micro-batch
    whole = file.read_bytes()
    spoiled = bytearray(whole)
    spoiled[len(whole) // 3] ^= 0x10
    try:
        file.write_bytes(spoiled)
        ran = user.asks(*ON_SPARK)
    finally:
        file.write_bytes(whole)
    assert ran.returncode == 2  # the input is at fault, wherever that is found
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"slackwater: {file}: damaged file: ")
    (first,) = (tmp_path / "work" / "parts" / "spark").glob("kind=matches/*.parquet")
    before = first.stat().st_mtime_ns
    assert user.is_answered(*ON_SPARK) == expected
    assert first.stat().st_mtime_ns == before  # what was done is not done again


def test_a_worker_without_a_package_ends_the_run_with_its_own_words(
    log: Path, tmp_path: Path
) -> None:
    user = User(tmp_path, log)
    expected = user.is_answered()
    user.flag.mkdir()
    (user.flag / "msgspec.py").write_text("raise ImportError(\"No module named 'msgspec'\")")
    ran = user.asks(*ON_SPARK)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    kept = tmp_path / "work" / "parts" / "spark.log"
    said = "the run on Spark failed: ImportError: No module named 'msgspec'"
    assert line == f"slackwater: {said}; all of it is in {kept.relative_to(tmp_path)}"
    assert "Traceback (most recent call last)" in kept.read_text()
    # Without a folder of one's own, only what was said stays.
    ran = user.asks(*ON_SPARK[:2])
    assert ran.returncode == 1
    (kept,) = tmp_path.glob("slackwater-*.spark.log")
    assert ran.stderr == f"slackwater: {said}; all of it is in {kept}\n"
    assert not [path for path in tmp_path.glob("slackwater-*") if path.is_dir()]
    shutil.rmtree(user.flag)
    assert user.is_answered(*ON_SPARK) == expected


def test_the_default_file_system_of_a_cluster_does_not_matter(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "50 %20 here"  # a name that nothing may decode
    here.mkdir()
    user = User(here, log)
    expected = user.is_answered()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.hadoop.fs.defaultFS hdfs://127.0.0.1:1\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    assert user.is_answered(*ON_SPARK) == expected


def test_a_worker_that_is_slow_to_start_is_tried_again(log: Path, tmp_path: Path) -> None:
    user = User(tmp_path, log)
    expected = user.is_answered()
    user.late.mkdir()
    assert user.is_answered(*ON_SPARK) == expected
    assert not user.late.exists()
    assert "failed to connect back" in (tmp_path / "work" / "parts" / "spark.log").read_text()


@pytest.mark.parametrize(
    "seconds", [6.0, *(pytest.param(at, marks=pytest.mark.deep) for at in (0.0, 1.0, 3.0, 5.0))]
)
def test_a_jvm_that_is_killed_ends_the_run_with_a_line(
    seconds: float, log: Path, tmp_path: Path
) -> None:
    user = User(tmp_path, log)
    expected = user.is_answered()
    ran = user.asks(*ON_SPARK, killed_after_s=seconds)
    if ran.returncode == 0:  # it was late
        assert (tmp_path / "out.jsonl").read_text() == expected
        return
    assert ran.returncode == 1
    kept = tmp_path / "work" / "parts" / "spark.log"
    said = "the run on Spark failed: its JVM has ended"
    # PySpark's server of accumulators may print beside it.
    line = f"slackwater: {said}; all of it is in {kept.relative_to(tmp_path)}"
    assert line in ran.stderr.splitlines()
    assert user.is_answered(*ON_SPARK) == expected
