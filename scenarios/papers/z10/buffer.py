"""Z10 Figures 16 to 18: the two methods by the size of the tree's buffer, the rest in files.

Judged with files that are asked after an answer, as the paper does (``after_answer``); beside it
stands what our engine does, which asks them before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import NS_PER, Claim, number
from slackwater.scenarios.papers.curves import FLAT, Curves, drawn, tabled
from slackwater.scenarios.papers.verdicts import (
    judged,
    listed,
    same_with,
    split_judged,
    unless,
)
from slackwater.scenarios.papers.z10.after_answer import AnsweredMatches, answered
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    REALTIME,
    MethodRun,
    MethodSetup,
    counted_passes,
    events,
    timed,
    truth,
)
from slackwater.scenarios.papers.z10.workload import WorkloadShape

BUFFERS: Final = (50, 100, 250, 500, 750, 1000)
"""Events; Z10 draws from 0 on, and names 500."""
NEAR_ZERO: Final = 1
SIZES: Final = (NEAR_ZERO, *BUFFERS)
"""Where files are asked afterwards: the smallest holds no result's events."""
SHAPE: Final = WorkloadShape(1_500, density=400)
"""W and K hold 500 events."""
_SHARE: Final = 0.18
_CROSSING: Final = 500
_AXIS: Final = "events in memory"
_BOTH: Final = (REALTIME, CORRECT)
ANSWER_NS: Final = SHAPE.delay_ns
"""Z10 names no time until files answer ("a period of time", 5.2); K is the one time it has."""
_ANSWERS_S: Final = (1, 10, 60, 300, 600)
_SHARES: Final = (0.09, 0.45)
_MATTERS: Final = 1.01
"""From here on a ratio of latencies counts."""
Latencies = dict[str, list[float]]
Passes = dict[str, list[MethodRun]]
Answers = dict[str, list[AnsweredMatches]]


def latency(run: PaperRun) -> Finding:
    """Figure 16."""
    answers = _answers(run)
    curves = _latencies(run)
    passes = _passes(run)
    first = {name: [ran.whole_latency_s for ran in of] for name, of in passes.items()}
    claims = (
        judged("The average latency of both methods falls as the buffer grows.",
               _both_fall(SIZES, curves), _values(curves, "s"),
               f"falls; taken as by {_MATTERS - 1:.0%} and more",
               _held_anyway(curves),
               also=_files_first(_both_fall(BUFFERS, first), _computing(passes)),
               rests=_with_others(run, _both_fall)),
        judged("Correct has the lower latency below 500 events, and Realtime above.",
               _crosses(SIZES, curves),
               f"Realtime less Correct {listed(number(round(e - w, 1)) for e, w in _pairs(curves))}"
               f" s for {listed(map(str, SIZES))} events", "a crossing at 500",
               _wrong(answers), also=_files_first(_crosses(BUFFERS, first), _taken_back(passes)),
               rests=_with_others(run, _crosses)),
        judged("The buffer matters more to Realtime than to Correct.",
               _matters_more(SIZES, curves),
               listed(f"{of[0] / of[-1]:.3f}" for of in curves.values())
               + f" times the latency with {SIZES[0]} as with {SIZES[-1]}",
               f"more; taken as by {_MATTERS - 1:.0%}", _held_anyway(curves),
               also=_files_first(_matters_more(BUFFERS, first), _computing(passes)),
               rests=_with_others(run, _matters_more)),
    )  # fmt: skip
    return _finding(
        run, claims, "fig-16", "Average latency by buffer", curves, "latency [s]", _AFTER
    )


def _held_anyway(curves: Latencies) -> str:
    """What the files cost Correct."""
    return (
        "Correct holds a result until K has passed, and the files answer meanwhile: with "
        f"{SIZES[0]} event in memory it takes {number(round(curves[CORRECT][0], 1))} s, with "
        f"{SIZES[-1]} {number(round(curves[CORRECT][-1], 1))} s."
    )


