"""What of R19's verdicts on AQ-K-slack rests on how it adapts, which the thesis does not print.

The claims are judged with the extension that it ran (``scenarios.papers.r19.aq_extension``), at the
defaults of its public text. Here it adapts more and less often, and looks at longer and shorter
windows; and beside it our own ``aq-kslack`` with windows around the 10 s of R19's query, by our
controller and by Eq 2.3 as printed with the extension's gains. One source only.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.measures import Measures, measure_many
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers.r19.aq_extension import AS_RUN, Extension, let_go
from slackwater.scenarios.papers.r19.football import EVENTS_PER_SECOND
from slackwater.scenarios.papers.r19.let_go_measures import measures_of
from slackwater.scenarios.papers.r19.log_writing import sources
from slackwater.scenarios.papers.r19.orders import (
    AQ_KSLACK,
    AQ_SERVING,
    MP_KSLACK,
    PRINTED,
    Approach,
)
from slackwater.scenarios.papers.r19.passes import (
    READING,
    hold_ms,
    one_source,
    the_data_set,
    the_log,
)
from slackwater.scenarios.papers.r19.published import SOURCES
from slackwater.scenarios.papers.verdicts import same_with

SETS: Final = (1, 2, 3)
FEWER: Final = 10
"""How many times lower a latency must be for R19's "much lower" (its least is 11 times)."""
UNTRIED: Final = (
    "how AQ-K-slack adapts, which the thesis does not print; other settings were tried with one "
    "source, for mean latencies and what is left out of order (see aq-settings)."
)
_MS: Final = 10**6
_BATCH_MS: Final = 1000 * AS_RUN.batch // EVENTS_PER_SECOND
"""So long does a source need for the extension's batch."""
_PRINTED_EQUATION: Final = f"control=r19,kp={AS_RUN.kp:g},kd={AS_RUN.kd:g}"
EXTENSIONS: Final[Mapping[str, Extension]] = {
    f"extension with batches of {AS_RUN.batch:,} (as run)": AS_RUN,
    **{
        f"extension with batches of {batch:,}": replace(AS_RUN, batch=batch)
        for batch in (1_000, 5_000, 20_000, 50_000)
    },
    **{
        f"extension with a coverage of {window} ms": replace(AS_RUN, window_ns=window * _MS)
        for window in (1, 1_000)
    },
}
ORDERS: Final[Mapping[str, str]] = {
    **{
        f"ours with a window of {window}": f"{AQ_SERVING},window={window}"
        for window in (f"{_BATCH_MS}ms", "1s", "2s", "5s", "10s")
    },
    **{
        f"ours by Eq 2.3 with a window of {window}":
        f"{AQ_SERVING},{_PRINTED_EQUATION},window={window}"
        for window in (f"{_BATCH_MS}ms", "10s")
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """Mean hold [ms] and events left out of order (R19's count), by data set."""

    hold_ms: Mapping[int, float]
    disorder: Mapping[int, int]


Variants = Mapping[str, Variant]


def settings(run: PaperRun) -> Finding:
    """The table of this module; no claim of the paper."""
    of = {n: one_source(run, n) for n in SETS}
    mine, most = ({n: hold_ms(of[n], each) for n in SETS} for each in (PRINTED, MP_KSLACK))
    rows = tuple(
        (name, *(each.hold_ms[n] for n in SETS), *(each.disorder[n] for n in SETS),
         _sets(n for n in SETS if _below(mine[n], each.hold_ms[n])),
         "yes" if _rises(each) else "no",
         _sets(n for n in SETS if each.hold_ms[n] < most[n]))
        for name, each in variants(run).items()
    )  # fmt: skip
    table = Table(
        "How AQ-K-slack adapts",
        ("", *(f"set {n}, mean hold [ms]" for n in SETS), *(f"set {n}, left" for n in SETS),
         f"sequence {FEWER}x below, sets", "rises from set to set", "faster than MP-K-slack, sets"),
        rows,
        "The paper's means are 79.04, 176.48 and 10,462.98 ms. Windows of ours: of what is served, "
        f"{_BATCH_MS} ms being {AS_RUN.batch:,} events. Verdicts are judged by the first row.",
    )  # fmt: skip
    return Finding((), (table,), facts={"variants": list(variants(run))})


def variants(run: PaperRun) -> Variants:
    """Every setting over the three data sets from one source."""
    return run.once("aq variants", lambda: _variants(run))


def rests_on(
    run: PaperRun, hold_by_approach: Mapping[str, float], other: Approach, sets: Sequence[int]
) -> str:
    """For the claim that sequence is far below AQ-K-slack in some sets."""
    if other is not AQ_KSLACK:
        return ""
    mine = hold_by_approach[PRINTED.name]
    return _rests(run, lambda each: all(_below(mine, each.hold_ms[n]) for n in sets))


def rising_with(run: PaperRun) -> str:
    """For the claim that its latency rises from set to set."""
    return _rests(run, _rises)


def faster_with(run: PaperRun, most: Mapping[int, float]) -> str:
    """For the claim that it is faster than MP-K-slack; ``most``: mean holds of the latter."""
    return _rests(run, lambda each: all(each.hold_ms[n] < most[n] for n in SETS))


def most_left_with(run: PaperRun, others: Mapping[int, int]) -> str:
    """For the claim that it leaves more out of order than the others, which leave so many."""
    return _rests(run, lambda each: all(each.disorder[n] >= others[n] for n in SETS))


def many_with(run: PaperRun, judge: Callable[[Mapping[int, Measures]], bool]) -> str:
    """For a claim on many sources; ``judge`` gets what the extension did by their number;
    our own ``aq-kslack`` is left out, as it would be a pass over each log.
    """
    found = run.once("aq variants, many", lambda: _many(run))
    (_, judged), *others = ((name, judge(each)) for name, each in found.items())
    return f"how AQ-K-slack adapts: {same_with(judged, dict(others))}."


def _many(run: PaperRun) -> Mapping[str, Mapping[int, Measures]]:
    data = the_data_set(run, 3)
    return {
        name: {
            count: measures_of(let_go(data, sources(count), extension), name, count)
            for count in SOURCES
        }
        for name, extension in EXTENSIONS.items()
    }


def _rests(run: PaperRun, judge: Callable[[Variant], bool]) -> str:
    found = {name: judge(each) for name, each in variants(run).items()}
    (_, judged), *others = found.items()
    return f"how AQ-K-slack adapts: {same_with(judged, dict(others))} (see aq-settings)."


def _rises(each: Variant) -> bool:
    values = list(each.hold_ms.values())
    return values == sorted(values)


def _below(mine: float, theirs: float) -> bool:
    return mine * FEWER <= theirs


def _sets(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _variants(run: PaperRun) -> Variants:
    found: dict[str, dict[int, Measures]] = {name: {} for name in (*EXTENSIONS, *ORDERS)}
    for number in SETS:
        data = the_data_set(run, number)
        for name, extension in EXTENSIONS.items():
            found[name][number] = measures_of(let_go(data, sources(1), extension), name, 1)
        log = the_log(run, number, sources(1), ("v_abs",), "variants")
        with run.watched(f"data set {number}: {len(ORDERS)} settings of aq-kslack") as advanced:
            _, measured = measure_many(log, list(ORDERS.values()), READING, advanced=advanced)
        shutil.rmtree(log)
        for name, each in zip(ORDERS, measured, strict=True):
            found[name][number] = each
    return {
        name: Variant(
            {n: each.hold.mean_ns / 1e6 for n, each in of.items()},
            {n: each.steps_back for n, each in of.items()},
        )
        for name, of in found.items()
    }
