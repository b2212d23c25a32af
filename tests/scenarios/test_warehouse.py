"""The whole way of ``warehouse`` in this process: simulate, ask, score; and its truth by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import UserError
from engine.scenario import Score
from scenarios.intervals import Endpoints, Interval, Readings, bands_of, pairs, stays_of
from scenarios.warehouse import Warehouse

SMALL = {"duration": "6 min", "zones": "1", "pallets": "40", "seed": "3"}


def test_every_claim_holds(run: Callable[..., Score], tmp_path: Path) -> None:
    score = run(Warehouse(), tmp_path, SMALL, tmp_path)
    assert [claim.text for claim in score.claims if not claim.holds] == []
    assert score.facts["bytes"] * 5 < score.facts["bytes_of_readings"]
    assert len(score.facts["true_matches"]) >= 2
    assert any(bar.strong for timeline in score.timelines for bar in timeline.bars)


def test_golden_of_spec_4_10_by_definition() -> None:
    times = np.arange(9, dtype=np.int64) * 2
    values = np.array([55, 70, 95, 80, 110, 120, 90, 60, 30], float)
    found = bands_of(
        Readings("s", "shelf", times, times, values), ["LOW", "MEDIUM", "HIGH"], [50, 100]
    )
    assert [(each.type, each.start_ns, each.end_ns) for each in found] == [
        ("MEDIUM", 0, 8), ("HIGH", 8, 12), ("MEDIUM", 12, 16), ("LOW", 16, 16),
    ]  # fmt: skip


def test_stays_by_definition() -> None:
    times = np.array([0, 2, 5, 20, 21], np.int64)
    found = stays_of(Readings("s", "tag", times, times, times), "STAY", 3)
    assert [(each.start_ns, each.end_ns) for each in found] == [(0, 5), (20, 21)]


def test_pairs_are_of_one_thing_within_the_window() -> None:
    def interval(name: str, thing: str, ts: int, te: int) -> Interval:
        return Interval(name, thing, ts, te, ("s", name, ts, te))

    those = [
        interval("HIGH", "a", 0, 10), interval("STAY", "a", 3, 6), interval("STAY", "b", 3, 6),
        interval("STAY", "a", 5, 10), interval("HIGH", "a", 2, 90),
    ]  # fmt: skip
    high, stay = (Endpoints.of(those, name, str) for name in ("HIGH", "STAY"))
    found = pairs(high, stay, 20, lambda ts, te, ts2, te2: (ts < ts2) & (te2 < te))
    assert found == {(("s", "HIGH", 0, 10), ("s", "STAY", 3, 6))}


@pytest.mark.parametrize(
    ("option", "said"),
    [("zones=0", "zones"), ("duration=2d", "duration"), ("pallets=-1", "pallets")],
)
def test_options_out_of_range_are_named(tmp_path: Path, option: str, said: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(UserError, match=f"--set {said}="):
        Warehouse().make(tmp_path, {**SMALL, name: value}, tmp_path)
