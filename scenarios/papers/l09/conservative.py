"""L09 IX-C: the conservative strategy, and what its promises are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import number
from slackwater.scenarios.papers.curves import GROWS, ascending, drawn, growth, percents, tabled
from slackwater.scenarios.papers.l09.curves import SHARES, of_length
from slackwater.scenarios.papers.l09.passes import (
    AGGRESSIVE,
    CONSERVATIVE,
    EVENTS,
    StrategyRun,
    StrategySetup,
    counted_passes,
    late,
    timed,
    watched,
)
from slackwater.scenarios.papers.verdicts import judged, listed, same_with, turns

PROMISED: Final = (0.1, 0.2, 0.3, 0.4)
"""Promises per event (L09's POG percentage)."""
USUAL: Final = 0.2
"""What the paper calls a relatively small overhead."""
_OVERHEAD: Final = 0.25
"""Largest overhead that we count as relatively small."""
_LATE: Final = late(0.3, 0.3)
_LENGTH: Final = 7
_SHORT: Final = 3
_SPARSE: Final = 4
_LONG: Final = 30_000
"""At half the rate there are far fewer results, so the stream can be ten times as long. In a
short stream, a few bursts of results would decide the mean."""
_RATES: Final = (2, 4, 8)
"""Events per time unit of other runs, which show the effect of the rate."""
Passes = Callable[[PaperRun, str, Sequence[StrategySetup]], Mapping[StrategySetup, StrategyRun]]
_PROMISES: Final = "promises per event [%]"


def _state_size(ran: StrategyRun) -> float:
    return ran.held_mean


def _waited(ran: StrategyRun) -> float:
    return ran.tuples.waited_units


def _falls(values: list[float]) -> bool:
    """By promises, from few to many."""
    return ascending(values[::-1]) and values[0] >= GROWS * values[-1]


def _at_other_rates(
    run: PaperRun,
    passes: Passes,
    what: str,
    setups: list[StrategySetup],
    of: Callable[[StrategyRun], float],
    judge: Callable[[list[float]], bool],
) -> str:
    """With which other rates of events a verdict on ``setups`` is the same, and with half of
    them. ``what``: the verdict's name.
    """
    rate_here = setups[0].per_unit
    cases = {f"{rate} events per time unit": [replace(each, per_unit=rate) for each in setups]
             for rate in _RATES if rate != rate_here}  # fmt: skip
    cases["half as many events"] = [
        replace(each, events=(each.events or EVENTS[each.length]) // 2) for each in setups
    ]
    every = [each for case in (setups, *cases.values()) for each in case]
    found = passes(run, f"conservative, other rates, {what}", every)
    judged_by = {name: judge([of(found[each]) for each in case]) for name, case in cases.items()}
    same = same_with(judge([of(found[each]) for each in setups]), judged_by)
    return f"the rate of events, here {rate_here} per time unit, and their number: {same}."


def state(run: PaperRun) -> Finding:
    """Figure 10."""
    setups = [
        StrategySetup(CONSERVATIVE, _LENGTH, late=_LATE, promised=share) for share in PROMISED
    ]
    found = watched(run, "conservative, state", setups)
    sizes = [found[setup].held_mean for setup in setups]
    claim = judged(
        "The more promises, the less state.",
        _falls(sizes),
        f"{listed(f'{value:,.1f}' for value in sizes)} events with {listed(percents(PROMISED))} "
        f"promises: {1 - sizes[-1] / sizes[0]:.0%} less at the last than at the first",
        f"falls with every step; taken as at least {GROWS} times from the last to the first",
        f"{turns(percents(PROMISED), sizes, 'events', rises=False)} In all it is "
        f"{sizes[0] / sizes[-1]:.3f} times.",
        rests=_at_other_rates(run, watched, "state", setups, _state_size, _falls),
    )
    curves = {"events held": sizes}
    title = "State of conservative"
    figure = drawn(
        "fig-10", title, "Mean number of events in the matcher's state.", curves,
        [100 * share for share in PROMISED], (_PROMISES, "events held"),
    )  # fmt: skip
    table = tabled(f"{title}: mean events held", "", percents(PROMISED), curves)
    return Finding((claim,), (table,), (figure,), {"held": sizes})


def overhead(run: PaperRun) -> Finding:
    """Figure 11."""
    setups = {
        length: [
            StrategySetup(AGGRESSIVE, length),
            *(StrategySetup(CONSERVATIVE, length, promised=share) for share in PROMISED),
        ]
        for length in (_LENGTH, _SHORT)
    }
    every = [setup for row in setups.values() for setup in row]
    found = timed(run, "events in order, with and without promises", every)
    more = {}
    for length, row in setups.items():
        without, *with_promises = (found[setup].seconds_per_event for setup in row)
        more[length] = [seconds / without - 1 for seconds in with_promises]
    usual = PROMISED.index(USUAL)
    claim = judged(
        "On events in order, the overhead of promises and waiting is relatively small at 20 % "
        "promises.",
        more[_LENGTH][usual] <= _OVERHEAD,
        f"{more[_LENGTH][usual]:.0%} more CPU time than without promises; "
        f"{_percents(more[_LENGTH])} at {listed(percents(PROMISED))} promises",
        f"relatively small; taken as at most {_OVERHEAD:.0%}",
        f"a promise comes with every {1 / USUAL:g}th event, and its handling takes as long as that "
        f"of {more[_LENGTH][usual] / USUAL:.2f} events.",
        rests="the query, here the paper's longest: "
        + same_with(
            more[_LENGTH][usual] <= _OVERHEAD,
            {f"length {_SHORT}": more[_SHORT][usual] <= _OVERHEAD},
        )
        + f"; the bound, here {_OVERHEAD:.0%}: it holds from {more[_LENGTH][usual]:.0%} on.",
        also=f"That is the paper's query of length {_LENGTH}, which mostly makes results. With "
        f"length {_SHORT} it is {_percents(more[_SHORT])}.",
    )
    curves = {
        of_length(length): [100 * share for share in shares] for length, shares in more.items()
    }
    title = "Overhead of conservative on events in order"
    figure = drawn(
        "fig-11", title, "CPU time in the chain, more than without promises and waiting.", curves,
        [100 * share for share in PROMISED], (_PROMISES, "overhead [%]"),
    )  # fmt: skip
    table = tabled(f"{title} [%]", "query", percents(PROMISED), curves)
    return Finding((claim,), (table,), (figure,), {"overhead": more})


def latency(run: PaperRun) -> Finding:
    """Figure 12."""
    usual = StrategySetup(
        CONSERVATIVE, _LENGTH, late=_LATE, promised=USUAL, per_unit=_SPARSE, events=_LONG
    )
    rows = {
        "all types late": [replace(usual, late=late(share, share)) for share in SHARES],
        "only the negated type late": [replace(usual, late=late(0, share)) for share in SHARES],
        "promises": [replace(usual, promised=share) for share in PROMISED],
    }
    found = counted_passes(
        run, "conservative, latency", [each for row in rows.values() for each in row]
    )
    curves = {name: [_waited(found[setup]) for setup in row] for name, row in rows.items()}
    rarer = curves.pop("promises")
    waited, negative = curves.values()
    claims = (
        judged(
            "The average latency grows with the share of events out of order, as promises come "
            "later.",
            growth(waited) >= GROWS,
            f"{_units(waited)} time units at {listed(percents(SHARES))} out of order",
            f"grows; taken as at least {GROWS} times from 10 to 50 %",
            f"it goes to {growth(waited):.3f} times, and to {growth(negative):.3f} with only the "
            "negated type late, whose events alone hold promises back: the results' own events "
            "come later as well, and latency counts from the last of them.",
            also=f"With only the negated type late it goes {_units(negative)}.",
            rests="which events are late, here all alike: "
            + same_with(
                growth(waited) >= GROWS, {"only the negated type late": growth(negative) >= GROWS}
            )
            + "; "
            + _at_other_rates(
                run, counted_passes, "shares", rows["all types late"], _waited,
                lambda by: growth(by) >= GROWS,
            ),
        ),
        judged(
            "Fewer promises mean more latency.",
            ascending(rarer[::-1]),
            f"{_units(rarer)} time units with {listed(percents(PROMISED))} promises",
            "grows as they become fewer",
            turns(percents(PROMISED), rarer, "time units", rises=False),
            rests=_at_other_rates(
                run, counted_passes, "promises", rows["promises"], _waited,
                lambda by: ascending(by[::-1]),
            ),
        ),
    )  # fmt: skip
    title = "Latency of conservative"
    caption = (
        "Mean waiting of a result on the arrival clock, from its last event's arrival; with 20 % "
        f"promises, at {_SPARSE} events per time unit."
    )
    figure = drawn(
        "fig-12", title, caption, curves, [100 * share for share in SHARES],
        ("events out of order [%]", "latency [time units]"),
    )  # fmt: skip
    tables = (
        tabled(f"{title} by share out of order [time units]", "", percents(SHARES), curves),
        tabled(
            f"{title} by promises, 30 % out of order [time units]", "", percents(PROMISED),
            {"latency": rarer},
        ),
    )  # fmt: skip
    return Finding(claims, tables, (figure,), {"waited": waited, "by_promised": rarer})


def _units(values: list[float]) -> str:
    return listed(number(value) for value in values)


def _percents(shares: list[float]) -> str:
    return listed(f"{share:.0%}" for share in shares)
