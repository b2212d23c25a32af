"""K18's claims about latency: one barrier, compared with a buffer before the stateful operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.paper import Finding, PaperRun
from slackwater.scenarios.papers.curves import drawn, tabled
from slackwater.scenarios.papers.k18.overhead import OTHER_COSTS, run_documents, slower
from slackwater.scenarios.papers.k18.workers import MS, ClusterModel, simulated
from slackwater.scenarios.papers.verdicts import failing, judged, listed, ms, same_with, turns

WORKERS: Final = 6
RATES: Final = (8, 12, 16, 20, 24, 28)
PERIODS_MS: Final = (20, 50, 100, 200, 400)
_LINKS_MS: Final = (1, 4)
"""Beside our 2."""


def in_flight(run: PaperRun) -> Finding:
    """Latency of documents against the pairs between source and sink."""
    flight, curves = _measured(run, [ClusterModel(WORKERS, rate) for rate in RATES])
    saved = _saved(curves)
    calm = saved[:-2]
    claims = (
        judged("The optimistic method has lower latency than buffering, as all is computed when "
               "the watermark comes.", _when_calm(curves),
               f"{listed(f'{value:.1f}' for value in saved)} ms less at "
               f"{listed(f'{rate}' for rate in RATES)} documents/s", "can provide lower latency",
               failing(
                   (f"{rate}/s", value > 0, f"{-value:.1f} ms more, with {mine:g} in flight")
                   for rate, value, mine in zip(RATES, calm, flight[_OURS], strict=False)
               ),
               rests=_rests(run, [ClusterModel(WORKERS, rate) for rate in RATES], _when_calm),
               also="Judged below the two highest rates, where workers have time to spare."),
    )  # fmt: skip
    note = (
        f"{WORKERS} workers, punctuations each 200 ms, {RATES[0]} to {RATES[-1]} documents/s: more "
        "of them are more items in flight."
    )
    return Finding(
        claims,
        (
            tabled("Median latency [ms] by documents per second", "method",
                   [f"{rate}/s" for rate in RATES], curves, note),
            tabled("Pairs in flight", "method", [f"{rate}/s" for rate in RATES], flight),
        ),
        (drawn("in-flight", "Latency by items in flight", note, curves, flight[_OURS],
               ("pairs in flight", "median latency [ms]")),),
        {"in_flight": flight, "latency_ms": curves},
    )  # fmt: skip


def punctuations(run: PaperRun) -> Finding:
    """Latency by interval of punctuations: behind a buffer, each of them starts a burst of work."""
    clusters = [ClusterModel(WORKERS, 20, punctuation_ns=each * MS) for each in PERIODS_MS]
    _, curves = _measured(run, clusters)
    saved = _saved(curves)
    claims = (
        judged("A buffer's flushes are bursts of load: the rarer punctuations are, the more the "
               "optimistic method saves.", _most_at_last(curves),
               f"{listed(f'{value:.1f}' for value in saved)} ms with punctuations each "
               f"{listed(map(str, PERIODS_MS))} ms", "bursts and an increase in latency",
               f"it saves {saved[0]:.1f} ms with the most of them and {saved[-1]:.1f} with the "
               f"fewest. {turns([ms(each) for each in PERIODS_MS], saved, 'ms saved')}",
               rests=_rests(run, clusters, _most_at_last),
               also="Less than 0: retracting and computing again costs more than it saves."),
    )  # fmt: skip
    note = f"{WORKERS} workers, 20 documents/s."
    table = tabled("Median latency [ms] by time between punctuations", "method",
                   [ms(each) for each in PERIODS_MS], curves, note)  # fmt: skip
    return Finding(
        claims,
        (table,),
        (drawn("punctuations", "Latency by time between punctuations", note, curves, PERIODS_MS,
               ("time between punctuations [ms]", "median latency [ms]")),),
        {"periods_ms": PERIODS_MS, "latency_ms": curves},
    )  # fmt: skip


_OURS: Final = "one barrier at the sink"
_BUFFER: Final = "a buffer before the grouping"


Curves = dict[str, list[float]]
"""By method, a value for each cluster."""


def _saved(curves: Curves) -> list[float]:
    """Milliseconds of latency saved compared with a buffer."""
    return [b - o for o, b in zip(curves[_OURS], curves[_BUFFER], strict=True)]


def _when_calm(curves: Curves) -> bool:
    """Below the two highest rates."""
    return min(_saved(curves)[:-2]) > 0


def _most_at_last(curves: Curves) -> bool:
    saved = _saved(curves)
    return saved[-1] > max(saved[0], 0)


def _rests(run: PaperRun, clusters: list[ClusterModel], judge: Callable[[Curves], bool]) -> str:
    """With which other times of steps and links a verdict is the same."""
    cases = {
        f"steps {factor:g} times as long": [slower(each, factor) for each in clusters]
        for factor in OTHER_COSTS
    } | {
        f"links of {link} ms": [replace(each, link_ns=link * MS) for each in clusters]
        for link in _LINKS_MS
    }
    verdict = judge(_measured(run, clusters)[1])
    same = same_with(verdict, {name: judge(_measured(run, of)[1]) for name, of in cases.items()})
    return f"how long steps and links take (see cluster): {same}."


def _measured(
    run: PaperRun, clusters: list[ClusterModel]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Pairs in flight and the median latency [ms], by method."""
    texts = run_documents(run)
    flight: dict[str, list[float]] = {_OURS: [], _BUFFER: []}
    latency: dict[str, list[float]] = {_OURS: [], _BUFFER: []}
    with run.watched("clusters") as advanced:
        for cluster in clusters:
            for name, buffered in ((_OURS, False), (_BUFFER, True)):
                in_flight, median_ms = _once(run, replace(cluster, buffered=buffered))
                flight[name].append(in_flight)
                latency[name].append(median_ms)
                advanced(len(texts))
    return flight, latency


def _once(run: PaperRun, cluster: ClusterModel) -> tuple[float, float]:
    """Pairs in flight and the median latency [ms] of a cluster."""

    def measured() -> tuple[float, float]:
        seen = simulated(cluster, run_documents(run), run.seed)
        return round(seen.in_flight, 1), float(np.median(seen.latency_ns)) / MS

    return run.once(("latency", cluster), measured)
