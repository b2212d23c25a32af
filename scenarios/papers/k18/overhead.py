"""K18 Figure 9: what reaches the barrier per valid item, by workers and documents per second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers.curves import drawn
from slackwater.scenarios.papers.k18.inverted_index import Change, index_of
from slackwater.scenarios.papers.k18.texts import Document, documents
from slackwater.scenarios.papers.k18.workers import ClusterModel, ClusterOutcome, simulated
from slackwater.scenarios.papers.verdicts import (
    failing,
    judged,
    listed,
    same_with,
    split_judged,
    turns,
    unless,
)

WORKERS: Final = (4, 5, 6, 7, 8, 9, 10)
RATES: Final = (10, 12, 14, 16, 18, 20, 22, 24)
"""The ends of K18's axes."""
LOW: Final = 1.10
"""K18: "under 10 %"."""
BUSY: Final = 0.6
"""Share of the workers' time that documents in order take from which on the load counts as extreme;
K18 names none."""
SEEDS: Final = 3
LEAST: Final = 90
"""Documents from which on Figure 9 is judged; of fewer a draw decides."""
LEAST_OF_LOADS: Final = 300
"""Least number of documents to judge load by: with fewer, queues have no time to grow."""
_BOUNDS: Final = (0.4, 0.5, 0.55, 0.65, 0.7)
_CAPTION: Final = "Items and tombstones at the barrier per valid item."
OTHER_COSTS: Final = (0.7, 1.3)
_FEWER: Final = 4
_COSTS: Final = (0.7, 0.85, 1.0, 1.15, 1.3)
"""Factors for the assumed times of our steps, to see how far the verdicts depend on them."""


def run_documents(run: PaperRun) -> tuple[Document, ...]:
    """The documents of a run of this scale."""
    found = documents()
    return found[: max(20, round(run.scale * len(found)))]


def load(cluster: ClusterModel, texts: tuple[Document, ...]) -> float:
    """Share of the workers' time that documents in order take."""
    per_document = sum(
        cluster.map_ns * len(text) + cluster.item_ns * len(set(text)) for text in texts
    ) / len(texts)  # fmt: skip
    return per_document * cluster.rate / 1e9 / cluster.workers


def ratio(run: PaperRun, cluster: ClusterModel, texts: tuple[Document, ...]) -> float:
    """Over some draws; each cluster and number of documents once."""

    def drawn_ratio() -> float:
        seen = [simulated(cluster, texts, run.seed + draw) for draw in range(SEEDS)]
        return sum(each.arrived for each in seen) / sum(each.valid for each in seen)

    return run.once(("ratio", cluster, len(texts)), drawn_ratio)


Surface = dict[tuple[int, int], float]
"""By workers and documents per second."""


