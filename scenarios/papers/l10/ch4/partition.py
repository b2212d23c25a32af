"""L10 Figures 4.10 and 4.11: what the partition of the stacks (the divider) saves.

Judged by the paper's operator: the sequences that Algorithm 7 builds are its intermediate buffer,
and the work of ``sequence_scan``, which builds them. What our matcher saves is said beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.core.errors import ContractViolation
from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.l10.beside import by_ours
from slackwater.scenarios.papers.l10.ch4.built import built
from slackwater.scenarios.papers.l10.ch4.runs import (
    FLAT,
    WITHIN_NS,
    MatcherLoad,
    PassCost,
    costs,
    gain_percent,
    held_by,
    in_turns,
    milliseconds,
    rises,
    sized,
)
from slackwater.scenarios.papers.l10.ch4.sequence_scan import Scan, ScanCounts, scan
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, PointStream, stream
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, times, turns

EVENTS: Final = 20_000
"""Not given in the paper; the smallest data set of its other figures, as whole stacks are slow."""
SEQUENCE_EVENTS: Final = 100_000
"""Events where sequences are only counted."""
_TURNS: Final = 2
_READ: Final = 40
"""Calls of a pass; the state is read after each."""
SLACKS_NS: Final = (20, 40, 80)
IN_ORDER: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Shares of the events."""
OTHERS: Final = {
    "K of 30, 40, 60": (30, 40, 60), "K of 40, 80, 160": (40, 80, 160),
    "K of 20, 50, 100": (20, 50, 100),
}  # fmt: skip
"""Other slacks [ns]."""
STEPS: Final = len(TYPES)
_OFF, _ON = "whole stacks", "with the partition"
_OPTIONS: Final = {_OFF: False, _ON: True}
_LOOKED: Final = "looked_at"


@dataclass(frozen=True, slots=True)
class PartitionCase:
    """One stream, by option: what our matcher held and did, the sequences that the paper's operator
    builds, the time that operator takes [s], and its work.
    """

    loads: Mapping[str, MatcherLoad]
    cost: Mapping[str, PassCost]
    sequences: Mapping[str, int]
    scanned: Mapping[str, tuple[float, ScanCounts]]

    @property
    def state_gain(self) -> float:
        """What the partition saves of our matcher's state [%]."""
        return gain_percent(*(self.loads[each].state_bytes for each in (_OFF, _ON)))

    @property
    def sequences_gain(self) -> float:
        """What the partition saves of the sequences [%]."""
        return gain_percent(self.sequences[_OFF], self.sequences[_ON])

    @property
    def work_gain(self) -> float:
        """What the partition saves of the operator's work [%]."""
        return gain_percent(*(_work(self.scanned[each][1]) for each in (_OFF, _ON)))

    @property
    def seconds_gain(self) -> float:
        """What the partition saves of the operator's time [%]."""
        return gain_percent(*(self.scanned[each][0] for each in (_OFF, _ON)))

    @property
    def matcher_gain(self) -> float:
        """What the partition saves of our matcher's time [%]."""
        return gain_percent(self.cost[_OFF].seconds, self.cost[_ON].seconds)

    @property
    def looked_gain(self) -> float:
        """What the partition saves of the candidates that our matcher looks at [%]."""
        return gain_percent(*(self.cost[each].counters[_LOOKED] for each in (_OFF, _ON)))


Gains = Mapping[tuple[int, float], float]


def _work(scanned: ScanCounts) -> int:
    """Entries that it compared, moved, reset and visited."""
    return scanned.steps + scanned.visited


Cases = Mapping[tuple[int, float], PartitionCase]


