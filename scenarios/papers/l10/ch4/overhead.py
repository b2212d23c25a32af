"""L10 Figure 4.9: the cost of being ready for disorder when there is none.

One kernel (``scenarios.papers.l10.ch4.sequence_scan``) with its late handling off and on: so
nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.engine.core.errors import ContractViolation
from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.l10.ch4 import published
from slackwater.scenarios.papers.l10.ch4.runs import WITHIN_NS, in_turns, milliseconds, rises, sized
from slackwater.scenarios.papers.l10.ch4.sequence_scan import Scan, scan
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, PointStream, stream
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, turns

SLACK_NS: Final = 20
"""The promised K; nothing is ever late here, but the stacks keep events that much longer."""
SLACKS_NS: Final = (1, 5, 100, 1_000)
"""Others, which show the effect of the slack."""
TURNS: Final = 31
"""Passes are of a few ms."""
MOST_PERCENT: Final = 25
"""Largest overhead [%]: the paper's maximum, 24.6, rounded up."""
_SIMPLE, _OURS = "late handling off", "late handling on"


@dataclass(frozen=True, slots=True)
class OverheadRun:
    """CPU seconds of both on one ordered stream, and the matches that both find."""

    simple_s: float
    ours_s: float
    matches: int

    @property
    def overhead_percent(self) -> float:
        """More time with late handling [%]."""
        return 100 * (self.ours_s / self.simple_s - 1)


def overhead(run: PaperRun) -> Finding:
    """Figure 4.9."""
    found = {size: _compared(run, size, SLACK_NS) for size in published.SIZES}
    sizes = [f"{size:,} events" for size in found]
    percents = [each.overhead_percent for each in found.values()]
    said = listed(f"{percent:.1f} %" for percent in percents)
    least, most = published.OVERHEAD
    others = {slack: _compared(run, published.SIZES[-1], slack) for slack in SLACKS_NS}
    cheap = max(percents) <= MOST_PERCENT
    claims = (
        judged(
            f"Handling disorder costs at most {MOST_PERCENT} % on ordered input.",
            cheap,
            f"{said} at the five sizes",
            f"{least} % to {most} %",
            failing(
                (size, percent <= MOST_PERCENT, f"{percent:.1f} %")
                for size, percent in zip(sizes, percents, strict=True)
            )
            + " A percentage is of what a pass takes without it: here a compiled loop of "
            + listed(
                f"{1e9 * each.simple_s / sized(run, size):.0f}" for size, each in found.items()
            )
            + " ns an event, beside which a comparison of times counts for more than in Java.",
            rests=f"the largest size has {percents[-1]:.1f} %, with K = 20; with that size: "
            + same_with(
                percents[-1] <= MOST_PERCENT,
                {f"K = {slack} ({each.overhead_percent:.1f} %)":
                 each.overhead_percent <= MOST_PERCENT for slack, each in others.items()},
            )
            + f"; the bound, here {MOST_PERCENT} %: it holds from "
            f"{max(percents):.1f} % on.",
        ),
        judged(
            "The overhead grows with the size of the data set.",
            rises(percents),
            f"{said} at the five sizes",
            f"from {least} % to {most} %",
            f"{turns(sizes, percents, '%')} Late handling costs "
            + listed(f"{1e9 * (each.ours_s - each.simple_s) / sized(run, size):.0f}"
                     for size, each in found.items())
            + " ns an event: what it costs does not depend on how many went before it.",
        ),
    )  # fmt: skip
    return Finding(claims, (_table(found),), (_figure(found),))


def _compared(run: PaperRun, size: int, slack_ns: int) -> OverheadRun:
    events = sized(run, size)
    ordered = stream(events, 0.0, slack_ns, run.seed)
    with run.watched(f"overhead, {events:,} events in order, K = {slack_ns}") as advanced:

        def each(*, late: bool) -> Callable[[], int]:
            return lambda: _one(ordered, slack_ns, late=late, advanced=advanced)

        timed = in_turns({_SIMPLE: each(late=False), _OURS: each(late=True)}, TURNS)
    (simple_s, matches), (ours_s, also) = timed[_SIMPLE], timed[_OURS]
    if matches != also:
        raise ContractViolation(f"{matches} matches with late handling off, {also} with it on")
    return OverheadRun(simple_s, ours_s, matches)


def _one(made: PointStream, slack_ns: int, *, late: bool, advanced: Callable[[int], None]) -> int:
    advanced(len(made))
    return scan(made.ts, made.kind, len(TYPES), Scan(WITHIN_NS, slack_ns, late=late)).matches


def _table(found: Mapping[int, OverheadRun]) -> Table:
    rows = [
        (f"{size:,} events", milliseconds(each.simple_s), milliseconds(each.ours_s),
         round(each.overhead_percent, 1), each.matches)
        for size, each in found.items()
    ]  # fmt: skip
    return Table(
        "Time of the processor on ordered input",
        ("", f"{_SIMPLE} [ms]", f"{_OURS} [ms]", "overhead [%]", "matches"),
        tuple(rows),
        "The least of many passes that took turns. Off: events are appended, and the window drops "
        "at once. On: with AIS-CLOCK and partition, as in the paper.",
    )


def _figure(found: Mapping[int, OverheadRun]) -> Figure:
    sizes = [f"{size:,}" for size in found]
    return drawing.bars(
        "figure-4-9",
        "Cost of a pass over ordered input",
        "One kernel with its late handling off and on.",
        [
            Curve(_SIMPLE, sizes, [1000 * each.simple_s for each in found.values()], COLOURS[0]),
            Curve(_OURS, sizes, [1000 * each.ours_s for each in found.values()], COLOURS[1]),
        ],
        ("events", "time of the processor [ms]"),
    )
