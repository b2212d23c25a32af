"""L10 Figures 3.6 to 3.11: memory, time and determination time by the share of items that match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from slackwater.paper import COLOURS, Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers.drawing import Curve, lines
from slackwater.scenarios.papers.l10.ch3.runs import (
    PLAIN,
    WAYS,
    WITH_BASIC,
    WITH_LIGHT,
    WayCost,
    costs,
)
from slackwater.scenarios.papers.l10.ch3.workflow import EARLY, FLOWS, by_pattern, by_predicate
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, turns

Points = Mapping[str, Mapping[str, WayCost]]
"""Costs by the percentage of items that match, then by way."""
SAVED: Final = 76.0
"""Percent, of the time at selectivity 0: the paper's only number there."""
KNOWN: Final = (65.0, 70.0)
"""Percent, of the determination time."""
Queries = Callable[[str], Mapping[int, str]]
"""Makes the queries for a place of the deciding step."""
Judge = Callable[[Points], bool]
_FEWER: Final = 4
"""Times fewer items, of verdicts in another workflow."""
NEAR: Final = 10.0
"""Percentage points by which a number may miss the paper's and still be taken for it."""


def _points(run: PaperRun, queries: Queries, where: str = EARLY, fewer: int = 1) -> Points:
    texts = queries(where).items()
    return {f"{percent} %": costs(run, text, where, fewer) for percent, text in texts}


def _rests(run: PaperRun, queries: Queries, judge: Judge) -> str:
    """Whether ``judge`` says the same for another workflow of ours, and for fewer items."""
    verdict = judge(_points(run, queries))
    others = {
        f"{where} of a quarter of the items": judge(_points(run, queries, where, _FEWER))
        for where in FLOWS
    }
    return (
        f"the workflow, in which what decides stands early, {EARLY}: {same_with(verdict, others)}. "
        "The rate does not matter: nothing waits."
    )


def _falls(points: Points) -> bool:
    light = _saved(points, WITH_LIGHT, "buffer_size")
    return all(a >= b - 0.5 for a, b in pairwise(light)) and light[0] > 0


def _near_76(points: Points) -> bool:
    return abs(_saved(points, WITH_LIGHT, "seconds")[0] - SAVED) <= NEAR


def _less_and_less(points: Points) -> bool:
    light = _saved(points, WITH_LIGHT, "seconds")
    return light[0] > light[2] > light[-1]


def _costs_at_last(points: Points) -> bool:
    return _saved(points, WITH_LIGHT, "seconds")[-1] < 0


def _known_sooner(points: Points) -> bool:
    low, high = KNOWN
    return low - NEAR <= _mean(_saved(points, WITH_LIGHT, "until_known")) <= high + NEAR


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _saved(points: Points, way: str, what: str) -> list[float]:
    """What a way saves compared with the plain one [%]."""
    return [
        100 * (1 - getattr(of[way], what) / getattr(of[PLAIN], what)) if getattr(of[PLAIN], what)
        else 0.0
        for of in points.values()
    ]  # fmt: skip


def _takes(points: Points, what: str) -> str:
    """Times of each way, by selectivity."""
    by_selectivity = "; ".join(
        f"{name}: " + listed(f"{1e3 * getattr(of[way], what):.3g}" for way in WAYS)
        for name, of in points.items()
    )
    return f"{', '.join(WAYS)} take, by selectivity, {by_selectivity} ms."


def _percents(values: Sequence[float]) -> str:
    return listed(f"{value:.0f} %" for value in values)


def _memory(run: PaperRun, queries: Queries, figure: str) -> Finding:
    points = _points(run, queries)
    light, basic = (_saved(points, way, "buffer_size") for way in (WITH_LIGHT, WITH_BASIC))
    claims = (
        judged("The fewer traces match, the more buffering is saved.", _falls(points),
               f"{_percents(light)} of what is buffered", "so drawn, without numbers",
               f"where none matches {light[0]:.1f} % is saved. "
               + turns(list(points), light, "%", rises=False),
               rests=_rests(run, queries, _falls)),
        judged("Basic and light checks buffer the same.", light == basic,
               "the same" if light == basic else f"{_percents(basic)} by the basic one", "the same",
               failing((name, a == b, f"{a:.2f} % against {b:.2f} %")
                       for name, a, b in zip(points, light, basic, strict=True)),
               rests="none: both know at the same event."),
    )  # fmt: skip
    return _finding(figure, points, claims, "buffer_size", "events buffered, on the average", 1.0)


