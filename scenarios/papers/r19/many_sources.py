"""R19 5.2.2.2: latency and accuracy with 1 to 20 sources (Tables 5.8, 5.9, Figures 5.10-5.12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from slackwater.measures import Measures
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.r19 import published
from slackwater.scenarios.papers.r19.aq_variants import FEWER, many_with
from slackwater.scenarios.papers.r19.orders import (
    APPROACHES,
    AQ_KSLACK,
    CODE,
    COMPARED,
    DROPPING,
    MP_KSLACK,
    PRINTED,
    Approach,
)
from slackwater.scenarios.papers.r19.passes import (
    Measured,
    accuracy_percent,
    hold_ms,
    left,
    many_sources,
)
from slackwater.scenarios.papers.r19.single_figures import COLOUR, DRAWN
from slackwater.scenarios.papers.r19.single_source import (
    ACCOUNT,
    ACCURACY,
    UNCOUNTED,
    account,
    given_up,
)
from slackwater.scenarios.papers.r19.verdicts import judged
from slackwater.scenarios.papers.verdicts import failing, listed, ms, percent, times, turns

COUNTS: Final = published.SOURCES
_EACH: Final = "1, 2, 5, 10 and 20"
_STEADY: Final = 1.25
"""MP-K-slack's latencies in R19 differ by this factor and are called not increasing."""
_SAME_POINTS: Final = 0.02
"""R19's accuracies of sequence differ by 0.01 percentage points and are called unchanged."""
_STRAIGHT: Final = 0.95
"""Least share of the variance that a straight line must explain."""


def _all(run: PaperRun) -> dict[int, Measured]:
    return {count: many_sources(run, count) for count in COUNTS}


def _hold_times(found: dict[int, Measured], each: Approach) -> list[float]:
    return [hold_ms(found[count], each) for count in COUNTS]


def latency(run: PaperRun) -> Finding:
    """Table 5.8."""
    found = _all(run)
    return Finding(
        tuple(_below(run, found, other) for other in (MP_KSLACK, AQ_KSLACK)),
        (_latency_table(found),),
    )


def latency_lines(run: PaperRun) -> Finding:
    """Figure 5.10."""
    found = _all(run)
    figure = drawing.lines(
        "figure-5-10",
        "Mean latency by number of sources",
        "Dotted: the paper's numbers. The axis of latency is logarithmic.",
        _series(
            {each.name: _hold_times(found, each) for each in DRAWN}, published.LATENCY_BY_SOURCES
        ),
        ("sources", "mean latency [ms]"),
        log_y=True,
    )
    mp, aq = _hold_times(found, MP_KSLACK), _hold_times(found, AQ_KSLACK)
    paper = published.LATENCY_BY_SOURCES
    claims = (
        judged(
            f"MP-K-slack's latency does not increase, by more than {_STEADY:.2f} times, with "
            f"{_EACH} sources.",
            max(mp) <= _STEADY * mp[0],
            _list(mp),
            _list(paper[published.MP].values()),
            failing(
                (_sources(n), value <= _STEADY * mp[0], f"{value / mp[0]:.2f} times that of one")
                for n, value in zip(COUNTS, mp, strict=True)
            ),
        ),
        judged(
            f"AQ-K-slack's latency increases with {_EACH} sources.",
            _increases(aq),
            _list(aq),
            _list(paper[published.AQ].values()),
            f"{turns([_sources(n) for n in COUNTS], aq, 'ms')} In all it goes to "
            f"{aq[-1] / aq[0]:.2f} times; taken as increasing from {_STEADY:.2f} times on. Every "
            "source publishes the same events at their own pace; the paper's were threads of one "
            "machine, and may have fallen behind one another.",
            rests=many_with(run, lambda of: _increases(_holds(of))),
        ),
    )
    return Finding(claims, (_latency_table(found),), (figure,))


def sequence_line(run: PaperRun) -> Finding:
    """Figure 5.11."""
    found = _all(run)
    hold_times = {each.name: _hold_times(found, each) for each in (PRINTED, CODE)}
    paper = list(published.LATENCY_BY_SOURCES[published.SEQUENCE].values())
    figures = tuple(
        drawing.lines(
            f"figure-5-11-{place}",
            f"Mean latency by number of sources: {name}",
            f"A straight line explains {_line(values)[1]:.1%} of the variance.",
            [Curve(name, COUNTS, values, COLOUR[name])],
            ("sources", "mean latency [ms]"),
        )
        for place, (name, values) in enumerate(hold_times.items())
    )
    slope, share = _line(hold_times[PRINTED.name])
    code_slope, code_share = _line(hold_times[CODE.name])
    paper_slope, paper_share = _line(paper)
    claim = judged(
        f"The latency of sequence grows linearly with {_EACH} sources (a straight line explains at "
        f"least {_STRAIGHT:.0%} of it).",
        slope > 0 and share >= _STRAIGHT,
        f"{_list(hold_times[PRINTED.name])}; a line of {ms(slope)} per source explains {share:.1%}",
        f"{_list(paper)}; {ms(paper_slope)} per source, {paper_share:.1%}",
        f"a line over the logarithm of their number explains "
        f"{_line(hold_times[PRINTED.name], np.log2(COUNTS))[1]:.1%} of it, one over the number "
        f"{share:.1%}: from source to source it grows by "
        f"{listed(f'{value:.3f}' for value in _steps(hold_times[PRINTED.name]))} ms.",
        (
            code_slope > 0 and code_share >= _STRAIGHT,
            f"{_list(hold_times[CODE.name])}; {ms(code_slope)} per source, {code_share:.1%}",
        ),
        "With that wait all sources stall 3 ms after one another, and each makes the stall longer.",
    )
    return Finding((claim,), (_latency_table(found),), figures)


