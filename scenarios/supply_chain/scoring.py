"""Compares what was said of parcels with what the promises make certain, and shows how early."""

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
from slackwater.scenarios.supply_chain.parcels import SEEN, WASTE, Fact, Parcel, Said, true_parcels
from slackwater.scenarios.supply_chain.promised import ALERT, CLEARED, VIOLATION, lost

_KINDS: Final = (ALERT, CLEARED, VIOLATION)
_SHOWN: Final = 4
"""Parcels of each kind in the picture."""
_OPEN, _CERTAIN, _SAFE, _BROKEN = (
    "nothing certain yet", "loss is certain", "no loss can come", "broke the promise",
)  # fmt: skip


def score_parcels(directory: Path) -> Score:
    """Claims, tables and pictures of the run in ``directory``.

    Raises:
        UserError: the pass left nothing behind.
    """
    parcels, said = true_parcels(directory), Said.read(directory)
    due = {fact: at for each in parcels.values() for fact, at in each.facts().items()}
    told, leads = said.told, _leads(said)
    sure = [fact for fact, result in told.items() if result["certainty"] == "confirmed"]
    alerts = [fact for fact in told if fact[0] == ALERT]
    unshipped = sum("SHIPPED" not in _so_far(parcels, due, fact) for fact in alerts if fact in due)
    lasting = {number for number, each in parcels.items() if lost(each.types)}
    warned = {fact[1] for fact in alerts}
    median_s = float(np.median(list(leads.values()))) / NS_PER["s"] if leads else 0.0
    return Score(
        claims=(
            Claim(
                f"What the promises make certain is emitted with the very event that makes it so, "
                f"never earlier, never later: {len(due)} times.",
                due.keys() == told.keys(),
                f"{len(due.keys() - told.keys())} are missing, "
                f"{len(told.keys() - due.keys())} are not so; {len(told) - len(sure)} are emitted "
                "as uncertain",
            ),
            Claim(
                f"Every alert comes before its pattern is complete, half of them more than "
                f"{number(round(median_s, 1))} s before: {len(leads)}.",
                bool(leads) and min(leads.values()) > 0,
                f"the latest {number(round(min(leads.values(), default=0) / NS_PER['s'], 2))} s "
                "before",
            ),
            Claim(
                f"All {len(lasting)} parcels that were lost had been warned of, as the pattern "
                "without a rule finds them afterwards.",
                lasting <= warned and lasting == said.complete_ns.keys(),
                f"{len(lasting - warned)} had not; afterwards {len(said.complete_ns)} are found",
            ),
        ),
        tables=(_certainties(parcels, due, said, leads), _breaks(told)),
        facts={
            "parcels": len(parcels),
            "told": dict(Counter(fact[0] for fact in told)),
            "lead_s_p50": median_s,
            "alerts_before_shipping": unshipped,
            "true_matches": [
                {"query": SEEN, "at_ref_ns": parcels[each].at_ns[-1]} for each in sorted(lasting)
            ],
        },
        charts=_charts(parcels, due, said, leads),
        timelines=(_picture(parcels, due, said),),
        tiles=(
            Tile("known before the loss, median", median_s * NS_PER["s"],
                 f"{number(round(median_s, 1))} s"),
            Tile("warned of before shipping", unshipped, f"{unshipped} of {len(alerts)}"),
            Tile("cleared on the way", _count(told, CLEARED),
                 f"{share(_count(told, CLEARED), len(parcels)):.0f} %"),
            Tile("broke the promise", _count(told, VIOLATION), str(_count(told, VIOLATION))),
        ),
    )  # fmt: skip


def _leads(said: Said) -> dict[Fact, int]:
    """By alert: how long before the pattern was found complete it came [ns]."""
    return {
        fact: said.complete_ns[fact[1]] - int(result["at"])
        for fact, result in said.told.items()
        if fact[0] == ALERT and fact[1] in said.complete_ns
    }


def _so_far(parcels: Mapping[int, Parcel], due: Mapping[Fact, int], fact: Fact) -> Sequence[str]:
    return parcels[fact[1]].types[: due[fact] + 1]


def _count(told: Mapping[Fact, object], kind: str) -> int:
    return sum(fact[0] == kind for fact in told)


def _certainties(
    parcels: Mapping[int, Parcel], due: Mapping[Fact, int], said: Said, leads: Mapping[Fact, int]
) -> Table:
    by: dict[tuple[str, str], list[Fact]] = {}
    for fact in said.told:
        if fact in due:
            by.setdefault((fact[0], _so_far(parcels, due, fact)[-1]), []).append(fact)
    rows = []
    for (kind, event), facts in sorted(by.items()):
        spans = [leads[fact] / NS_PER["s"] for fact in facts if fact in leads]
        few, many = np.quantile(spans, (0.0, 0.5)) if spans else (None, None)
        shown = [None if each is None else round(float(each), 2) for each in (few, many)]
        rows.append((kind, event, len(facts), *shown))
    return Table(
        "What became certain, and with which event",
        ("what", "with", "parcels", "at least so long before it was complete [s]", "median [s]"),
        tuple(rows),
        "An alert: every way to go on ends in a loss; cleared: none does; a violation: an event "
        "that the promises do not allow. When it is complete is what the same pattern without a "
        "rule says.",
    )


def _breaks(told: Mapping[Fact, Mapping[str, object]]) -> Table:
    found = Counter(
        (str(result["type"]), str(result["allowed"]))
        for fact, result in told.items()
        if fact[0] == VIOLATION
    )
    return Table(
        "Broken promises",
        ("what came", "instead of", "parcels"),
        tuple((*pair, n) for pair, n in found.most_common()),
        "From there on a parcel is watched for the pattern itself.",
    )


def _charts(
    parcels: Mapping[int, Parcel], due: Mapping[Fact, int], said: Said, leads: Mapping[Fact, int]
) -> tuple[Chart, ...]:
    first_ns = min((int(said.told[fact]["at"]) for fact in leads), default=0)
    by: dict[str, list[tuple[float, float]]] = {}
    for fact, lead in leads.items():
        if fact in due:
            at_s = (int(said.told[fact]["at"]) - first_ns) / NS_PER["s"]
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
            "A point per alert: when it came, and how long after it the parcel was destroyed. What "
            "was opened is known to be lost before it is shipped.",
            "alert, since the first one [s]",
            "until the pattern is complete [s]",
            tuple(series),
        ),
    )


def _picture(parcels: Mapping[int, Parcel], due: Mapping[Fact, int], said: Said) -> Timeline:
    """The first parcels of each kind: until it was certain, and from then on."""
    chosen: dict[tuple[str, str], list[Fact]] = {}
    for fact in sorted((f for f in said.told if f in due), key=lambda f: int(said.told[f]["at"])):
        ended = fact[0] != ALERT or fact[1] in said.complete_ns
        if ended:
            chosen.setdefault((fact[0], _so_far(parcels, due, fact)[-1]), []).append(fact)
    bars: list[Bar] = []
    for (kind, event), facts in sorted(chosen.items(), key=lambda item: _KINDS.index(item[0][0])):
        for fact in facts[:_SHOWN]:
            each, at = parcels[fact[1]], int(said.told[fact]["at"])
            end = said.complete_ns.get(fact[1], each.at_ns[-1]) if kind == ALERT else each.at_ns[-1]
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
