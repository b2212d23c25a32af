"""L09 IX-F: old events on disk, and late ones that are handled together (Figure 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table, number
from slackwater.scenarios.papers.curves import GROWS, drawn, tabled
from slackwater.scenarios.papers.l09.passes import (
    AGGRESSIVE,
    StrategyRun,
    StrategySetup,
    late,
    timed,
)
from slackwater.scenarios.papers.l09.service import BUSY, busy, latency_seconds, sustained
from slackwater.scenarios.papers.l09.workload import EVENTS_PER_UNIT, UNIT_NS
from slackwater.scenarios.papers.verdicts import judged, listed, same_with, times, turns

THRESHOLDS: Final = (1, 2, 3, 4, 5, 7, 9, 12, 16)
_LENGTH: Final = 5
_LATE: Final = late(0.8, 0.8)
EVENTS: Final = 2_000
_WINDOW: Final = 20
_PAGE: Final = 5
"""Time units of a chunk, the paper's page; it prints no size."""
_WAIT: Final = 10
"""Longest wait of a late event (alpha_t) [time units]."""
SLOWER: Final = (0.1, 0.4)
"""Shares of the time that the slowest threshold computes in slower streams."""
OVERLOADED: Final = (1.5, 2.0)
"""As many times as fast as computing can follow with a threshold of 1: latency grows with the
length of the stream, so no claim is judged there."""
_JUDGED: Final = "sustained"
_WAITING: Final = "waiting alone"


def thresholds(run: PaperRun) -> Finding:
    """Figure 15."""
    setups = [
        StrategySetup(
            AGGRESSIVE, _LENGTH, _WINDOW, _LATE, events=EVENTS,
            spill=SpillSettings(
                run.folder / "pages", _WINDOW * UNIT_NS, _PAGE * UNIT_NS, pending, _WAIT * UNIT_NS
            ),
        )
        for pending in THRESHOLDS
    ]  # fmt: skip
    passes = timed(run, "state on disk", setups)
    rans = [passes[setup] for setup in setups]
    waited = [ran.tuples.waited_units for ran in rans]
    unit_s = sustained(rans, BUSY)
    rates = {_JUDGED: unit_s} | {_slower(share): sustained(rans, share) for share in SLOWER}
    rates |= {_overloaded(times_): busy(rans[0], 1.0) / times_ for times_ in OVERLOADED}
    curves = {_WAITING: waited} | {
        name: [latency_seconds(ran, unit) / unit for ran in rans] for name, unit in rates.items()
    }
    rate = (
        f"{EVENTS_PER_UNIT / unit_s:,.0f} events a second: the fastest stream in which the slowest "
        f"threshold computes {BUSY:.0%} of the time at most and with every one the queue empties "
        "in the last tenth"
    )
    loads = [ran.loads for ran in rans]
    claims = (*_by_rate(rans, curves, unit_s, rate), _saved(loads))
    title = "State on disk: latency by threshold"
    caption = (
        "How many late events of a chunk are handled together, at most "
        f"{_WAIT} time units after the first. Sustained: {rate}. Where computing cannot keep up "
        "latency grows with the stream's length. The axis of latency is logarithmic."
    )
    return Finding(
        claims,
        (tabled(f"{title} [time units]", "stream", [str(each) for each in THRESHOLDS], curves),
         _costs(rans)),
        (drawn("fig-15", title, caption, curves, THRESHOLDS,
               ("events handled together", "latency [time units]"), log_y=True),),
        {"loads": loads, "latency": curves, "standing": [_results(ran) for ran in rans]},
    )  # fmt: skip


