"""A restart with a smaller incarnation in a log of others is told, not lost in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_events_of_an_earlier_start_are_told_with_the_remedy(
    cli: Callable[..., Any], trace: Callable[..., str]
) -> None:
    def record(incarnation: int, seq: int, ts: int) -> dict[str, Any]:
        return {"type": "A", "incarnation": incarnation, "seq": seq, "ts": ts, "arrival": ts}

    lines = [record(3, n, n) for n in range(5)] + [record(0, n, 10 + n) for n in range(4)]
    name = trace(*lines)
    ran = cli("order", "--input", name, "--guard", "off")
    assert ran.code == 0
    assert "4 of the late events are of an earlier start of their source" in ran.err
    assert "each needs a larger incarnation" in ran.err
    ran = cli("order", "--input", name, "--guard", "off", "--order", "kslack:1s")
    assert "earlier start" not in ran.err
    assert len(ran.out.splitlines()) == 9
