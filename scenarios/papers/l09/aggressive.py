"""L09 IX-B: the aggressive strategy under disorder of positive and of negative events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table, number
from slackwater.scenarios.papers.curves import (
    FLAT,
    GROWS,
    Curves,
    ascending,
    drawn,
    growth,
    percents,
    spread,
    tabled,
)
from slackwater.scenarios.papers.l09.curves import BY_LENGTH, SHARES, SHARES_FROM_0
from slackwater.scenarios.papers.l09.passes import (
    AGGRESSIVE,
    LENGTHS,
    StrategyRun,
    StrategySetup,
    counted_passes,
    late,
    timed,
)
from slackwater.scenarios.papers.l09.service import computing_seconds
from slackwater.scenarios.papers.l09.workload import EVENTS_PER_UNIT
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, turns

_POSITIVE = "positive events out of order [%]"
_NEGATIVE = "negative events out of order [%]"
_LOWER_RATES = (2, 4)
_ENDS_OF_SHARES = (0.0, 0.5)
"""Between which a latency's growth is judged at other rates."""
Lates = Callable[[float], tuple[float, ...]]
"""Shares out of order of every type, by that of the types that are late."""
Grid = dict[str, list[StrategyRun]]
"""By the query, a pass for each share."""


def positive_latency(run: PaperRun) -> Finding:
    """Figure 4."""
    grid = _positive(run)
    curves = _latency(grid)
    waited = max(ran.tuples.waited_units for rans in grid.values() for ran in rans)
    claims = (
        _grows_with_length(
            curves,
            SHARES,
            "Latency grows with the query's length.",
            _at_other_rates(run, "positive", SHARES[:1], _latency, _all_grow),
        ),
        judged(
            "The share of positive events out of order does not greatly change the latency, "
            "whatever the query's length.",
            all(spread(values) <= FLAT for values in curves.values()),
            f"largest over smallest of each length: {_ratios(curves, spread)}; on the arrival "
            f"clock every result leaves {number(waited)} time units after its last event",
            f"flat lines; taken as up to {FLAT}",
            _not_flat(curves),
            rests=_flat_bound(curves),
        ),
    )
    return _finding(
        claims, curves, SHARES, "fig-4", "Latency of aggressive, positive events late",
        (_POSITIVE, "latency [us]"), _COMPUTING, (_results(grid, SHARES),),
    )  # fmt: skip


def negative_latency(run: PaperRun) -> Finding:
    """Figure 5."""
    grid = _negative(run)
    curves = _latency(grid)
    more = {name: values[-1] - values[0] for name, values in curves.items()}
    claims = (
        judged(
            "The average latency grows with the share of negative events out of order.",
            all(growth(values) >= GROWS for values in curves.values()),
            f"from 0 to 50 % it grows to so many times, by length: {_ratios(curves, growth)}",
            f"grows at every length; taken as at least {GROWS} times",
            _rarer(grid),
            rests=_growth_bound(curves),
        ),
        judged(
            "Longer queries suffer more from negative events out of order than shorter ones.",
            _more_with_length(curves),
            f"latency at 50 % less that at 0 %, by length: "
            f"{listed(f'{number(value)} us' for value in more.values())}",
            "more with every step",
            turns(list(more), list(more.values()), "us"),
            rests=_at_other_rates(run, "negative", _ENDS_OF_SHARES, _latency, _more_with_length),
        ),
    )
    return _finding(
        claims, curves, SHARES_FROM_0, "fig-5", "Latency of aggressive, negative events late",
        (_NEGATIVE, "latency [us]"), _COMPUTING, (_results(grid, SHARES_FROM_0),),
    )  # fmt: skip


def compensation(run: PaperRun) -> Finding:
    """Figure 6."""
    curves = {name: [_taken_back(ran) for ran in rans] for name, rans in _negative(run).items()}
    by_rate = _by_rate(run, curves)
    most = {name: values[-1] for name, values in curves.items()}
    said = f"at 50 % per 1,000 events, by length: {_numbers(most.values())}"
    rarest = next(iter(by_rate))
    claims = (
        judged(
            "More negative events out of order cause more compensation tuples.",
            all(ascending(values) for values in curves.values()),
            f"{said}; {_numbers(values[0] for values in curves.values())} at 0 %",
            "more at every share",
            failing(
                (name, ascending(of), turns(percents(SHARES_FROM_0), of, "tuples").rstrip("."))
                for name, of in curves.items()
            ),
            rests=_ascends_at_other_rates(run, curves[BY_LENGTH[0]]),
        ),
        judged(
            "Longer queries cause more compensation tuples than shorter ones.",
            ascending(list(most.values())),
            said,
            "more with every step",
            turns(list(most), list(most.values()), "per 1,000 events"),
            also="A longer query's last event comes later, and so more often after the late event "
            f"that would have taken the result back; at {rarest} it is "
            f"{_numbers(by_rate[rarest])}.",
            rests="the rate of events: "
            + same_with(
                ascending(list(most.values())),
                {rate: ascending(list(of)) for rate, of in list(by_rate.items())[:-1]},
            )
            + ".",
        ),
    )
    title = "Compensation tuples"
    axes = (_NEGATIVE, "compensation tuples per 1,000 events")
    rates = tabled(
        "Per 1,000 events, 50 % of the negative ones out of order", "rate", BY_LENGTH, by_rate
    )
    return _finding(
        claims, curves, SHARES_FROM_0, "fig-6", title, axes, "Results taken back.", (rates,)
    )


