"""Compares the facts of a run with what the promises make certain, and shows how early they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from slackwater.scenario import (
    NS_PER,
    Bar,
    Chart,
    Claim,
    Score,
    Series,
    Table,
    Tile,
    Timeline,
    number,
)
from slackwater.scenarios.runs import share
from slackwater.scenarios.supply_chain.parcels import (
    SEEN,
    WASTE,
    Fact,
    Parcel,
    ParcelFacts,
    true_parcels,
)
from slackwater.scenarios.supply_chain.promised import ALERT, CLEARED, VIOLATION, lost

_KINDS: Final = (ALERT, CLEARED, VIOLATION)
_FACTS_MAX: Final = 4
"""Parcels of each kind in the picture."""
_OPEN, _CERTAIN, _SAFE, _BROKEN = (
    "nothing certain yet", "loss is certain", "no loss can come", "broke the promise",
)  # fmt: skip


def score_parcels(directory: Path) -> Score:
    """Claims, tables and pictures of the run in ``directory``.

    Raises:
        UserError: the pass wrote no results.
    """
    parcels, found = true_parcels(directory), ParcelFacts.read(directory)
    due = {fact: at for each in parcels.values() for fact, at in each.facts().items()}
    results, leads = found.results, _leads(found)
    sure = [fact for fact, result in results.items() if result["certainty"] == "confirmed"]
    alerts = [fact for fact in results if fact[0] == ALERT]
    unshipped = sum("SHIPPED" not in _so_far(parcels, due, fact) for fact in alerts if fact in due)
    lasting = {number for number, each in parcels.items() if lost(each.types)}
    warned = {fact[1] for fact in alerts}
    median_s = float(np.median(list(leads.values()))) / NS_PER["s"] if leads else 0.0
    return Score(
        claims=(
            Claim(
                f"Each fact that the promises make certain is emitted with the event that makes it "
                f"certain, never earlier, never later: {len(due)} times.",
                due.keys() == results.keys(),
                f"{len(due.keys() - results.keys())} are missing, "
                f"{len(results.keys() - due.keys())} are false; {len(results) - len(sure)} are "
                "emitted as uncertain",
            ),
            Claim(
                f"Every alert comes before its pattern is complete, half of them more than "
                f"{number(round(median_s, 1))} s before: {len(leads)}.",
                bool(leads) and min(leads.values()) > 0,
                f"the latest {number(round(min(leads.values(), default=0) / NS_PER['s'], 2))} s "
                "before",
            ),
            Claim(
                f"An alert came for all {len(lasting)} parcels that were lost, as the pattern "
                "without a rule finds them afterwards.",
                lasting <= warned and lasting == found.complete_ns.keys(),
                f"{len(lasting - warned)} had none; afterwards {len(found.complete_ns)} are found",
            ),
        ),
        tables=(_certainties(parcels, due, found, leads), _breaks(results)),
        facts={
            "parcels": len(parcels),
            "emitted": dict(Counter(fact[0] for fact in results)),
            "lead_s_p50": median_s,
            "alerts_before_shipping": unshipped,
            "true_matches": [
                {"query": SEEN, "at_ref_ns": parcels[each].at_ns[-1]} for each in sorted(lasting)
            ],
        },
        charts=_charts(parcels, due, found, leads),
        timelines=(_picture(parcels, due, found),),
        tiles=(
            Tile("known before the loss, median", median_s * NS_PER["s"],
                 f"{number(round(median_s, 1))} s"),
            Tile("warned of before shipping", unshipped, f"{unshipped} of {len(alerts)}"),
            Tile("cleared on the way", _count(results, CLEARED),
                 f"{share(_count(results, CLEARED), len(parcels)):.0f} %"),
            Tile("broke the promise", _count(results, VIOLATION), str(_count(results, VIOLATION))),
        ),
    )  # fmt: skip


def _leads(found: ParcelFacts) -> dict[Fact, int]:
    """How long before the complete pattern each alert came [ns]."""
    return {
        fact: found.complete_ns[fact[1]] - int(result["at"])
        for fact, result in found.results.items()
        if fact[0] == ALERT and fact[1] in found.complete_ns
    }


def _so_far(parcels: Mapping[int, Parcel], due: Mapping[Fact, int], fact: Fact) -> Sequence[str]:
    return parcels[fact[1]].types[: due[fact] + 1]


def _count(results: Mapping[Fact, object], kind: str) -> int:
    return sum(fact[0] == kind for fact in results)


def _certainties(
    parcels: Mapping[int, Parcel],
    due: Mapping[Fact, int],
    found: ParcelFacts,
    leads: Mapping[Fact, int],
) -> Table:
    by: dict[tuple[str, str], list[Fact]] = {}
    for fact in found.results:
        if fact in due:
            by.setdefault((fact[0], _so_far(parcels, due, fact)[-1]), []).append(fact)
    rows = []
    for (kind, event), facts in sorted(by.items()):
        spans = [leads[fact] / NS_PER["s"] for fact in facts if fact in leads]
        few, many = np.quantile(spans, (0.0, 0.5)) if spans else (None, None)
        limits = [None if each is None else round(float(each), 2) for each in (few, many)]
        rows.append((kind, event, len(facts), *limits))
    return Table(
        "What became certain, and with which event",
        ("fact", "with", "parcels", "least time before completion [s]", "median [s]"),
        tuple(rows),
        "An alert: every continuation ends in a loss; cleared: none does; a violation: an event "
        "that the promises do not allow. The same pattern without a rule gives the time of "
        "completion.",
    )


def _breaks(results: Mapping[Fact, Mapping[str, object]]) -> Table:
    found = Counter(
        (str(result["type"]), str(result["allowed"]))
        for fact, result in results.items()
        if fact[0] == VIOLATION
    )
    return Table(
        "Broken promises",
        ("event", "instead of", "parcels"),
        tuple((*pair, n) for pair, n in found.most_common()),
        "From there on the pattern itself is matched for the parcel.",
    )


def _charts(
    parcels: Mapping[int, Parcel],
    due: Mapping[Fact, int],
    found: ParcelFacts,
    leads: Mapping[Fact, int],
) -> tuple[Chart, ...]:
    first_ns = min((int(found.results[fact]["at"]) for fact in leads), default=0)
    by: dict[str, list[tuple[float, float]]] = {}
    for fact, lead in leads.items():
        if fact in due:
            at_s = (int(found.results[fact]["at"]) - first_ns) / NS_PER["s"]
            by.setdefault(_so_far(parcels, due, fact)[-1], []).append((at_s, lead / NS_PER["s"]))
    series = [
        Series(
            f"certain since {event}", tuple(at for at, _ in points),
            tuple(lead for _, lead in points), ("",) * len(points),
        )
        for event, points in sorted(by.items())
    ]  # fmt: skip
    return (
        Chart(
            "How long before the loss the alert came",
            "A point per alert: its time, and how long after it the parcel was destroyed. An "
            "opened parcel is known to be lost before it is shipped.",
            "alert, since the first one [s]",
            "until the pattern is complete [s]",
            tuple(series),
        ),
    )


def _picture(
    parcels: Mapping[int, Parcel], due: Mapping[Fact, int], found: ParcelFacts
) -> Timeline:
    """The first parcels of each kind: until it was certain, and from then on."""
    chosen: dict[tuple[str, str], list[Fact]] = {}
    for fact in sorted(
        (f for f in found.results if f in due), key=lambda f: int(found.results[f]["at"])
    ):
        ended = fact[0] != ALERT or fact[1] in found.complete_ns
        if ended:
            chosen.setdefault((fact[0], _so_far(parcels, due, fact)[-1]), []).append(fact)
    bars: list[Bar] = []
    for (kind, event), facts in sorted(chosen.items(), key=lambda item: _KINDS.index(item[0][0])):
        for fact in facts[:_FACTS_MAX]:
            each, at = parcels[fact[1]], int(found.results[fact]["at"])
            end = (
                found.complete_ns.get(fact[1], each.at_ns[-1]) if kind == ALERT else each.at_ns[-1]
            )
            lane = f"{event.lower()}: parcel {each.number}"
            after = {ALERT: _CERTAIN, CLEARED: _SAFE, VIOLATION: _BROKEN}[kind]
            bars += [
                Bar(lane, _OPEN, each.at_ns[0], at, "from " + " ".join(each.types[:1])),
                Bar(lane, after, at, max(end, at), f"{WASTE}: {kind} with {event}", kind == ALERT),
            ]
    return Timeline(
        "Parcels: until it is certain, and from then on",
        "One line per parcel. The first bar ends at the event named on the left, which makes the "
        "parcel's fate certain; the second ends at the loss, as the pattern without a rule finds "
        "it, or at the parcel's last event.",
        tuple(bars),
    )
