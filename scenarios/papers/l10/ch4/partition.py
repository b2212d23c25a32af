"""L10 Figures 4.10 and 4.11: what the partition of the stacks (the divider) saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.paper import COLOURS, Figure, Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Series
from slackwater.scenarios.papers.l10.ch4.built import built
from slackwater.scenarios.papers.l10.ch4.runs import (
    FLAT,
    WITHIN_NS,
    Cost,
    Held,
    costs,
    gain_percent,
    held_by,
    milliseconds,
    rises,
    sized,
)
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, Stream, stream
from slackwater.scenarios.papers.verdicts import failing, judged, listed, same_with, times, turns

EVENTS: Final = 20_000
"""The paper does not say; the smallest data set of its other figures, as whole stacks are dear."""
COUNTED: Final = 100_000
"""Events where sequences are only counted."""
_TURNS: Final = 2
_READ: Final = 40
"""Calls after each of which the state is read."""
SLACKS_NS: Final = (20, 40, 80)
IN_ORDER: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Shares of the events."""
OTHERS: Final = {
    "K of 30, 40, 60": ((30, 40, 60), 4), "K of 20, 40, 80": (SLACKS_NS, 4),
    "K of 40, 80, 160": ((40, 80, 160), 4), "K of 20, 40, 80 with an eighth": (SLACKS_NS, 8),
}  # fmt: skip
"""Other slacks [ns], and how many times fewer events: with more, whole stacks are dear."""
STEPS: Final = len(TYPES)
_OFF, _ON = "whole stacks", "with the partition"
_OPTIONS: Final = {_OFF: False, _ON: True}
_LOOKED: Final = "looked_at"


@dataclass(frozen=True, slots=True)
class Case:
    """One stream: what our matcher held and did, and sequences that the paper's operator builds."""

    held: Mapping[str, Held]
    cost: Mapping[str, Cost]
    sequences: Mapping[str, int]

    @property
    def memory_gain(self) -> float:
        """What the partition saves of the state [%]."""
        return gain_percent(*(self.held[each].state_bytes for each in (_OFF, _ON)))

    @property
    def sequences_gain(self) -> float:
        """What it would save of sequences, had our matcher any [%]."""
        return gain_percent(self.sequences[_OFF], self.sequences[_ON])

    @property
    def cpu_gain(self) -> float:
        """What it saves of the time [%]."""
        return gain_percent(self.cost[_OFF].seconds, self.cost[_ON].seconds)

    @property
    def looked_gain(self) -> float:
        """What it saves of the candidates [%]."""
        return gain_percent(*(self.cost[each].counters[_LOOKED] for each in (_OFF, _ON)))


Cases = Mapping[tuple[int, float], Case]


def memory(run: PaperRun) -> Finding:
    """Figure 4.10."""
    cases = _cases(run)
    ratios = run.once("ratios", lambda: _ratios(run))
    gains = {at: case.memory_gain for at, case in cases.items()}
    held = run.once("held in order", lambda: {k: _held_in_order(run, k) for k in SLACKS_NS})
    grown = {slack: of[_OFF] / of[_ON] for slack, of in held.items()}
    power, built_power = _power(grown), _power(ratios)
    claims = (
        *_rising(
            gains,
            "memory",
            rests=_rests(run, lambda case: case.memory_gain),
            why=_nothing_between(cases),
        ),
        judged(
            "Without the partition SSC's intermediate buffer grows in proportion to ((K+W)/W)^S.",
            round(power) == STEPS,
            f"without it our matcher's state is {listed(times(each, 1) for each in grown.values())}"
            f" that with it, all events in order, K = {listed(map(str, grown))} and W = {WITHIN_NS}"
            f": a multiple of ((K+W)/W)^{power:.2f} fits best (S = {STEPS})",
            f"directly proportional to ((K+W)/W)^{STEPS}",
            f"{_nothing_between(cases)} Counted instead of held, Algorithm 7 builds "
            f"{listed(times(ratio, 1) for ratio in ratios.values())} as many sequences, which a "
            f"multiple of ((K+W)/W)^{built_power:.2f} fits best.",
        ),
    )
    tables = (
        _table(
            "State of our matcher [bytes]", cases,
            lambda case, option: round(case.held[option].state_bytes),
            lambda case: case.memory_gain,
            f"Of its snapshot: events, stacks and what it waits for; the mean after {_READ} calls.",
        ),
        _table(
            "Events that our matcher holds", cases,
            lambda case, option: round(case.held[option].events, 1),
            lambda case: gain_percent(*(case.held[each].events for each in (_OFF, _ON))),
            "The mean after each call. Events stay for the window plus K either way.",
        ),
        _table(
            "Sequences that SSC would build", cases, lambda case, option: case.sequences[option],
            lambda case: case.sequences_gain,
            "Not held here: as Algorithm 7 builds them before its window filter, counted. An event "
            "out of order is always put together with whole stacks.",
        ),
    )  # fmt: skip
    figures = (
        _gain_figure("figure-4-10", "Memory that the partition saves", gains,
                     "Of the state that our matcher holds, measured."),
        _gain_figure("figure-4-10-sequences", "Sequences that the partition saves",
                     {at: case.sequences_gain for at, case in cases.items()},
                     "Not held here: counted as Algorithm 7 would build them."),
        _ratio_figure(grown, ratios),
    )  # fmt: skip
    return Finding(claims, tables, figures)