def accuracy(run: PaperRun) -> Finding:
    """Table 5.9."""
    found = _all(run)
    of = {each.name: [accuracy_percent(found[n], each) for n in COUNTS] for each in APPROACHES}
    paper = published.ACCURACY_BY_SOURCES
    code = of[CODE.name]
    mine, mp, aq = (of[each.name] for each in COMPARED)
    places = [_sources(n) for n in COUNTS]
    passed_over = listed(f"{left(found[n], DROPPING):,}" for n in COUNTS)
    claims = (
        judged(
            f"The accuracy of sequence is at least {ACCURACY} % with {_EACH} sources.",
            min(mine) >= ACCURACY,
            _percents(mine),
            _percents(paper[published.SEQUENCE].values()),
            failing(
                (place, value >= ACCURACY, percent(value))
                for place, value in zip(places, mine, strict=True)
            )
            + " With one source: "
            + given_up(found[1]),
            (min(code) >= ACCURACY, _percents(code)),
        ),
        judged(
            f"The accuracy of sequence does not fall, by more than {_SAME_POINTS} points, with "
            f"{_EACH} sources.",
            min(mine) >= mine[0] - _SAME_POINTS,
            _percents(mine),
            _percents(paper[published.SEQUENCE].values()),
            failing(
                (place, value >= mine[0] - _SAME_POINTS, f"{mine[0] - value:.2f} points less")
                for place, value in zip(places, mine, strict=True)
            )
            + f" With late events dropped {passed_over} are left: those of a source that the short "
            "timeout passed over while it was silent.",
            (min(code) >= code[0] - _SAME_POINTS, _percents(code)),
        ),
        judged(
            f"AQ-K-slack's accuracy falls, by 0.5 points or more, with {_EACH} sources.",
            _drops(aq),
            _percents(aq),
            _percents(paper[published.AQ].values()),
            f"with {COUNTS[-1]} sources it lies {aq[0] - aq[-1]:.3f} points below that of one; "
            + turns(places, aq, "%", rises=False),
            rests=many_with(run, lambda of: _drops(_accuracies(of))),
        ),
        judged(
            f"MP-K-slack's accuracy is at least 99.98 % with {_EACH} sources.",
            min(mp) >= 99.98,
            _percents(mp),
            _percents(paper[published.MP].values()),
            failing(
                (place, value >= 99.98, f"{left(found[n], MP_KSLACK):,} left, {percent(value)}")
                for n, place, value in zip(COUNTS, places, mp, strict=True)
            )
            + " A slack that only grows leaves behind the first events of every longer delay.",
        ),
    )
    return Finding(claims, tuple(_accuracy_table(found, count) for count in COUNTS))


def left_lines(run: PaperRun) -> Finding:
    """Figure 5.12."""
    found = _all(run)
    remain = {each.name: [left(found[count], each) for count in COUNTS] for each in DRAWN}
    late = published.EVENTS[3][1]
    paper = {
        of: {count: late * count * (1 - values[count] / 100) for count in COUNTS}
        for of, values in published.ACCURACY_BY_SOURCES.items()
    }
    figure = drawing.lines(
        "figure-5-12",
        "Events out of order after ordering, by number of sources",
        "Dotted: what the paper's accuracies come to. The axis of events is logarithmic.",
        _series(remain, paper),
        ("sources", "events left out of order"),
        log_y=True,
    )
    many = COUNTS[1:]
    sequence, code, mp, aq = (dict(zip(COUNTS, remain[e.name], strict=True)) for e in DRAWN)
    claim = judged(
        "With 2, 5, 10 and 20 sources sequence leaves fewer events out of order than AQ-K-slack.",
        all(sequence[count] < aq[count] for count in many),
        f"sequence {_counts(sequence, many)}; AQ-K-slack {_counts(aq, many)}; MP-K-slack "
        f"{_counts(mp, many)}",
        f"sequence {_counts(paper[published.SEQUENCE], many)}; AQ-K-slack "
        f"{_counts(paper[published.AQ], many)}",
        failing(
            (_sources(n), sequence[n] < aq[n], f"{sequence[n]:,} against {aq[n]:,}") for n in many
        ),
        (all(code[count] < aq[count] for count in many), f"sequence {_counts(code, many)}"),
        rests=many_with(run, lambda of: all(sequence[n] < of[n].steps_back for n in many)),
    )
    rows: list[tuple[str | int, ...]] = [(name, *values) for name, values in remain.items()]
    rows += [(f"{of}, the paper", *map(round, values.values())) for of, values in paper.items()]
    table = Table(
        "Events left out of order", ("approach", *(_sources(count) for count in COUNTS)),
        tuple(rows),
    )  # fmt: skip
    return Finding((claim,), (table,), (figure,))