def _wrong(answers: Answers) -> str:
    """How many results a small memory gets wrong."""
    found = answers[REALTIME]
    return (
        "the paper has many wrong results where the buffer is small; here "
        f"{listed(f'{each.wrong:,}' for each in found)} of the "
        f"{listed(f'{len(each.at_once):,}' for each in found)} results that memory gives are wrong "
        "for want of an event: what refutes a result arrives at about the time of its other "
        "events, and is lost from memory with them. The rest of a small buffer's latency is the "
        "files' time, which both methods have."
    )


def _files_first(holds: bool, why: str) -> str:
    said = "holds" if holds else "fails"
    return f"By our engine, which asks the files before it answers: {said}. {why}"


def _computing(passes: Passes) -> str:
    """What a small memory costs, against what there is to be waited for."""
    costs = listed(
        f"{name}: {number(float(f'{1e3 * of[0].event_seconds:.2g}'))} ms an event with "
        f"{BUFFERS[0]} in memory, {number(float(f'{1e3 * of[-1].event_seconds:.2g}'))} with "
        f"{BUFFERS[-1]}, of a latency of {number(round(of[-1].latency_s, 1))} s"
        for name, of in passes.items()
    )
    return f"There the buffer changes the computing alone ({costs})."


def _taken_back(passes: Passes) -> str:
    """How many results are wrong where files are asked first."""
    eager = [ran.emissions for ran in passes[REALTIME]]
    return (
        f"Realtime retracts {listed(str(each.retracted) for each in eager)} of "
        f"{listed(str(each.inserted) for each in eager)} results."
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


def _with_others(run: PaperRun, judge: Callable[[Sequence[int], Latencies], bool]) -> str:
    """With which other times of the files, and shares out of order, a verdict is the same."""
    verdict = judge(SIZES, _latencies(run))
    answers = {f"{s} s": judge(SIZES, _latencies(run, s * NS_PER["s"])) for s in _ANSWERS_S}
    shares = {f"{share:.0%}": judge(SIZES, _latencies(run, share=share)) for share in _SHARES}
    return (
        f"when the files answer, here after K, {ANSWER_NS // NS_PER['s']} s: "
        f"{same_with(verdict, answers)}; the share out of order, here {_SHARE:.0%}: "
        f"{same_with(verdict, shares)}."
    )


def accuracy(run: PaperRun) -> Finding:
    """Figure 17."""
    right = truth(run, SHAPE)
    answers, passes = _answers(run), _passes(run)
    curves = {name: [each.accuracy(right) for each in of] for name, of in answers.items()}
    first = {name: [ran.accuracy(right) for ran in of] for name, of in passes.items()}
    every = {name: [each.ran.accuracy(right) for each in of] for name, of in answers.items()}
    claims = (
        judged("With a buffer near zero the accuracy is about 0 %, as there is hardly a result.",
               _starts_at_none(curves), _values(curves, "%"), "about 0",
               f"memory gives {listed(str(len(of[0].at_once)) for of in answers.values())} "
               "results.", also=_files_first(_starts_at_none(first), _values(first, "%") + "."),
               rests="which results count, here those that memory gives: with those that the files "
               f"add it {'holds' if _starts_at_none(every) else 'fails'} ({_values(every, '%')}); "
               f"how small near zero is, here {NEAR_ZERO} event, with which no result of three "
               "events is in memory."),
        judged("With a larger one it stays almost the same.", _stays(curves),
               _values(curves, "%"), f"almost the same; taken as within {_ALMOST:g} points",
               _taken_back(passes), also=_files_first(_stays(first), _values(first, "%") + "."),
               rests=f"what almost the same is: {_apart(curves):.1f} points apart from "
               f"{SIZES[1]} events on; it flips at a bound below that."),
    )  # fmt: skip
    return _finding(run, claims, "fig-17", "Accuracy by buffer", curves, "NoCR / NoR [%]", _AFTER)


_ALMOST: Final = 5.0
_NEAR_NONE: Final = 10.0


def _starts_at_none(curves: Curves) -> bool:
    return max(values[0] for values in curves.values()) <= _NEAR_NONE


def _stays(curves: Curves) -> bool:
    return _apart(curves) <= _ALMOST


def _apart(curves: Curves) -> float:
    return max(max(values[1:]) - min(values[1:]) for values in curves.values())


def execution(run: PaperRun) -> Finding:
    """Figure 18."""
    passes = _passes(run)
    curves = {name: [1e6 * ran.event_seconds for ran in of] for name, of in passes.items()}
    waits = {name: [ran.latency_s for ran in of] for name, of in passes.items()}
    afterwards = listed(
        f"{name}: {number(round(of[0] - of[-1], 1))} s" for name, of in _latencies(run).items()
    )
    claims = (
        judged("The average execution time of both methods falls as the buffer grows.",
               all(_falls(values) for values in curves.values()), _values(curves, "us"), "falls",
               f"it rises from one size to the next by up to {_largest_rise(curves)}, taken as "
               f"noise up to {FLAT - 1:.0%}.",
               rests="the computer, and our files: it flips where they cost no time."),
        judged("It differs from the average latency by what does not depend on the buffer.",
               max(max(of) / min(of) for of in waits.values()) <= _MATTERS,
               "without computing the latency is "
               + listed(f"{name}: {number(round(min(of), 1))} to {number(round(max(of), 1))} s"
                        for name, of in waits.items()),
               f"a constant difference; taken as within {_MATTERS - 1:.0%}", _taken_back(passes),
               also="With files asked afterwards the latency falls by what they make a result "
               f"wait, which is no time of the processor ({afterwards}).",
               rests="whether a wait for files is execution time, here not: it flips where they "
               "are asked afterwards and it is none."),
    )  # fmt: skip
    return _finding(run, claims, "fig-18", "Execution time by buffer", curves,
                    "time of the processor [us]", _BEFORE)  # fmt: skip


def _passes(run: PaperRun) -> Passes:
    """By our engine; what reads files takes so long that one pass says enough."""
    setups = {
        name: [MethodSetup(name, SHAPE, _SHARE, buffer=size) for size in BUFFERS] for name in _BOTH
    }
    every = [setup for of in setups.values() for setup in of]
    found = counted_passes(run, "with files", [each for each in every if each.buffer < _CROSSING])
    found |= timed(run, "in memory", [each for each in every if each.buffer >= _CROSSING])
    return {name: [found[setup] for setup in of] for name, of in setups.items()}


def _answers(run: PaperRun, answer_ns: int = ANSWER_NS, share: float = _SHARE) -> Answers:
    """Where files are asked afterwards."""
    return {
        name: [
            answered(run, MethodSetup(name, SHAPE, share, buffer=size), answer_ns) for size in SIZES
        ]
        for name in _BOTH
    }


def _latencies(run: PaperRun, answer_ns: int = ANSWER_NS, share: float = _SHARE) -> Latencies:
    answers = _answers(run, answer_ns, share)
    return {name: [each.ran.latency_s for each in of] for name, of in answers.items()}


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


_AFTER: Final = (
    "Results come from memory, which holds the newest arrivals; files are asked afterwards, and "
    f"answer after {ANSWER_NS // NS_PER['s']} s."
)
_BEFORE: Final = "By our engine: older events are in files, which are asked before it answers."


def _few(run: PaperRun) -> str:
    """Why so few events cannot say what a buffer does; empty if they can."""
    count = len(events(run, MethodSetup(REALTIME, SHAPE, _SHARE)))
    if count >= 2 * _CROSSING:
        return ""
    return f"{count:,} events; fewer than {2 * _CROSSING:,} never need a buffer of {_CROSSING}."


def _finding(
    run: PaperRun, claims: tuple[Claim, ...], figure: str, title: str, curves: Curves, unit: str,
    how: str,
) -> Finding:  # fmt: skip
    why = _few(run)
    decided, not_judged = split_judged(unless(why, claim) for claim in claims)
    caption = f"{SHAPE.density} instants per window, {_SHARE:.0%} out of order. {how}"
    sizes = SIZES if how == _AFTER else BUFFERS
    return Finding(
        decided,
        (tabled(f"{title}: {unit}", "method", list(map(str, sizes)), curves, caption),),
        (drawn(figure, title, caption, curves, sizes, (_AXIS, unit)),),
        {"buffers": sizes, "values": curves},
        not_judged,
    )
