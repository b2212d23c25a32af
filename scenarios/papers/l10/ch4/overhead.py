"""L10 Figure 4.9: what being ready for disorder costs where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.errors import ContractViolation
from engine.pattern.alone import Alone
from engine.pattern.settings import StackOptions
from scenarios.papers import drawing
from scenarios.papers.drawing import Series
from scenarios.papers.l10.ch4 import published
from scenarios.papers.l10.ch4.in_order_matcher import InOrderMatcher
from scenarios.papers.l10.ch4.runs import (
    in_turns,
    milliseconds,
    one_pass,
    plan,
    rises,
    settings,
    sized,
)
from scenarios.papers.l10.ch4.streams import released, stream
from scenarios.papers.verdicts import judged, listed
from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Table

SLACK_NS: Final = 20
"""The promised K; nothing is ever late here, but the stacks keep events so much longer."""
MOST_PERCENT: Final = 25
"""Of overhead: the paper's most, 24.6, rounded up."""
_SIMPLE, _OURS = "total order assumed", "ready for disorder"


@dataclass(frozen=True, slots=True)
class Compared:
    """CPU seconds of both on one ordered stream, and the matches that both find."""

    simple_s: float
    ours_s: float
    matches: int

    @property
    def overhead_percent(self) -> float:
        return 100 * (self.ours_s / self.simple_s - 1)


def overhead(run: PaperRun) -> Finding:
    """Figure 4.9."""
    found = {size: _compared(run, size) for size in published.SIZES}
    percents = [each.overhead_percent for each in found.values()]
    said = listed(f"{percent:.1f} %" for percent in percents)
    least, most = published.OVERHEAD
    claims = (
        judged(
            f"Handling disorder costs at most {MOST_PERCENT} % on ordered input.",
            max(percents) <= MOST_PERCENT,
            f"{said} at the five sizes",
            f"{least} % to {most} %",
            "the stacks that only append serve this one kind of query. Ours also serve keys, "
            "conditions, negated steps and clocks that err, in the same code, so this is the price "
            "of all that and not of disorder alone.",
        ),
        judged(
            "The overhead grows with the size of the data set.",
            rises(percents),
            f"{said} at the five sizes",
            f"from {least} % to {most} %",
            "what an event costs does not depend on how many went before it: both keep only what "
            "the window (and K) may need.",
        ),
    )
    return Finding(claims, (_table(found),), (_figure(found),))


def _compared(run: PaperRun, size: int) -> Compared:
    events = sized(run, size)
    ordered = stream(events, 0.0, SLACK_NS, run.seed)
    batch = released(ordered)

    def simple() -> int:
        advanced(events)
        matcher = Alone(InOrderMatcher(plan(), settings(0, StackOptions())))
        return len(matcher.process(batch))

    def ours() -> int:
        advanced(events)
        return one_pass(batch, SLACK_NS, StackOptions())[0]

    with run.watched(f"overhead, {events:,} events in order") as advanced:
        timed = in_turns({_SIMPLE: simple, _OURS: ours})
    (simple_s, matches), (ours_s, also) = timed[_SIMPLE], timed[_OURS]
    if matches != also:
        raise ContractViolation(f"{matches} matches in total order, {also} by our matcher")
    return Compared(simple_s, ours_s, matches)


def _table(found: Mapping[int, Compared]) -> Table:
    rows = [
        (f"{size:,} events", milliseconds(each.simple_s), milliseconds(each.ours_s),
         round(each.overhead_percent, 1), each.matches)
        for size, each in found.items()
    ]  # fmt: skip
    return Table(
        "Time of the processor on ordered input",
        ("", f"{_SIMPLE} [ms]", f"{_OURS} [ms]", "overhead [%]", "matches"),
        tuple(rows),
        "The least of several passes of a matcher that took turns. The first matcher is ours with "
        "its stacks exchanged for ones that only append. Both find the same matches.",
    )


def _figure(found: Mapping[int, Compared]) -> Figure:
    sizes = [f"{size:,}" for size in found]
    return drawing.bars(
        "figure-4-9",
        "Cost of a pass over ordered input",
        "Total order assumed: stacks that only append, and a window that drops at once.",
        [
            Series(_SIMPLE, sizes, [1000 * each.simple_s for each in found.values()], COLOURS[0]),
            Series(_OURS, sizes, [1000 * each.ours_s for each in found.values()], COLOURS[1]),
        ],
        ("events", "time of the processor [ms]"),
    )
