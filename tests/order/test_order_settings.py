"""The short form of every order: what it means, and what is said of a wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.order.registry import parse_order

S = 10**9
RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("kslack-chain:1ms,2s", {"ks_ns": (10**6, 2 * S)}),
    ("kslack-chain:[5, 7,7]", {"ks_ns": (5, 7, 7)}),
    ("kslack-chain", {"ks_ns": (S // 2,)}),
    ("kslack-chain:3,late=drop", {"ks_ns": (3,), "late": "drop"}),
    ("kslack-chain:error=0.2,0.05,late=drop", {
        "ks_ns": (), "late": "drop",
        "qualities": tuple(parse_order(f"aq-kslack:error={e},late=drop") for e in (0.2, 0.05)),
    }),
    ("ldop", {"factor_low_milli": 1000, "factor_high_milli": 1000}),
    ("ldop:0.5..1.25,window=2s,late=drop,time=ts",
     {"factor_low_milli": 500, "factor_high_milli": 1250, "window_ns": 2 * S, "late": "drop",
      "time": "ts"}),
    ("aq-kslack:error=0.01,window=10s,agg=sum,attr=attrs.v,kd=0.25,late=drop",
     {"error_ppm": 10_000, "confidence_ppm": 950_000, "horizon_ppm": 999_000, "kd_milli": 250,
      "window_ns": 10 * S, "slide_ns": None, "agg": "sum", "attr": "v", "late": "drop"}),
    ("aq-kslack:error=0.01,slide=2,window=3", {"slide_ns": 2, "window_ns": 3}),
    ("none", {"time": "ref", "wait_ns": S}),
    ("none:wait=5ms", {"time": "ref", "wait_ns": 5_000_000}),
]  # fmt: skip
WRONG = [
    ("kslack", "kslack needs its slack, as in kslack:2s"),
    ("kslack:late=pass", "kslack needs its slack"),
    ("kslack:2,3", "'3' is not key=value"),
    ("kslack:-2", "-2"),
    ("kslack:99999d", "at most"),
    ("mp-kslack:k=3", "unknown key 'k'; known are late, time"),
    ("mp-kslack:time=x", "time=x: use ref or ts"),
    ("mp-kslack:duplicates=keep", "duplicates=keep: use drop or pass"),
    ("none:late=pass", "unknown key 'late'; known are time"),
    ("none:wait=soon", "wait"),
    ("sequence:sources=0", "sources=0: use a whole number from 1"),
    ("kslack-chain:5,3", "ascending"),
    ("kslack-chain:5,-3", "-3"),
    ("kslack-chain:99999d", "at most"),
    ("kslack-chain:5,error=0.1", "give slacks or errors, not both: kslack-chain:100ms,1s or "),
    ("kslack-chain:error=0.1,5", "error=5: must be at least 0 and below 1"),
    ("kslack-chain:error=0.1,k=3", "unknown key 'k'; known are error, confidence, window"),
    ("kslack-chain:5,window=3", "unknown key 'window'; known are ks, late, time"),
    ("kslack-chain:5,k=3", "unknown key 'k'; known are ks, late, time"),
    ("ldop:-1", "factor=-1: write a number such as 1.5"),
    ("ldop:1.5.2", "factor=1.5.2"),
    ("ldop:2..1", "factor=2..1: the lower end comes first"),
    ("ldop:1001", "factor=1001: at most 1000"),
    ("ldop:1.2345", "at most 3 decimals"),
    ("ldop:window=0", "window=0: at least 1 ns"),
    ("ldop:window=99999d", "window=99999d: at least 1 ns and at most 9 years"),
    ("ldop:k=3", "unknown key 'k'; known are factor, window, late, time"),
    ("ldop:late=maybe", "late=maybe: use pass or drop"),
    ("aq-kslack", "aq-kslack needs the relative error allowed, as in aq-kslack:error=0.05"),
    ("aq-kslack:error=0", "error=0: must be above 0"),
    ("aq-kslack:error=1", "error=1: must be at least 0 and below 1"),
    ("aq-kslack:error=0.1,confidence=0.4", "confidence=0.4: must be at least 0.5"),
    ("aq-kslack:error=0.1,agg=max", "agg=max: use count or sum or avg"),
    ("aq-kslack:error=0.1,agg=avg", "sum and avg need their attribute"),
    ("aq-kslack:error=0.1,attr=v", "count has none: agg=avg,attr=NAME"),
    ("aq-kslack:error=0.1,window=0", "window=0: at least 1 ns"),
    ("aq-kslack:error=0.1,slide=-1", "-1"),
    ("aq-kslack:error=0.1,kp=x", "kp=x: write a number such as 1.5"),
    ("aq-kslack:error=0.1,kd=101", "kd=101: at most 100"),
    ("aq-kslack:error=0.1,horizon=1.2", "horizon=1.2: must be at least 0 and below 1"),
    ("aq-kslack:error=0.1,late=x", "late=x: use pass or drop"),
    ("aq-kslack:k=3", "unknown key 'k'; known are error, confidence, window"),
]


@pytest.mark.parametrize(("text", "meant"), RIGHT)
def test_the_short_form_says_what_it_means(text: str, meant: dict[str, Any]) -> None:
    order = parse_order(text)
    assert {name: getattr(order, name) for name in meant} == meant


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_wrong_settings_are_named(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_order(text)
    assert said in str(error.value)