def _surface(run: PaperRun, factor: float = 1.0, fewer: int = 1) -> Surface:
    """``factor``: multiplies our steps' times. ``fewer``: divides the number of documents."""
    texts = run_documents(run)
    texts, found = texts[: max(20, len(texts) // fewer)], Surface()
    with run.watched(f"clusters, steps {factor:g} times as long") as advanced:
        for workers in WORKERS:
            for rate in RATES:
                cluster = slower(ClusterModel(workers, rate), factor)
                found[workers, rate] = ratio(run, cluster, texts)
                advanced(len(texts) * SEEDS)
    return found


def slower(cluster: ClusterModel, factor: float) -> ClusterModel:
    """The same cluster with steps that take ``factor`` times as long."""
    return replace(
        cluster, map_ns=round(cluster.map_ns * factor), item_ns=round(cluster.item_ns * factor)
    )


def _peaks(found: Surface) -> bool:
    return max(found, key=lambda place: found[place]) == (WORKERS[0], RATES[-1])


def _falls(found: Surface) -> bool:
    return all(a >= b for a, b in pairwise([found[workers, RATES[-1]] for workers in WORKERS]))


def _does_not_rise(found: Surface) -> bool:
    few = found[WORKERS[0], RATES[-1]]
    return max(found[WORKERS[-1], rate] for rate in RATES) <= few


def _with_others(run: PaperRun, judge: Callable[[Surface], bool]) -> str:
    """With which other times of steps a verdict on the whole surface is the same."""
    verdicts = {
        factor: judge(run.once(("surface", factor), partial(_surface, run, factor, _FEWER)))
        for factor in OTHER_COSTS
    }
    verdict = judge(run.once("surface", lambda: _surface(run)))
    same = same_with(
        verdict, {f"{factor:g} times as long": holds for factor, holds in verdicts.items()}
    )
    return f"how long steps take (see cluster): {same}, with a quarter of the documents."


def figure(run: PaperRun) -> Finding:
    """Figure 9, as a curve per number of workers."""
    texts = run_documents(run)
    found = run.once("surface", lambda: _surface(run))
    loads = {place: load(ClusterModel(*place), texts) for place in found}
    calm = {place: value for place, value in found.items() if loads[place] < BUSY}
    peak = max(found, key=lambda place: found[place])
    few, many = found[WORKERS[0], RATES[-1]], found[WORKERS[-1], RATES[-1]]
    by_workers = [found[workers, RATES[-1]] for workers in WORKERS]
    claims = (
        judged("The ratio peaks where documents come fast and workers are few.",
               _peaks(found),
               f"{found[peak]:.3f} at {peak[0]} workers and {peak[1]} documents/s",
               "at about 4 workers and 24 documents/s, 1.3 to 1.4",
               f"at {WORKERS[0]} workers and {RATES[-1]} documents/s it is {few:.3f}.",
               rests=_with_others(run, _peaks)),
        judged("Under a load that is not extreme the overhead is under 10 % for all numbers of "
               "workers.", max(calm.values()) < LOW,
               f"at most {max(calm.values()) - 1:.1%} in {len(calm)} of {len(found)} settings, "
               f"where documents take less than {BUSY:.0%} of the workers' time", "under 10 %",
               failing(
                   (f"{workers} workers at {rate}/s", value < LOW,
                    f"{value - 1:.1%}, workers {loads[workers, rate]:.0%} busy")
                   for (workers, rate), value in calm.items()
               ),
               rests=f"{_up_to(found, loads)}; {_sensitivity(run)}"),
        judged("The share of invalid items falls with more workers.",
               _falls(found),
               f"{listed(f'{value:.3f}' for value in by_workers)} with {WORKERS[0]} to "
               f"{WORKERS[-1]} workers at {RATES[-1]} documents/s", "falls",
               turns([f"{workers} workers" for workers in WORKERS], by_workers, "items",
                     rises=False), rests=_with_others(run, _falls)),
        judged("The ratio does not rise with the number of workers.",
               _does_not_rise(found),
               f"{few:.3f} with {WORKERS[0]} workers, {many:.3f} with {WORKERS[-1]}",
               "does not", f"with {WORKERS[-1]} workers it is "
               f"{max(found[WORKERS[-1], rate] for rate in RATES):.3f} at most.",
               rests=_with_others(run, _does_not_rise)),
    )  # fmt: skip
    curves = {f"{workers} workers": [found[workers, rate] for rate in RATES] for workers in WORKERS}
    note = f"{_CAPTION} In brackets how busy workers are."
    decided, not_judged = split_judged(
        unless(_too_few(len(texts), LEAST_OF_LOADS if claim is claims[1] else LEAST), claim)
        for claim in claims
    )
    rows = tuple(
        (workers, *(f"{found[workers, r]:.3f} ({loads[workers, r]:.0%})" for r in RATES))
        for workers in WORKERS
    )
    return Finding(
        decided,
        (Table("Overhead", ("workers", *(f"{rate}/s" for rate in RATES)), rows, note),),
        (drawn("fig-9", "Items at the barrier per valid item", _CAPTION, curves,
               RATES, ("documents per second", "ratio")),),
        {"rates": RATES, "workers": WORKERS, "ratio": [list(of) for of in curves.values()]},
        not_judged,
    )  # fmt: skip


def _too_few(count: int, least: int) -> str:
    return f"{count} documents; fewer than {least} say too little." if count < least else ""


def _up_to(found: dict[tuple[int, int], float], loads: dict[tuple[int, int], float]) -> str:
    """With which other bounds of a load that is not extreme the verdict is the same."""

    def under(bound: float) -> bool:
        return max(value for place, value in found.items() if loads[place] < bound) < LOW

    same = same_with(under(BUSY), {f"{bound:.0%}": under(bound) for bound in _BOUNDS})
    least = min((loads[place] for place, value in found.items() if value >= LOW), default=1.0)
    return f"which load is extreme, here from {BUSY:.0%} on: {same}; it flips at {least:.1%}"


def _sensitivity(run: PaperRun) -> str:
    """How far the claim depends on the assumed time of a step."""
    texts, said = run_documents(run), []
    for factor in _COSTS:
        worst = 0.0
        for workers, rate in ((4, 10), (6, 14), (8, 20), (10, 24)):
            cluster = slower(ClusterModel(workers, rate), factor)
            if load(cluster, texts) < BUSY:
                worst = max(worst, ratio(run, cluster, texts) - 1)
        said.append(f"{factor:g}: {worst:.1%}")
    return (
        "how long steps take: the largest overhead of four settings along the diagonal, "
        f"by times our values: {', '.join(said)}."
    )


def properties(run: PaperRun) -> Finding:
    """The properties of the method that K18 claims in its text, not in a figure."""
    texts = run_documents(run)
    fast, slow = (simulated(ClusterModel(4, rate), texts, run.seed) for rate in (24, 10))
    in_order = simulated(ClusterModel(1, 10, link_ns=0), texts, run.seed)
    claims = (
        judged("All correct tuples are produced, and none that is not valid leaves: the changelog "
               "is that of documents in order.", _same(fast, in_order) and _same(slow, in_order),
               f"{len(fast.changes):,} changes, equal one by one, at {fast.ratio:.2f} items per "
               "valid one", "guaranteed",
               f"{_other(fast, in_order):,} changes at 24 documents/s and "
               f"{_other(slow, in_order):,} at 10 are not those of documents in order.",
               rests="the clusters, here 4 workers; it flips if punctuations say too early that a "
               "time is over."),
        judged("Where the order is kept there is almost no overhead.", in_order.ratio == 1,
               f"{in_order.ratio - 1:.1%} on one worker", "almost none",
               f"{in_order.arrived:,} items arrive for {in_order.valid:,} valid ones.",
               rests="the cluster, here 1 worker, whose links take no time; it flips as soon as "
               "documents overtake one another."),
    )  # fmt: skip
    words = len(index_of(_ordered(in_order)))
    rows = (
        ("documents", f"{len(texts):,}"), ("words in them", f"{sum(map(len, texts)):,}"),
        ("different words", f"{words:,}"), ("changes", f"{len(in_order.changes):,}"),
    )  # fmt: skip
    return Finding(claims, (Table("The collection", ("what", "number"), rows),))


def _ordered(seen: ClusterOutcome) -> list[Change]:
    """Changes by document, then by the word's first position in it."""
    return sorted(
        seen.changes, key=lambda change: (change.posting.document, change.posting.positions)
    )  # fmt: skip


def _other(one: ClusterOutcome, other: ClusterOutcome) -> int:
    """How many changes are in only one of two runs."""
    return len(set(one.changes) ^ set(other.changes))


def _same(one: ClusterOutcome, other: ClusterOutcome) -> bool:
    return _ordered(one) == _ordered(other)