def _time(run: PaperRun, queries: Queries, figure: str) -> Finding:
    points = _points(run, queries)
    light, basic = (_saved(points, way, "seconds") for way in (WITH_LIGHT, WITH_BASIC))
    faster = _light_beats_basic(run, queries, "seconds")
    claims = (
        judged("Where no trace matches, a check in front saves 76 % of the time.",
               _near_76(points), f"{light[0]:.0f} % (light), {basic[0]:.0f} % (basic)",
               f"{SAVED:.0f} %; taken for equal within {NEAR:.0f} points",
               _takes(points, "seconds"), rests=_rests(run, queries, _near_76)),
        judged("The more traces match, the less time is saved.", _less_and_less(points),
               _percents(light), "so drawn",
               turns(list(points), light, "%", rises=False) + " "
               + _takes(points, "seconds"), rests=_rests(run, queries, _less_and_less)),
        judged("Where nearly all match, checks cost more than they save.", _costs_at_last(points),
               f"{-light[-1]:.0f} % more time (light), {-basic[-1]:.0f} % (basic)",
               "overhead is higher than what is saved", _takes(points, "seconds"),
               rests=_rests(run, queries, _costs_at_last)),
        faster,
    )  # fmt: skip
    return _finding(figure, points, claims, "seconds", "time of the processor [ms]", 1000.0)


def _known(run: PaperRun, queries: Queries, figure: str) -> Finding:
    points = _points(run, queries)
    light = _saved(points, WITH_LIGHT, "until_known")
    low, high = KNOWN
    claims = (
        judged("Whether a trace matches is known in 65 to 70 % less time.",
               _known_sooner(points), f"{_percents(light)}; {_mean(light):.0f} % on the average",
               f"{low:.0f} to {high:.0f} %; taken for equal within {NEAR:.0f} points",
               _takes(points, "until_known"), rests=_rests(run, queries, _known_sooner)),
        _light_beats_basic(run, queries, "until_known"),
    )  # fmt: skip
    label = "time until it is known [ms]"
    return _finding(figure, points, claims, "until_known", label, 1000.0)


def _light_beats_basic(run: PaperRun, queries: Queries, what: str) -> Claim:
    def times_of(points: Points) -> list[float]:
        return [getattr(of[WITH_BASIC], what) / getattr(of[WITH_LIGHT], what)
                for of in points.values()]  # fmt: skip

    points = _points(run, queries)
    ratios = times_of(points)
    mean = _mean(ratios)
    ratio_texts = listed(f"{ratio:.2f}" for ratio in ratios)
    return judged("The light check is faster than the basic one.", mean > 1,
                  f"basic takes {mean:.2f} times as long on the average ({ratio_texts})",
                  "faster, without a number",
                  failing((name, ratio > 1, f"{ratio:.2f} times")
                          for name, ratio in zip(points, ratios, strict=True)),
                  rests=_rests(run, queries, lambda other: _mean(times_of(other)) > 1))  # fmt: skip


def _finding(
    figure: str, points: Points, claims: tuple[Claim, ...], what: str, label: str, factor: float
) -> Finding:
    rows = tuple(
        (name, *(round(factor * getattr(of[way], what), 3) for way in WAYS),
         of[PLAIN].share, of[PLAIN].matches)
        for name, of in points.items()
    )  # fmt: skip
    table = Table(
        f"{label.partition(' [')[0]} by selectivity".capitalize(),
        ("selectivity", *(f"{way}, {label}" for way in WAYS), "traces that match [%]", "matches"),
        rows,
        "All three ways make the same matches. Times are of one processor and one run.",
    )
    drawn = lines(
        f"figure-{figure.replace('.', '-')}",
        f"{label.partition(' [')[0]} by selectivity".capitalize(),
        "The paper draws the same without printed numbers.",
        [
            Curve(way, list(points), [factor * getattr(of[way], what) for of in points.values()],
                   colour)
            for way, colour in zip(WAYS, COLOURS, strict=False)
        ],
        ("share of the traces that match", label),
    )  # fmt: skip
    return Finding(claims, (table,), (drawn,))


def pattern_memory(run: PaperRun) -> Finding:
    """Figure 3.6."""
    return _memory(run, by_pattern, "3.6")


def pattern_time(run: PaperRun) -> Finding:
    """Figure 3.7."""
    return _time(run, by_pattern, "3.7")


def pattern_known(run: PaperRun) -> Finding:
    """Figure 3.8."""
    return _known(run, by_pattern, "3.8")


def predicate_memory(run: PaperRun) -> Finding:
    """Figure 3.9."""
    return _memory(run, by_predicate, "3.9")


def predicate_time(run: PaperRun) -> Finding:
    """Figure 3.10."""
    return _time(run, by_predicate, "3.10")


def predicate_known(run: PaperRun) -> Finding:
    """Figure 3.11."""
    return _known(run, by_predicate, "3.11")
