"""Moving statistics over soccer: an order-sensitive task at rates that K18 did not try.

K18 III.B: in a moving average the order between windows counts. Here each sensor's last 50 speeds,
of sensors that send 200 or 2,000 times a second.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from slackwater.grouping import Dataflow, Grouping, TupleMap
from slackwater.paper import Finding, PaperRun
from slackwater.scenarios.papers.curves import ascending, drawn, tabled
from slackwater.scenarios.papers.r19.football import FootballEvents, football
from slackwater.scenarios.papers.verdicts import judged, listed, turns

EVENTS: Final = 60_000
READINGS: Final = 50
SHARES: Final = (0.0001, 0.001, 0.01, 0.1)
LATE_MS: Final = (10, 100, 1000)
_BATCH: Final = 4096


def _statistics(group: np.ndarray, out: Any) -> bool:
    """Mean, least and largest speed [um/s]."""
    total, least, most = 0, group[0].v, group[0].v
    for place in range(len(group)):
        total += group[place].v
        least = min(least, group[place].v)
        most = max(most, group[place].v)
    out.sid = group[0].sid
    out.mean = total / len(group)
    out.least = least
    out.most = most
    return True


FLOW: Final = Dataflow(
    (
        Grouping(
            READINGS, key="sid",
            map=TupleMap(_statistics, {"sid": int, "mean": float, "least": int, "most": int}),
        ),
    ),
    {"sid": int, "v": int},
)  # fmt: skip
"""Takes records (sid, v)."""


def sent(events: FootballEvents, order: np.ndarray) -> tuple[np.ndarray, float]:
    """The items valid in the end, and items at the barrier per valid item; events in ``order``."""
    run = FLOW.start()
    items = np.empty(len(order), run.item)
    items["sid"], items["v"] = events.attributes["sid"], events.attributes["v_abs"]
    for start in range(0, len(order), _BATCH):
        part = order[start : start + _BATCH]
        run.send(events.ts[part], items[part])
    return run.watermark(int(events.ts[-1]) + 1).payload, run.overhead


def moving(run: PaperRun) -> Finding:
    """Items per valid one, by how many events are late and how late."""
    chance = np.random.default_rng(run.seed)
    events = football(max(2_000, round(run.scale * EVENTS)), chance)
    in_order, least = sent(events, np.arange(len(events)))
    curves: dict[str, list[float]] = {}
    other: list[str] = []
    with run.watched("disorder") as advanced:
        for late_ms in LATE_MS:
            curve = curves[f"up to {late_ms} ms late"] = []
            for share in SHARES:
                late = np.where(chance.random(len(events)) < share,
                                chance.integers(0, late_ms * 10**6, len(events)), 0)  # fmt: skip
                order = np.argsort(events.ts + late, kind="stable")
                found, ratio = sent(events, order)
                if not np.array_equal(found, in_order):
                    other.append(f"{share:.2%} up to {late_ms} ms late")
                curve.append(ratio)
                advanced(len(events))
    cheap = [f"{share:.2%}" for share, *of in zip(SHARES, *curves.values(), strict=True)
             if max(of) < 1.1]  # fmt: skip
    headings = [f"{share:.2%} late" for share in SHARES]
    claims = (
        judged("Any disorder gives what order gives.", not other,
               f"{len(in_order):,} statistics, equal in {len(SHARES) * len(LATE_MS)} disorders",
               "any stateful operation", f"other statistics with {', '.join(other)}.",
               rests="how many events are late, and by how much: none of those tried flips it."),
        judged("The performance depends on how often reorderings are observed; in order there is "
               "almost no overhead.", least == 1 and all(map(ascending, curves.values())),
               f"{least - 1:.1%} in order; "
               + listed(f"{of[-1]:.2f}" for of in curves.values())
               + f" items per valid one with {SHARES[-1]:.0%} late", "depends on it",
               f"{least:.3f} in order; "
               + " ".join(f"{name}: {turns(headings, of, 'items')}"
                          for name, of in curves.items() if not ascending(of)),
               also="Under 10 % with "
               + (f"at most {cheap[-1]} of the events late" if cheap else "none of these shares")
               + f": a late event makes up to {READINGS} tuples of its sensor again.",
               rests="what almost none is, here 0, and how late events are: "
               f"{listed(map(str, LATE_MS))} ms; it flips where more late events cost no more."),
    )  # fmt: skip
    note = f"{len(events):,} events, {READINGS} readings of a sensor."
    return Finding(
        claims,
        (tabled("Items at the barrier per valid one", "disorder", headings, curves, note),),
        (drawn("soccer", "Items at the barrier per valid one", note, curves,
               [100 * share for share in SHARES], ("events late [%]", "ratio")),),
        {"shares": SHARES, "ratio": curves},
    )  # fmt: skip
