"""R19 5.2.3.1: averages over windows when clocks are not quite right (Tables 5.11, 5.12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from slackwater.engine.hosts.chain import Chain, ChainOutput, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.log import Frame
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.r19 import palette, published
from slackwater.scenarios.papers.r19.clock_sync import SyncResult, exchange
from slackwater.scenarios.papers.r19.data_sets import data_set
from slackwater.scenarios.papers.r19.log_writing import (
    SHIFT_NS,
    SITE,
    PublishedSource,
    frames,
    sources,
)
from slackwater.scenarios.papers.r19.orders import PRINTED
from slackwater.scenarios.papers.r19.passes import the_data_set
from slackwater.scenarios.papers.r19.verdicts import judged

ONE: Final = "SELECT avg(v_abs) FROM events WINDOW TUMBLING 10 s"
"""R19 Query 5.6."""
THREE: Final = f"{ONE} DRIFT together"
"""R19 Query 5.7: the mean of the windows LOW, MIDDLE and HIGH."""
DELAY_NS: Final = 125_000
"""Round trip of the time sync (R19 5.2.3.1)."""
AHEAD_NS: Final = 5_000_000
_LABEL: Final = "avg(v_abs)"
_RUNS: Final = 16
_FEWEST: Final = 6
"""Of runs: so many coins fall alike in 3 % of throws."""
_HALF: Final = 0.5
_RESAMPLINGS: Final = 2_000


@dataclass(frozen=True, slots=True)
class WindowRun:
    """One repetition; by window: the right average, and how far the others are off [um/s].

    ``code``: three windows, LOW and HIGH shifted as its author's code does, by the whole delay and
    not by half of it. ``errors_ns``: by how much the two sources' offsets were measured wrong.
    """

    expected: tuple[float, ...]
    one: tuple[float, ...]
    three: tuple[float, ...]
    code: tuple[float, ...]
    errors_ns: tuple[int, int]


def one_window(run: PaperRun) -> Finding:
    """Table 5.11."""
    repeated = _repeated(run)
    first = repeated[0]
    largest = max(abs(error) for each in repeated for error in each.one)
    relative = max(
        abs(error) / average
        for each in repeated
        for error, average in zip(each.one, each.expected, strict=True)
    )
    claim = judged(
        "A clock error within half the 0.125 ms of the sync's round trip changes averages over "
        "10 s a little.",
        0 < relative < 1e-3,
        f"at most {largest:.2f} um/s ({100 * relative:.4f} %) in {len(repeated)} runs",
        "at most 1.54 um/s",
        f"the largest relative change is {relative:.2g}; of {sum(len(e.one) for e in repeated)} "
        f"windows {sum(not error for e in repeated for error in e.one)} do not change at all.",
    )
    rows = _rows(first.expected, first.one, published.ONE_WINDOW_ERRORS)
    return Finding((claim,), (_table("Averages of one window (Query 5.6)", rows, first),))


def three_windows(run: PaperRun) -> Finding:
    """Table 5.12."""
    repeated = _repeated(run)
    first = repeated[0]
    one, three, code = (
        _rms([e for each in repeated for e in of(each)]) for of in (_one, _three, _code)
    )
    ratios = [_rms(each.three) / _rms(each.one) for each in repeated if any(each.one)]
    halved = sum(ratio <= _HALF for ratio in ratios)
    worse = sum(ratio > 1 for ratio in ratios)
    low, high = _resampled(repeated)
    paper = _rms(published.THREE_WINDOW_ERRORS) / _rms(published.ONE_WINDOW_ERRORS)
    claim = judged(
        "The mean of three windows at least halves the error of one window.",
        three <= _HALF * one,
        f"{three:.2f} against {one:.2f} um/s (root mean square over {len(repeated)} runs of "
        f"{len(first.one)} windows): {three / one:.2f} of the error is left, "
        f"{low:.2f} to {high:.2f} in 95 % of resamplings of the runs",
        f"{paper:.2f} in one run of 7 windows (it says about 50 %)",
        f"{three / one if one else 0:.2f} of the error is left, and 0.88 would be if values vary "
        "at random and errors are spread evenly within the bound: three windows around a wrong "
        "middle are wrong by the same shift, and gain only that events near an edge count by "
        f"thirds. Of {len(ratios)} runs, each as long as the paper's one, {halved} would have "
        f"shown a halving and {worse} a worsening.",
        (
            code <= _HALF * one,
            f"{code / one if one else 0:.2f} left, with windows shifted by the whole delay",
        ),
    )
    rows = _rows(first.expected, first.three, published.THREE_WINDOW_ERRORS)
    table = _table("Averages of three windows (Query 5.7)", rows, first)
    facts = {"error_left": three / one if one else None, "runs": len(repeated)}
    return _if_enough(
        repeated, claim, Finding((claim,), (table, _repetitions(repeated)), (), facts)
    )


def differences(run: PaperRun) -> Finding:
    """Figure 5.14."""
    repeated = _repeated(run)
    first = repeated[0]
    windows = list(range(1, len(first.one) + 1))
    of_paper = list(range(1, len(published.ONE_WINDOW_ERRORS) + 1))
    by_window = drawing.lines(
        "figure-5-14",
        "Error of the average, window by window",
        "One run, as in the paper. Dotted: the paper's numbers.",
        [
            Curve("one window", windows, first.one, palette.PRINTED),
            Curve("three windows", windows, first.three, palette.CODE),
            Curve("one window, the paper", of_paper, published.ONE_WINDOW_ERRORS,
                   palette.PRINTED, published=True),
            Curve("three windows, the paper", of_paper, published.THREE_WINDOW_ERRORS,
                   palette.CODE, published=True),
        ],
        ("window", "average less the right one [um/s]"),
    )  # fmt: skip
    runs = list(range(1, len(repeated) + 1))
    by_run = drawing.bars(
        "figure-5-14-runs",
        "Error of the averages, run by run",
        "Root mean square over the windows of each run: the runs differ in the events' values and "
        "in how wrong the time sync was.",
        [
            Curve("one window", runs, [_rms(each.one) for each in repeated], palette.PRINTED),
            Curve("three windows", runs, [_rms(each.three) for each in repeated], palette.CODE),
        ],
        ("run", "error [um/s]"),
    )
    nearer, nearer_by_code = (
        sum(_rms(of(each)) < _rms(each.one) for each in repeated) for of in (_three, _code)
    )
    claim = judged(
        "The mean of three windows is nearer to the right average than one window.",
        nearer > len(repeated) / 2,
        f"in {nearer} of {len(repeated)} runs",
        "in its one run",
        f"in {len(repeated) - nearer} of them it is not; over all the root mean square of the "
        f"error goes from {_rms([e for r in repeated for e in r.one]):.3g} to "
        f"{_rms([e for r in repeated for e in r.three]):.3g} um/s.",
        (nearer_by_code > len(repeated) / 2, f"in {nearer_by_code} of {len(repeated)} runs"),
    )
    return _if_enough(
        repeated, claim, Finding((claim,), (_repetitions(repeated),), (by_window, by_run))
    )


def _if_enough(repeated: Sequence[WindowRun], claim: Claim, found: Finding) -> Finding:
    """``found``, without its claim where so few runs may agree by chance, as at a small scale."""
    if len(repeated) >= _FEWEST:
        return found
    why = f"{len(repeated)} runs; fewer than {_FEWEST} that agree may be chance."
    return replace(found, claims=(), not_judged={claim.text: why})


def _one(each: WindowRun) -> Sequence[float]:
    return each.one


def _three(each: WindowRun) -> Sequence[float]:
    return each.three


def _code(each: WindowRun) -> Sequence[float]:
    return each.code


def _rms(errors: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors)))) if len(errors) else 0.0


def _resampled(repeated: Sequence[WindowRun]) -> tuple[float, float]:
    """Between which the share of the error that is left lies in 95 % of resamplings of the runs."""
    one, three = (np.array([_rms(of(each)) ** 2 for each in repeated]) for of in (_one, _three))
    chance = np.random.default_rng(0)
    drawn = chance.integers(0, len(repeated), (_RESAMPLINGS, len(repeated)))
    below = one[drawn].sum(axis=1)
    left = np.sqrt(three[drawn].sum(axis=1)[below > 0] / below[below > 0])
    low, high = np.quantile(left, (0.025, 0.975)).tolist() if len(left) else (0.0, 0.0)
    return low, high


def _repeated(run: PaperRun) -> list[WindowRun]:
    """Runs that differ in their seed; the first is of the run's own data set."""
    count = max(round(_RUNS * run.scale), 2)
    return run.once("windows", lambda: [_repetition(run, number) for number in range(count)])


