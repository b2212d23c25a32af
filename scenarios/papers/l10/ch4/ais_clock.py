"""L10 Figure 4.8: what is saved by appending events that are newer than all others (AIS-CLOCK).

Only the stacks are built, as on the paper's axis (inserting events and resetting RIP). Verdicts
rest on counted work, which is the same on any machine; CPU time is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.l10.ch4 import published
from slackwater.scenarios.papers.l10.ch4.runs import (
    WITHIN_NS,
    gain_percent,
    in_turns,
    milliseconds,
    rises,
    sized,
)
from slackwater.scenarios.papers.l10.ch4.sequence_scan import SEARCHES, Scan, ScanCounts, scan
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, stream
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, turns

SLACK_NS: Final = 100
"""Largest lateness of events; longer than the window, so that stacks are long."""
SLACKS_NS: Final = (50, 200, 1_000)
"""Others, which show the effect of the slack."""
SHARES: Final = (0.9, 0.7, 0.5, 0.3, 0.1)
"""Out of order. The paper names the first and the fourth."""
_SEARCH: Final = next(iter(SEARCHES))
_OFF, _ON = "every event sorted in", "with AIS-CLOCK"


@dataclass(frozen=True, slots=True)
class StackBuild:
    """The stacks of one stream, built without and with AIS-CLOCK; ``seconds``: CPU time."""

    found: Mapping[str, ScanCounts]
    seconds: Mapping[str, float]

    @property
    def gain(self) -> float:
        """Work that it saves [%]."""
        return gain_percent(self.found[_OFF].steps, self.found[_ON].steps)

    @property
    def time_gain(self) -> float:
        """Share of the time that AIS-CLOCK saves [%]."""
        return gain_percent(self.seconds[_OFF], self.seconds[_ON])


def ais_clock(run: PaperRun) -> Finding:
    """Figure 4.8."""
    by_size = {size: _built(run, size, SHARES[0]) for size in published.SIZES}
    by_share = {share: _built(run, published.GAIN_SIZE, share) for share in SHARES}
    at_sizes, at_shares = ([each.gain for each in of.values()] for of in (by_size, by_share))
    parts = [
        (f"{size:,} events", gain > 0, f"{gain:.1f} %")
        for size, gain in zip(by_size, at_sizes, strict=True)
    ]
    claims = (
        judged(
            "AIS-CLOCK makes building the stacks cheaper even with 90 % of the events out of "
            "order, at every size.",
            all(part[1] for part in parts),
            f"{_percents(at_sizes)} less work at the five sizes, "
            f"{_percents(each.time_gain for each in by_size.values())} less time of the processor",
            "less at every size",
            failing(parts),
            rests=_range(lambda search, slack: _saves(run, search, slack)),
        ),
        judged(
            "The fewer events are out of order, the more AIS-CLOCK saves.",
            rises(at_shares),
            f"{_percents(at_shares)} with {listed(_names())} of the events out of order; of the "
            f"time {_percents(each.time_gain for each in by_share.values())}",
            " and ".join(f"{gain} % with {share:.0%}" for share, gain in published.GAINS.items()),
            turns(_names(), at_shares, "%"),
            rests=_range(lambda search, slack: rises(_gains(run, search, slack))),
        ),
    )
    tables = (_table("By size, 90 % out of order", by_size), _table("By share", by_share))
    return Finding(claims, tables, (_by_size(by_size), _by_share(at_shares)))


def _scans(search: str, slack_ns: int) -> dict[str, Scan]:
    kind = SEARCHES[search]
    return {
        name: Scan(WITHIN_NS, slack_ns, clock=clock, search=kind, construct=False)
        for name, clock in ((_OFF, False), (_ON, True))
    }


def _built(run: PaperRun, size: int, share: float) -> StackBuild:
    def made() -> StackBuild:
        events = sized(run, size)
        one = stream(events, share, SLACK_NS, run.seed)
        with run.watched(f"AIS-CLOCK, {events:,} events, {share:.0%} out of order") as advanced:

            def each(scan_options: Scan) -> Callable[[], ScanCounts]:
                def build() -> ScanCounts:
                    advanced(events)
                    return scan(one.ts, one.kind, len(TYPES), scan_options)

                return build

            timed = in_turns(
                {n: each(scan_options) for n, scan_options in _scans(_SEARCH, SLACK_NS).items()}
            )
        return StackBuild(
            {name: found for name, (_, found) in timed.items()},
            {name: seconds for name, (seconds, _) in timed.items()},
        )

    return run.once(("AIS-CLOCK", size, share), made)


def _gains(run: PaperRun, search: str, slack_ns: int) -> list[float]:
    """What AIS-CLOCK saves of the work, by share out of order, with another search or K."""

    def made() -> list[float]:
        gains = []
        for share in SHARES:
            one = stream(sized(run, published.SIZES[0]), share, slack_ns, run.seed)
            off, on = (
                scan(one.ts, one.kind, len(TYPES), scan_options).steps
                for scan_options in _scans(search, slack_ns).values()
            )
            gains.append(gain_percent(off, on))
        return gains

    return run.once(("AIS-CLOCK gains", search, slack_ns), made)


def _saves(run: PaperRun, search: str, slack_ns: int) -> bool:
    return _gains(run, search, slack_ns)[0] > 0


def _range(judge: Callable[[str, int], bool]) -> str:
    """With which other searches and slacks a verdict is the same; of the smallest size."""
    verdict = judge(_SEARCH, SLACK_NS)
    searches = {name: judge(name, SLACK_NS) for name in SEARCHES if name != _SEARCH}
    slacks = {f"K = {slack}": judge(_SEARCH, slack) for slack in SLACKS_NS}
    return (
        f"how sort semantics look for a place, here by {_SEARCH}: {same_with(verdict, searches)}; "
        f"how late events come, here K = {SLACK_NS}: {same_with(verdict, slacks)}."
    )


def _table(title: str, built: Mapping[int, StackBuild] | Mapping[float, StackBuild]) -> Table:
    rows: list[tuple[str | float, ...]] = []
    for name, each in built.items():
        label = f"{name:,} events" if isinstance(name, int) else f"{name:.0%} out of order"
        row: list[str | float] = [label]
        for option in (_OFF, _ON):
            found = each.found[option]
            row += [found.compared, found.moved + found.reset, milliseconds(each.seconds[option])]
        rows.append((*row, round(each.gain, 1), round(each.time_gain, 1)))
    headings = [
        f"{option}: {what}"
        for option in (_OFF, _ON)
        for what in ("compared", "moved and reset", "time [ms]")
    ]
    return Table(
        title,
        ("", *headings, "gain in work [%]", "gain in time [%]"),
        tuple(rows),
        f"Building the stacks alone; a place is found by {_SEARCH}. Compared: times, to find an "
        "event's place, its RIP, and those that it resets; moved and reset: entries of its stack "
        "above it, RIPs that point there. Time of the processor, the least of several that took "
        "turns.",
    )


def _by_size(built: Mapping[int, StackBuild]) -> Figure:
    return drawing.bars(
        "figure-4-8",
        "Building the stacks with and without AIS-CLOCK, 90 % of the events out of order",
        "As the paper draws it: inserting events and resetting RIP, without building sequences.",
        [
            Curve(option, [f"{size:,}" for size in built],
                   [1000 * each.seconds[option] for each in built.values()], colour)
            for option, colour in zip((_OFF, _ON), COLOURS, strict=False)
        ],
        ("events", "time of the processor [ms]"),
    )  # fmt: skip


def _by_share(gains: Sequence[float]) -> Figure:
    return drawing.lines(
        "figure-4-8-gain",
        "What AIS-CLOCK saves of the work, by the share of the events out of order",
        f"With {published.GAIN_SIZE:,} events (at scale 1). Dotted: the two numbers that the paper "
        "prints.",
        [
            Curve("ours", _percent_axis(SHARES), list(gains), COLOURS[0]),
            Curve("the paper", _percent_axis(published.GAINS), list(published.GAINS.values()),
                   COLOURS[1], published=True),
        ],
        ("events out of order [%]", "gain [%]"),
    )  # fmt: skip


def _percents(gains: Iterable[float]) -> str:
    return listed(f"{gain:.1f} %" for gain in gains)


def _names() -> list[str]:
    return [f"{share:.0%}" for share in SHARES]


def _percent_axis(shares: Iterable[float]) -> list[float]:
    return [100 * share for share in shares]
