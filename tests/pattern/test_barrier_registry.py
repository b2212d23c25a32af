"""Short forms of barriers, and what REALTIME stands for."""

from __future__ import annotations

import pytest

from engine.barrier.registry import BarrierSettings, barrier_in_force, parse_barrier
from engine.errors import UserError


def test_realtime_chooses_unless_a_barrier_is_given() -> None:
    assert barrier_in_force(None, 1) == barrier_in_force(None, None) == BarrierSettings()
    assert barrier_in_force(None, 0) == BarrierSettings("punctuation")
    assert barrier_in_force(BarrierSettings("hold", 3), 0) == BarrierSettings("hold", 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("later", "use immediate, punctuation, bounded:K, hold:H, adaptive"),
        ("bounded", "needs its K, as in bounded:500ms"), ("hold:", "needs its H"),
        ("immediate:3", "takes no duration"), ("hold:3,sorted", "there is only ordered"),
        ("bounded:x", "not a duration"), ("bounded:99 d,ordered,ordered", "there is only ordered"),
        ("bounded:50000 d", "at most"),
    ],
)  # fmt: skip
def test_wrong_short_forms_are_told(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_barrier(text)