def processor(run: PaperRun) -> Finding:
    """Figure 4.11."""
    cases = _cases(run)
    gains = {at: case.cpu_gain for at, case in cases.items()}
    looked = {at: case.looked_gain for at, case in cases.items()}
    table = _table(
        "Time of the processor [ms]", cases,
        lambda case, option: milliseconds(case.cost[option].seconds),
        lambda case: case.cpu_gain,
        "The whole pass of our matcher, the least of several that took turns.",
    )  # fmt: skip
    work = _table(
        "Events looked at", cases, lambda case, option: case.cost[option].counters[_LOOKED],
        lambda case: case.looked_gain,
        "Candidates for a step of a match that our matcher tests.",
    )  # fmt: skip
    figures = (
        _gain_figure("figure-4-11", "Time of the processor that the partition saves", gains,
                     "Without it our matcher goes through whole stacks, as the paper's does."),
        _gain_figure("figure-4-11-looked", "Work that the partition saves", looked,
                     "Share of the events that need not be looked at."),
    )  # fmt: skip
    rests = _rests(run, lambda case: case.cpu_gain)
    return Finding(tuple(_rising(gains, "CPU", rests, looked)), (table, work), figures)


def _cases(run: PaperRun) -> Cases:
    return run.once("partition", lambda: {
        (slack, share): _case(run, slack, share) for slack in SLACKS_NS for share in IN_ORDER
    })  # fmt: skip


