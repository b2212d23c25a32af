"""R19 5.2.2.1: latency and accuracy with a single source (Tables 5.2 and 5.4-5.7)."""

from __future__ import annotations

from typing import Final

import numpy as np

from scenarios.papers.r19 import published
from scenarios.papers.r19.orders import (
    APPROACHES,
    AQ_KSLACK,
    COMPARED,
    DROPPING,
    MP_KSLACK,
    PRINTED,
    WAITING,
    Approach,
)
from scenarios.papers.r19.passes import (
    Measured,
    accuracy_percent,
    hold_ms,
    one_source,
    over_time,
    the_data_set,
)
from scenarios.papers.r19.verdicts import judged
from scenarios.papers.verdicts import ms, percent, share, times
from slackwater.measures import Measures
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table

SETS: Final = (1, 2, 3)
FEWER: Final = 10
"""How many times lower a latency must be for R19's "much lower" (its least is 11 times)."""
SET_1_ACCURACY: Final = 99.98
ACCURACY: Final = 99.97
"""R19's least accuracy of its own approach [%]."""


def data_sets(run: PaperRun) -> Finding:
    """Table 5.2."""
    rows = []
    exact = True
    for number in SETS:
        data = the_data_set(run, number)
        times_seen = data.events.ts[np.argsort(data.arrival, kind="stable")]
        found = int((times_seen < np.maximum.accumulate(times_seen)).sum())
        exact &= (len(data), found) == published.EVENTS[number]
        delays_ms = data.delay_ns / 1e6
        rows.append(
            (f"data set {number}", *published.EVENTS[number], len(data), found,
             round(float(delays_ms.mean()), 3), round(float(np.median(delays_ms)), 3),
             round(float(delays_ms.max()), 1), int((delays_ms > 500).sum()))
        )  # fmt: skip
    claim = judged(
        "Three data sets with 62,473, 62,409 and 83,212 events out of order.",
        exact,
        " and ".join(f"{row[4]:,} of {row[3]:,}" for row in rows),
        " and ".join(f"{late:,} of {all_:,}" for all_, late in published.EVENTS.values()),
        f"made at scale {run.scale}; the counts are exact at scale 1.",
    )
    table = Table(
        "Data sets as they arrive",
        ("", "events, paper", "out of order, paper", "events, ours", "out of order, ours",
         "delay, mean [ms]", "median [ms]", "longest [ms]", "later than 500 ms [events]"),
        tuple(rows),
        "Delay: of the events out of order, beyond the 0.1 ms that every event travels. The paper "
        "says: set 1 means of 0.1-0.3 ms and two peaks of 750-1000 ms, set 2 a mean below 1 ms and "
        "less than 2 s, set 3 means of 1-7 ms and up to 30 s.",
    )  # fmt: skip
    return Finding((claim,), (table,))


def latency_of_set_1(run: PaperRun) -> Finding:
    """Table 5.4."""
    measured, series = one_source(run, 1), over_time(run)
    longest = {name: float(np.mean(each.held_max_ns or [0])) / 1e6 for name, each in series.items()}
    rows = []
    for each in APPROACHES:
        mean, most = published.LATENCY_SET_1.get(each.of or "", (None, None))
        rows.append(
            (each.name, mean, hold_ms(measured, each), most, longest[each.name],
             measured[each.name].latency.mean_ns / 1e6)
        )  # fmt: skip
    means, maxima = ({of: both[i] for of, both in published.LATENCY_SET_1.items()} for i in (0, 1))
    held = {each.name: hold_ms(measured, each) for each in APPROACHES}
    claims = [
        lower(held, means, other, "mean latency", "data set 1") for other in (MP_KSLACK, AQ_KSLACK)
    ]
    claims += [
        lower(longest, maxima, other, "mean of the maxima of latency", "data set 1")
        for other in (MP_KSLACK, AQ_KSLACK)
    ]
    table = Table(
        "Latency, data set 1",
        ("approach", "mean, paper [ms]", "mean, ours [ms]", "mean of maxima, paper [ms]",
         "mean of maxima, ours [ms]", "mean from departure, ours [ms]"),
        tuple(rows),
        "Maxima are taken over every 10,000 events released.",
    )  # fmt: skip
    return Finding(tuple(claims), (table,))