def _repetition(run: PaperRun, number: int) -> WindowRun:
    chance = np.random.default_rng((run.seed, 511, number))
    data = the_data_set(run, 3) if number == 0 else data_set(3, run.seed * 1000 + number, run.scale)
    measured = [
        exchange(ahead_ns, there_ns, DELAY_NS - there_ns)
        for ahead_ns, there_ns in zip((0, AHEAD_NS), _there_ns(chance), strict=True)
    ]
    publishers = (
        PublishedSource("0", sync=measured[0]),
        PublishedSource("1", SHIFT_NS, AHEAD_NS, measured[1]),
    )
    with run.watched(f"windows, run {number + 1}") as advanced:
        (right,) = _averages(frames(data, sources(2), ("v_abs",)), (ONE,), advanced)
        one, three = _averages(frames(data, publishers, ("v_abs",)), (ONE, THREE), advanced)
        twice = [replace(each, sync=_of_twice_the_delay(each.sync)) for each in publishers]
        (code,) = _averages(frames(data, twice, ("v_abs",)), (THREE,), advanced)
    starts = sorted(right)
    return WindowRun(
        expected=tuple(right[start] for start in starts),
        one=tuple(one[start] - right[start] for start in starts),
        three=tuple(three[start] - right[start] for start in starts),
        code=tuple(code[start] - right[start] for start in starts),
        errors_ns=(measured[0].error_ns(0), measured[1].error_ns(AHEAD_NS)),
    )


