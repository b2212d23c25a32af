"""The axes of a sweep, from texts such as ``link.delay=1ms..200ms``, and its cells."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.apps.scenario_run import load_file, read_options, scored_run
from slackwater.engine.core.errors import SlackwaterError, UserError
from slackwater.engine.core.units import neat
from slackwater.engine.log.whole_file import whole_file

POINTS: Final = 5
"""Default number of points of a range."""
CELLS_MAX: Final = 10_000
_POINTS_MAX: Final = 1_000
_RANGE: Final = re.compile(r"(?P<low>[^/]+?)\s*\.\.\s*(?P<high>[^/]+?)\s*(?:/\s*(?P<points>\d+))?")
_QUANTITY: Final = re.compile(r"(-?[0-9.]+(?:[eE]-?[0-9]+)?)\s*([A-Za-z%]*)")
_GEOMETRIC: Final = 10
"""Ranges whose ends differ by more than this factor are filled geometrically."""
_HOW: Final = "write PATH=1,2,3 or PATH=LOW..HIGH or PATH=LOW..HIGH/POINTS"


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting, by its path, and its values as written, from first to last."""

    path: str
    values: tuple[str, ...]


Cell = tuple[str, ...]
"""A value per axis."""


def read_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Parse the axes of the options ``--sweep``.

    >>> read_axes(["link.delay=1ms..100ms/3", "clock.skew_ppm = 1, 20"])[0].values
    ('1ms', '10ms', '100ms')
    >>> read_axes(["link.loss=0..0.2/3", "engine.order=none,kslack:1s"])[0].values
    ('0', '0.1', '0.2')
    >>> read_axes(["seed=1..3"])[0].values  # a few whole numbers: each of them
    ('1', '2', '3')

    Raises:
        UserError: another format, a setting given twice, or too many cells.
    """
    axes = tuple(_axis(text) for text in texts)
    paths = [axis.path for axis in axes]
    for path in paths:
        if paths.count(path) > 1:
            raise UserError(f"--sweep {path}: given twice")
    cells = math.prod(len(axis.values) for axis in axes)
    if cells > CELLS_MAX:
        raise UserError(f"--sweep: {cells:,} cells; at most {CELLS_MAX:,}: give fewer values")
    return axes


def cells(axes: Sequence[Axis]) -> list[Cell]:
    """Every combination, the last axis fastest."""
    return list(product(*(axis.values for axis in axes)))


def _axis(text: str) -> Axis:
    path, equals, values_text = (part.strip() for part in text.partition("="))
    if not (path and equals and values_text):
        raise UserError(f"--sweep {text}: {_HOW}")
    found = _RANGE.fullmatch(values_text)
    values = _filled(found, text) if found else [each.strip() for each in values_text.split(",")]
    if not all(values) or len(set(values)) < len(values) or (found is None and ".." in values_text):
        raise UserError(f"--sweep {text}: a value is empty, given twice or half a range; {_HOW}")
    sizes = [size_of(each) for each in values]
    if None not in sizes:  # values must be in order, because distances count steps
        values = [each for _, each in sorted(zip(sizes, values, strict=True))]
    return Axis(path, tuple(values))


def _filled(found: re.Match[str], text: str) -> list[str]:
    points = int(found["points"] or min(POINTS, _whole_numbers(found["low"], found["high"])))
    if not 2 <= points <= _POINTS_MAX:
        raise UserError(f"--sweep {text}: from 2 to {_POINTS_MAX} points")
    low, high = (_quantity(found[end], text) for end in ("low", "high"))
    if (low[1] is None) != (high[1] is None):
        raise UserError(f"--sweep {text}: give both ends a unit")
    start, end = low[0], high[0]
    if not start < end:
        raise UserError(f"--sweep {text}: {found['low']} does not lie below {found['high']}")
    share = [place / (points - 1) for place in range(points)]
    if start > 0 and end / start >= _GEOMETRIC:
        numbers = [start * (end / start) ** each for each in share]
    else:
        numbers = [start + (end - start) * each for each in share]
    if low[1] is not None:
        return [neat(_rounded(number)) for number in numbers]
    return [f"{number:.6g}" for number in numbers]


def _whole_numbers(low: str, high: str) -> int:
    """Number of whole numbers in a range; ``POINTS`` if the ends are no whole numbers."""
    if not (low.strip().isdecimal() and high.strip().isdecimal()):
        return POINTS
    return max(int(high) - int(low) + 1, 2)


def _rounded(duration_ns: float) -> int:
    """Whole ns with three digits, as points of a range need no more."""
    digits = 2 - math.floor(math.log10(duration_ns)) if duration_ns > 0 else 0
    return round(round(duration_ns, digits))


def _quantity(text: str, option: str) -> tuple[float, str | None]:
    """A number and its unit; durations are converted to ns."""
    found = _QUANTITY.fullmatch(text.strip())
    try:
        value = float(found[1]) if found else math.nan
    except ValueError:
        value = math.nan
    if found is None or not math.isfinite(value):
        raise UserError(f"--sweep {option}: {text!r} is not a number, nor a duration")
    unit = found[2]
    if not unit:
        return value, None
    if unit == "%":
        return value / 100, None
    if unit not in NS_PER:
        raise UserError(f"--sweep {option}: unknown unit {unit!r}; known are {' '.join(NS_PER)}")
    return value * NS_PER[unit], unit


def size_of(value: object) -> float | None:
    """A value as a number, durations in ns; None: it is neither.

    >>> size_of("20 ms"), size_of(3), size_of("5 %"), size_of("none")
    (20000000.0, 3.0, 0.05, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return _quantity(str(value), "")[0]
    except UserError:
        return None


def nearest(axis: Axis, value: object) -> str:
    """The value of ``axis`` equal or nearest to ``value``; without a size, its first."""
    if str(value) in axis.values:
        return str(value)
    size = size_of(value)
    sizes = {each: size_of(each) for each in axis.values}
    known = {each: of for each, of in sizes.items() if of is not None}
    if size is None or not known:
        return axis.values[0]
    return min(known, key=lambda each: abs(known[each] - size))


# Runs the cells of a sweep in parallel processes, and stores each answer.
#
# A cell is one combination of settings; a job is a cell with one seed. Its answer is a small file,
# written atomically; an interrupted sweep continues with the jobs that have none.


CELLS: Final = "cells"


@dataclass(frozen=True, slots=True)
class Job:
    """One cell with one seed, and its settings as ``PATH=VALUE``."""

    cell: Cell
    seed: int
    pairs: tuple[str, ...]


class ThresholdAnswer(NamedTuple):
    """Whether a threshold holds, with a text; ``metric``: its name with the query, ``value``: the
    measurement, ``bound``: its limit, such as ``<= 2 s``.
    """

    holds: bool
    detail: str
    metric: str = ""
    value: float | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """Result of a job.

    Attributes:
        cell, seed: of the job.
        claims: by the text of each threshold.
        metrics: by query (or ``events``) and name.
        error: why it could not be run; None: it was run.
    """

    cell: Cell
    seed: int
    claims: Mapping[str, ThresholdAnswer]
    metrics: Mapping[str, Mapping[str, float]]
    error: str | None = None


def jobs_of(
    axes: Sequence[Axis], cells: Sequence[Cell], first_seed: int, seeds: int,
    pairs: Sequence[str],
) -> list[Job]:  # fmt: skip
    """A job per cell and seed; ``pairs``: settings of all jobs."""
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
) -> list[CellAnswer]:
    """Run ``jobs``; return their answers in order.

    Args:
        path: of the scenario file.
        jobs: what to run.
        folder: stores the answers; jobs with a stored answer are not run again.
        done: called with the number of answers so far.
        workers: processes; 0: one per core; 1: this one.

    Raises:
        UserError: no job could be run; says why.
    """
    kept = folder / CELLS
    kept.mkdir(parents=True, exist_ok=True)
    scenario: Any = load_file(path)
    names = {job: _name(scenario.content(job.pairs), job) for job in jobs}
    found: dict[Job, CellAnswer] = {}
    for job, name in names.items():
        answer = _read(kept / name, job)
        if answer is not None:
            found[job] = answer
    done(len(found))
    for job, answer in _made(path, [job for job in jobs if job not in found], workers):
        found[job] = answer
        if answer.error is None:  # a failed job is retried next time
            with whole_file(kept / names[job]) as sink:
                sink.write(json.dumps(asdict(answer)).encode())
        done(1)
    answers = [found[job] for job in jobs]
    if all(answer.error is not None for answer in answers):
        raise UserError(f"no cell could be run; the first: {answers[0].error}")
    return answers