def accuracy_of_set_1(run: PaperRun) -> Finding:
    """Table 5.5."""
    measured = one_source(run, 1)
    found = [accuracy_percent(measured, each) for each in COMPARED]
    waits = accuracy_percent(measured, WAITING)
    claim = judged(
        f"All three approaches put at least {SET_1_ACCURACY} % of the events out of order right.",
        min(found) >= SET_1_ACCURACY,
        ", ".join(
            f"{each.name} {percent(value)}" for each, value in zip(COMPARED, found, strict=True)
        ),
        "99.99 % each, 5 events left",
        given_up(measured),
        (
            min(waits, *found[1:]) >= SET_1_ACCURACY,
            f"{percent(waits)}, {measured[WAITING.name].disorder_after} left",
        ),
    )
    rows = [
        (each.name, published.LEFT_SET_1 if each.of else None, *account(measured[each.name]))
        for each in APPROACHES
    ]
    table = Table(
        "What is left out of order, data set 1", ("approach", "left, paper", *ACCOUNT), tuple(rows),
        UNCOUNTED,
    )  # fmt: skip
    return Finding((claim,), (table,))


ACCOUNT: Final = (
    "left, ours", "accuracy, ours [%]", "late, passed on [events]", "late, dropped [events]",
    "never came [events]", "in their place [%]",
)  # fmt: skip
UNCOUNTED: Final = (
    "R19's accuracy counts only what is left out of order among the released: a dropped event "
    "counts as put right. The columns behind it say what became of the events."
)


def account(measures: Measures) -> tuple[str | int | None, ...]:
    """The columns of ``ACCOUNT``."""
    accuracy = measures.accuracy
    return (
        measures.disorder_after,
        None if accuracy is None else share(100 * accuracy),
        measures.late,
        measures.dropped,
        measures.missing,
        share(100 * measures.completeness),
    )


def given_up(measured: Measured) -> str:
    """Why the printed timeout leaves events behind."""
    printed, dropping = measured[PRINTED.name], measured[DROPPING.name]
    return (
        f"the printed timeout gives up {printed.late:,} events. It learns only from gaps that "
        "closed in time, and 99 % of these held events for less than "
        f"{ms(printed.hold.p99_ns / 1e6)}. Passed on, the late ones count as out of order; "
        f"dropped, nobody counts them: {percent(accuracy_percent(measured, DROPPING))} with "
        f"{dropping.dropped:,} events lost."
    )


def lower(
    ours: dict[str, float], paper: dict[str, float], other: Approach, what: str, where: str
) -> Claim:
    """Claim that the printed sequence is ``FEWER`` times below ``other``."""
    mine = ours[PRINTED.name]
    return judged(
        f"The {what} of sequence is at least {FEWER} times below that of {other.of} ({where}).",
        mine * FEWER <= ours[other.name],
        f"{times(ours[other.name], mine)} ({ms(mine)} against {ms(ours[other.name])})",
        f"{times(paper[other.of or ''], paper[published.SEQUENCE])}",
        waits=(
            ours[WAITING.name] * FEWER <= ours[other.name],
            times(ours[other.name], ours[WAITING.name]),
        ),
    )


def latency_of_sets(run: PaperRun) -> Finding:
    """Table 5.6."""
    found = {number: one_source(run, number) for number in SETS}
    held = {
        number: {each.name: hold_ms(found[number], each) for each in APPROACHES} for number in SETS
    }
    claims = [
        lower(
            held[number],
            {of: published.LATENCY[of][number] for of in published.APPROACHES},
            other,
            "mean latency",
            f"data set {number}",
        )
        for number in SETS[1:]  # the first is in Table 5.4
        for other in (MP_KSLACK, AQ_KSLACK)
    ]
    claims += [_rises(held, each) for each in COMPARED]
    claims.append(
        judged(
            "AQ-K-slack is faster than MP-K-slack in every data set.",
            all(held[n][AQ_KSLACK.name] < held[n][MP_KSLACK.name] for n in SETS),
            _per_set([times(held[n][MP_KSLACK.name], held[n][AQ_KSLACK.name]) for n in SETS]),
            _per_set(
                [times(published.LATENCY[published.MP][n], published.LATENCY[published.AQ][n])
                 for n in SETS]
            ),
            "its slack begins as MP-K-slack's and shrinks once windows of 10 s are measured.",
        )
    )  # fmt: skip
    return Finding(tuple(claims), (_latency_table(found),))