def _by_rate(
    rans: Sequence[StrategyRun], curves: Mapping[str, Sequence[float]], unit_s: float, rate: str
) -> tuple[Claim, Claim]:
    """The claims on latency, judged in the sustained stream."""
    waited, loads = curves[_WAITING], [ran.loads for ran in rans]
    fast = curves[_JUDGED]
    best = fast.index(min(fast))
    next_ = max(best, 1)
    others = {name: of for name, of in curves.items() if name not in {_JUDGED, _WAITING}}
    lowers, grows = _lowers(fast), _grows(fast)
    least = {name: THRESHOLDS[of.index(min(of))] for name, of in curves.items()}
    return (
        judged(
            "Handling late events in batches lowers the average latency greatly until some point, "
            "as it saves loads.",
            lowers,
            f"{number(fast[0])} time units with 1, {number(fast[best])} with {THRESHOLDS[best]}, "
            f"at {rate}",
            "greatly, up to 9; taken as to half at most",
            f"with {THRESHOLDS[next_]} together a result waits {number(waited[next_])} time units "
            f"for its batch, while computing goes from {busy(rans[0], unit_s):.0%} to "
            f"{busy(rans[next_], unit_s):.0%} of the time and loads from {loads[0]:,} to "
            f"{loads[next_]:,}, which saves "
            f"{number(fast[0] - waited[0] - fast[next_] + waited[next_])} time units.",
            rests="the rate of events: "
            + same_with(lowers, {name: _lowers(of) for name, of in others.items()})
            + ". The least latency is with a threshold of "
            + ", ".join(f"{each} {name}" for name, each in least.items())
            + ".",
        ),
        judged(
            "From some threshold on the average latency grows, as results wait for their batch.",
            grows,
            f"from {number(fast[best])} time units with {THRESHOLDS[best]} to {number(fast[-1])} "
            f"with {THRESHOLDS[-1]}",
            f"grows from 9 on; taken as {GROWS} times",
            f"it grows to {fast[-1] / fast[best]:.2f} times from {THRESHOLDS[best]} to "
            f"{THRESHOLDS[-1]}; waiting grows by {waited[-1] - waited[best]:.2f} time units.",
            rests="the rate of events: "
            + same_with(grows, {name: _grows(of) for name, of in others.items()})
            + ".",
        ),
    )


def _saved(loads: Sequence[int]) -> Claim:
    return judged(
        "Batches save input and output.",
        GROWS * loads[-1] <= loads[0] and loads[0] == max(loads),
        f"chunks are loaded {listed(f'{each:,}' for each in loads)} times with thresholds of "
        f"{listed(map(str, THRESHOLDS))}: the last {times(loads[0], loads[-1])} as seldom as "
        "the first",
        f"saved; taken as at least {GROWS} times fewer loads, and the most with 1",
        turns([str(each) for each in THRESHOLDS], loads, "loads", rises=False),
        rests=f"the bound, here {GROWS} times: it holds up to {times(loads[0], loads[-1])}. The "
        "rate of the stream does not matter: loads are counted.",
    )


def _slower(share: float) -> str:
    return f"in a stream where computing takes {share:.0%} of the time"


def _overloaded(times_: float) -> str:
    return f"in one {times_:g} times as fast as computing can follow"


def _lowers(latency: Sequence[float]) -> bool:
    """Whether some threshold above 1 halves the latency."""
    return latency[0] >= 2 * min(latency) and latency[0] > min(latency)


def _grows(latency: Sequence[float]) -> bool:
    """Whether it grows after its least, which is not the last."""
    return latency[-1] >= GROWS * min(latency) and latency[-1] > min(latency)


def _costs(rans: list[StrategyRun]) -> Table:
    rows: list[tuple[str | float, ...]] = [
        ("chunks loaded", *(ran.loads for ran in rans)),
        ("CPU time per event [us]", *(ran.seconds_per_event * 1e6 for ran in rans)),
        ("events held", *(ran.held_mean for ran in rans)),
    ]
    return Table("What thresholds cost", ("", *map(str, THRESHOLDS)), tuple(rows))


def _results(ran: StrategyRun) -> int:
    return ran.tuples.final + ran.at_end
