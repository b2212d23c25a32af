"""L10 Figures 5.4 to 5.11: memory and processor time of the three ways, by what is varied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Claim, Table, number
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.l10.beside import by_ours
from slackwater.scenarios.papers.l10.ch5.intervals import WITHIN_NS
from slackwater.scenarios.papers.l10.ch5.ranges import Judge, Points, measured, of_ours, rests_on
from slackwater.scenarios.papers.l10.ch5.runs import (
    BASIC,
    NAIVE_ISEQ,
    WAYS,
    WITH_IBP,
    JoinSetup,
    gain_percent,
)
from slackwater.scenarios.papers.verdicts import judged, listed

TYPES: Final = {
    f"{10 * ends}t-{100 - 10 * ends}s": JoinSetup(ends=ends) for ends in range(10, -1, -1)
}
"""L10 Table 5.2."""
LENGTHS: Final = {
    str(length): JoinSetup(length=length, ends=length // 2) for length in range(2, 19, 4)
}
MEANS: Final = {f"W/{part}": JoinSetup(mean_ns=WITHIN_NS // part) for part in (100, 50, 20, 10, 5)}
DENSITIES: Final = {
    str(density): JoinSetup(density=density, mean_ns=WITHIN_NS // 20, count=count, rising=10)
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
    ibp, basic = (_saved(points, way, "buffer_size") for way in (WITH_IBP, BASIC))
    return min(ibp) > 0 and min(basic[:-1]) > 0


def _slight(points: Points) -> bool:
    return (
        max(*_saved(points, BASIC, "buffer_size"), *_saved(points, WITH_IBP, "buffer_size"))
        < SLIGHT
    )


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
    gains = _saved(points, WITH_IBP, "buffer_size")
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


def _looked(points: Points) -> str:
    """Candidates that each way tests, which explain its time."""
    counts = "; ".join(
        f"with {name} "
        + listed(f"{way} {number(float(f'{points[name][way].looked:.3g}'))}" for way in WAYS)
        for name in _some(points)
    )
    return f"candidates tested for each interval: {counts}."


def _cheap(points: Points) -> str:
    """Why the cost of an index is negligible."""
    return f"{_looked(points)} Beside them a pointer for each interval is no overhead."


def _all_conditions(points: Points) -> str:
    return (
        f"{_looked(points)} Conditions that rise over so many steps leave little to search for in "
        "ends, and without them the results would be all that takes time."
    )


def _dropped(points: Points) -> str:
    """Reasons for the number of intervals that they hold."""
    counts = "; ".join(
        f"with {name} " + listed(f"{way} {points[name][way].buffer_size:.1f}" for way in WAYS)
        for name in _some(points)
    )
    return (
        f"intervals held: {counts}. An interval without a chain below it is dropped; the fewer of "
        "each type lie in a window, and the longer the chain, the more are."
    )


def _less(gains: Sequence[float]) -> str:
    return listed(f"{abs(gain):.0f} % {'more' if gain <= -0.5 else 'less'}" for gain in gains)


def _claim(
    run: PaperRun, setups: Mapping[str, JoinSetup], text: str, judge: Judge,
    said: Callable[[Points], str], paper: str, why: Callable[[Points], str],
    *, conditions: bool = True,
) -> Claim:  # fmt: skip
    """A claim by the paper's operator, and by ours beside it."""
    points, ours = measured(run, setups), of_ours(run, setups)
    rests = rests_on(run, setups, judge, conditions=conditions)
    beside = by_ours(judge(ours), said(ours))
    return judged(text, judge(points), said(points), paper, why(points), beside, rests)


def _said_of(what: str, way: str = WITH_IBP) -> Callable[[Points], str]:
    return lambda points: f"{_percents(_saved(points, way, what))} for {', '.join(points)}"


def _said_between(points: Points) -> str:
    return _less(_gains(points, WITH_IBP, BASIC, "seconds"))


def types_memory(run: PaperRun) -> Finding:
    """Figure 5.4."""

    def both(points: Points) -> str:
        ibp, basic = (_less(_saved(points, way, "buffer_size")) for way in (WITH_IBP, BASIC))
        return f"IBP {ibp}; basic {basic}, for {', '.join(points)}"

    def most(points: Points) -> str:
        gains = [*_saved(points, BASIC, "buffer_size"), *_saved(points, WITH_IBP, "buffer_size")]
        return f"{max(gains):.1f} % at most"

    claims = (
        _claim(run, TYPES,
               "Both indexed ways hold less than the naive one, but basic indexing without any "
               "end among the indexed end points.",
               _both_hold_less, both, "less", _dropped),
        _claim(run, TYPES, "The gain is slight: less than 5 % in the best case.", _slight, most,
               "less than 5 %", _dropped),
    )  # fmt: skip
    return _finding("5.4", measured(run, TYPES), claims, "buffer_size", "profile of the query")