def _latency_table(found: dict[int, Measured]) -> Table:
    rows = []
    for each in APPROACHES:
        row: list[str | float | None] = [each.name]
        for number in SETS:
            paper = published.LATENCY[each.of][number] if each.of else None
            measures = found[number][each.name]
            row += [paper, hold_ms(found[number], each), measures.latency.mean_ns / 1e6]
        rows.append(tuple(row))
    headings = [
        f"set {number}, {what} [ms]"
        for number in SETS
        for what in ("paper", "ours", "from departure, ours")
    ]
    return Table("Mean latency of the three data sets", ("approach", *headings), tuple(rows))


def _rises(held: dict[int, dict[str, float]], each: Approach) -> Claim:
    def rising(approach: Approach) -> bool:
        values = [held[number][approach.name] for number in SETS]
        return values == sorted(values)

    of = published.LATENCY[each.of or ""]
    waits = _per_set([ms(held[n][WAITING.name]) for n in SETS])
    return judged(
        f"The latency of {each.of} rises from data set 1 to 2 to 3.",
        rising(each),
        _per_set([ms(held[n][each.name]) for n in SETS]),
        _per_set([ms(of[n]) for n in SETS]),
        "the printed timeout does not wait for the long delays that set 2 and 3 differ in, and set "
        "3 has fewer events out of order (8.3 % instead of 12.5 %).",
        (rising(WAITING), waits) if each is PRINTED else None,
        "With that wait it follows how many events come later than 500 ms in a second, which is "
        "as many in data set 2 as in 3 (Table 5.2)."
        if each is PRINTED
        else "",
    )


def _per_set(texts: list[str]) -> str:
    return ", ".join(f"set {number} {said}" for number, said in zip(SETS, texts, strict=True))


def accuracy_of_sets(run: PaperRun) -> Finding:
    """Table 5.7."""
    found = {number: one_source(run, number) for number in SETS}
    accuracy = {
        each.name: [accuracy_percent(found[number], each) for number in SETS] for each in APPROACHES
    }
    worst = min(SETS, key=lambda number: accuracy_percent(found[number], PRINTED))
    waits = _per_set([percent(value) for value in accuracy[WAITING.name]])
    paper = published.ACCURACY
    claims = (
        judged(
            f"The accuracy of sequence is at least {ACCURACY} % in every data set.",
            min(accuracy[PRINTED.name]) >= ACCURACY,
            _per_set([percent(value) for value in accuracy[PRINTED.name]]),
            _per_set([percent(paper[published.SEQUENCE][n]) for n in SETS]),
            f"in data set {worst}, {given_up(found[worst])}",
            (min(accuracy[WAITING.name]) >= ACCURACY, waits),
        ),
        judged(
            "MP-K-slack has the highest accuracy in every data set.",
            all(
                accuracy[MP_KSLACK.name][i] >= max(accuracy[each.name][i] for each in COMPARED)
                for i in range(len(SETS))
            ),
            _per_set([percent(value) for value in accuracy[MP_KSLACK.name]]),
            _per_set([percent(paper[published.MP][n]) for n in SETS]),
            "a slack that only grows leaves behind the first events of every longer delay.",
        ),
    )
    return Finding(claims, tuple(_accuracy_table(found[number], number) for number in SETS))


def _accuracy_table(measured: Measured, number: int) -> Table:
    rows = [
        (each.name, published.ACCURACY[each.of][number] if each.of else None,
         *account(measured[each.name]))
        for each in APPROACHES
    ]  # fmt: skip
    return Table(
        f"Accuracy, data set {number}",
        ("approach", "accuracy, paper [%]", *ACCOUNT),
        tuple(rows),
        UNCOUNTED if number == SETS[-1] else "",
    )
