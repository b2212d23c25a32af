"""L10 Figure 4.8: what it saves to append events that are newer than all others (AIS-CLOCK)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from engine.pattern.settings import StackOptions
from scenarios.papers import drawing
from scenarios.papers.drawing import Series
from scenarios.papers.l10.ch4 import published
from scenarios.papers.l10.ch4.runs import Cost, costs, gain_percent, milliseconds, rises, sized
from scenarios.papers.l10.ch4.streams import stream
from scenarios.papers.verdicts import judged, listed
from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Table

SLACK_NS: Final = 100
"""How late events are at most; longer than the window, so that stacks are long."""
SHARES: Final = (0.9, 0.7, 0.5, 0.3, 0.1)
"""Out of order. The paper names the first and the fourth."""
_OFF, _ON = "every event sorted in", "with AIS-CLOCK"
_OPTIONS: Final = {
    _OFF: StackOptions(rip=True, clock=False),
    _ON: StackOptions(rip=True),
}
_MOVES: Final = "stack_moves"
_WHY: Final = (
    "ours looks for an event's place from the newest end, so that one in order is in its place "
    "after one comparison either way; what is left to save is a look at the stack beside it."
)

Pair = Mapping[str, Cost]


def ais_clock(run: PaperRun) -> Finding:
    """Figure 4.8."""
    by_size = {size: _pair(run, size, SHARES[0]) for size in published.SIZES}
    by_share = {share: _pair(run, published.GAIN_SIZE, share) for share in SHARES}
    at_sizes, at_shares = ([_gain(each) for each in of.values()] for of in (by_size, by_share))
    claims = (
        judged(
            "AIS-CLOCK makes building the stacks cheaper even with 90 % of the events out of "
            "order, at every size.",
            min(at_sizes) > 0,
            f"{_percents(at_sizes)} less time of the processor at the five sizes",
            "less at every size",
            _WHY,
        ),
        judged(
            "The fewer events are out of order, the more AIS-CLOCK saves.",
            rises(at_shares),
            f"{_percents(at_shares)} with {_shares()} of the events out of order",
            " and ".join(f"{gain} % with {share:.0%}" for share, gain in published.GAINS.items()),
            _WHY,
        ),
    )
    tables = (_table("By size, 90 % out of order", by_size), _table("By share", by_share))
    return Finding(claims, tables, (_by_size(by_size), _by_share(at_shares)))


def _pair(run: PaperRun, size: int, share: float) -> Pair:
    def made() -> Pair:
        events = sized(run, size)
        with run.watched(f"AIS-CLOCK, {events:,} events, {share:.0%} out of order") as advanced:
            return costs(stream(events, share, SLACK_NS, run.seed), SLACK_NS, _OPTIONS, advanced)

    return run.once(("AIS-CLOCK", size, share), made)


def _gain(pair: Pair) -> float:
    return gain_percent(pair[_OFF].seconds, pair[_ON].seconds)


def _table(title: str, pairs: Mapping[int, Pair] | Mapping[float, Pair]) -> Table:
    rows: list[tuple[str | float, ...]] = []
    for name, pair in pairs.items():
        cost = [milliseconds(pair[option].seconds) for option in (_OFF, _ON)]
        label = f"{name:,} events" if isinstance(name, int) else f"{name:.0%} out of order"
        moves = pair[_ON].counters[_MOVES]
        rows.append((label, *cost, round(_gain(pair), 1), moves, pair[_ON].matches))
    return Table(
        title,
        ("", f"{_OFF} [ms]", f"{_ON} [ms]", "gain [%]", "entries moved", "matches"),
        tuple(rows),
        "Time of the processor for the whole pass, the least of several that took turns. Entries "
        "moved: shifted or set anew when an event is put into its stack; as many either way, what "
        "AIS-CLOCK saves is looking.",
    )


def _by_size(pairs: Mapping[int, Pair]) -> Figure:
    return drawing.bars(
        "figure-4-8",
        "Cost of a pass with and without AIS-CLOCK, 90 % of the events out of order",
        "The paper draws the cost of building the stacks only; ours is the whole pass.",
        [
            Series(option, [f"{size:,}" for size in pairs],
                   [1000 * pair[option].seconds for pair in pairs.values()], colour)
            for option, colour in zip((_OFF, _ON), COLOURS, strict=False)
        ],
        ("events", "time of the processor [ms]"),
    )  # fmt: skip


def _by_share(gains: list[float]) -> Figure:
    return drawing.lines(
        "figure-4-8-gain",
        "What AIS-CLOCK saves, by the share of the events out of order",
        f"With {published.GAIN_SIZE:,} events (at scale 1). Dotted: the two numbers that the paper "
        "prints.",
        [
            Series("ours", _percent_axis(SHARES), gains, COLOURS[0]),
            Series("the paper", _percent_axis(published.GAINS), list(published.GAINS.values()),
                   COLOURS[1], published=True),
        ],
        ("events out of order [%]", "gain [%]"),
    )  # fmt: skip


def _percents(gains: Iterable[float]) -> str:
    return listed(f"{gain:.1f} %" for gain in gains)


def _shares() -> str:
    return listed(f"{share:.0%}" for share in SHARES)


def _percent_axis(shares: Iterable[float]) -> list[float]:
    return [100 * share for share in shares]
