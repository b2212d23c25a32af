"""A supply chain made up: one trace per item, and queries of which a given share of them matches.

L10 takes 5 GB of data after Huang and Gupta's model, in which three fifths of the types are
optional or exclusive; so it is here, with numbers of our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

FLOW: Final = (
    "ORDERED, SUPPLIER, RECALL?, CUSTOMS?, INSPECTED?, RELABELLED?, REPACKED?, WAREHOUSE, "
    "(RETAIL | WHOLESALE | ONLINE), (PICKED, SCANNED?){1,4}, PACKED, INVOICED, LABEL_CENTER, "
    "(TRUCK | TRAIN | SHIP), ARRIVED, LOGISTICS, (STORE | SHELTER), (DELIVERED | RETURNED), CLOSED"
)
_OPTIONAL: Final = {
    "RECALL": 0.0, "CUSTOMS": 0.2, "INSPECTED": 0.4, "RELABELLED": 0.6, "REPACKED": 0.8,
}  # fmt: skip
"""How many of the items have it."""
_PICKS: Final = 4
_GRADES: Final = 100
SELECTIVITIES: Final = (0, 20, 40, 60, 80, 100)
"""Percent of the items that match."""
_REST: Final = ("WAREHOUSE", "PICKED", "LABEL_CENTER", "LOGISTICS")


def by_pattern() -> Mapping[int, str]:
    """Queries of one length, by the percentage of items that match: one step is optional."""
    asked = dict(zip(SELECTIVITIES, (*_OPTIONAL, "ORDERED"), strict=True))
    found = {}
    for percent, named in asked.items():
        begin = (named, "SUPPLIER") if named == "ORDERED" else ("SUPPLIER", named)
        found[percent] = _query((*begin, *_REST), "")
    return found


def by_predicate() -> Mapping[int, str]:
    """Queries whose pattern every item matches, and of which a condition leaves a percentage."""
    steps = ("ORDERED", "SUPPLIER", *_REST)
    return {p: _query(steps, f" WHERE s2.grade < {p * _GRADES // 100}") for p in SELECTIVITIES}


def _query(steps: tuple[str, ...], where: str) -> str:
    shown = ", ".join(f"{step} s{place}" for place, step in enumerate(steps))
    return f"EVENT SEQ({shown}){where} UNDER CONSTRAINT chain FOR TRACE BY item AS {FLOW}"


@dataclass(frozen=True, slots=True)
class Items:
    """``types``: of all events, trace after trace, as places in ``names``; ``starts``: of traces,
    and the end. ``grade``: of each event.
    """

    names: tuple[str, ...]
    types: np.ndarray
    starts: np.ndarray
    grade: np.ndarray


def items(count: int, seed: int) -> Items:
    """So many traces that keep to ``FLOW``."""
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
    table = np.hstack([
        always("ORDERED"), always("SUPPLIER"), optional, always("WAREHOUSE"),
        one_of(("RETAIL", "WHOLESALE", "ONLINE")), *picks, always("PACKED"), always("INVOICED"),
        always("LABEL_CENTER"), one_of(("TRUCK", "TRAIN", "SHIP")), always("ARRIVED"),
        always("LOGISTICS"), one_of(("STORE", "SHELTER")), one_of(("DELIVERED", "RETURNED")),
        always("CLOSED"),
    ])  # fmt: skip
    there = table >= 0
    starts = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
    grade = rng.integers(0, _GRADES, int(starts[-1]))
    return Items(tuple(names), table[there].astype(np.int64), starts, grade)
