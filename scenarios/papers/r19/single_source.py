"""R19 5.2.2.1: latency and accuracy with a single source (Tables 5.2 and 5.4-5.7)."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.measures import Measures
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers.r19 import published
from slackwater.scenarios.papers.r19.aq_variants import (
    FEWER,
    SETS,
    UNTRIED,
    faster_with,
    rests_on,
    rising_with,
)
from slackwater.scenarios.papers.r19.orders import (
    APPROACHES,
    AQ_KSLACK,
    CODE,
    COMPARED,
    DROPPING,
    MP_KSLACK,
    PRINTED,
    Approach,
)
from slackwater.scenarios.papers.r19.passes import (
    Measured,
    accuracy_percent,
    hold_ms,
    left,
    one_source,
    over_time,
    the_data_set,
)
from slackwater.scenarios.papers.r19.verdicts import judged
from slackwater.scenarios.papers.verdicts import failing, ms, percent, share, times, turns

SET_1_ACCURACY: Final = 99.98
ACCURACY: Final = 99.97
"""R19's least accuracy of its own approach [%]."""


def data_sets(run: PaperRun) -> Finding:
    """Table 5.2. Its counts are of whole data sets: a part of them judges nothing."""
    rows = []
    parts = []
    for number in SETS:
        data = the_data_set(run, number)
        times_seen = data.events.ts[np.argsort(data.arrival, kind="stable")]
        found = int((times_seen < np.maximum.accumulate(times_seen)).sum())
        in_turn = int((np.diff(times_seen) < 0).sum())
        exact = (len(data), found) == published.EVENTS[number]
        parts.append((f"data set {number}", exact, f"{found:,} of {len(data):,}"))
        delays_ms = data.delay_ns / 1e6
        rows.append(
            (f"data set {number}", *published.EVENTS[number], len(data), found, in_turn,
             round(float(delays_ms.mean()), 3), round(float(np.median(delays_ms)), 3),
             round(float(delays_ms.max()), 1), int((delays_ms > 500).sum()))
        )  # fmt: skip
    claim = judged(
        "Three data sets with 62,473, 62,409 and 83,212 events out of order.",
        all(part[1] for part in parts),
        " and ".join(said for _, _, said in parts),
        " and ".join(f"{late:,} of {all_:,}" for all_, late in published.EVENTS.values()),
        failing(parts),
    )
    table = Table(
        "Data sets as they arrive",
        ("", "events, paper", "out of order, paper", "events, ours", "out of order, ours",
         "after a later one just before", "delay, mean [ms]", "median [ms]", "longest [ms]",
         "later than 500 ms [events]"),
        tuple(rows),
        "Out of order: after any later one; that many we injected, and accuracies are "
        "shares of them. Delay: of the events out of order, beyond the 0.1 ms that every event "
        "travels. The paper says: set 1 means of 0.1-0.3 ms and two peaks of 750-1000 ms, set 2 a "
        "mean below 1 ms and less than 2 s, set 3 means of 1-7 ms and up to 30 s.",
    )  # fmt: skip
    if run.scale < 1:
        why = f"The claim is not judged at scale {run.scale:g}. Its counts are of whole data sets."
        return Finding((), (table,), not_judged={claim.text: why})
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
    hold_by_approach = {each.name: hold_ms(measured, each) for each in APPROACHES}
    claims = [
        lower(
            hold_by_approach,
            means,
            other,
            "mean latency",
            "data set 1",
            rests_on(run, hold_by_approach, other, (1,)),
        )
        for other in (MP_KSLACK, AQ_KSLACK)
    ]
    claims += [
        lower(longest, maxima, other, "mean of the maxima of latency", "data set 1", UNTRIED)
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
    code = accuracy_percent(measured, CODE)
    claim = judged(
        f"All three approaches put at least {SET_1_ACCURACY} % of the events out of order right.",
        min(found) >= SET_1_ACCURACY,
        ", ".join(
            f"{each.name} {percent(value)}" for each, value in zip(COMPARED, found, strict=True)
        ),
        "99.99 % each, 5 events left",
        failing(
            (each.name, value >= SET_1_ACCURACY, f"{percent(value)}, {left(measured, each):,} left")
            for each, value in zip(COMPARED, found, strict=True)
        )
        + " "
        + given_up(measured),
        (
            min(code, *found[1:]) >= SET_1_ACCURACY,
            f"{percent(code)}, {left(measured, CODE):,} left",
        ),
        also=by_any(measured),
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
    "left, ours", "accuracy, ours [%]", "left after any later one", "late, passed on [events]",
    "late, dropped [events]", "never came [events]", "in their place [%]",
)  # fmt: skip
UNCOUNTED: Final = (
    "R19's accuracy counts only what is left out of order among the released, after a later one "
    "just before: a dropped event counts as put right, and of several late ones in a row the first "
    "counts. The columns behind it say what became of the events."
)


def account(measures: Measures) -> tuple[str | int | None, ...]:
    """The columns of ``ACCOUNT``."""
    injected = measures.disorder_before
    return (
        measures.steps_back,
        share(100 * (1 - measures.steps_back / injected)) if injected else None,
        measures.disorder_after,
        measures.late,
        measures.dropped,
        measures.missing,
        share(100 * measures.completeness),
    )


def given_up(measured: Measured) -> str:
    """Why the printed timeout leaves events behind."""
    printed, dropping = measured[PRINTED.name], measured[DROPPING.name]
    return (
        f"The printed timeout gives up {printed.late:,} events, {left(measured, PRINTED):,} of "
        "which come just after a later one. It learns only from gaps that closed in time, and 99 % "
        f"of the events were held for less than {ms(printed.hold.p99_ns / 1e6)}. Dropped instead "
        f"of passed on, nobody counts them: {percent(accuracy_percent(measured, DROPPING))} with "
        f"{dropping.dropped:,} events lost."
    )


def by_any(measured: Measured) -> str:
    """The counts by L10's definition."""
    counts = ", ".join(f"{each.name} {measured[each.name].disorder_after:,}" for each in COMPARED)
    return f"Counted after any later one (L10), not only the one just before: {counts}."


def lower(
    ours: dict[str, float], paper: dict[str, float], other: Approach, what: str, where: str,
    rests: str = "",
) -> Claim:  # fmt: skip
    """Claim that the printed sequence is ``FEWER`` times below ``other``."""
    mine = ours[PRINTED.name]
    return judged(
        f"The {what} of sequence is at least {FEWER} times below that of {other.of} ({where}).",
        mine * FEWER <= ours[other.name],
        f"{times(ours[other.name], mine)} ({ms(mine)} against {ms(ours[other.name])})",
        f"{times(paper[other.of or ''], paper[published.SEQUENCE])}",
        f"{FEWER} times sequence's {ms(mine)} are {ms(FEWER * mine)}, and {other.name} holds "
        f"{ms(ours[other.name])}.",
        (
            ours[CODE.name] * FEWER <= ours[other.name],
            times(ours[other.name], ours[CODE.name]),
        ),
        rests=rests if other is AQ_KSLACK else "",
    )


def latency_of_sets(run: PaperRun) -> Finding:
    """Table 5.6."""
    found = {number: one_source(run, number) for number in SETS}
    holds = {
        number: {each.name: hold_ms(found[number], each) for each in APPROACHES} for number in SETS
    }
    claims = [
        lower(
            holds[number],
            {of: published.LATENCY[of][number] for of in published.APPROACHES},
            other,
            "mean latency",
            f"data set {number}",
            rests_on(run, holds[number], other, (number,)),
        )
        for number in SETS[1:]  # the first is in Table 5.4
        for other in (MP_KSLACK, AQ_KSLACK)
    ]
    claims += [_rises(run, holds, each) for each in COMPARED]
    claims.append(
        judged(
            "AQ-K-slack is faster than MP-K-slack in every data set.",
            all(holds[n][AQ_KSLACK.name] < holds[n][MP_KSLACK.name] for n in SETS),
            _per_set([times(holds[n][MP_KSLACK.name], holds[n][AQ_KSLACK.name]) for n in SETS]),
            _per_set(
                [times(published.LATENCY[published.MP][n], published.LATENCY[published.AQ][n])
                 for n in SETS]
            ),
            failing(
                (f"set {n}", holds[n][AQ_KSLACK.name] < holds[n][MP_KSLACK.name],
                 f"{ms(holds[n][AQ_KSLACK.name])} against {ms(holds[n][MP_KSLACK.name])}")
                for n in SETS
            ),
            rests=faster_with(run, {n: holds[n][MP_KSLACK.name] for n in SETS}),
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


def _rises(run: PaperRun, holds: dict[int, dict[str, float]], each: Approach) -> Claim:
    def rising(approach: Approach) -> bool:
        values = [holds[number][approach.name] for number in SETS]
        return values == sorted(values)

    of = published.LATENCY[each.of or ""]
    code = _per_set([ms(holds[n][CODE.name]) for n in SETS])
    return judged(
        f"The latency of {each.of} rises from data set 1 to 2 to 3.",
        rising(each),
        _per_set([ms(holds[n][each.name]) for n in SETS]),
        _per_set([ms(of[n]) for n in SETS]),
        turns([f"set {n}" for n in SETS], [holds[n][each.name] for n in SETS], "ms")
        + " "
        + _shares_late(run),
        (rising(CODE), code) if each is PRINTED else None,
        "With that wait it follows how many events come later than 500 ms in a second, which is "
        "as many in data set 2 as in 3 (Table 5.2)."
        if each is PRINTED
        else "",
        rising_with(run) if each is AQ_KSLACK else "",
    )


def _shares_late(run: PaperRun) -> str:
    """What the sets differ in."""
    sets = [the_data_set(run, number) for number in SETS]
    late = _per_set([f"{len(each.delay_ns) / len(each):.1%}" for each in sets])
    return f"Events out of order: {late}."


def _per_set(texts: list[str]) -> str:
    return ", ".join(f"set {number} {said}" for number, said in zip(SETS, texts, strict=True))


def accuracy_of_sets(run: PaperRun) -> Finding:
    """Table 5.7."""
    found = {number: one_source(run, number) for number in SETS}
    accuracy = {
        each.name: [accuracy_percent(found[number], each) for number in SETS] for each in APPROACHES
    }
    worst = min(SETS, key=lambda number: accuracy_percent(found[number], PRINTED))
    code = _per_set([percent(value) for value in accuracy[CODE.name]])
    paper = published.ACCURACY
    highest = [
        (f"set {n}", accuracy[MP_KSLACK.name][i] >= max(accuracy[e.name][i] for e in COMPARED),
         ", ".join(f"{e.name} {percent(accuracy[e.name][i])}" for e in COMPARED))
        for i, n in enumerate(SETS)
    ]  # fmt: skip
    claims = (
        judged(
            f"The accuracy of sequence is at least {ACCURACY} % in every data set.",
            min(accuracy[PRINTED.name]) >= ACCURACY,
            _per_set([percent(value) for value in accuracy[PRINTED.name]]),
            _per_set([percent(paper[published.SEQUENCE][n]) for n in SETS]),
            f"{percent(accuracy_percent(found[worst], PRINTED))} in data set {worst}. "
            + given_up(found[worst]),
            (min(accuracy[CODE.name]) >= ACCURACY, code),
        ),
        judged(
            "MP-K-slack has the highest accuracy in every data set.",
            all(best for _, best, _ in highest),
            _per_set([percent(value) for value in accuracy[MP_KSLACK.name]]),
            _per_set([percent(paper[published.MP][n]) for n in SETS]),
            failing(highest)
            + " A slack that only grows leaves behind the first events of every longer delay.",
            (
                all(
                    accuracy[MP_KSLACK.name][i]
                    >= max(accuracy[e.name][i] for e in (CODE, MP_KSLACK, AQ_KSLACK))
                    for i in range(len(SETS))
                ),
                f"sequence {code}",
            ),
            also=by_any(found[SETS[-1]]),
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
