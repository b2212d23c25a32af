"""L09 IX-F: old events on disk, and late ones that are handled together (Figure 15)."""

from __future__ import annotations

from typing import Final

from engine.pattern.spill.settings import SpillSettings
from scenarios.papers.curves import GROWS, drawn, tabled
from scenarios.papers.l09.passes import AGGRESSIVE, Ran, Setup, late, timed
from scenarios.papers.l09.service import busy, latency_seconds
from scenarios.papers.l09.workload import UNIT_NS
from scenarios.papers.verdicts import judged, listed, times
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Table, number

THRESHOLDS: Final = (1, 2, 3, 4, 5, 7, 9, 12, 16)
_LENGTH: Final = 5
_LATE: Final = late(0.8, 0.8)
EVENTS: Final = 2_000
_WINDOW: Final = 20
_PAGE: Final = 5
"""Time units of a chunk, the paper's page; it prints no size."""
_WAIT: Final = 10
"""Longest wait of a late event (alpha_t) [time units]."""
BUSY: Final = (0.8, 1.5, 2.0)
"""How much of the time computing takes with a threshold of 1: above 1 it cannot keep up.
Claims are judged by the second; where the least latency lies depends on it."""


def thresholds(run: PaperRun) -> Finding:
    """Figure 15."""
    setups = [
        Setup(
            AGGRESSIVE, _LENGTH, _WINDOW, _LATE, events=EVENTS,
            spill=SpillSettings(
                run.folder / "pages", _WINDOW * UNIT_NS, _PAGE * UNIT_NS, pending, _WAIT * UNIT_NS
            ),
        )
        for pending in THRESHOLDS
    ]  # fmt: skip
    passes = timed(run, "state on disk", setups)
    rans = [passes[setup] for setup in setups]
    curves = {"waiting alone": [ran.told.waited_units for ran in rans]}
    for share in BUSY:
        unit_s = busy(rans[0], 1.0) / share
        curves[_stream(share)] = [latency_seconds(ran, unit_s) / unit_s for ran in rans]
    slow, fast, faster = (curves[_stream(share)] for share in BUSY)
    best = fast.index(min(fast))
    loads = [ran.loads for ran in rans]
    at = f"{number(fast[0])} time units with 1, {number(fast[best])} with {THRESHOLDS[best]}"
    claims = (
        judged(
            "Handling late events in batches lowers the average latency greatly until some point, "
            "as it saves loads.",
            best > 0 and fast[0] >= 2 * fast[best],
            f"{at}, in a stream {BUSY[1]:g} times as fast as computing can follow with 1; chunks "
            f"are loaded {loads[0]:,} times with 1, {loads[best]:,} with {THRESHOLDS[best]}",
            "greatly, up to 9; taken as to half at most",
            "computing the results themselves costs more than loading.",
            also="That depends on the rate, which the paper does not print: in a slower stream, "
            "where computing keeps up with a threshold of 1, latency has its least with "
            f"{THRESHOLDS[slow.index(min(slow))]}, and in one {BUSY[2]:g} times as fast with "
            f"{THRESHOLDS[faster.index(min(faster))]}.",
        ),
        judged(
            "From some threshold on the average latency grows, as results wait for their batch.",
            fast[-1] >= GROWS * fast[best] and best + 1 < len(fast),
            f"from {number(fast[best])} time units with {THRESHOLDS[best]} to {number(fast[-1])} "
            f"with {THRESHOLDS[-1]}",
            f"grows from 9 on; taken as {GROWS} times",
        ),
        judged(
            "Batches save input and output.",
            GROWS * loads[-1] <= loads[0] and loads[0] == max(loads),
            f"chunks are loaded {listed(f'{each:,}' for each in loads)} times with thresholds of "
            f"{listed(map(str, THRESHOLDS))}: the last {times(loads[0], loads[-1])} as seldom as "
            "the first",
            f"saved; taken as at least {GROWS} times fewer loads, and the most with 1",
        ),
    )
    title = "State on disk: latency by threshold"
    caption = (
        "How many late events of a chunk are handled together, at most "
        f"{_WAIT} time units after the first. Where computing cannot keep up latency grows "
        "with the stream's length. The axis of latency is logarithmic."
    )
    return Finding(
        claims,
        (tabled(f"{title} [time units]", "stream", [str(each) for each in THRESHOLDS], curves),
         _costs(rans)),
        (drawn("fig-15", title, caption, curves, THRESHOLDS,
               ("events handled together", "latency [time units]"), log_y=True),),
        {"loads": loads, "latency": curves, "standing": [_results(ran) for ran in rans]},
    )  # fmt: skip


def _stream(share: float) -> str:
    return f"computing takes {share:.0%} of the time with 1"


def _costs(rans: list[Ran]) -> Table:
    rows: list[tuple[str | float, ...]] = [
        ("chunks loaded", *(ran.loads for ran in rans)),
        ("CPU time per event [us]", *(ran.seconds_per_event * 1e6 for ran in rans)),
        ("events held", *(ran.held_mean for ran in rans)),
    ]
    return Table("What thresholds cost", ("", *map(str, THRESHOLDS)), tuple(rows))


def _results(ran: Ran) -> int:
    return ran.told.standing + ran.at_end
