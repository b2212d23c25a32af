"""Z10 Figures 16 to 18: the two methods by the size of the tree's buffer, the rest in files."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from scenarios.papers.curves import FLAT, Curves, drawn, growth, tabled
from scenarios.papers.verdicts import judged, listed
from scenarios.papers.z10.methods import CORRECT, REALTIME, Ran, Setup, timed, truth
from scenarios.papers.z10.workload import Shape
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, number

BUFFERS: Final = (50, 100, 250, 500, 750, 1000)
"""Events; Z10 draws from 0 on, and names 500."""
SHAPE: Final = Shape(6_000, density=400)
"""W and K hold 500 events."""
_SHARE: Final = 0.18
_CROSSING: Final = 500
_AXIS: Final = "events in memory"
_BOTH: Final = (REALTIME, CORRECT)


def latency(run: PaperRun) -> Finding:
    """Figure 16."""
    curves = {name: [ran.latency_s for ran in of] for name, of in _passes(run).items()}
    eager, wary = curves[REALTIME], curves[CORRECT]
    below = [w < e for size, e, w in zip(BUFFERS, eager, wary, strict=True) if size < _CROSSING]
    above = [e < w for size, e, w in zip(BUFFERS, eager, wary, strict=True) if size > _CROSSING]
    claims = (
        judged("The average latency of both methods falls as the buffer grows.",
               all(_falls(values) for values in curves.values()), _values(curves, "s"), "falls",
               "what memory lacks costs computing (Figure 18) and one wait for the files, which is "
               "as long for a small buffer as for a large one."),
        judged("Correct has the lower latency below 500 events, and Realtime above.",
               all(below) and all(above), f"Realtime less Correct "
               f"{listed(number(round(e - w, 1)) for e, w in zip(eager, wary, strict=True))} s "
               f"for {listed(map(str, BUFFERS))} events", "a crossing at 500",
               "a result that is wrong for want of an event in memory is not given here: where "
               "memory holds less than the window every event waits for its turn with the files, "
               "so that both methods wait alike."),
        judged("The buffer matters more to Realtime than to Correct.",
               eager[0] / eager[-1] > wary[0] / wary[-1],
               f"{eager[0] / eager[-1]:.2f} and {wary[0] / wary[-1]:.2f} times the latency with "
               f"{BUFFERS[0]} as with {BUFFERS[-1]}", "more"),
    )  # fmt: skip
    return _finding(claims, "fig-16", "Average latency by buffer", curves, "latency [s]")


def accuracy(run: PaperRun) -> Finding:
    """Figure 17."""
    right = truth(run, SHAPE)
    curves = {name: [ran.accuracy(right) for ran in of] for name, of in _passes(run).items()}
    claims = (
        judged("With a buffer near zero the accuracy is about 0 %, as there is hardly a result.",
               max(values[0] for values in curves.values()) <= 10, _values(curves, "%"), "about 0",
               "what memory does not hold is read from files, so no result is missing."),
        judged("With a larger one it stays almost the same.",
               all(max(values[1:]) - min(values[1:]) <= 5 for values in curves.values()),
               _values(curves, "%"), "almost the same; taken as within 5 points",
               "a larger memory gives results sooner, and more of them too soon."),
    )  # fmt: skip
    return _finding(claims, "fig-17", "Accuracy by buffer", curves, "NoCR / NoR [%]")


def execution(run: PaperRun) -> Finding:
    """Figure 18."""
    passes = _passes(run)
    curves = {name: [1e6 * ran.event_seconds for ran in of] for name, of in passes.items()}
    waits = {name: [ran.latency_s for ran in of] for name, of in passes.items()}
    claims = (
        judged("The average execution time of both methods falls as the buffer grows.",
               all(_falls(values) for values in curves.values()), _values(curves, "us"), "falls"),
        judged("It does as the average latency does.",
               all((curves[name][0] > curves[name][-1]) == (waits[name][0] > waits[name][-1])
                   for name in _BOTH),
               "latency with the largest buffer is "
               + listed(f"{growth(values):.2f} times" for values in waits.values())
               + " that with the smallest", "similar", "see Figure 16."),
    )  # fmt: skip
    return _finding(claims, "fig-18", "Execution time by buffer", curves,
                    "time of the processor [us]")  # fmt: skip


def _passes(run: PaperRun) -> dict[str, list[Ran]]:
    setups = {name: [Setup(name, SHAPE, _SHARE, buffer=size) for size in BUFFERS] for name in _BOTH}
    found = timed(run, "buffers", [setup for of in setups.values() for setup in of])
    return {name: [found[setup] for setup in of] for name, of in setups.items()}


def _falls(values: list[float]) -> bool:
    """Whether it falls, and nowhere rises by more than noise."""
    calm = all(after <= FLAT * before for before, after in pairwise(values))
    return values[-1] < values[0] and calm


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
        "memory holds; older events are in files."
    )
    sizes = [str(size) for size in BUFFERS]
    return Finding(
        claims,
        (tabled(f"{title}: {unit}", "method", sizes, curves, caption),),
        (drawn(figure, title, caption, curves, BUFFERS, (_AXIS, unit)),),
        {"buffers": BUFFERS, "values": curves},
    )