def memory(run: PaperRun) -> Finding:
    """Figure 4.10."""
    cases = _cases(run)
    ratios = run.once("ratios", lambda: _ratios(run))
    gains = {at: case.sequences_gain for at, case in cases.items()}
    state_sizes = run.once("held in order", lambda: {k: _held_in_order(run, k) for k in SLACKS_NS})
    grown = {slack: of[_OFF] / of[_ON] for slack, of in state_sizes.items()}
    power, built_power = _power(grown), _power(ratios)
    claims = (
        *_rising(run, gains, {at: case.state_gain for at, case in cases.items()}, "memory",
                 _nothing_between(cases)),
        judged(
            "Without the partition SSC's intermediate buffer grows in proportion to ((K+W)/W)^S.",
            round(built_power) == STEPS,
            f"it is {listed(times(ratio, 1) for ratio in ratios.values())} as many sequences as "
            f"with it, all events in order, K = {listed(map(str, ratios))} and W = {WITHIN_NS}: a "
            f"multiple of ((K+W)/W)^{built_power:.2f} fits best (S = {STEPS})",
            f"directly proportional to ((K+W)/W)^{STEPS}",
            f"a sequence ends with the newest event, so that only its other {STEPS - 1} can lie in "
            "a longer stretch.",
            also=by_ours(
                round(power) == STEPS,
                f"its state is {listed(times(each, 1) for each in grown.values())}, an exponent of "
                f"{power:.2f}. {_nothing_between(cases)}",
            ),
            rests="none: with all events in order it does not depend on rate or share.",
        ),
    )  # fmt: skip
    tables = (
        _table(
            "Sequences that SSC builds", cases, lambda case, option: case.sequences[option],
            lambda case: case.sequences_gain,
            "As Algorithm 7 builds them before its window filter. An event out of order is always "
            "put together with whole stacks.",
        ),
        _table(
            "State of our matcher [bytes]", cases,
            lambda case, option: round(case.loads[option].state_bytes),
            lambda case: case.state_gain,
            f"Of its snapshot: events, stacks and what it waits for; the mean after {_READ} calls.",
        ),
        _table(
            "Events that our matcher holds", cases,
            lambda case, option: round(case.loads[option].events, 1),
            lambda case: gain_percent(*(case.loads[each].events for each in (_OFF, _ON))),
            "The mean after each call. Events stay for the window plus K either way.",
        ),
    )  # fmt: skip
    figures = (
        _gain_figure("figure-4-10", "Sequences that the partition saves", gains,
                     "Of those that the paper's operator builds, its intermediate buffer."),
        _ratio_figure(grown, ratios),
    )  # fmt: skip
    return Finding(claims, tables, figures)


def processor(run: PaperRun) -> Finding:
    """Figure 4.11."""
    cases = _cases(run)
    gains = {at: case.work_gain for at, case in cases.items()}
    ours = {at: case.matcher_gain for at, case in cases.items()}
    looked = [case.looked_gain for case in cases.values()]
    tables = (
        _table(
            "Work of the paper's operator", cases,
            lambda case, option: _work(case.scanned[option][1]),
            lambda case: case.work_gain,
            "Entries of stacks that it compares, moves and resets, and visits to build sequences.",
        ),
        _table(
            "Time of the paper's operator [ms]", cases,
            lambda case, option: milliseconds(case.scanned[option][0]),
            lambda case: case.seconds_gain,
            "The whole pass, which builds each sequence; the least of several that took turns.",
        ),
        _table(
            "Time of our matcher [ms]", cases,
            lambda case, option: milliseconds(case.cost[option].seconds),
            lambda case: case.matcher_gain,
            "The whole pass, the least of several that took turns.",
        ),
        _table(
            "Events looked at", cases, lambda case, option: case.cost[option].counters[_LOOKED],
            lambda case: case.looked_gain,
            "Candidates for a step of a match that our matcher tests.",
        ),
    )  # fmt: skip
    figures = (
        _gain_figure("figure-4-11", "Work that the partition saves", gains,
                     "Of the paper's operator, counted."),
        _gain_figure("figure-4-11-ours", "Time that it saves our matcher", ours,
                     "Without it our matcher goes through whole stacks, as the paper's does."),
    )  # fmt: skip
    why = f"It looks at {min(looked):.1f} to {max(looked):.1f} % fewer events with the partition."
    return Finding(tuple(_rising(run, gains, ours, "CPU", why)), tables, figures)


def _cases(run: PaperRun) -> Cases:
    return run.once("partition", lambda: {
        (slack, share): _case(run, slack, share) for slack in SLACKS_NS for share in IN_ORDER
    })  # fmt: skip


