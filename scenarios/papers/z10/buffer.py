"""Z10 Figures 16 to 18: the two methods by the size of the tree's buffer, the rest in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import NS_PER, Claim, number
from slackwater.scenarios.papers.curves import FLAT, Curves, drawn, tabled
from slackwater.scenarios.papers.verdicts import judged, listed
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    REALTIME,
    Ran,
    Setup,
    counted,
    timed,
    truth,
)
from slackwater.scenarios.papers.z10.workload import Shape

BUFFERS: Final = (50, 100, 250, 500, 750, 1000)
"""Events; Z10 draws from 0 on, and names 500."""
SHAPE: Final = Shape(1_500, density=400)
"""W and K hold 500 events."""
_SHARE: Final = 0.18
_CROSSING: Final = 500
_AXIS: Final = "events in memory"
_BOTH: Final = (REALTIME, CORRECT)
_WAITS: Final = (10, 60)
"""Seconds that events might wait for the files together: the paper prints none."""
_FEW: Final = (50, 250, 750, 1000)
_MATTERS: Final = 1.01
"""From here on a ratio of latencies counts."""
Latencies = dict[str, list[float]]
Passes = dict[str, list[Ran]]


def latency(run: PaperRun) -> Finding:
    """Figure 16."""
    passes = _passes(run)
    curves = {name: [ran.whole_latency_s for ran in of] for name, of in passes.items()}
    claims = (
        judged("The average latency of both methods falls as the buffer grows.",
               _both_fall(BUFFERS, curves), _values(curves, "s"),
               f"falls; taken as by {_MATTERS - 1:.0%} and more",
               _computing(passes), rests=_with_waits(run, _both_fall)),
        judged("Correct has the lower latency below 500 events, and Realtime above.",
               _crosses(BUFFERS, curves),
               f"Realtime less Correct {listed(number(round(e - w, 1)) for e, w in _pairs(curves))}"
               f" s for {listed(map(str, BUFFERS))} events", "a crossing at 500",
               _taken_back(passes), rests=_with_waits(run, _crosses)),
        judged("The buffer matters more to Realtime than to Correct.",
               _matters_more(BUFFERS, curves),
               listed(f"{of[0] / of[-1]:.3f}" for of in curves.values())
               + f" times the latency with {BUFFERS[0]} as with {BUFFERS[-1]}",
               f"more; taken as by {_MATTERS - 1:.0%}",
               _computing(passes), rests=_with_waits(run, _matters_more)),
    )  # fmt: skip
    return _finding(claims, "fig-16", "Average latency by buffer", curves, "latency [s]")


def _computing(passes: Passes) -> str:
    """What a small memory costs, against what there is to be waited for."""
    told = listed(
        f"{name}: {number(float(f'{1e3 * of[0].event_seconds:.2g}'))} ms an event with "
        f"{BUFFERS[0]} in memory, {number(float(f'{1e3 * of[-1].event_seconds:.2g}'))} with "
        f"{BUFFERS[-1]}, of a latency of {number(round(of[-1].latency_s, 1))} s"
        for name, of in passes.items()
    )
    return (
        f"the buffer changes but the computing ({told}); the rest is the time from a result's "
        "first event to its last, and, of Correct, K."
    )


def _taken_back(passes: Passes) -> str:
    """That a small memory gives no more wrong results."""
    eager = [ran.told for ran in passes[REALTIME]]
    return (
        f"Realtime takes back {listed(str(told.taken_back) for told in eager)} of "
        f"{listed(str(told.given) for told in eager)} results: none for want of an event in "
        "memory, as the files are asked before a result is given."
        if len({told.taken_back for told in eager}) == 1
        else f"Realtime takes back {listed(str(told.taken_back) for told in eager)} of "
        f"{listed(str(told.given) for told in eager)} results."
    )


def _pairs(curves: Latencies) -> list[tuple[float, float]]:
    return list(zip(curves[REALTIME], curves[CORRECT], strict=True))


def _both_fall(_buffers: Sequence[int], curves: Latencies) -> bool:
    return all(_falls(of) and of[0] >= _MATTERS * of[-1] for of in curves.values())


def _crosses(buffers: Sequence[int], curves: Latencies) -> bool:
    each = zip(buffers, _pairs(curves), strict=True)
    return all(
        (w < e) if size < _CROSSING else (e < w) for size, (e, w) in each if size != _CROSSING
    )


def _matters_more(_buffers: Sequence[int], curves: Latencies) -> bool:
    eager, wary = curves[REALTIME], curves[CORRECT]
    return eager[0] / eager[-1] >= _MATTERS * wary[0] / wary[-1]


def _with_waits(run: PaperRun, judge: Callable[[Sequence[int], Latencies], bool]) -> str:
    """Whether a verdict holds where events wait for the files together."""
    told = []
    for wait in _WAITS:
        setups = {
            name: [Setup(name, SHAPE, _SHARE, buffer=size, wait_ns=wait * NS_PER["s"])
                   for size in _FEW]
            for name in _BOTH
        }  # fmt: skip
        found = counted(run, f"a wait of {wait} s", [each for of in setups.values() for each in of])
        curves = {name: [found[each].latency_s for each in of] for name, of in setups.items()}
        told.append(f"{'holds' if judge(_FEW, curves) else 'fails'} with {wait} s")
    return f"how long events may wait for the files together, here not at all: {', '.join(told)}."


def accuracy(run: PaperRun) -> Finding:
    """Figure 17."""
    right = truth(run, SHAPE)
    passes = _passes(run)
    curves = {name: [ran.accuracy(right) for ran in of] for name, of in passes.items()}
    least = {name: of[0] for name, of in passes.items()}
    whole = listed(f"{name}: {ran.right(right)} of {len(right)}" for name, ran in least.items())
    claims = (
        judged("With a buffer near zero the accuracy is about 0 %, as there is hardly a result.",
               max(values[0] for values in curves.values()) <= 10, _values(curves, "%"), "about 0",
               f"what memory does not hold is read from files: of the true results stand {whole} "
               f"with {BUFFERS[0]} events in memory."),
        judged("With a larger one it stays almost the same.",
               all(max(values[1:]) - min(values[1:]) <= 5 for values in curves.values()),
               _values(curves, "%"), "almost the same; taken as within 5 points",
               _taken_back(passes)),
    )  # fmt: skip
    return _finding(claims, "fig-17", "Accuracy by buffer", curves, "NoCR / NoR [%]")


def execution(run: PaperRun) -> Finding:
    """Figure 18."""
    passes = _passes(run)
    curves = {name: [1e6 * ran.event_seconds for ran in of] for name, of in passes.items()}
    waits = {name: [ran.latency_s for ran in of] for name, of in passes.items()}
    claims = (
        judged("The average execution time of both methods falls as the buffer grows.",
               all(_falls(values) for values in curves.values()), _values(curves, "us"), "falls",
               f"it rises from one size to the next by up to {_largest_rise(curves)}, taken as "
               f"noise up to {FLAT - 1:.0%}."),
        judged("It differs from the average latency by what does not depend on the buffer.",
               max(max(of) / min(of) for of in waits.values()) <= _MATTERS,
               "without computing the latency is "
               + listed(f"{name}: {number(round(min(of), 1))} to {number(round(max(of), 1))} s"
                        for name, of in waits.items()),
               f"a constant difference; taken as within {_MATTERS - 1:.0%}", _taken_back(passes)),
    )  # fmt: skip
    return _finding(claims, "fig-18", "Execution time by buffer", curves,
                    "time of the processor [us]")  # fmt: skip


def _passes(run: PaperRun) -> Passes:
    setups = {name: [Setup(name, SHAPE, _SHARE, buffer=size) for size in BUFFERS] for name in _BOTH}
    found = timed(run, "buffers", [setup for of in setups.values() for setup in of])
    return {name: [found[setup] for setup in of] for name, of in setups.items()}


def _falls(values: list[float]) -> bool:
    """Whether it falls, and nowhere rises by more than noise."""
    calm = all(after <= FLAT * before for before, after in pairwise(values))
    return values[-1] < values[0] and calm


def _largest_rise(curves: Curves) -> str:
    return f"{max(b / a - 1 for of in curves.values() for a, b in pairwise(of)):.0%}"


def _values(curves: Curves, unit: str) -> str:
    return listed(
        f"{name}: {', '.join(number(float(f'{value:.3g}')) for value in values)} {unit}"
        for name, values in curves.items()
    )


def _finding(
    claims: tuple[Claim, ...], figure: str, title: str, curves: Curves, unit: str
) -> Finding:
    caption = (
        f"{SHAPE.density} instants per window, {_SHARE:.0%} out of order. The buffer is what "
        "memory holds; older events are in files, which are asked as soon as one is needed."
    )
    sizes = [str(size) for size in BUFFERS]
    return Finding(
        claims,
        (tabled(f"{title}: {unit}", "method", sizes, curves, caption),),
        (drawn(figure, title, caption, curves, BUFFERS, (_AXIS, unit)),),
        {"buffers": BUFFERS, "values": curves},
    )
