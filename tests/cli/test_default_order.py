"""Events without numbers go by their time, unless an order is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw

TIMES = (40, 10, 30, 20, 60, 50)
COUNT = "SELECT count(*) AS n WINDOW TUMBLING 20"


def _write(here: Path, *, numbered: bool = False, **more: Any) -> None:
    rows = [
        {"ts": ts, "v": ts, "source": "ab"[place % 2]} | ({"seq": place // 2} if numbered else {})
        | more for place, ts in enumerate(TIMES)
    ]  # fmt: skip
    (here / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("source", [{}, {"source": "one"}])
def test_without_numbers_events_go_by_time(
    source: dict[str, str], here: Path, cli: Callable[..., Any]
) -> None:
    _write(here, **source)
    ran = cli("order", "--input", "t.jsonl")
    assert [each["ts"] for each in ran.lines] == sorted(TIMES)
    assert not any(each["late"] for each in ran.lines)
    assert "no numbers, so they go by their time (--order kslack:30ns)" in ran.err
    assert "cannot put these in their place" not in ran.err
    in_python = [each["ts"] for each in sw.order(here / "t.jsonl", clock="exact")]
    assert in_python == sorted(TIMES)
    ran = cli("query", COUNT, "--input", "t.jsonl", "--quiet", "--clock", "exact")
    counts = {each["window"]["start"]: each["value"]["n"] for each in ran.lines}
    assert counts == {0: 1, 20: 2, 40: 2, 60: 1}
    assert all(each["op"] == "+" for each in ran.lines), "each window once, and right at once"


def test_an_order_that_is_named_stays(here: Path, cli: Callable[..., Any]) -> None:
    _write(here, source="one")
    ran = cli("order", "--input", "t.jsonl", "--order", "sequence")
    assert [each["ts"] for each in ran.lines] == list(TIMES)
    assert "go by their time" not in ran.err


def test_numbers_say_the_order(here: Path, cli: Callable[..., Any]) -> None:
    _write(here, numbered=True)
    by_default = cli("order", "--input", "t.jsonl")
    assert by_default.out == cli("order", "--input", "t.jsonl", "--order", "sequence").out
    assert "go by their time" not in by_default.err


def test_the_order_of_time_is_that_of_corrected_clocks(here: Path, cli: Callable[..., Any]) -> None:
    (here / "t.jsonl").write_text('{"ts": 1}\n{"ts": 2}\n')
    assert "go by their time" not in cli("order", "--input", "t.jsonl").err
    _write(here)
    ran = cli("order", "--input", "t.jsonl", "--clock", "a=-10s±1ns", "--clock", "b=10s±1ns")
    assert "go by their time (--order kslack:" in ran.err
    assert [each["ts"] for each in ran.lines] == [30, 40, 60, 10, 20, 50]  # of a, then of b
    (here / "t.jsonl").write_text('{"ts": 1, "source": "a"}\n{"ts": 2, "source": "b"}\n')
    assert "go by their time" in cli("order", "--input", "t.jsonl", "--clock", "a=5ns±1ns").err


def test_partners_of_a_clock_that_is_far_off_are_found(here: Path, cli: Callable[..., Any]) -> None:
    """Two files whose rows are in the order of their stamps; one clock is 90 s fast."""
    for name, off in (("door", 0), ("badge", 90)):
        rows = [f"{1_772_352_000 + 20 * n + off},r{n % 4}" for n in range(30)]
        (here / f"{name}.csv").write_text("\n".join(["ts,room", *rows]) + "\n")
    ran = cli(
        "query", "SELECT d.room FROM door d ANTI JOIN badge b ON d.room = b.room WITHIN 2 s",
        *("--input", "door.csv", "--input", "badge.csv", "--time-unit", "s"),
        *("--source-from", "name", "--stream-from", "name", "--clock", "badge=-90s±1s"),
    )  # fmt: skip
    assert (ran.code, ran.lines) == (0, []), ran.err
    assert "too late" not in ran.err


def test_intervals_and_promises_stay_in_sequence(here: Path, cli: Callable[..., Any]) -> None:
    late = {"ts": 1}
    for first in ({"ts": 5, "te": 9}, {"ts": 5}, {"ts": 5, "type": "A", "id": 1, "kind": "ibp"}):
        rows = [first, late] + [{"kind": "pog", "source": "s0", "ts": 6}] * ("te" not in first)
        (here / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        ran = cli("order", "--input", "t.jsonl")
        assert ran.code == 0, ran.err
        assert "go by their time" not in ran.err


def test_case_06_imu_1980(here: Path, cli: Callable[..., Any]) -> None:
    """No slack spans 45 years: the events stay as they stand, and what is far back is named."""
    times = [f"2025-02-26T10:14:1{n}Z" for n in range(5)] + ["1980-01-06T00:00:45Z"]
    (here / "t.csv").write_text("\n".join(["ts,v", *(f"{t},1" for t in times)]) + "\n")
    ran = cli("query", "SELECT count(*) AS n WINDOW TUMBLING 1 min", "--input", "t.csv")
    assert ran.code == 0
    assert "go by their time" not in ran.err
    assert "1 of 6 events lie before one of their source" in ran.err