def _case(run: PaperRun, slack_ns: int, in_order: float) -> PartitionCase:
    events = sized(run, EVENTS)
    with run.watched(f"partition, K = {slack_ns}, {in_order:.0%} in order") as advanced:
        made = stream(events, 1 - in_order, slack_ns, run.seed)
        cost = costs(made, slack_ns, _OPTIONS, advanced, _TURNS)
        loads = {name: held_by(made, slack_ns, each, _READ) for name, each in _OPTIONS.items()}
        scanned = _scanned(made, slack_ns)
    found = {each.matches for each in cost.values()} | {of.matches for _, of in scanned.values()}
    if len(found) > 1:
        raise ContractViolation(f"K = {slack_ns}, {in_order:.0%} in order: matches differ")
    return PartitionCase(loads, cost, _sequences(run, slack_ns, in_order), scanned)


def _scanned(made: PointStream, slack_ns: int) -> dict[str, tuple[float, ScanCounts]]:
    """Seconds that the paper's operator takes, and its work."""

    def each(*, partition: bool) -> Callable[[], ScanCounts]:
        scan_options = Scan(WITHIN_NS, slack_ns, partition=partition)
        return lambda: scan(made.ts, made.kind, STEPS, scan_options)

    return in_turns({name: each(partition=on) for name, on in _OPTIONS.items()}, _TURNS)


def _sequences(run: PaperRun, slack_ns: int, in_order: float) -> dict[str, int]:
    """Sequences that the paper's operator builds, of more events than it is timed with."""

    def count_sequences() -> dict[str, int]:
        made = stream(sized(run, SEQUENCE_EVENTS), 1 - in_order, slack_ns, run.seed)
        return {each: _built(made, slack_ns, each) for each in _OPTIONS}

    return run.once(("sequences", slack_ns, in_order), count_sequences)


def _held_in_order(run: PaperRun, slack_ns: int) -> dict[str, float]:
    """Bytes of state without and with the partition, where all is in order."""
    made = stream(sized(run, EVENTS), 0.0, slack_ns, run.seed)
    return {
        name: held_by(made, slack_ns, each, _READ).state_bytes for name, each in _OPTIONS.items()
    }


def _nothing_between(cases: Cases) -> str:
    """Why the partition does not save our matcher memory."""
    apart = [abs(case.state_gain) for case in cases.values()]
    return (
        f"Its state differs by {max(apart):.2f} % at most: a match is found depth first and handed "
        "on, and nothing between events and results is kept."
    )


def _built(made: PointStream, slack_ns: int, option: str) -> int:
    return sum(built(made.ts, made.kind, STEPS, WITHIN_NS, slack_ns, option == _ON))


def _ratios(run: PaperRun) -> dict[int, float]:
    """Sequences built without over those with the partition, by K, where all is in order."""
    made = stream(sized(run, SEQUENCE_EVENTS), 0.0, SLACKS_NS[0], run.seed)
    matches = _built(made, 0, _ON)
    return {slack: _built(made, slack, _OFF) / max(matches, 1) for slack in SLACKS_NS}


def _longer(slack_ns: int) -> float:
    return (slack_ns + WITHIN_NS) / WITHIN_NS


def _power(ratios: Mapping[int, float]) -> float:
    """The p for which a multiple of ((K+W)/W)^p fits the ratios best, in logarithms."""
    x = np.log([_longer(slack) for slack in ratios])
    y = np.log(np.maximum(list(ratios.values()), 1.0))
    return float(np.polyfit(x, y, 1)[0])


def _lines(gains: Gains) -> tuple[list[list[float]], list[list[float]]]:
    """By the share in order, of each K; and by K, of each share."""
    slacks = sorted({slack for slack, _ in gains})
    return (
        [[gains[slack, share] for share in IN_ORDER] for slack in slacks],
        [[gains[slack, share] for slack in slacks] for share in IN_ORDER],
    )


def _is_gain(line: list[float]) -> bool:
    return rises(line) and max(line) >= FLAT


