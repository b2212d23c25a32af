"""L10 Figures 5.4 to 5.11: memory and processor time of the three ways, by what is varied."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Claim, Table, number
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Series
from slackwater.scenarios.papers.l10.ch5.intervals import WITHIN_NS
from slackwater.scenarios.papers.l10.ch5.ranges import Judge, Points, measured, rests_on
from slackwater.scenarios.papers.l10.ch5.runs import (
    BASIC,
    NAIVE_ISEQ,
    WAYS,
    WITH_IBP,
    Setup,
    gain_percent,
)
from slackwater.scenarios.papers.verdicts import judged, listed

TYPES: Final = {f"{10 * ends}t-{100 - 10 * ends}s": Setup(ends=ends) for ends in range(10, -1, -1)}
"""L10 Table 5.2."""
LENGTHS: Final = {str(length): Setup(length=length, ends=length // 2) for length in range(2, 19, 4)}
MEANS: Final = {f"W/{part}": Setup(mean_ns=WITHIN_NS // part) for part in (100, 50, 20, 10, 5)}
DENSITIES: Final = {
    str(density): Setup(density=density, mean_ns=WITHIN_NS // 20, count=count, rising=10)
    for density, count in {50: 20_000, 100: 20_000, 200: 20_000, 400: 6_000, 800: 1_500}.items()
}
FLAT: Final = 5.0
"""Percentage points by which a gain that rises may fall from one point to the next."""
SLIGHT: Final = 5.0
"""Percent, the paper's word for the memory that is saved."""
HALF_OF_60: Final = 30.0
"""Percent of the time that basic indexing must save to be taken for the paper's 60."""
LEAST_AT_LAST: Final = 45.0
"""Percent that IBP saves beside basic indexing, of the longest query."""
OVERHEAD: Final = ("20t-80s", "10t-90s", "0t-100s")


def _gains(points: Points, better: str, worse: str, what: str) -> list[float]:
    return [
        gain_percent(getattr(of[worse], what), getattr(of[better], what)) for of in points.values()
    ]


def _rises(gains: Sequence[float]) -> bool:
    return gains[-1] > gains[0] and all(b > a - FLAT for a, b in pairwise(gains))


def _saved(points: Points, way: str, what: str) -> list[float]:
    """Of the naive way's."""
    return _gains(points, way, NAIVE_ISEQ, what)


def _both_hold_less(points: Points) -> bool:
    ibp, basic = (_saved(points, way, "held") for way in (WITH_IBP, BASIC))
    return min(ibp) > 0 and min(basic[:-1]) > 0


def _slight(points: Points) -> bool:
    return max(*_saved(points, BASIC, "held"), *_saved(points, WITH_IBP, "held")) < SLIGHT


def _always_faster(points: Points) -> bool:
    return min(_saved(points, WITH_IBP, "seconds")) > 0


def _most_with_ends(points: Points) -> bool:
    basic = _saved(points, BASIC, "seconds")
    return basic[0] == max(basic) and basic[0] >= HALF_OF_60


def _few_ends_cost(points: Points) -> bool:
    basic = dict(zip(points, _saved(points, BASIC, "seconds"), strict=True))
    return max(basic[name] for name in OVERHEAD) < 0


def _faster_than_basic(points: Points) -> bool:
    between = _gains(points, WITH_IBP, BASIC, "seconds")
    return min(between) > -FLAT and max(between) > 0


def _steady(points: Points) -> bool:
    gains = _saved(points, WITH_IBP, "held")
    return max(gains) - min(gains) <= 2 * FLAT


def _rise_over_basic(points: Points) -> bool:
    between = _gains(points, WITH_IBP, BASIC, "seconds")
    return _rises(between) and between[-1] >= LEAST_AT_LAST


def _rising_gain(what: str, *, back: bool = False) -> Judge:
    return lambda points: _rises(_saved(points, WITH_IBP, what)[:: -1 if back else 1])


def _steeper(points: Points) -> dict[str, float]:
    """How many times as long an interval takes at the last density as at the one before."""
    return {
        way: (last[way].seconds / last[way].count) / (before[way].seconds / before[way].count)
        for before, last in [list(points.values())[-2:]]
        for way in WAYS
    }


def _naive_steepest(points: Points) -> bool:
    steeper = _steeper(points)
    return steeper[NAIVE_ISEQ] > steeper[BASIC] > 0 and steeper[NAIVE_ISEQ] > steeper[WITH_IBP]


def _percents(gains: Sequence[float]) -> str:
    return listed(f"{gain:.0f} %" for gain in gains)


