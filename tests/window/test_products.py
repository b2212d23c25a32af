"""Every kind of window with every clause, option and order: as plain lists of events say."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.chain import Chain, ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.window.settings import parse_window
from tests.order.conftest import frame
from tests.window.plain import AGGREGATES, HAVING, OF_ONE_EVENT, STAGES, WHERE, Product

ERROR = 2
"""What clocks err by, if they do [ns]."""
KINDS = [
    ("TUMBLING", 8, 8), ("SLIDING", 9, 3), ("SLIDING", 10, 4), ("ROWS", 3, 2), ("ROWS", 2, 2),
    ("SESSION", 6, 6),
]  # fmt: skip
ORDERS = ("none", "kslack:5", "kslack:200", "sequence:timeout=fixed:10,late=pass")
BARRIERS = (None, "bounded:7", "bounded:300", "hold:9", "punctuation")
EMITS = ("", "EMIT ON CLOSE", "EMIT EARLY EVERY 5", "EMIT ON CHANGE")
DRIFTS = ("", "EACH", "TOGETHER")
Run = tuple[Product, list[dict[str, Any]], bool, str, str | None, list[int]]


@st.composite
def products(draw: st.DrawFn) -> Product:
    kind = draw(st.sampled_from(KINDS))
    on_clock = kind[0] in {"TUMBLING", "SLIDING"}
    group = draw(st.sampled_from([(), ("g",), ("h",), ("g", "h")]))
    drift = draw(st.sampled_from(DRIFTS)) if on_clock else ""
    ranked = on_clock and bool(group) and "h" not in group
    asked = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), max_size=4, unique=True))
    return Product(
        kind, group, tuple(n for n in asked if drift != "TOGETHER" or n not in OF_ONE_EVENT),
        draw(st.sampled_from(sorted(WHERE))), draw(st.sampled_from(sorted(HAVING))),
        draw(st.sampled_from([None, 1, 2])) if ranked else None, drift,
        draw(st.sampled_from(EMITS)),
    )  # fmt: skip


@st.composite
def runs(draw: st.DrawFn) -> Run:
    product, n = draw(products()), draw(st.integers(1, 22))
    attribute = st.integers(-3, 3) | st.none()
    real = st.sampled_from([-1.5, -0.25, 0.5, 2.0, 3.75]) | st.none()
    events = [
        {
            "n": number, "ts": draw(st.integers(20, 70)), "v": draw(attribute), "w": draw(real),
            "g": draw(st.integers(0, 2)), "h": draw(st.sampled_from(["a", "b", None])),
        }
        for number in range(n)
    ]  # fmt: skip
    cuts = draw(st.lists(st.integers(1, 25), max_size=4))
    return (
        product, events, draw(st.booleans()), draw(st.sampled_from(ORDERS)),
        draw(st.sampled_from(BARRIERS)), cuts,
    )  # fmt: skip


def told(run: Run, cuts: Sequence[int]) -> list[dict[str, Any]]:
    """All results of the chain, restored at each cut."""
    product, events, errs, order, barrier, _ = run
    sync = {"kind": "sync", "source": "s", "offset": 0, "delay": 2 * ERROR, "arrival": 1}
    records = [sync] * errs
    records += [
        {
            "source": "s", "seq": event["n"], "ts": event["ts"], "arrival": 100 + event["n"],
            "attrs": {name: event[name] for name in "vwgh" if event[name] is not None},
        }
        for event in events
    ]  # fmt: skip
    chosen = ChainSettings(
        parse_order(order), (query(product.text),), guards=Guards(None),
        barrier=None if barrier is None else parse_barrier(barrier),
        window=parse_window("horizon=600s"),
    )  # fmt: skip
    chain, found = Chain(chosen, "main"), []
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    for start, end in itertools.pairwise(borders):
        found += list(chain.process([frame(records[start:end])]).results[0])
        chain = Chain.restored(chosen, "main", chain.snapshot())
    return found + list(chain.finish().results[0])


def check(run: Run) -> None:
    """The net answers are the plain ones, and no cut changes what is told."""
    product, events, errs, *_, cuts = run
    found = told(run, ())
    assert told(run, cuts) == found
    net: Counter[str] = Counter()
    for result in found:
        content = json.dumps({**result, "op": "+", "at": 0}, sort_keys=True)
        net[content] += 1 if result["op"] == "+" else -1
        assert 0 <= net[content] <= (len(events) if product.kind[0] == "ROWS" else 1), result
    standing = [json.loads(content) for content in net.elements()]
    expected = product.answers(events, ERROR if errs else 0)
    mine = by_place((r["window"]["start"], r["window"]["end"], r) for r in standing)
    plain = by_place((r["start"], r["end"], r) for r in expected)
    assert {name: len(of) for name, of in mine.items()} == {
        name: len(of) for name, of in plain.items()
    }
    for name, of in mine.items():
        for result, other in zip(of, plain[name], strict=True):
            for field in {"value", *STAGES} & other.keys():
                assert result[field] == pytest.approx(other[field], abs=1e-9), (name, field)


def by_place(results: Iterable[tuple[int, int, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Results by window, stage and group, from (start, end, result). Windows of ROWS can have the
    same times, and even the same values: they stand in the order of what they say.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for start, end, result in results:
        place = json.dumps([start, end, result.get("drift"), result["key"]], sort_keys=True)
        found.setdefault(place, []).append(result)
    for of in found.values():
        of.sort(key=_said)
    return found


def _said(result: dict[str, Any]) -> list[tuple[str, bool, str, float]]:
    return [
        (name, v is None, v, 0.0) if isinstance(v, str) else (name, v is None, "", round(v or 0, 6))
        for name, v in sorted(result["value"].items())
    ]


ALIKE: Run = (
    Product(("ROWS", 2, 2), (), (), "", "", None, "", ""),
    [{"n": n, "ts": 20, "v": 0, "w": -1.5, "g": 0, "h": "a"} for n in range(4)],
    False, "none", None, [],
)  # fmt: skip
"""Two windows that say the same of the same time."""


@given(run=runs())
@example(run=ALIKE)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_final_answers_are_the_plain_ones_in_every_cut(run: Run) -> None:
    check(run)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@given(run=runs())
@settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_final_answers_of_very_many_products(run: Run) -> None:
    check(run)