def _taken_back(ran: StrategyRun) -> float:
    return 1000 * ran.tuples.retracted / ran.events


def _rarer(grid: Grid) -> str:
    """Why compensation may not show in long queries."""
    shares = {name: rans[-1].tuples for name, rans in grid.items()}
    per_result = _numbers(
        round(1000 * each.retracted / max(each.final, 1), 1) for each in shares.values()
    )
    return (
        f"of 1,000 results that stand, {per_result} others are taken back at 50 %, by length: in "
        "long queries they are few, as the last event comes later than the late event."
    )


def _by_rate(run: PaperRun, at_ours: Curves) -> Curves:
    """Compensation tuples at the largest share, by the rate of events; a value for each length."""
    setups = {
        rate: [
            StrategySetup(AGGRESSIVE, length, late=late(negative=SHARES[-1]), per_unit=rate)
            for length in LENGTHS
        ]
        for rate in _LOWER_RATES
    }
    every = [setup for row in setups.values() for setup in row]
    found = counted_passes(run, "fewer events per time unit", every)
    curves = {
        f"{rate} events per time unit": [_taken_back(found[setup]) for setup in row]
        for rate, row in setups.items()
    }
    ours = [values[-1] for values in at_ours.values()]
    return curves | {f"{EVENTS_PER_UNIT} events per time unit": ours}


def positive_execution(run: PaperRun) -> Finding:
    """Figure 7."""
    curves = _execution(_positive(run))
    claims = (
        _grows_with_length(
            curves,
            SHARES,
            "Execution time grows with the query's length.",
            _at_other_rates(run, "positive", SHARES[:1], _execution, _all_grow),
        ),
        judged(
            "The share of positive events out of order does not change the execution time much.",
            all(spread(values) <= FLAT for values in curves.values()),
            f"largest over smallest, by length: {_ratios(curves, spread)}",
            f"flat lines; taken as up to {FLAT}",
            _not_flat(curves),
            rests=_flat_bound(curves),
        ),
    )
    return _finding(
        claims, curves, SHARES, "fig-7", "Execution time of aggressive, positive events late",
        (_POSITIVE, "CPU time per event [us]"), _CPU, (),
    )  # fmt: skip


def negative_execution(run: PaperRun) -> Finding:
    """Figure 8."""
    grid = _negative(run)
    curves = _execution(grid)
    claims = (
        _grows_with_length(
            curves,
            SHARES_FROM_0,
            "Execution time grows with the query's length.",
            _at_other_rates(run, "negative", _ENDS_OF_SHARES, _execution, _all_grow),
        ),
        judged(
            "The execution time grows with the share of negative events out of order.",
            all(growth(values) >= GROWS for values in curves.values()),
            f"from 0 to 50 % it grows to so many times, by length: {_ratios(curves, growth)}",
            f"grows at every length; taken as at least {GROWS} times",
            _rarer(grid),
            rests=_growth_bound(curves),
        ),
    )
    return _finding(
        claims, curves, SHARES_FROM_0, "fig-8", "Execution time of aggressive, negative late",
        (_NEGATIVE, "CPU time per event [us]"), _CPU, (),
    )  # fmt: skip


_COMPUTING = "In a stream so slow that no record waits for another."
_CPU = "CPU time in the chain, the least of three passes; only ratios mean anything."


def _positive(run: PaperRun) -> Grid:
    return _grid(run, "positive events late", SHARES, lambda share: late(positive=share))


def _negative(run: PaperRun) -> Grid:
    return _grid(run, "negative events late", SHARES_FROM_0, lambda share: late(negative=share))


def _grid(
    run: PaperRun, name: str, shares: tuple[float, ...], lates: Lates, rate: int = EVENTS_PER_UNIT
) -> Grid:
    setups = {
        label: [
            StrategySetup(AGGRESSIVE, length, late=lates(share), per_unit=rate) for share in shares
        ]
        for label, length in zip(BY_LENGTH, LENGTHS, strict=True)
    }
    found = timed(run, name, [setup for row in setups.values() for setup in row])
    return {label: [found[setup] for setup in row] for label, row in setups.items()}


def _latency(grid: Grid) -> Curves:
    """Latencies [us]: all of them computing, as nothing waits on the arrival clock."""
    return {name: [computing_seconds(ran) * 1e6 for ran in rans] for name, rans in grid.items()}