def _case(run: PaperRun, slack_ns: int, in_order: float, fewer: int = 1) -> Case:
    """``fewer``: so many times fewer events, of which no sequences are counted either."""
    events = sized(run, EVENTS // fewer)
    with run.watched(f"partition, K = {slack_ns}, {in_order:.0%} in order") as advanced:
        made = stream(events, 1 - in_order, slack_ns, run.seed)
        cost = costs(made, slack_ns, _OPTIONS, advanced, _TURNS)
        held = {name: held_by(made, slack_ns, each, _READ) for name, each in _OPTIONS.items()}
    if fewer > 1:
        return Case(held, cost, {})
    longer = stream(sized(run, COUNTED), 1 - in_order, slack_ns, run.seed)
    return Case(held, cost, {each: _built(longer, slack_ns, each) for each in _OPTIONS})


def _held_in_order(run: PaperRun, slack_ns: int) -> dict[str, float]:
    """Bytes of state without and with the partition, where all is in order."""
    made = stream(sized(run, EVENTS), 0.0, slack_ns, run.seed)
    return {
        name: held_by(made, slack_ns, each, _READ).state_bytes for name, each in _OPTIONS.items()
    }


def _nothing_between(cases: Cases) -> str:
    """Why the partition does not save memory here."""
    apart = [abs(case.memory_gain) for case in cases.values()]
    events = [case.held[option].events for case in cases.values() for option in _OPTIONS]
    return (
        f"The state differs by {max(apart):.2f} % at most: it is {min(events):,.0f} to "
        f"{max(events):,.0f} events, as many with the partition as without, and nothing between "
        "events and results, as a match is found depth first and handed on."
    )


def _built(made: Stream, slack_ns: int, option: str) -> int:
    return sum(built(made.ts, made.kind, STEPS, WITHIN_NS, slack_ns, option == _ON))


def _ratios(run: PaperRun) -> dict[int, float]:
    """Sequences built without over those with the partition, by K, where all is in order."""
    made = stream(sized(run, COUNTED), 0.0, SLACKS_NS[0], run.seed)
    matches = _built(made, 0, _ON)
    return {slack: _built(made, slack, _OFF) / max(matches, 1) for slack in SLACKS_NS}


def _longer(slack_ns: int) -> float:
    return (slack_ns + WITHIN_NS) / WITHIN_NS


def _power(ratios: Mapping[int, float]) -> float:
    """The p for which a multiple of ((K+W)/W)^p fits the ratios best, in logarithms."""
    x = np.log([_longer(slack) for slack in ratios])
    y = np.log(np.maximum(list(ratios.values()), 1.0))
    return float(np.polyfit(x, y, 1)[0])


def _lines(gains: Mapping[tuple[int, float], float]) -> tuple[list[list[float]], list[list[float]]]:
    """By the share in order, of each K; and by K, of each share."""
    slacks = sorted({slack for slack, _ in gains})
    return (
        [[gains[slack, share] for share in IN_ORDER] for slack in slacks],
        [[gains[slack, share] for slack in slacks] for share in IN_ORDER],
    )


def _is_gain(line: list[float]) -> bool:
    return rises(line) and max(line) >= FLAT


def _others(run: PaperRun) -> Mapping[str, Cases]:
    return run.once("partition, others", lambda: {
        name: {(slack, share): _case(run, slack, share, fewer)
               for slack in slacks for share in IN_ORDER}
        for name, (slacks, fewer) in OTHERS.items()
    })  # fmt: skip


def _rests(run: PaperRun, gain: Callable[[Case], float]) -> tuple[str, str]:
    """Of the two claims on how ``gain`` grows: with which other K and sizes they are the same."""

    def judged_by(cases: Cases) -> list[bool]:
        lines = _lines({at: gain(case) for at, case in cases.items()})
        return [all(_is_gain(line) for line in each) for each in lines]

    own = judged_by(_cases(run))
    others = {name: judged_by(cases) for name, cases in _others(run).items()}
    said = [
        f"K, here {', '.join(map(str, SLACKS_NS))}, and the number of events, here {EVENTS:,}: "
        + same_with(own[n], {name: each[n] for name, each in others.items()})
        + ", of a quarter of the events where nothing else is said."
        for n in range(2)
    ]
    return said[0], said[1]


def _rising(
    gains: Mapping[tuple[int, float], float], what: str, rests: tuple[str, str],
    looked: Mapping[tuple[int, float], float] | None = None, why: str = "",
) -> list[Claim]:  # fmt: skip
    """The two claims on how a gain grows."""
    by_share, by_slack = _lines(gains)
    claims = []
    for text, lines, names, places, others in (
        (f"The larger the share of events in order, the larger the {what} gain, for every K.",
         by_share, [f"K = {slack}" for slack in SLACKS_NS],
         [f"{share:.0%}" for share in IN_ORDER], rests[0]),
        (f"The larger K, the larger the {what} gain, for every share of events in order.",
         by_slack, [f"{share:.0%} in order" for share in IN_ORDER],
         [f"K = {slack}" for slack in SLACKS_NS], rests[1]),
    ):  # fmt: skip
        said = "; ".join(
            f"{name}: {listed(f'{gain:.1f} %' for gain in line)}"
            for name, line in zip(names, lines, strict=True)
        )
        parts = [
            (
                name,
                _is_gain(line),
                turns(places, line, "%").rstrip(".") or f"at most {max(line):.1f} %",
            )
            for name, line in zip(names, lines, strict=True)
        ]
        holds = all(part[1] for part in parts)
        reason = f"{failing(parts)} {why}".strip()
        claims.append(
            judged(text, holds, said, "its curves rise", reason, _also(looked), rests=others)
        )
    return claims


def _also(looked: Mapping[tuple[int, float], float] | None) -> str:
    if looked is None:
        return ""
    least, most = min(looked.values()), max(looked.values())
    return f"Events not looked at thanks to the partition: {least:.1f} to {most:.1f} %."


def _table(
    title: str, cases: Cases, of: Callable[[Case, str], float], gain: Callable[[Case], float],
    note: str,
) -> Table:  # fmt: skip
    rows = [
        (f"K = {slack}, {share:.0%} in order", of(case, _OFF), of(case, _ON), round(gain(case), 1))
        for (slack, share), case in cases.items()
    ]
    return Table(title, ("", _OFF, _ON, "gain [%]"), tuple(rows), note)


def _gain_figure(
    name: str, title: str, gains: Mapping[tuple[int, float], float], caption: str
) -> Figure:
    return drawing.lines(
        name, title, caption,
        [
            Series(f"K = {slack}", [100 * share for share in IN_ORDER],
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
            Series("ours, bytes held", longer, list(grown.values()), COLOURS[0]),
            Series("Algorithm 7, counted", longer, list(ratios.values()), COLOURS[2]),
            Series(f"((K+W)/W)^{STEPS}, the paper", longer, [x**STEPS for x in longer],
                   COLOURS[1], published=True),
        ],
        ("(K+W)/W", "times as much"),
        log_y=True,
    )  # fmt: skip