def _some(points: Points) -> list[str]:
    """The first, the middle and the last."""
    names = list(points)
    return list(dict.fromkeys([names[0], names[len(names) // 2], names[-1]]))


def _looked(points: Points, names: Sequence[str] = ()) -> str:
    """Why one way takes longer than another: candidates that it tests."""
    told = "; ".join(
        f"with {name} "
        + listed(f"{way} {number(float(f'{points[name][way].looked:.3g}'))}" for way in WAYS)
        for name in names or _some(points)
    )
    return (
        f"candidates tested for each interval, as the matches are found depth first: {told}. "
        "No way joins whole stacks: a branch is left as soon as a value or an end point forbids it."
    )


def _dropped(points: Points) -> str:
    """Why they hold as much as they do: what the indexed ways drop before the window leaves it."""
    told = "; ".join(
        f"with {name} "
        + listed(f"{way} {points[name][way].dropped:.0f} %" for way in (BASIC, WITH_IBP))
        for name in _some(points)
    )
    return f"dropped for want of a partner: {told} of the intervals; the window holds the others."


def _records(points: Points) -> str:
    """Why IBPs cost time."""
    extra = {
        name: 1e6 * (of[WITH_IBP].seconds - of[BASIC].seconds) / of[BASIC].count
        for name, of in points.items()
    }
    worst = max(extra, key=lambda name: extra[name])
    if extra[worst] <= 0:
        return _looked(points)
    return (
        "an IBP is one more record for each interval, parsed and heard, which with "
        f"{worst} costs {number(float(f'{extra[worst]:.2g}'))} us more than it saves; "
        f"{_looked(points, [worst])}"
    )


def _less(gains: Sequence[float]) -> str:
    return listed(f"{abs(gain):.0f} % {'more' if gain <= -0.5 else 'less'}" for gain in gains)


def types_memory(run: PaperRun) -> Finding:
    """Figure 5.4."""
    points = measured(run, TYPES)
    basic, ibp = (_saved(points, way, "held") for way in (BASIC, WITH_IBP))
    names = ", ".join(TYPES)
    claims = (
        judged("Both indexed ways hold less than the naive one, but basic indexing without any "
               "end among the indexed end points.",
               _both_hold_less(points),
               f"IBP {_less(ibp)}; basic {_less(basic)}, for {names}", "less",
               _dropped(points), rests=rests_on(run, TYPES, _both_hold_less)),
        judged("The gain is slight: less than 5 % in the best case.", _slight(points),
               f"{max(*basic, *ibp):.1f} % at most", "less than 5 %", _dropped(points),
               rests=rests_on(run, TYPES, _slight)),
    )  # fmt: skip
    return _finding("5.4", points, claims, "held", "profile of the query")


def types_time(run: PaperRun) -> Finding:
    """Figure 5.5."""
    points = measured(run, TYPES)
    ibp, basic = (_saved(points, way, "seconds") for way in (WITH_IBP, BASIC))
    few = [basic[list(TYPES).index(name)] for name in OVERHEAD]
    between = _gains(points, WITH_IBP, BASIC, "seconds")
    claims = (
        judged("With IBP evaluation is faster than the naive way in all cases.",
               _always_faster(points),
               _less(ibp), "less in all cases", _looked(points),
               rests=rests_on(run, TYPES, _always_faster)),
        judged("Basic indexing saves most with ends alone: about 60 %.",
               _most_with_ends(points),
               f"{basic[0]:.0f} % with 100t-0s, {max(basic):.0f} % at most", "60 %",
               _looked(points), rests=rests_on(run, TYPES, _most_with_ends)),
        judged("With few ends among them, basic indexing costs more than it saves.",
               _few_ends_cost(points), f"{_less(few)} for {', '.join(OVERHEAD)}",
               "3 to 12 % more", _looked(points, OVERHEAD),
               rests=rests_on(run, TYPES, _few_ends_cost)),
        judged("With IBP evaluation is faster than with basic indexing.",
               _faster_than_basic(points),
               _less(between), "less", _records(points),
               rests=rests_on(run, TYPES, _faster_than_basic)),
    )  # fmt: skip
    return _finding("5.5", points, claims, "seconds", "profile of the query")


def length_memory(run: PaperRun) -> Finding:
    """Figure 5.6."""
    points = measured(run, LENGTHS)
    gains = _saved(points, WITH_IBP, "held")
    claims = (
        judged("The share of memory that indexes save stays about the same as queries get longer.",
               _steady(points), f"{_percents(gains)} for lengths "
               f"{', '.join(LENGTHS)}", "relatively steady", _dropped(points),
               rests=rests_on(run, LENGTHS, _steady)),
    )  # fmt: skip
    return _finding("5.6", points, claims, "held", "length of the query")


def length_time(run: PaperRun) -> Finding:
    """Figure 5.7."""
    points = measured(run, LENGTHS)
    naive = _saved(points, WITH_IBP, "seconds")
    between = _gains(points, WITH_IBP, BASIC, "seconds")
    claims = (
        judged("The longer the query, the larger the share of time that indexes save.",
               _rising_gain("seconds")(points),
               f"{_percents(naive)} for lengths {', '.join(LENGTHS)}",
               "increases sharply", _looked(points),
               rests=rests_on(run, LENGTHS, _rising_gain("seconds"))),
        judged("The gain of IBP over basic indexing rises with the length, from 45 % to 66 %.",
               _rise_over_basic(points), f"{_percents(between)}", "45 % to 66 %",
               _records(points), rests=rests_on(run, LENGTHS, _rise_over_basic)),
    )  # fmt: skip
    return _finding("5.7", points, claims, "seconds", "length of the query")


def mean_memory(run: PaperRun) -> Finding:
    """Figure 5.8."""
    points = measured(run, MEANS)
    rests = rests_on(run, MEANS, _rising_gain("held"))
    return _by_gain(points, rests, "5.8", "held",
                    "The longer the intervals, the more memory IBP saves.",
                    "in proportion to the length", "mean length", _dropped(points))  # fmt: skip


def mean_time(run: PaperRun) -> Finding:
    """Figure 5.9."""
    points = measured(run, MEANS)
    rests = rests_on(run, MEANS, _rising_gain("seconds"))
    return _by_gain(points, rests, "5.9", "seconds",
                    "The longer the intervals, the more time IBP saves.",
                    "in proportion to the length", "mean length", _looked(points))  # fmt: skip


def density_memory(run: PaperRun) -> Finding:
    """Figure 5.10."""
    points = measured(run, DENSITIES)
    gains = _saved(points, WITH_IBP, "held")
    claims = (
        judged("The sparser the intervals, the larger the share of memory that IBP saves.",
               _rising_gain("held", back=True)(points),
               f"{_percents(gains)} for densities {', '.join(DENSITIES)}",
               "in inverse proportion to the density", _dropped(points),
               rests=rests_on(run, DENSITIES, _rising_gain("held", back=True), conditions=False)),
    )  # fmt: skip
    return _finding("5.10", points, claims, "held", "intervals per window")


def density_time(run: PaperRun) -> Finding:
    """Figure 5.11."""
    points = measured(run, DENSITIES)
    claims = (
        judged("From 400 to 800 intervals per window the time per interval of the naive way rises "
               "more sharply than that of the indexed ones.",
               _naive_steepest(points),
               listed(f"{way}: {of:.1f} times" for way, of in _steeper(points).items()),
               "more sharply", _looked(points),
               rests=rests_on(run, DENSITIES, _naive_steepest, conditions=False)),
    )  # fmt: skip
    return _finding("5.11", points, claims, "seconds", "intervals per window")


def _by_gain(
    points: Points, rests: str, figure: str, what: str, text: str, paper: str, axis: str, why: str
) -> Finding:
    gains = _saved(points, WITH_IBP, what)
    ours = f"{_percents(gains)} for {', '.join(points)}"
    claim = judged(text, _rises(gains), ours, paper, why, rests=rests)
    return _finding(figure, points, (claim,), what, axis)


def _finding(
    figure: str, points: Points, claims: tuple[Claim, ...], what: str, axis: str
) -> Finding:
    shown = {"held": ("intervals held", 1.0), "seconds": ("time of the processor [ms]", 1000.0)}
    label, factor = shown[what]
    rows = tuple(
        (name, *(round(factor * getattr(of[way], what), 1) for way in WAYS),
         *(round(gain_percent(getattr(of[NAIVE_ISEQ], what), getattr(of[way], what)), 1)
           for way in (BASIC, WITH_IBP)), of[NAIVE_ISEQ].matches)
        for name, of in points.items()
    )  # fmt: skip
    table = Table(
        f"By {axis}",
        (axis, *(f"{way}, {label}" for way in WAYS), f"gain of {BASIC} [%]",
         f"gain of {WITH_IBP} [%]", "matches"),
        rows,
        "Gain: what is saved of the naive way's. All three give the same matches.",
    )  # fmt: skip
    drawn: Figure = drawing.lines(
        f"figure-{figure.replace('.', '-')}",
        f"{label} by {axis}".capitalize(),
        "The paper draws the same without printed numbers."
        + (" The axis upwards is logarithmic." if what == "seconds" else ""),
        [
            Series(way, list(points), [factor * getattr(of[way], what) for of in points.values()],
                   colour)
            for way, colour in zip(WAYS, COLOURS, strict=False)
        ],
        (axis, label),
        log_y=what == "seconds",
    )  # fmt: skip
    return Finding(claims, (table,), (drawn,))