def _execution(grid: Grid) -> Curves:
    return {name: [ran.seconds_per_event * 1e6 for ran in rans] for name, rans in grid.items()}


def _all_grow(curves: Curves) -> bool:
    """Whether the curve of each longer query lies above that of the shorter one at every share."""
    return all(ascending(column) for column in zip(*curves.values(), strict=True))


def _more_with_length(curves: Curves) -> bool:
    """Whether longer queries gain more from the first share to the last."""
    return ascending([values[-1] - values[0] for values in curves.values()])


def _at_other_rates(
    run: PaperRun, kind: str, shares: tuple[float, ...], of: Callable[[Grid], Curves],
    judge: Callable[[Curves], bool],
) -> str:  # fmt: skip
    """With which other rates a verdict is the same; each judged, as ours, at these shares of the
    ``kind`` of events that is late.
    """
    verdicts = {
        rate: judge(of(_grid(
            run, f"{kind} events late, {rate} per time unit", shares,
            lambda share: late(**{kind: share}), rate,
        )))
        for rate in (EVENTS_PER_UNIT, *_LOWER_RATES)
    }  # fmt: skip
    verdict = verdicts.pop(EVENTS_PER_UNIT)
    same = same_with(
        verdict, {f"{rate} events per time unit": is_so for rate, is_so in verdicts.items()}
    )
    return (
        f"the rate of events, here {EVENTS_PER_UNIT} per time unit, with "
        f"{listed(percents(shares))} out of order: {same}."
    )


def _grows_with_length(curves: Curves, shares: tuple[float, ...], text: str, rests: str) -> Claim:
    columns = list(zip(*curves.values(), strict=True))
    return judged(
        text,
        _all_grow(curves),
        "length 7 over length 3, by share: "
        + _ratios(dict(zip(percents(shares), columns, strict=True)), growth),
        "each longer query lies above the shorter one",
        failing(
            (share, ascending(column), turns(list(curves), list(column), "us").rstrip("."))
            for share, column in zip(percents(shares), columns, strict=True)
        ),
        rests=rests,
    )


def _flat_bound(curves: Curves) -> str:
    return (
        f"the bound of what is flat, here {FLAT}: it holds from "
        f"{max(spread(values) for values in curves.values()):.2f} on."
    )


def _growth_bound(curves: Curves) -> str:
    return (
        f"the bound of what grows, here {GROWS} times: it holds up to "
        f"{min(growth(values) for values in curves.values()):.3f}."
    )


def _ascends_at_other_rates(run: PaperRun, values: Sequence[float]) -> str:
    """Whether compensation tuples of the shortest query also rise with the share at other rates."""
    setups = {
        rate: [StrategySetup(AGGRESSIVE, LENGTHS[0], late=late(negative=share), per_unit=rate)
               for share in SHARES_FROM_0]
        for rate in _LOWER_RATES
    }  # fmt: skip
    found = counted_passes(
        run, "compensation by share", [each for row in setups.values() for each in row]
    )
    others = {
        f"{rate} events per time unit": ascending([_taken_back(found[each]) for each in row])
        for rate, row in setups.items()
    }
    return (
        f"the rate of events, here {EVENTS_PER_UNIT} per time unit; of the shortest query: "
        f"{same_with(ascending(values), others)}."
    )


def _not_flat(curves: Curves) -> str:
    """Which lengths change more than is taken as flat."""
    return failing(
        (name, spread(values) <= FLAT, f"{min(values):.3g} to {max(values):.3g} us")
        for name, values in curves.items()
    )


def _ratios(curves: Curves, of: Callable[[list[float]], float]) -> str:
    return listed(f"{of(list(values)):.2f}" for values in curves.values())


def _numbers(values: Iterable[float]) -> str:
    return listed(map(number, values))


def _results(grid: Grid, shares: tuple[float, ...]) -> Table:
    per_event = {
        name: [(ran.tuples.final + ran.at_end) / ran.events for ran in rans]
        for name, rans in grid.items()
    }
    return tabled(
        "Results that stand, per event", "query", percents(shares), per_event,
        "The events are the same at every share, and so are the results.",
    )  # fmt: skip


def _finding(
    claims: tuple[Claim, ...], curves: Curves, shares: tuple[float, ...], name: str, title: str,
    axes: tuple[str, str], caption: str, more: tuple[Table, ...],
) -> Finding:  # fmt: skip
    figure = drawn(
        name, title, f"{caption} The axis upwards is logarithmic.", curves,
        [100 * share for share in shares], axes, log_y=True,
    )  # fmt: skip
    table = tabled(f"{title}: {axes[1]}", "query", percents(shares), curves, caption)
    facts = {"shares": shares, "values": curves}
    return Finding(claims, (table, *more), (figure,), facts)
