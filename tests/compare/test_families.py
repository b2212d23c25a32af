"""Which orders ``compare`` tries when nobody names them, and the best of each kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.engine.apps.compare import Measures, compare
from slackwater.engine.apps.compare.comparison import best_of_each, default_sweep, families
from slackwater.engine.apps.compare.measure import Arrivals
from slackwater.engine.order.registry import ORDERS, parse_order
from tests.compare.test_compare import measures

MS = 10**6
MakeLog = Callable[..., Path]


def arrivals(lateness_ms: list[int]) -> Arrivals:
    late = np.sort(np.array(lateness_ms, np.int64) * MS)
    return Arrivals(1, 1, 10 * max(len(late), 1), 0, len(late), late)


def test_families_have_settings_of_the_measured_lateness() -> None:
    found = families(arrivals(list(range(1, 1001))))
    assert found[4] == [
        "kslack:500ms", "kslack:750ms", "kslack:900ms", "kslack:950ms", "kslack:980ms",
        "kslack:990ms", "kslack:995ms", "kslack:999ms", "kslack:1s",
    ]  # fmt: skip
    assert found[1][:3] == ["sequence", "sequence:latency=750ms", "sequence:latency=900ms"]
    assert found[1][-3:] == [
        "sequence:latency=2s", "sequence:timeout=quantile:0.9999,latency=1.1s",
        "sequence:timeout=quantile:0.9999,latency=2s",
    ]  # fmt: skip
    assert found[2][:2] == ["sequence:timeout=r19", "sequence:timeout=r19,latency=750ms"]
    kinds = {order.partition(":")[0] for family in found for order in family}
    assert kinds == set(ORDERS) - {"kslack-chain"}
    short = families(arrivals([1, 2, 5, 9]))
    assert short[1][:4] == [f"sequence:latency={k}ms" for k in (2, 5, 9, 9.9)]
    assert short[1][-3] == "sequence"
    for order in itertools.chain(*found, *short):
        parse_order(order)


def test_without_disorder_no_slack_is_tried() -> None:
    found = families(arrivals([]))
    assert found[:5] == [["none"], ["sequence"], ["sequence:timeout=r19"], ["mp-kslack"], found[4]]
    assert found[5] == ["ldop"]
    assert default_sweep(arrivals([])) == []


@pytest.mark.parametrize("enough", range(11))
def test_of_a_family_the_least_patient_that_is_complete_is_found_in_few_passes(enough: int) -> None:
    asked: list[str] = []
    family = families(arrivals(list(range(1, 1001))))[4]
    assert len(family) == 9

    def of(order: str) -> Measures:
        asked.append(order)
        place = family.index(order) if order in family else 0
        return measures(order, 1000 if place >= enough else 990, 10)

    found = best_of_each(arrivals(list(range(1, 1001))), 0.999, of)
    (best,) = (each.order for each in found if each.order.startswith("kslack"))
    assert best == family[min(enough, 8)]
    assert len({order for order in asked if order in family}) <= 5
    assert found[0].order == "none"
    assert "sequence" in [each.order for each in found]


def _phones(seed: int, seconds: int = 600) -> list[dict[str, Any]]:
    """Phones that each send every 500 ms, one message after another; two are stuck once."""
    rng = np.random.default_rng(seed)
    records: list[dict[str, Any]] = []
    for phone in range(8):
        at, offset = 0, int(rng.integers(0, 500 * MS))
        stuck = {seconds + 100 * phone} if phone < 2 else set()
        for seq in range(2 * seconds):
            ts = offset + seq * 500 * MS
            delay = float(rng.gamma(4, 25)) + (2_700 if seq in stuck else 0)
            at = max(at + MS, ts + round(delay * MS))  # numbers arrive in order
            records.append({"source": f"p{phone}", "seq": seq, "ts": ts, "arrival": at})
    return sorted(records, key=lambda record: record["arrival"])


def test_sessions_of_phones_get_the_patient_sequence_not_a_long_slack(
    make_log: MakeLog,
) -> None:
    found = compare(make_log(_phones(3)), complete=0.9995)
    by_name = {each.order: each for each in found.orders}
    assert found.choice.suits is not None
    assert found.choice.suits.startswith("sequence:")
    assert "latency=" in found.choice.suits
    best = by_name[found.choice.suits]
    assert best.completeness >= 0.9995
    assert by_name["sequence"].completeness < 0.9995  # the usual latency is too short here
    (slack,) = (each for name, each in by_name.items() if name.startswith("kslack"))
    (ldop,) = (each for name, each in by_name.items() if name.startswith("ldop"))
    assert 2 * best.hold.p99_ns < min(slack.hold.p99_ns, ldop.hold.p99_ns)
    assert found.tried > len(found.orders)


def test_the_measured_sweep_goes_from_no_slack_to_the_largest_lateness() -> None:
    swept = default_sweep(arrivals([1, 2, 5, 90]))
    assert swept == ["kslack:0ns", "kslack:1ms", "kslack:2ms", "kslack:5ms", "kslack:90ms"]