def types_time(run: PaperRun) -> Finding:
    """Figure 5.5."""

    def most(points: Points) -> str:
        basic = _saved(points, BASIC, "seconds")
        return f"{basic[0]:.0f} % with 100t-0s, {max(basic):.0f} % at most"

    def few(points: Points) -> str:
        basic = dict(zip(points, _saved(points, BASIC, "seconds"), strict=True))
        return f"{_less([basic[name] for name in OVERHEAD])} for {', '.join(OVERHEAD)}"

    claims = (
        _claim(run, TYPES, "With IBP evaluation is faster than the naive way in all cases.",
               _always_faster, lambda points: _less(_saved(points, WITH_IBP, "seconds")),
               "less in all cases", _looked),
        _claim(run, TYPES, "Basic indexing saves most with ends alone: about 60 %.",
               _most_with_ends, most, f"60 %; taken as the most of all, and {HALF_OF_60:.0f} % "
               "at least", _looked),
        _claim(run, TYPES, "With few ends among them, basic indexing costs more than it saves.",
               _few_ends_cost, few, "3 to 12 % more", _cheap),
        _claim(run, TYPES, "With IBP evaluation is faster than with basic indexing.",
               _faster_than_basic, _said_between, "less", _cheap),
    )  # fmt: skip
    return _finding("5.5", measured(run, TYPES), claims, "seconds", "profile of the query")


def length_memory(run: PaperRun) -> Finding:
    """Figure 5.6."""
    claim = _claim(
        run, LENGTHS,
        "The share of memory that indexes save stays about the same as queries get longer.",
        _steady, _said_of("buffer_size"), "relatively steady", _dropped,
    )  # fmt: skip
    return _finding("5.6", measured(run, LENGTHS), (claim,), "buffer_size", "length of the query")


def length_time(run: PaperRun) -> Finding:
    """Figure 5.7."""
    claims = (
        _claim(run, LENGTHS, "The longer the query, the larger the share of time that indexes "
               "save.", _rising_gain("seconds"), _said_of("seconds"), "increases sharply",
               _looked),
        _claim(run, LENGTHS, "The gain of IBP over basic indexing rises with the length, from 45 % "
               "to 66 %.", _rise_over_basic, _said_between, "45 % to 66 %", _all_conditions),
    )  # fmt: skip
    return _finding("5.7", measured(run, LENGTHS), claims, "seconds", "length of the query")


def mean_memory(run: PaperRun) -> Finding:
    """Figure 5.8."""
    claim = _claim(
        run, MEANS, "The longer the intervals, the more memory IBP saves.",
        _rising_gain("buffer_size"), _said_of("buffer_size"), "in proportion to the length",
        _dropped,
    )  # fmt: skip
    return _finding("5.8", measured(run, MEANS), (claim,), "buffer_size", "mean length")


def mean_time(run: PaperRun) -> Finding:
    """Figure 5.9."""
    claim = _claim(
        run, MEANS, "The longer the intervals, the more time IBP saves.", _rising_gain("seconds"),
        _said_of("seconds"), "in proportion to the length", _looked,
    )  # fmt: skip
    return _finding("5.9", measured(run, MEANS), (claim,), "seconds", "mean length")


def density_memory(run: PaperRun) -> Finding:
    """Figure 5.10."""
    claim = _claim(
        run, DENSITIES,
        "The sparser the intervals, the larger the share of memory that IBP saves.",
        _rising_gain("buffer_size", back=True), _said_of("buffer_size"),
        "in inverse proportion to the density", _dropped, conditions=False,
    )  # fmt: skip
    points = measured(run, DENSITIES)
    return _finding("5.10", points, (claim,), "buffer_size", "intervals per window")


def density_time(run: PaperRun) -> Finding:
    """Figure 5.11."""
    claim = _claim(
        run, DENSITIES,
        "From 400 to 800 intervals per window the time per interval of the naive way rises more "
        "sharply than that of the indexed ones.",
        _naive_steepest,
        lambda points: listed(f"{way}: {of:.1f} times" for way, of in _steeper(points).items()),
        "more sharply", _all_conditions, conditions=False,
    )  # fmt: skip
    points = measured(run, DENSITIES)
    return _finding("5.11", points, (claim,), "seconds", "intervals per window")


def _finding(
    figure: str, points: Points, claims: tuple[Claim, ...], what: str, axis: str
) -> Finding:
    labels = {
        "buffer_size": ("intervals held", 1.0),
        "seconds": ("time of the processor [ms]", 1000.0),
    }
    label, factor = labels[what]
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
        "The paper's operator. Gain: what is saved of the naive way's. All three give the same "
        "matches.",
    )  # fmt: skip
    drawn: Figure = drawing.lines(
        f"figure-{figure.replace('.', '-')}",
        f"{label} by {axis}".capitalize(),
        "The paper draws the same without printed numbers."
        + (" The axis upwards is logarithmic." if what == "seconds" else ""),
        [
            Curve(way, list(points), [factor * getattr(of[way], what) for of in points.values()],
                   colour)
            for way, colour in zip(WAYS, COLOURS, strict=False)
        ],
        (axis, label),
        log_y=what == "seconds",
    )  # fmt: skip
    return Finding(claims, (table,), (drawn,))
