"""Z10 Figures 11 to 15: what events out of order do to latency, compensation, accuracy and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, number
from slackwater.scenarios.papers.curves import FLAT, Curves, drawn, growth, percents, spread, tabled
from slackwater.scenarios.papers.verdicts import (
    NotJudged,
    failing,
    judged,
    listed,
    percent,
    split_judged,
    turns,
    unless,
)
from slackwater.scenarios.papers.z10.grids import DURABLE, POINTS, SHARES, Grid, grid, holds_with
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    ENGINE,
    IE_MINER,
    K_SLACK,
    REALTIME,
    MethodRun,
    too_few,
    too_near,
    truth,
    written,
)
from slackwater.scenarios.papers.z10.workload import WorkloadShape

_OURS: Final = (REALTIME, CORRECT)
_OF_POINTS: Final = (*_OURS, K_SLACK)
_ALL: Final = (*_OF_POINTS, IE_MINER)
_NONE: Final = 5.0
"""Percent up to which an accuracy counts as almost zero."""
_SAME: Final = 1.0
"""Percentage points within which an accuracy does not depend on disorder."""
_LIKE: Final = 15.0
"""Percentage points within which two accuracies are similar."""
_AXIS: Final = "events out of order [%]"
_CPU: Final = "Time of the processor in the chain per event, the least of seven passes."


def latency(run: PaperRun) -> Finding:
    """Figure 11."""
    points = _latencies(grid(run, POINTS, _OF_POINTS))
    durable = _latencies(grid(run, DURABLE, _OURS))
    waits = {name: [ran.waiting_s for ran in of] for name, of in grid(run, POINTS, _OURS).items()}
    trends = {name: (growth(points[name]), growth(durable[name])) for name in _OURS}
    works = accuracy(run, DURABLE, SHARES)[K_SLACK]
    claims = (
        judged("Without durable events the average latency of all three methods rises with the "
               "share out of order.", _all_rise(run, POINTS, SHARES), _from_to(points, "s"),
               "rises",
               failing((name, growth(of) > 1, f"{growth(of):.3f} times")
                       for name, of in points.items())
               + " It begins with the arrival of a result's first event: from the last one's on it "
               f"is {_from_to(waits, 's')}.",
               also=f"From the last event's arrival: {_from_to(waits, 's')}.",
               rests=_with_k(run, _all_rise)),
        judged("The latency of Realtime rises faster than that of the other two.",
               _realtime_fastest(run, POINTS, SHARES),
               f"to {_ratios(points)} times from 0 to 45 %", "faster, as compensation counts",
               failing((f"than {name}", growth(points[REALTIME]) > growth(points[name]),
                        f"{growth(points[REALTIME]):.3f} against {growth(points[name]):.3f} times")
                       for name in (CORRECT, K_SLACK)),
               rests=_with_k(run, _realtime_fastest)),
        judged("With durable events K-Slack does not work.", max(works) <= _NONE,
               f"at most {percent(max(works))} of its results are right",
               f"does not work; taken as at most {_NONE:g} %", _over_none(works),
               rests=f"what does not work is: it flips at a bound below {percent(max(works))}."),
        judged("With durable events the trends of Realtime and Correct are almost the same.",
               _trends_alike(run, DURABLE, SHARES),
               listed(f"{name}: {one:.2f} times without, {two:.2f} with" for name, (one, two)
                      in trends.items()), f"almost the same; taken as within {FLAT} times",
               failing((name, spread(pair) <= FLAT, f"{max(pair) / min(pair):.2f} times apart")
                       for name, pair in trends.items())
               + f" In seconds they rise by {_rise(points)} without and {_rise(durable)} with; A "
               "and B overlap there, so that a result spans less, and the same rise is more of it.",
               rests="what almost the same is, here of rises in times; it flips at a bound of "
               f"{max(map(spread, trends.values())):.2f}; "
               + holds_with(run, _trends_alike, DURABLE)),
    )  # fmt: skip
    both = {**points, **{f"{name}, durable": values for name, values in durable.items()}}
    return _finding(claims, "fig-11", "Average latency", both, "latency [s]",
                    "From the arrival of a result's first event until it leaves, with the time "
                    "for which wrong ones stood.")  # fmt: skip


def compensation(run: PaperRun) -> Finding:
    """Figure 12."""
    curves = {
        "without durable events": _rates(grid(run, POINTS, (REALTIME,))[REALTIME]),
        "with durable events": _rates(grid(run, DURABLE, (REALTIME,))[REALTIME]),
    }
    of_first = _rates(grid(run, POINTS, (REALTIME,))[REALTIME], first=True)
    taken = {name: [100 * ran.emissions.retracted / max(ran.emissions.inserted, 1) for ran in of]
             for name, of in (("without durable events, taken back alone",
                               grid(run, POINTS, (REALTIME,))[REALTIME]),)}  # fmt: skip
    claims = (
        judged("More events out of order cause more compensation per result.",
               _rises(run, POINTS, SHARES) and _rises(run, DURABLE, SHARES),
               _from_to(curves, "%"), "more",
               failing((name, not turns(percents(SHARES), of, "%"),
                        turns(percents(SHARES), of, "%").rstrip("."))
                       for name, of in curves.items()), rests=holds_with(run, _rises, POINTS)),
        judged("The rate of compensation rises faster and faster.",
               _convex(run, POINTS, SHARES), f"{_steps(curves['without durable events'])} "
               "percentage points from share to share", "faster and faster",
               "a result counts once, however many of its three events come late: of events that "
               f"are late by chance the steps are {_steps(_of_three(SHARES))} points.",
               rests="which results NoR counts, here all that are given; where it counts those "
               f"alone that are no compensation, it {_said(_faster(SHARES, of_first))} "
               f"({_steps(of_first)} points); " + holds_with(run, _convex, POINTS)),
    )  # fmt: skip
    return _finding(claims, "fig-12", "Rate of compensation", curves | taken, "NoC / NoR [%]",
                    "NoC: results taken back, and results that an event out of order completes "
                    "(Z10 5.2 has both); NoR: results given.")  # fmt: skip


def points_accuracy(run: PaperRun) -> Finding:
    """Figure 13."""
    curves = accuracy(run, POINTS, SHARES)
    claims = (
        judged("Without durable events the accuracy of Correct and of K-Slack does not depend on "
               "the share out of order.", _independent(run, POINTS, SHARES),
               _from_to({name: curves[name] for name in (CORRECT, K_SLACK)}, "%"), "independent",
               failing((name, max(curves[name]) - min(curves[name]) <= _SAME,
                        f"{min(curves[name]):.2f} to {max(curves[name]):.2f} %")
                       for name in (CORRECT, K_SLACK)),
               rests=holds_with(run, _independent, POINTS)),
        judged("The accuracy of Realtime drops.", _drops(run, POINTS, SHARES),
               _from_to({REALTIME: curves[REALTIME]}, "%"), "drops",
               turns(percents(SHARES), curves[REALTIME], "%", rises=False),
               rests=holds_with(run, _drops, POINTS)),
    )  # fmt: skip
    return _finding(claims, "fig-13", "Accuracy without durable events", curves,
                    "NoCR / NoR [%]", _ACCURACY)  # fmt: skip


def durable_accuracy(run: PaperRun) -> Finding:
    """Figure 14."""
    curves, points = accuracy(run, DURABLE, SHARES), accuracy(run, POINTS, SHARES)
    apart = {
        name: max(abs(x - y) for x, y in zip(curves[name], points[name], strict=True))
        for name in _OURS
    }
    claims = (
        judged("With durable events the accuracy of K-Slack is almost zero.",
               _no_slack(run, DURABLE, SHARES), _from_to({K_SLACK: curves[K_SLACK]}, "%"),
               f"almost zero; taken as at most {_NONE:g} %", _over_none(curves[K_SLACK]),
               rests=holds_with(run, _no_slack, DURABLE)),
        judged("The accuracy of IEMiner drops fast with the share out of order.",
               _miner_falls(run, DURABLE, SHARES), _from_to({IE_MINER: curves[IE_MINER]}, "%"),
               "drops fast; taken as twice as much as Realtime",
               f"it falls by {_fall(curves[IE_MINER]):.1f} points, Realtime by "
               f"{_fall(curves[REALTIME]):.1f}.",
               rests=holds_with(run, _miner_falls, DURABLE)),
        unless(too_few(run, DURABLE),
               judged("Realtime and Correct are about as accurate as without durable events.",
               max(apart.values()) <= _LIKE,
               listed(f"{name}: {value:.1f} points apart at most" for name, value in apart.items()),
               f"similar; taken as within {_LIKE:g} points",
               failing((name, value <= _LIKE, f"{value:.1f} points")
                       for name, value in apart.items())
               + f" With: {_from_to(curves, '%')}; without: {_from_to(points, '%')}.",
               rests=f"what similar is: it flips at a bound of {max(apart.values()):.1f} points.")),
    )  # fmt: skip
    return _finding(claims, "fig-14", "Accuracy with durable events", curves,
                    "NoCR / NoR [%]", _ACCURACY)  # fmt: skip


def execution(run: PaperRun) -> Finding:
    """Figure 15."""
    passes = grid(run, POINTS, _OF_POINTS, time_it=True)
    more = max(max(others) - x for x, *others in
               zip(*(_times(passes)[name] for name in (K_SLACK, *_OURS)), strict=True))  # fmt: skip
    points, durable = _times(passes), _times(grid(run, DURABLE, _OURS, time_it=True))
    share = [x / y for x, y in zip(points[CORRECT], points[REALTIME], strict=True)]
    slack = [min(x / y for y in others) for x, *others in
             zip(points[K_SLACK], points[REALTIME], points[CORRECT], strict=True)]  # fmt: skip
    trends = {name: (growth(points[name]), growth(durable[name])) for name in _OURS}
    works = accuracy(run, DURABLE, SHARES)[K_SLACK]
    claims = (
        unless(too_near(passes, min(growth(points[name]) for name in _OURS)),
               judged("Without durable events the average execution time rises with the share out "
               "of order.", all(growth(points[name]) > 1 for name in _OURS),
               f"Realtime, Correct and K-Slack take {_ratios(points)} times as long at 45 %",
               "rises, by recomputing",
               failing((name, growth(points[name]) > 1, f"{growth(points[name]):.3f} times")
                       for name in _OURS) + f" In us: {_from_to(points, '')}; {written(passes)}.",
               rests=ENGINE)),
        unless(too_near(passes, share[0], share[-1] / FLAT),
               judged("Correct takes longer than Realtime at first, and the same at the end.",
               share[0] > 1 and abs(share[-1] - 1) <= FLAT - 1,
               f"{share[0]:.3f} times at 0 %, {share[-1]:.3f} at 45 %",
               f"longer, then the same; taken as within {FLAT} times",
               f"Correct takes {points[CORRECT][0]:.3g} and Realtime {points[REALTIME][0]:.3g} us "
               f"at 0 %, {points[CORRECT][-1]:.3g} and {points[REALTIME][-1]:.3g} at 45 %; "
               f"{written(passes)}.",
               rests=f"{ENGINE} What the same is: it flips at a bound of {share[-1]:.2f} times.")),
        unless(too_near(passes, min(slack)),
               judged("K-Slack always takes longer than the other two.", min(slack) > 1,
               f"{listed(f'{value:.2f}' for value in slack)} times the larger of the two",
               "always", failing(
                   (share_, ratio > 1, f"{ratio:.2f} times")
                   for share_, ratio in zip(percents(SHARES), slack, strict=True)
               ) + f" {written(passes)}.",
               rests=f"{ENGINE} Its buffer is a sorted batch: it flips if the buffer took "
               f"{more:.1f} us an event more.")),
        unless(too_near(passes, max(map(spread, trends.values())) / FLAT),
               judged("With durable events the time of K-Slack tends to infinity, and the trends "
               "of the others stay.", max(works) <= _NONE and all(spread(pair) <= FLAT for pair in
                                                            trends.values()),
               f"K-Slack: at most {percent(max(works))} of its results are right, so that a right "
               "one takes so many times as long; from 0 to 45 % "
               + listed(f"{name}: {one:.2f} times without, {two:.2f} with" for name, (one, two)
                        in trends.items()), f"infinite; stay, taken as within {FLAT} times",
               failing([("K-Slack", max(works) <= _NONE, percent(max(works))),
                        *((name, spread(pair) <= FLAT, f"{max(pair) / min(pair):.2f} times apart")
                          for name, pair in trends.items())]),
               rests=f"{ENGINE} What staying is: it flips at a bound of "
               f"{max(map(spread, trends.values())):.2f} times.")),
    )  # fmt: skip
    both = {**points, **{f"{name}, durable": values for name, values in durable.items()}}
    return _finding(claims, "fig-15", "Average execution time", both,
                    "time of the processor [us]", _CPU)  # fmt: skip


def _over_none(works: Sequence[float]) -> str:
    """At which shares more is right than counts as nothing."""
    return failing(
        (share, value <= _NONE, percent(value))
        for share, value in zip(percents(SHARES), works, strict=True)
    )


def _fall(values: Sequence[float]) -> float:
    return values[0] - values[-1]


_ACCURACY: Final = "Of the results given, those that stand at the end and are right."


def accuracy(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> Curves:
    """By method, in percent."""
    right = truth(run, shape)
    passes = grid(run, shape, _ALL if shape.mean_ns else _OF_POINTS, shares)
    return {name: [ran.accuracy(right) for ran in of] for name, of in passes.items()}


def _latencies(passes: Grid) -> Curves:
    return {name: [ran.latency_s for ran in of] for name, of in passes.items()}


def _times(passes: Grid) -> Curves:
    return {name: [1e6 * ran.event_seconds for ran in of] for name, of in passes.items()}


def _rates(passes: Sequence[MethodRun], *, first: bool = False) -> list[float]:
    """NoC / NoR [%]; ``first``: NoR without results that are a compensation."""
    return [
        100 * ran.corrections
        / max(ran.emissions.inserted - first * (ran.corrections - ran.emissions.retracted), 1)
        for ran in passes
    ]  # fmt: skip


def _said(holds: bool) -> str:
    return "holds" if holds else "fails"


def _rise(curves: Curves) -> str:
    return listed(f"{name}: {curves[name][-1] - curves[name][0]:.0f} s" for name in _OURS)


def _with_k(run: PaperRun, judge: Callable[..., bool]) -> str:
    """In which other settings a verdict on latencies holds, K among them."""
    fixed = judge(run, POINTS, SHARES, fixed_k=True)
    return (
        f"K, here the largest delay at a share (Table 2), so 0 at 0 %: {_said(fixed)} where that "
        f"at {SHARES[-1]:.0%} serves at every share; from {SHARES[1]:.0%} on it "
        f"{_said(judge(run, POINTS, SHARES[1:]))}; {holds_with(run, judge, POINTS)}"
    )


def _trends_alike(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    """Of intervals and of instants."""
    durable, points = (
        _latencies(grid(run, each, _OURS, shares)) for each in (shape, replace(shape, mean_ns=0))
    )
    return all(spread((growth(points[name]), growth(durable[name]))) <= FLAT for name in _OURS)


def _all_rise(
    run: PaperRun, shape: WorkloadShape, shares: Sequence[float], *, fixed_k: bool = False
) -> bool:
    curves = _latencies(grid(run, shape, _OF_POINTS, shares, fixed_k=fixed_k))
    return all(growth(values) > 1 for values in curves.values())


def _realtime_fastest(
    run: PaperRun, shape: WorkloadShape, shares: Sequence[float], *, fixed_k: bool = False
) -> bool:
    curves = _latencies(grid(run, shape, _OF_POINTS, shares, fixed_k=fixed_k))
    return growth(curves[REALTIME]) > max(growth(curves[name]) for name in (CORRECT, K_SLACK))


def _rises(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    rates = _rates(grid(run, shape, (REALTIME,), shares)[REALTIME])
    return all(before < after for before, after in pairwise(rates))


def _convex(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    return _faster(shares, _rates(grid(run, shape, (REALTIME,), shares)[REALTIME]))


def _faster(shares: Sequence[float], rates: Sequence[float]) -> bool:
    """Whether each slope is steeper than the one before."""
    slopes = [
        (b - a) / (y - x) for (a, b), (x, y) in zip(pairwise(rates), pairwise(shares), strict=True)
    ]
    return all(before < after for before, after in pairwise(slopes))


def _independent(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    curves = accuracy(run, shape, shares)
    return all(max(curves[name]) - min(curves[name]) <= _SAME for name in (CORRECT, K_SLACK))


def _drops(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    values = accuracy(run, shape, shares)[REALTIME]
    return all(before > after for before, after in pairwise(values))


def _no_slack(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    return max(accuracy(run, shape, shares)[K_SLACK]) <= _NONE


def _miner_falls(run: PaperRun, shape: WorkloadShape, shares: Sequence[float]) -> bool:
    curves = accuracy(run, shape, shares)
    fall = {name: values[0] - values[-1] for name, values in curves.items()}
    return fall[IE_MINER] >= 2 * fall[REALTIME] and fall[IE_MINER] > 0


def _from_to(curves: Curves, unit: str) -> str:
    return listed(
        f"{name}: {number(float(f'{values[0]:.3g}'))} to {number(float(f'{values[-1]:.3g}'))} "
        f"{unit}"
        for name, values in curves.items()
    )


def _ratios(curves: Curves) -> str:
    return listed(f"{growth(values):.2f}" for values in curves.values())


def _of_three(shares: Sequence[float]) -> list[float]:
    """By share out of order, how often one of three events at least is [%]."""
    return [100 * (1 - (1 - share) ** 3) for share in shares]


def _steps(values: Sequence[float]) -> str:
    return listed(f"{after - before:.1f}" for before, after in pairwise(values))


def _finding(
    claims: Sequence[Claim | NotJudged], figure: str, title: str, curves: Curves, unit: str,
    caption: str,
) -> Finding:  # fmt: skip
    decided, not_judged = split_judged(claims)
    return Finding(
        decided,
        (tabled(f"{title}: {unit}", "method", percents(SHARES), curves, caption),),
        (drawn(figure, title, caption, curves, [100 * share for share in SHARES], (_AXIS, unit)),),
        {"shares": SHARES, "values": curves},
        not_judged,
    )