def _made(path: Path, jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, CellAnswer]]:
    if not jobs:
        return
    count = min(workers or os.cpu_count() or 1, len(jobs))
    if count == 1:
        for job in jobs:
            yield job, answer_of(str(path), job)
        return
    # Not forked: Arrow's threads would not exist in the children.
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


def answer_of(path: str, job: Job) -> CellAnswer:
    """Runs one job in this process; its files are temporary."""
    try:
        scenario = load_file(Path(path))
        options = read_options(scenario, list(job.pairs))
        with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
            score = scored_run(scenario, options, Path(folder))
    except UserError as error:
        return CellAnswer(job.cell, job.seed, {}, {}, str(error))
    except MemoryError:
        return CellAnswer(job.cell, job.seed, {}, {}, "there is not enough memory for its events")
    claims = {
        claim.text: ThresholdAnswer(claim.holds, claim.detail, tile.name, tile.value, tile.bound)
        for claim, tile in zip(score.claims, score.tiles, strict=True)
    }
    return CellAnswer(job.cell, job.seed, claims, score.facts["metrics"])


def _name(content: str, job: Job) -> str:
    """Name of the file of a job's answer: a digest of everything on which it depends."""
    content_key = json.dumps([version("slackwater"), content, job.pairs]).encode()
    return blake2b(content_key, digest_size=12).hexdigest() + ".json"


def _read(file: Path, job: Job) -> CellAnswer | None:
    """Read a stored answer; None: missing or damaged."""
    try:
        kept: dict[str, Any] = json.loads(file.read_bytes())
        claims = {text: ThresholdAnswer(*each) for text, each in kept["claims"].items()}
        return CellAnswer(job.cell, job.seed, claims, kept["metrics"], kept["error"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
