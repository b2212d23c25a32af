"""L09 IX-E: all three strategies side by side (Figure 16)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table, number
from slackwater.scenarios.papers.curves import drawn, percents, tabled
from slackwater.scenarios.papers.l09.conservative import USUAL
from slackwater.scenarios.papers.l09.curves import SHARES
from slackwater.scenarios.papers.l09.passes import (
    AGGRESSIVE,
    CONSERVATIVE,
    K_SLACK,
    Strategy,
    StrategyRun,
    StrategySetup,
    counted_passes,
    late,
    timed,
)
from slackwater.scenarios.papers.l09.service import BUSY, busy, latency_seconds, unit_seconds
from slackwater.scenarios.papers.l09.workload import EVENTS_PER_UNIT, MAX_DELAY, NEGATIVE
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, times

_LENGTH: Final = 5
_STRATEGIES: Final = (AGGRESSIVE, CONSERVATIVE, K_SLACK)
_RATE: Final = (
    f"the rate of events, here the fastest at which the slowest point computes {BUSY:.0%} of the "
    "time; the verdict names the rate from which on it would change."
)
_ALIKE: Final = 0.05
"""Up to this share of it, two latencies count as the same."""
_PARTS: Final = (0.01, 0.1, 1.2, 2)
"""Shares of the rate at which a claim is judged again."""
_NARROW: Final = 40
"""Steps of a bisection: beyond them nothing changes in a double."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The fastest rate up to which the aggressive strategy has the lower latency.

    ``events_per_second``: 0 if it never has. ``busy``: share of the time that it computes there;
    above 1 it cannot keep up, and latency grows without end.
    """

    events_per_second: float
    busy: float


def all_methods(run: PaperRun) -> Finding:
    """Figure 16."""
    setups = {
        each: [StrategySetup(each, _LENGTH, late=late(share, share), promised=_promised(each))
               for share in SHARES]
        for each in _STRATEGIES
    }  # fmt: skip
    passes = timed(run, "all strategies", [setup for row in setups.values() for setup in row])
    found = {each: [passes[setup] for setup in row] for each, row in setups.items()}
    unit_s = unit_seconds(passes.values())
    curves = _latencies(found, unit_s)
    crossings = [
        crossing(eager, wary)
        for eager, wary in zip(found[AGGRESSIVE], found[CONSERVATIVE], strict=True)
    ]
    rate = (
        f"At {EVENTS_PER_UNIT / unit_s:,.0f} events a second, at which the slowest point computes "
        f"{BUSY:.0%} of the time."
    )
    title = "Latency of all three strategies"
    figure = drawn(
        "fig-16", title, f"{rate} The axis of latency is logarithmic.", curves,
        [100 * share for share in SHARES], ("events out of order [%]", "latency [time units]"),
        log_y=True,
    )  # fmt: skip
    claims = (
        _slowest(found, unit_s),
        *_crossed(curves, crossings),
        _negative_decides(run),
    )
    facts = {"crossing_busy": [each.busy for each in crossings], "latency": curves}
    tables = (
        tabled(f"{title} [time units]", "strategy", percents(SHARES), curves, rate),
        _costs(found, crossings),
    )
    return Finding(claims, tables, (figure,), facts)


def crossing(eager: StrategyRun, wary: StrategyRun) -> Crossing:
    """The point at which, as the stream becomes faster, two passes have the same latency."""

    def leads(unit_s: float) -> bool:
        return latency_seconds(eager, unit_s) < latency_seconds(wary, unit_s)

    slow_s = 1e3 * unit_seconds([eager, wary])
    fast_s = 1e-3 * unit_seconds([eager, wary])
    if not leads(slow_s):
        return Crossing(0.0, 0.0)
    if leads(fast_s):
        slow_s = fast_s
    for _ in range(_NARROW):
        middle = (slow_s * fast_s) ** 0.5
        slow_s, fast_s = (middle, fast_s) if leads(middle) else (slow_s, middle)
    return Crossing(EVENTS_PER_UNIT / slow_s, busy(eager, slow_s))


def _promised(strategy: Strategy) -> float:
    return USUAL if strategy is CONSERVATIVE else 0.0


def _latencies(found: dict[Strategy, list[StrategyRun]], unit_s: float) -> dict[str, list[float]]:
    """In time units, which last ``unit_s`` [s]."""
    return {
        each.name: [latency_seconds(ran, unit_s) / unit_s for ran in rans]
        for each, rans in found.items()
    }


def _slack_is_last(curves: dict[str, list[float]]) -> bool:
    slack, wary, eager = (curves[each.name] for each in (K_SLACK, CONSERVATIVE, AGGRESSIVE))
    return all(last > max(others) for last, *others in zip(slack, wary, eager, strict=True))


def _slowest(found: dict[Strategy, list[StrategyRun]], unit_s: float) -> Claim:
    curves = _latencies(found, unit_s)
    slack, wary, eager = (curves[each.name] for each in (K_SLACK, CONSERVATIVE, AGGRESSIVE))
    others = {
        f"{part:g} times it": _slack_is_last(_latencies(found, unit_s / part)) for part in _PARTS
    }
    return judged(
        "K-slack has the largest latency, as every event waits for the longest delay.",
        _slack_is_last(curves),
        f"K-slack {_units(slack)}, conservative {_units(wary)}, aggressive {_units(eager)} time "
        f"units at {listed(percents(SHARES))} out of order",
        "above both others at every share",
        failing(
            (share, last > max(a, b), f"{number(last)} against {number(max(a, b))}")
            for share, last, a, b in zip(percents(SHARES), slack, wary, eager, strict=True)
        )
        + " A promise about the negated type comes every "
        f"{10 / (USUAL * EVENTS_PER_UNIT):g} time units, and K is {MAX_DELAY}.",
        rests=f"the rate of events, as below: {same_with(_slack_is_last(curves), others)}.",
    )


def _crossed(curves: dict[str, list[float]], crossings: list[Crossing]) -> tuple[Claim, Claim]:
    eager, wary = curves[AGGRESSIVE.name], curves[CONSERVATIVE.name]
    behind = [share for share, mine, other in zip(SHARES, eager, wary, strict=True) if mine > other]
    return (
        judged(
            "While few events are out of order, aggressive has a lower latency than conservative.",
            eager[0] < wary[0],
            f"at 10 %, {number(eager[0])} against {number(wary[0])} time units",
            "lower below some 40 %",
            "the two have the same latency in a stream that is "
            f"{crossings[0].busy:,.3g}x as fast as aggressive can compute.",
            rests=_RATE,
        ),
        judged(
            "From some share on, aggressive has the higher latency, as it computes more.",
            bool(behind) and eager[0] < wary[0],
            (f"from {behind[0]:.0%} on" if behind else "at no share up to 50 %")
            + f"; at 50 % conservative's is {times(wary[-1], eager[-1])} aggressive's",
            "from some 40 % on",
            f"at 50 % aggressive's {number(eager[-1])} time units are computing, as it waits for "
            f"nothing, and conservative's {number(wary[-1])} are waiting for promises but for that "
            "much.",
            rests=_RATE,
            also="Latencies are the same in a stream that is "
            + listed(f"{each.busy:,.3g}x" for each in crossings)
            + " as fast as aggressive can compute, at "
            + f"{listed(percents(SHARES))} out of order. Above 1x it falls behind for good.",
        ),
    )


def _negative_decides(run: PaperRun) -> Claim:
    """The effect of promises about each type on the conservative strategy's latency."""
    whole = StrategySetup(CONSERVATIVE, _LENGTH, late=late(0.3, 0.3), promised=USUAL)
    others = "".join(kind for kind in "ABCDEFGHIJ" if kind != NEGATIVE)
    setups = [whole, replace(whole, promising=NEGATIVE), replace(whole, promising=others)]
    ran = counted_passes(run, "conservative, promises about some types", setups)
    both, negative, positive = (ran[setup] for setup in setups)
    first, second = both.tuples.waited_units, negative.tuples.waited_units
    return judged(
        "The latency of the conservative strategy is mainly set by the promises about the negated "
        "type.",
        abs(second - first) <= _ALIKE * first and not positive.tuples.final,
        f"{number(second)} time units with these promises alone, {number(first)} with all; "
        f"without them {positive.tuples.final:,} results leave before the end of the input",
        "primarily",
        f"the two differ by {abs(second - first) / max(first, 1e-9):.1%} (taken as alike up to "
        f"{_ALIKE:.0%}).",
        rests=f"the bound of what is alike, here {_ALIKE:.0%}: it holds from "
        f"{abs(second - first) / max(first, 1e-9):.2%} on.",
    )


def _costs(found: dict[Strategy, list[StrategyRun]], crossings: list[Crossing]) -> Table:
    rows: list[tuple[str | float, ...]] = []
    for each, rans in found.items():
        rows.append((f"{each.name}: waiting [time units]", *(r.tuples.waited_units for r in rans)))
        rows.append(
            (f"{each.name}: CPU time per event [us]", *(r.seconds_per_event * 1e6 for r in rans))
        )
    rows.append(
        ("same latency at [events/s]", *(round(each.events_per_second) for each in crossings))
    )
    rows.append(
        ("that is so many times what aggressive can take", *(each.busy for each in crossings))
    )
    return Table(
        "What the latencies are made of",
        ("", *percents(SHARES)),
        tuple(rows),
        "Waiting is on the arrival clock and the same in every run; CPU time is measured.",
    )


def _units(values: list[float]) -> str:
    return listed(number(value) for value in values)
