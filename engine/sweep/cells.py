"""Runs the cells of a sweep side by side, each in a process of its own pool, and keeps each answer.

A cell is one scenario at one setting with one seed. Its answer is a small file, written whole; a
sweep that was cut off goes on with the cells that have none.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from engine.errors import SlackwaterError, UserError
from engine.log.whole_file import whole_file
from engine.passes.scenario_run import load_file, read_options, scored_run
from engine.sweep.grid import Axis, Cell

CELLS: Final = "cells"


@dataclass(frozen=True, slots=True)
class Job:
    """One cell with one seed: what is set, as ``PATH=VALUE``."""

    cell: Cell
    seed: int
    pairs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a job.

    Attributes:
        cell, seed: which it was.
        claims: text of each threshold -> whether it holds, and what it is.
        metrics: by query (or ``events``) and name.
        error: what made it impossible; None: nothing.
    """

    cell: Cell
    seed: int
    claims: Mapping[str, tuple[bool, str]]
    metrics: Mapping[str, Mapping[str, float]]
    error: str | None = None

    @property
    def holds(self) -> bool:
        """Whether every threshold holds."""
        return self.error is None and all(holds for holds, _ in self.claims.values())


def jobs_of(
    axes: Sequence[Axis], cells: Sequence[Cell], first_seed: int, seeds: int,
    pairs: Sequence[str],
) -> list[Job]:  # fmt: skip
    """A job for each cell and seed; ``pairs`` are set in all of them."""
    return [
        Job(
            cell,
            seed,
            (
                *pairs,
                f"seed={seed}",
                *(f"{axis.path}={value}" for axis, value in zip(axes, cell, strict=True)),
            ),
        )
        for cell in cells
        for seed in range(first_seed, first_seed + seeds)
    ]


def answered(
    path: Path, jobs: Sequence[Job], folder: Path, done: Callable[[int], None], workers: int = 0
) -> list[Answer]:
    """The answers to all ``jobs``, in their order.

    Args:
        path: of the scenario file.
        jobs: what to run.
        folder: keeps the answers; those that it has are not made again.
        done: told how many answers have come.
        workers: processes; 0: one per core; 1: this one.

    Raises:
        UserError: no job could be run; says why.
    """
    kept = folder / CELLS
    kept.mkdir(parents=True, exist_ok=True)
    scenario: Any = load_file(path)
    names = {job: _name(scenario.content(job.pairs), job) for job in jobs}
    found: dict[Job, Answer] = {}
    for job, name in names.items():
        answer = _read(kept / name, job)
        if answer is not None:
            found[job] = answer
    done(len(found))
    for job, answer in _made(path, [job for job in jobs if job not in found], workers):
        found[job] = answer
        if answer.error is None:  # what could not be run may be able to the next time
            with whole_file(kept / names[job]) as sink:
                sink.write(json.dumps(asdict(answer)).encode())
        done(1)
    answers = [found[job] for job in jobs]
    if all(answer.error is not None for answer in answers):
        raise UserError(f"no cell could be run; the first: {answers[0].error}")
    return answers


def _made(path: Path, jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Answer]]:
    if not jobs:
        return
    count = min(workers or os.cpu_count() or 1, len(jobs))
    if count == 1:
        for job in jobs:
            yield job, answer_of(str(path), job)
        return
    # Not forked: Arrow's threads would not live in the copies.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        waiting = {pool.submit(answer_of, str(path), job): job for job in jobs}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool as error:
            raise SlackwaterError(
                "a process of the sweep was ended from outside, as where memory runs out; the same "
                "command goes on with the cells that are missing"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def answer_of(path: str, job: Job) -> Answer:
    """Runs one job in this process; its files are temporary."""
    try:
        scenario = load_file(Path(path))
        options = read_options(scenario, list(job.pairs))
        with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
            score = scored_run(scenario, options, Path(folder))
    except UserError as error:
        return Answer(job.cell, job.seed, {}, {}, str(error))
    except MemoryError:
        return Answer(job.cell, job.seed, {}, {}, "there is not enough memory for its events")
    claims = {claim.text: (claim.holds, claim.detail) for claim in score.claims}
    return Answer(job.cell, job.seed, claims, score.facts["metrics"])


def _name(content: str, job: Job) -> str:
    """Of the file of a job's answer: of all that its answer depends on."""
    asked = json.dumps([version("slackwater"), content, job.pairs]).encode()
    return blake2b(asked, digest_size=12).hexdigest() + ".json"


def _read(file: Path, job: Job) -> Answer | None:
    """An answer that was kept; one that is damaged is made again."""
    try:
        kept: dict[str, Any] = json.loads(file.read_bytes())
        claims = {
            text: (bool(holds), str(detail)) for text, (holds, detail) in kept["claims"].items()
        }
        return Answer(job.cell, job.seed, claims, kept["metrics"], kept["error"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