def _of_twice_the_delay(measured: SyncResult | None) -> SyncResult | None:
    """The same offset; LOW and HIGH are shifted by half the delay of the sync."""
    return measured and SyncResult(measured.offset_ns, 2 * measured.delay_ns)


def _there_ns(chance: np.random.Generator) -> tuple[int, int]:
    """Each source's way to the engine: any part of the round trip is as likely."""
    first, second = chance.integers(0, DELAY_NS + 1, 2).tolist()
    return first, second


def _averages(
    log: Iterable[Frame], queries: Sequence[str], advanced: Any
) -> list[dict[int, float]]:
    """Per query: start of the window [ns] -> the average that stood at the end."""
    plans = tuple(query(text, name=f"q{number}") for number, text in enumerate(queries))
    chain = Chain(ChainSettings(parse_order(PRINTED.order), plans=plans), SITE)
    found: list[dict[int, float]] = [{} for _ in queries]
    for frame in log:
        _take(found, chain.process([frame]))
        advanced(frame.rows)
    _take(found, chain.finish())
    return found


def _take(found: list[dict[int, float]], output: ChainOutput) -> None:
    for standing, results in zip(found, output.results, strict=True):
        for result in results:
            start = result["window"]["start"]
            if result["op"] == "+":
                standing[start] = result["value"][_LABEL]
            else:
                standing.pop(start, None)


def _rows(
    expected: Sequence[float], errors: Sequence[float], paper: Sequence[float]
) -> tuple[tuple[str | float | None, ...], ...]:
    return tuple(
        (f"window {place + 1}", f"{average:,.2f}", f"{average + error:,.2f}", f"{error:.2f}",
         f"{paper[place]:.2f}" if place < len(paper) else None)
        for place, (average, error) in enumerate(zip(expected, errors, strict=True))
    )  # fmt: skip


def _table(title: str, rows: tuple[tuple[str | float | None, ...], ...], first: WindowRun) -> Table:
    wrong = " and ".join(f"{error / 1000:.1f}" for error in first.errors_ns)
    return Table(
        title,
        ("", "right average [um/s]", "with the clock error [um/s]", "difference, ours [um/s]",
         "difference, paper [um/s]"),
        rows,
        f"Right: the same events with right clocks. Offsets were measured wrong by {wrong} us.",
    )  # fmt: skip


def _repetitions(repeated: Sequence[WindowRun]) -> Table:
    rows = [
        (f"run {place + 1}", *(round(error / 1000, 1) for error in each.errors_ns),
         round(_rms(each.one), 3), round(_rms(each.three), 3),
         round(_rms(each.three) / _rms(each.one), 2) if any(each.one) else None,
         round(_rms(each.code), 3))
        for place, each in enumerate(repeated)
    ]  # fmt: skip
    return Table(
        "Error of the averages, run by run",
        ("", "sync error, source 0 [us]", "source 1 [us]", "one window [um/s]",
         "three windows [um/s]", "three / one", "shifted by the whole delay [um/s]"),
        tuple(rows),
        "Root mean square over the windows of a run.",
    )  # fmt: skip
