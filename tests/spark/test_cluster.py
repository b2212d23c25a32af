"""A standalone cluster answers as one process does, byte for byte, also when parts of it die."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.engine.hosts.spark.host import FILES_PER_BATCH
from slackwater.engine.log.arrival_log import LogReader
from tests.spark.cluster import Cluster, cluster, finish, processes_below, slackwater, wait_until
from tests.spark.test_spark_host import PATTERN, WINDOW, log_of_sites

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(270)]

BATCHES = 6
"""Micro-batches over the whole log."""


@pytest.fixture(scope="module", name="two_workers")
def _two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module", name="log")
def _log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two sites, in as many files as make ``BATCHES``."""
    log = log_of_sites(tmp_path_factory.mktemp("log"), 1_200, 50, 50)
    assert -(-len(LogReader(log).files) // FILES_PER_BATCH) == BATCHES
    return log


@pytest.fixture(scope="module", name="expected")
def _expected(log: Path) -> bytes:
    """Answers of one process."""
    out = log.parent / "here.jsonl"
    finish(slackwater(*_question(log, out)))
    content = out.read_bytes()
    assert content.count(b'"op": "+"') > 100
    return content


def _question(log: Path, out: Path) -> tuple[str | Path, ...]:
    return ("query", WINDOW, PATTERN, "--input", log, "--changes", "--quiet", "--out", out)


class Run:
    """The command on a cluster, to be killed and given again."""

    def __init__(self, on: Cluster, log: Path, folder: Path) -> None:
        self.out = folder / "there.jsonl"
        self._work = folder / "work"
        self._command = (*_question(log, self.out), "--master", on.url, "--work", self._work)
        self.process = slackwater(*self._command)

    def batches(self) -> int:
        """Micro-batches that Spark will not do again."""
        return len(list(self._work.glob("parts/checkpoint/commits/[0-9]*")))

    def wait_for(self, batches: int) -> None:
        def is_done() -> bool:
            assert self.process.poll() is None, self.process.communicate()[0]
            return self.batches() >= batches

        wait_until(is_done, f"{batches} micro-batches", 120)

    def again(self) -> None:
        self.process = slackwater(*self._command)


def _kill_executor(on: Cluster, run: Run, chance: random.Random) -> None:
    os.kill(chance.choice(on.executors()), signal.SIGKILL)


def _kill_worker(on: Cluster, run: Run, chance: random.Random) -> None:
    on.kill_worker(chance.randrange(2))


def _kill_driver(on: Cluster, run: Run, chance: random.Random) -> None:
    """Its Python, its JVM, or both at once."""
    java = [number for number, line in processes_below(run.process.pid) if "SparkSubmit" in line]
    for number in chance.choice(([run.process.pid], java, [run.process.pid, *java])):
        os.kill(number, signal.SIGKILL)
    run.process.communicate(timeout=60)
    assert run.process.returncode != 0


KILLS = {"executor": _kill_executor, "worker": _kill_worker, "driver": _kill_driver}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("killed", list(KILLS))
def test_after_a_kill_answers_are_as_without(
    two_workers: Cluster, log: Path, expected: bytes, killed: str, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{killed} {seed}")
    run = Run(two_workers, log, tmp_path)
    wait_until(lambda: len(two_workers.executors()) == 2, "an executor of each worker")
    run.wait_for(chance.randint(1, BATCHES - 3))
    time.sleep(chance.uniform(0, 1))
    before = run.batches()
    assert run.process.poll() is None
    assert before < BATCHES, "killed too late to prove anything"
    KILLS[killed](two_workers, run, chance)
    try:
        if killed == "driver":
            run.again()
        finish(run.process)
    finally:
        while len(two_workers.workers) < 2:
            two_workers.add_worker()
    assert run.batches() == BATCHES
    assert run.out.read_bytes() == expected


def test_where_no_worker_has_what_is_asked_for_the_log_says_so_while_it_waits(
    two_workers: Cluster, log: Path, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.memory 9g\n")
    waits = slackwater(
        "query", WINDOW, "--input", log, "--work", tmp_path / "work", "--master", two_workers.url,
        SPARK_CONF_DIR=str(tmp_path),
    )  # fmt: skip
    said = tmp_path / "work/parts/spark.log"
    try:
        wait_until(
            lambda: said.exists() and "has not accepted any resources" in said.read_text(),
            "the reason", 120,
        )  # fmt: skip
        assert waits.poll() is None
    finally:
        os.killpg(waits.pid, signal.SIGKILL)
        waits.communicate()
