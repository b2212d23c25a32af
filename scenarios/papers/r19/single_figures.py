"""R19 Figures 5.6 to 5.9: one source, over time and over the data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from slackwater.paper import Figure, Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.r19 import palette, published
from slackwater.scenarios.papers.r19.aq_variants import SETS, UNTRIED, most_left_with
from slackwater.scenarios.papers.r19.data_sets import PROFILES
from slackwater.scenarios.papers.r19.orders import AQ_KSLACK, CODE, MP_KSLACK, PRINTED, Approach
from slackwater.scenarios.papers.r19.passes import Measured, hold_ms, left, one_source, over_time
from slackwater.scenarios.papers.r19.released_stream import BATCH, ReleasedOrder
from slackwater.scenarios.papers.r19.verdicts import judged
from slackwater.scenarios.papers.verdicts import failing, listed

COLOUR: Final = {
    PRINTED.name: palette.PRINTED,
    CODE.name: palette.CODE,
    MP_KSLACK.name: palette.MP,
    AQ_KSLACK.name: palette.AQ,
}
DRAWN: Final = (PRINTED, CODE, MP_KSLACK, AQ_KSLACK)
_EVENTS_AXIS: Final = "events released [thousands]"
_PEAK_BATCHES: Final = 3
"""The slowest batch lies at a stall if it begins so many batches after it at most."""


def sequence_over_time(run: PaperRun) -> Finding:
    """Figure 5.6."""
    series = over_time(run)
    curves = {
        f"{each.name}, {what}": (getattr(series[each.name], f"held_{what}_ns"), each, what)
        for each in (PRINTED, CODE)
        for what in ("mean", "max")
    }
    figure = drawing.lines(
        "figure-5-6",
        "Latency of sequence over data set 1",
        "Mean and maximum of every 10,000 events released. The stalls, when events come 750 to "
        f"1000 ms late, begin at {_stalls(run)}. The axis of latency is logarithmic.",
        [
            Curve(name, _thousands(values), _ms(values), COLOUR[each.name], what == "max")
            for name, (values, each, what) in curves.items()
        ],
        (_EVENTS_AXIS, "latency [ms]"),
        log_y=True,
        marks=False,
    )
    at = {each.name: _slowest(series[each.name]) for each in (PRINTED, CODE)}
    claim = judged(
        "Latency is highest where late events are latest.",
        _at_a_stall(run, at[PRINTED.name]),
        f"the slowest batch begins at event {at[PRINTED.name] * BATCH:,}; the stalls begin at "
        f"{_stalls(run)}",
        "the peaks of Figures 5.6 and 5.2 coincide",
        f"the stalled events come {_longest()} ms late and later, and in no batch did the "
        f"printed timeout hold anything for more than {_most(series[PRINTED.name]):.3g} ms.",
        (
            _at_a_stall(run, at[CODE.name]),
            f"slowest from event {at[CODE.name] * BATCH:,}",
        ),
    )
    return Finding((claim,), (_over_time_table(series),), (figure,))


def approaches_over_time(run: PaperRun) -> Finding:
    """Figure 5.7."""
    series = over_time(run)

    def drawn(name: str, title: str, of: Callable[[ReleasedOrder], Sequence[float]]) -> Figure:
        return drawing.lines(
            name,
            title,
            "Over every 10,000 events released. MP-K-slack's slack grows with the first event of a "
            "stall and stays. The axis of latency is logarithmic.",
            [
                Curve(each.name, _thousands(of(series[each.name])), _ms(of(series[each.name])),
                       COLOUR[each.name])
                for each in DRAWN
            ],
            (_EVENTS_AXIS, "latency [ms]"),
            log_y=True,
            marks=False,
        )  # fmt: skip

    figures = (
        drawn("figure-5-7-mean", "Mean latency over data set 1", lambda each: each.held_mean_ns),
        drawn("figure-5-7-max", "Maximum latency over data set 1", lambda each: each.held_max_ns),
    )
    ours = np.array(series[PRINTED.name].held_mean_ns)
    shares, by_code = (
        [_share_below(series[mine.name], series[other.name]) for other in (MP_KSLACK, AQ_KSLACK)]
        for mine in (PRINTED, CODE)
    )
    claim = judged(
        "Sequence is faster than MP-K-slack and AQ-K-slack all along.",
        min(shares) == 1.0,
        f"in {shares[0]:.0%} of the batches faster than MP-K-slack, in {shares[1]:.0%} faster than "
        "AQ-K-slack",
        "its curve lies below the others",
        failing(
            (f"against {other.of}", part == 1, f"faster in {part:.1%} of the batches")
            for other, part in zip((MP_KSLACK, AQ_KSLACK), shares, strict=True)
        )
        + f" Sequence: {min(_ms(ours.tolist()), default=0):.3g} to "
        f"{max(_ms(ours.tolist()), default=0):.3g} ms in the mean of a batch.",
        (min(by_code) == 1.0, f"in {by_code[0]:.0%} and {by_code[1]:.0%} of the batches"),
        rests=UNTRIED,
    )
    return Finding((claim,), (_over_time_table(series),), figures)


def _share_below(mine: ReleasedOrder, theirs: ReleasedOrder) -> float:
    """Of the batches that both have, those in which ``mine`` is faster."""
    pairs = list(zip(mine.held_mean_ns, theirs.held_mean_ns, strict=False))
    return sum(ours < other for ours, other in pairs) / len(pairs) if pairs else 1.0


def latency_bars(run: PaperRun) -> Finding:
    """Figure 5.8."""
    found = {number: one_source(run, number) for number in SETS}
    return _bars(
        "figure-5-8",
        "Mean latency by data set",
        "mean latency [ms]",
        hold_ms,
        published.LATENCY,
        found,
    )


def left_bars(run: PaperRun) -> Finding:
    """Figure 5.9."""
    found = {number: one_source(run, number) for number in SETS}
    paper = {
        of: {n: round(published.EVENTS[n][1] * (1 - values[n] / 100)) for n in SETS}
        for of, values in published.ACCURACY.items()
    }
    drawn = _bars(
        "figure-5-9",
        "Events out of order after ordering, by data set",
        "events left out of order",
        left,
        paper,
        found,
    )
    remain = {each.name: [left(found[number], each) for number in SETS] for each in DRAWN}
    printed, mp, aq = (remain[each.name] for each in (PRINTED, MP_KSLACK, AQ_KSLACK))
    claims = (
        judged(
            "MP-K-slack leaves the fewest events out of order in every data set.",
            all(mine <= min(others) for mine, *others in zip(mp, printed, aq, strict=True)),
            _left(mp),
            "5, then fewest of the three",
            failing(
                (f"set {n}", mine <= min(a, b), f"{mine:,}; sequence {a:,}, AQ-K-slack {b:,}")
                for n, mine, a, b in zip(SETS, mp, printed, aq, strict=True)
            ),
            (
                all(
                    mine <= min(others)
                    for mine, *others in zip(mp, remain[CODE.name], aq, strict=True)
                ),
                f"sequence leaves {_left(remain[CODE.name])}",
            ),
        ),
        judged(
            "AQ-K-slack leaves the most events out of order in every data set.",
            all(mine >= max(others) for mine, *others in zip(aq, printed, mp, strict=True)),
            f"AQ-K-slack {_left(aq)}; sequence as printed {_left(printed)}",
            "most of the three, by a few events",
            failing(
                (f"set {n}", mine >= max(a, b), f"{mine:,}; sequence {a:,}, MP-K-slack {b:,}")
                for n, mine, a, b in zip(SETS, aq, printed, mp, strict=True)
            ),
            (
                all(
                    mine >= max(others)
                    for mine, *others in zip(aq, remain[CODE.name], mp, strict=True)
                ),
                f"sequence leaves {_left(remain[CODE.name])}",
            ),
            rests=most_left_with(
                run, {n: max(a, b) for n, a, b in zip(SETS, printed, mp, strict=True)}
            ),
        ),
    )
    return Finding(claims, drawn.tables, drawn.figures)


def _left(counts: list[int]) -> str:
    return listed(f"{count:,}" for count in counts)


def _bars(
    name: str,
    title: str,
    what: str,
    of: Callable[[Measured, Approach], float],
    paper: Mapping[str, Mapping[int, float]],
    found: dict[int, Measured],
) -> Finding:
    sets = [f"data set {number}" for number in SETS]
    series = []
    rows: list[tuple[str | float, ...]] = []
    for each in DRAWN:
        ours = [of(found[number], each) for number in SETS]
        series.append(Curve(each.name, sets, ours, COLOUR[each.name]))
        if each.of is not None and each is not CODE:
            theirs = [paper[each.of][number] for number in SETS]
            rows.append((f"{each.of}, the paper", *theirs))
            series.append(
                Curve(f"{each.of}, the paper", sets, theirs, COLOUR[each.name], published=True)
            )
        rows.append((f"{each.name}, ours", *ours))
    figure = drawing.bars(
        name, title, "Hatched: the paper's numbers. The axis is logarithmic.", series,
        ("", what), log_y=True,
    )  # fmt: skip
    return Finding((), (Table(title, (what, *sets), tuple(rows)),), (figure,))


def _over_time_table(series: dict[str, ReleasedOrder]) -> Table:
    rows: list[tuple[str | float, ...]] = []
    for each in DRAWN:
        longest = _ms(series[each.name].held_max_ns or [0])
        quantiles = np.quantile(longest, (0.0, 0.5, 1.0)).tolist()
        rows.append((each.name, *(round(value, 3) for value in quantiles)))
    return Table(
        "Maximum latency of a batch of 10,000 events",
        ("approach", "least [ms]", "median [ms]", "most [ms]"),
        tuple(rows),
    )


def _thousands(values: Sequence[float]) -> list[int]:
    return [(place + 1) * BATCH // 1000 for place in range(len(values))]


def _ms(values: Sequence[float]) -> list[float]:
    return [value / 1e6 for value in values]


def _stall_events(run: PaperRun) -> list[int]:
    profile = PROFILES[1]
    return [int(stall.place * profile.events * run.scale) for stall in profile.stalls]


def _stalls(run: PaperRun) -> str:
    return " and ".join(f"event {event:,}" for event in _stall_events(run))


def _longest() -> int:
    """The shortest of the stalls' first delays [ms]."""
    return int(min(stall.longest_ns for stall in PROFILES[1].stalls) / 1e6)


def _most(observed: ReleasedOrder) -> float:
    """The longest hold [ms]."""
    return max(_ms(observed.held_max_ns), default=0.0)


def _slowest(observed: ReleasedOrder) -> int:
    """The batch with the longest hold."""
    return int(np.argmax(observed.held_max_ns)) if observed.held_max_ns else 0


def _at_a_stall(run: PaperRun, batch: int) -> bool:
    return any(-1 <= batch - event // BATCH <= _PEAK_BATCHES for event in _stall_events(run))
