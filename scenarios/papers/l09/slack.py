"""L09 IX-D: K-slack before a query that then needs no care for disorder."""

from __future__ import annotations

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
    tabled,
)
from slackwater.scenarios.papers.l09.curves import BY_LENGTH, SHARES
from slackwater.scenarios.papers.l09.passes import (
    AGGRESSIVE,
    K_SLACK,
    LENGTHS,
    StrategyRun,
    StrategySetup,
    late,
    timed,
    watched,
)
from slackwater.scenarios.papers.l09.service import computing_seconds
from slackwater.scenarios.papers.l09.workload import EVENTS_PER_UNIT
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, times, turns

_LATE = 0.3
_RATES = (2, 4)
_AXIS = "events out of order [%]"


def latency(run: PaperRun) -> Finding:
    """Figure 13."""
    grid = _grid(run)
    curves: Curves = {
        name: [ran.tuples.waited_units for ran in rans] for name, rans in grid.items()
    }
    computing = {
        name: [computing_seconds(ran) * 1e6 for ran in rans] for name, rans in grid.items()
    }
    claim = judged(
        "The average latency grows with the share of events out of order.",
        all(ascending(values) for values in curves.values()),
        "from 10 to 50 % out of order waiting goes, by length, "
        + listed(f"from {number(v[0])} to {number(v[-1])}" for v in curves.values())
        + " time units, and computing, with sorting, "
        + listed(f"from {number(v[0])} to {number(v[-1])}" for v in computing.values())
        + " us",
        "grows, by the cost of sorting",
        failing(
            (name, ascending(values), turns(percents(SHARES), values, "time units").rstrip("."))
            for name, values in curves.items()
        )
        + " K-slack holds an event for K less its own delay, so that the later events come the "
        "less they wait; computing changes by "
        + listed(f"{v[-1] - v[0]:.3g}" for v in computing.values())
        + " us, by length.",
        rests="what latency is, here waiting and computing (L09 IX-A): "
        + same_with(
            all(ascending(values) for values in curves.values()),
            {
                "computing alone, from the first share to the last": all(
                    values[-1] > values[0] for values in computing.values()
                )
            },
        )
        + ". No rate changes it, as waiting is K less the delay.",
    )
    memory, state_claim = _memory(run)
    title = "Latency of K-slack"
    caption = "From the arrival of a result's last event; the slack is the longest delay."
    return Finding(
        (claim, memory),
        (
            tabled(f"{title} [time units]", "query", percents(SHARES), curves),
            tabled("Computing, with sorting, in a slow stream [us]", "query", percents(SHARES),
                   computing),
            state_claim,
        ),
        (drawn("fig-13", title, caption, curves, [100 * share for share in SHARES],
               (_AXIS, "latency [time units]")),),
        {"waited": curves},
    )  # fmt: skip


def _memory(run: PaperRun) -> tuple[Claim, Table]:
    """Events held by K-slack and by the aggressive strategy, with the longest query."""
    slack, eager = (
        StrategySetup(each, LENGTHS[-1], late=late(_LATE, _LATE)) for each in (K_SLACK, AGGRESSIVE)
    )
    found = watched(run, "K-slack and aggressive, state", (slack, eager))
    rows = {
        each.strategy.name: (found[each].buffered, found[each].held_mean) for each in (slack, eager)
    }
    mine, other = (sum(values) for values in rows.values())
    claim = judged(
        "The memory of K-slack is close to that of aggressive.",
        max(mine, other) <= FLAT * min(mine, other),
        f"{mine:,.1f} events, {rows[K_SLACK.name][0]:,.1f} of them before the query, against "
        f"{other:,.1f}: {mine / other:.2f} times as many",
        f"close; taken as up to {FLAT} times",
        f"K-slack's matcher holds {rows[K_SLACK.name][1]:,.1f} events, aggressive's "
        f"{rows[AGGRESSIVE.name][1]:,.1f}, and the buffer before it {rows[K_SLACK.name][0]:,.1f}.",
        rests=f"the bound, here {FLAT} times: it holds from "
        f"{times(max(mine, other), min(mine, other))} on. Both grow with the rate of events alike.",
    )
    return claim, tabled(
        f"Mean events held, query of length {LENGTHS[-1]}, {_LATE:.0%} out of order", "strategy",
        ("before the query", "in the matcher"), rows,
    )  # fmt: skip


def execution(run: PaperRun) -> Finding:
    """Figure 14."""
    curves: Curves = {
        name: [ran.seconds_per_event * 1e6 for ran in rans] for name, rans in _grid(run).items()
    }
    claim = judged(
        "The average execution time grows with the share of events out of order.",
        all(growth(values) >= GROWS for values in curves.values()),
        "from 10 to 50 % it grows to so many times, by length: "
        + listed(f"{growth(values):.2f}" for values in curves.values()),
        f"grows; taken as at least {GROWS} times",
        failing(
            (name, growth(values) >= GROWS, f"{growth(values):.3f} times")
            for name, values in curves.items()
        )
        + " An event is put in its place in a sorted run, which takes some ns more if it is late; "
        "the paper's buffer sorts again.",
        rests=_at_other_rates(run, curves),
    )
    title = "Execution time of K-slack"
    caption = (
        "CPU time in the chain, the least of three passes; only ratios mean anything. "
        "The axis upwards is logarithmic."
    )
    return Finding(
        (claim,),
        (tabled(f"{title}: CPU time per event [us]", "query", percents(SHARES), curves),),
        (drawn("fig-14", title, caption, curves, [100 * share for share in SHARES],
               (_AXIS, "CPU time per event [us]"), log_y=True),),
    )  # fmt: skip


def _at_other_rates(run: PaperRun, here: Curves) -> str:
    """Between the least and the largest share, at other rates of events."""

    def grows(curves: Curves) -> bool:
        return all(growth(values) >= GROWS for values in curves.values())

    others = {}
    for rate in _RATES:
        grid = _grid(run, (SHARES[0], SHARES[-1]), rate)
        curves = {name: [ran.seconds_per_event for ran in rans] for name, rans in grid.items()}
        growths = listed(f"{growth(values):.2f}" for values in curves.values())
        others[f"{rate} events per time unit ({growths})"] = grows(curves)
    least = min(growth(values) for values in here.values())
    return (
        f"the rate of events, here {EVENTS_PER_UNIT} per time unit: "
        f"{same_with(grows(here), others)}; "
        f"the bound, here {GROWS} times: it holds up to {least:.3f}."
    )


def _grid(
    run: PaperRun, shares: tuple[float, ...] = SHARES, rate: int = EVENTS_PER_UNIT
) -> dict[str, list[StrategyRun]]:
    setups = {
        label: [
            StrategySetup(K_SLACK, length, late=late(share, share), per_unit=rate)
            for share in shares
        ]
        for label, length in zip(BY_LENGTH, LENGTHS, strict=True)
    }
    found = timed(
        run, f"K-slack, {rate} per time unit", [setup for row in setups.values() for setup in row]
    )
    return {label: [found[setup] for setup in row] for label, row in setups.items()}