def _holds(of: Mapping[int, Measures]) -> list[float]:
    return [of[count].hold.mean_ns / 1e6 for count in COUNTS]


def _accuracies(of: Mapping[int, Measures]) -> list[float]:
    return [100 * (1 - of[n].steps_back / max(of[n].disorder_before, 1)) for n in COUNTS]


def _increases(hold_times: list[float]) -> bool:
    return hold_times == sorted(hold_times) and hold_times[-1] > _STEADY * hold_times[0]


def _drops(accuracies: list[float]) -> bool:
    return accuracies[-1] <= accuracies[0] - 0.5


def _below(run: PaperRun, found: dict[int, Measured], other: Approach) -> Claim:
    ours, theirs, code = (_hold_times(found, each) for each in (PRINTED, other, CODE))
    paper = published.LATENCY_BY_SOURCES
    pairs = zip(paper[other.of or ""].values(), paper[published.SEQUENCE].values(), strict=True)
    return judged(
        f"The mean latency of sequence is at least {FEWER} times below that of {other.of} with "
        f"{_EACH} sources.",
        all(mine * FEWER <= more for mine, more in zip(ours, theirs, strict=True)),
        ", ".join(times(more, mine) for mine, more in zip(ours, theirs, strict=True)),
        ", ".join(times(more, mine) for more, mine in pairs),
        failing(
            (_sources(n), mine * FEWER <= more, f"{ms(mine)} against {ms(more)}")
            for n, mine, more in zip(COUNTS, ours, theirs, strict=True)
        ),
        (
            all(mine * FEWER <= more for mine, more in zip(code, theirs, strict=True)),
            ", ".join(times(more, mine) for mine, more in zip(code, theirs, strict=True)),
        ),
        rests=""
        if other is not AQ_KSLACK
        else many_with(
            run,
            lambda of: all(
                mine * FEWER <= more for mine, more in zip(ours, _holds(of), strict=True)
            ),
        ),
    )


def _latency_table(found: dict[int, Measured]) -> Table:
    rows = []
    for count in COUNTS:
        row: list[str | float | None] = [_sources(count)]
        for each in APPROACHES:
            if each in COMPARED:
                row.append(published.LATENCY_BY_SOURCES[each.of or ""][count])
            row.append(hold_ms(found[count], each))
        rows.append(tuple(row))
    headings: list[str] = []
    for each in APPROACHES:
        headings += [f"{each.of}, paper [ms]"] if each in COMPARED else []
        headings.append(f"{each.name}, ours [ms]")
    return Table("Mean latency by number of sources", ("", *headings), tuple(rows))


def _accuracy_table(found: dict[int, Measured], count: int) -> Table:
    rows = [
        (each.name,
         published.ACCURACY_BY_SOURCES[each.of][count] if each in COMPARED and each.of else None,
         *account(found[count][each.name]))
        for each in APPROACHES
    ]  # fmt: skip
    return Table(
        f"Accuracy with {_sources(count)}",
        ("approach", "accuracy, paper [%]", *ACCOUNT),
        tuple(rows),
        UNCOUNTED if count == COUNTS[-1] else "",
    )


def _series(
    ours: Mapping[str, list[float]] | Mapping[str, list[int]],
    paper: Mapping[str, Mapping[int, float]],
) -> list[Curve]:
    series = []
    for each in DRAWN:
        colour = COLOUR[each.name]
        series.append(Curve(each.name, COUNTS, ours[each.name], colour))
        if each in COMPARED:
            theirs = list(paper[each.of or ""].values())
            series.append(Curve(f"{each.of}, the paper", COUNTS, theirs, colour, published=True))
    return series


def _line(values: list[float], over: Sequence[float] | np.ndarray = COUNTS) -> tuple[float, float]:
    """Slope of the least-squares line, and the share of variance it explains."""
    slope = float(np.polyfit(over, values, 1)[0])
    return slope, float(np.corrcoef(over, values)[0, 1] ** 2)


def _steps(values: Sequence[float]) -> list[float]:
    """By how much it grows per source, from one number of them to the next."""
    return [
        (after - before) / (more - fewer)
        for before, after, fewer, more in zip(values, values[1:], COUNTS, COUNTS[1:], strict=False)
    ]


def _sources(count: int) -> str:
    return f"{count} source{'s' if count > 1 else ''}"


def _list(values: Iterable[float]) -> str:
    return listed(map(ms, values))


def _percents(values: Iterable[float]) -> str:
    return listed(map(percent, values))


def _counts(values: Mapping[int, float], counts: tuple[int, ...]) -> str:
    return listed(f"{values[count]:,.0f}" for count in counts)