def _rests(run: PaperRun) -> list[str]:
    """The other values of K with which the sequences give the same verdict on both claims."""

    def judged_by(slacks: Sequence[int]) -> list[bool]:
        gains = {(slack, share): gain_percent(*_sequences(run, slack, share).values())
                 for slack in slacks for share in IN_ORDER}  # fmt: skip
        return [all(_is_gain(line) for line in each) for each in _lines(gains)]

    verdicts = judged_by(SLACKS_NS)
    others = {name: judged_by(slacks) for name, slacks in OTHERS.items()}
    return [
        f"K, here {', '.join(map(str, SLACKS_NS))}; by the sequences built: "
        + same_with(verdicts[n], {name: each[n] for name, each in others.items()})
        + "."
        for n in range(2)
    ]


def _rising(run: PaperRun, gains: Gains, ours: Gains, what: str, why_ours: str) -> list[Claim]:
    """The two claims on how a gain grows, by the paper's operator and by ``ours``."""
    by_share, by_slack = _lines(gains)
    rests = _rests(run)
    claims = []
    for n, (text, names, places) in enumerate((
        (f"The larger the share of events in order, the larger the {what} gain, for every K.",
         [f"K = {slack}" for slack in SLACKS_NS], [f"{share:.0%}" for share in IN_ORDER]),
        (f"The larger K, the larger the {what} gain, for every share of events in order.",
         [f"{share:.0%} in order" for share in IN_ORDER], [f"K = {slack}" for slack in SLACKS_NS]),
    )):  # fmt: skip
        lines, of_ours = (by_share, by_slack)[n], _lines(ours)[n]
        parts = [
            (name, _is_gain(line),
             turns(places, line, "%").rstrip(".") or f"at most {max(line):.1f} %")
            for name, line in zip(names, lines, strict=True)
        ]  # fmt: skip
        claims.append(judged(
            text, all(part[1] for part in parts), _said(names, lines), "its curves rise",
            failing(parts),
            by_ours(all(map(_is_gain, of_ours)), f"{_said(names, of_ours)}. {why_ours}"),
            rests=rests[n],
        ))  # fmt: skip
    return claims


def _said(names: Sequence[str], lines: Sequence[Sequence[float]]) -> str:
    return "; ".join(
        f"{name}: {listed(f'{gain:.1f} %' for gain in line)}"
        for name, line in zip(names, lines, strict=True)
    )


def _table(
    title: str,
    cases: Cases,
    of: Callable[[PartitionCase, str], float],
    gain: Callable[[PartitionCase], float],
    note: str,
) -> Table:
    rows = [
        (f"K = {slack}, {share:.0%} in order", of(case, _OFF), of(case, _ON), round(gain(case), 1))
        for (slack, share), case in cases.items()
    ]
    return Table(title, ("", _OFF, _ON, "gain [%]"), tuple(rows), note)


def _gain_figure(name: str, title: str, gains: Gains, caption: str) -> Figure:
    return drawing.lines(
        name, title, caption,
        [
            Curve(f"K = {slack}", [100 * share for share in IN_ORDER],
                   [gains[slack, share] for share in IN_ORDER], colour)
            for slack, colour in zip(SLACKS_NS, COLOURS, strict=False)
        ],
        ("events in order [%]", "gain [%]"),
    )  # fmt: skip


def _ratio_figure(grown: Mapping[int, float], ratios: Mapping[int, float]) -> Figure:
    longer = [_longer(slack) for slack in ratios]
    return drawing.lines(
        "figure-4-10-ratio",
        "How much larger SSC's buffer is without the partition",
        f"All events in order, W = {WITHIN_NS}, K = {listed(map(str, ratios))}. The axis of the "
        "ratio is logarithmic.",
        [
            Curve("ours, bytes held", longer, list(grown.values()), COLOURS[0]),
            Curve("Algorithm 7, counted", longer, list(ratios.values()), COLOURS[2]),
            Curve(f"((K+W)/W)^{STEPS}, the paper", longer, [x**STEPS for x in longer],
                   COLOURS[1], published=True),
        ],
        ("(K+W)/W", "times as much"),
        log_y=True,
    )  # fmt: skip
