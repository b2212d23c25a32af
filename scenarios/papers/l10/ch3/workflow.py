"""A synthetic supply chain: one trace per item, and queries that a given share of them matches.

L10 takes 5 GB of data after Huang and Gupta's model, in which three fifths of the types are
optional or exclusive; so it is here, with numbers of our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

_BEGIN: Final = "ORDERED, SUPPLIER"
_CHOSEN: Final = "RECALL?, CUSTOMS?, INSPECTED?, RELABELLED?, REPACKED?"
_MIDDLE: Final = (
    "WAREHOUSE, (RETAIL | WHOLESALE | ONLINE), (PICKED, SCANNED?){1,4}, PACKED, INVOICED, "
    "LABEL_CENTER"
)
_END: Final = (
    "(TRUCK | TRAIN | SHIP), ARRIVED, LOGISTICS, (STORE | SHELTER), (DELIVERED | RETURNED), CLOSED"
)
EARLY: Final = "behind SUPPLIER"
MIDDLE: Final = "behind LABEL_CENTER"
FLOWS: Final = {
    EARLY: ", ".join((_BEGIN, _CHOSEN, _MIDDLE, _END)),
    MIDDLE: ", ".join((_BEGIN, _MIDDLE, _CHOSEN, _END)),
}
"""Flows by the place of the step that decides whether an item matches; ours is the first."""
_OPTIONAL: Final = {
    "RECALL": 0.0, "CUSTOMS": 0.2, "INSPECTED": 0.4, "RELABELLED": 0.6, "REPACKED": 0.8,
}  # fmt: skip
"""Share of the items that have each optional event."""
_PICKS: Final = 4
_GRADES: Final = 100
SELECTIVITIES: Final = (0, 20, 40, 60, 80, 100)
"""Percent of the items that match."""
_REST: Final = ("WAREHOUSE", "PICKED", "LABEL_CENTER", "LOGISTICS")


def by_pattern(where: str = EARLY) -> Mapping[int, str]:
    """Queries of one length, by the percentage of items that match: one step is optional."""
    conditions = dict(zip(SELECTIVITIES, (*_OPTIONAL, "ORDERED"), strict=True))
    found = {}
    for percent, named in conditions.items():
        steps = ["SUPPLIER", *_REST]
        if named == "ORDERED":
            steps.insert(0, named)
        else:
            steps.insert(1 if where == EARLY else 1 + _REST.index("LABEL_CENTER") + 1, named)
        found[percent] = _query(steps, "", where)
    return found


def by_predicate(where: str = EARLY) -> Mapping[int, str]:
    """Queries whose pattern every item matches; a condition leaves a percentage of them."""
    steps = ["ORDERED", "SUPPLIER", *_REST]
    of = 2 if where == EARLY else 2 + _REST.index("LABEL_CENTER")
    return {
        p: _query(steps, f" WHERE s{of}.grade < {p * _GRADES // 100}", where) for p in SELECTIVITIES
    }


def _query(steps: list[str], condition: str, where: str) -> str:
    steps_text = ", ".join(f"{step} s{place}" for place, step in enumerate(steps))
    flow = FLOWS[where]
    return f"EVENT SEQ({steps_text}){condition} UNDER CONSTRAINT chain FOR TRACE BY item AS {flow}"


@dataclass(frozen=True, slots=True)
class WorkflowTraces:
    """``types``: types of all events, trace after trace, as indexes into ``names``; ``starts``:
    start of each trace, then the end of the last. ``grade``: grade of each event.
    """

    names: tuple[str, ...]
    types: np.ndarray
    starts: np.ndarray
    grade: np.ndarray


def items(count: int, seed: int, where: str = EARLY) -> WorkflowTraces:
    """So many traces that keep to the flow of ``FLOWS``."""
    rng = np.random.default_rng(seed)
    names: list[str] = []

    def always(name: str) -> np.ndarray:
        return one_of((name,))

    def one_of(options: tuple[str, ...]) -> np.ndarray:
        for name in options:
            if name not in names:
                names.append(name)
        of = np.array([names.index(name) for name in options])
        return of[rng.integers(0, len(of), count)][:, None]

    def maybe(name: str, share: float) -> np.ndarray:
        return np.where(rng.random((count, 1)) < share, always(name), -1)

    optional = np.hstack([maybe(name, share) for name, share in _OPTIONAL.items()])
    rounds = rng.integers(1, _PICKS + 1, (count, 1))
    picks = []
    for n in range(_PICKS):
        picks += [
            np.where(rounds > n, always("PICKED"), -1),
            np.where(rounds > n, maybe("SCANNED", 0.5), -1),
        ]
    middle = [
        always("WAREHOUSE"), one_of(("RETAIL", "WHOLESALE", "ONLINE")), *picks, always("PACKED"),
        always("INVOICED"), always("LABEL_CENTER"),
    ]  # fmt: skip
    table = np.hstack([
        always("ORDERED"), always("SUPPLIER"),
        *((optional, *middle) if where == EARLY else (*middle, optional)),
        one_of(("TRUCK", "TRAIN", "SHIP")), always("ARRIVED"),
        always("LOGISTICS"), one_of(("STORE", "SHELTER")), one_of(("DELIVERED", "RETURNED")),
        always("CLOSED"),
    ])  # fmt: skip
    there = table >= 0
    starts = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
    grade = rng.integers(0, _GRADES, int(starts[-1]))
    return WorkflowTraces(tuple(names), table[there].astype(np.int64), starts, grade)
