"""What ``query`` and ``order`` say of an input that lacks what the order or barrier needs."""

from __future__ import annotations

import random
from typing import Any

import pytest


def delayed(numbers: bool, n: int = 4_000) -> list[dict[str, Any]]:
    """Two sources whose events are delayed each on its own, so that half overtake others."""
    rng = random.Random(5)
    made = [
        {"source": "ab"[row % 2], "seq": row // 2, "ts": row * 10, "type": "A",
         "arrival": row * 10 + rng.randrange(200)}
        for row in range(n)
    ]  # fmt: skip
    made.sort(key=lambda record: record["arrival"])
    if not numbers:
        for record in made:
            del record["seq"]
    return made


ASKED = {
    "order": ("order",),
    "query": ("query", "SELECT count(*) FROM events WINDOW TUMBLING 1 s"),
}


@pytest.mark.parametrize("command", ASKED)
def test_a_recording_without_numbers_is_told_the_order_that_fits(
    cli: Any, trace: Any, command: str
) -> None:
    given = trace(*delayed(numbers=False))
    ran = cli(*ASKED[command], "--input", given, "--time-unit", "ms", "--quiet")
    (line,) = (line for line in ran.err.splitlines() if line.startswith("warning:"))
    assert "of 4,000 events lie before one of their source with a smaller number" in line
    assert "--order kslack:180ms" in line
    assert f"slackwater compare --input {given}" in line
    fits = cli(*ASKED[command], "--input", given, "--time-unit", "ms", "--order", "kslack:200ms")
    assert "warning" not in fits.err
    assert "late" not in fits.err


@pytest.mark.parametrize("command", ASKED)
def test_a_recording_with_numbers_is_not_warned_of(cli: Any, trace: Any, command: str) -> None:
    given = trace(*delayed(numbers=True))
    ran = cli(*ASKED[command], "--input", given, "--time-unit", "ms", "--quiet")
    assert (ran.code, ran.err) == (0, "")


def test_compare_says_why_no_sequence_suits(cli: Any, trace: Any) -> None:
    told = "events lie before one of their source with a smaller number"
    ran = cli("compare", "--input", trace(*delayed(numbers=False)), "--time-unit", "ms", "--quiet")
    assert "What suits: kslack:" in ran.out
    assert told in ran.out
    ran = cli("compare", "--input", trace(*delayed(numbers=True)), "--time-unit", "ms", "--quiet")
    assert told not in ran.out


PAIRS = "EVENT SEQ(A a, !C c, B b) WITHIN 9 ns"


def test_hold_counts_lines_where_there_are_no_arrivals_and_says_so(cli: Any, trace: Any) -> None:
    records = [{"type": "A", "ts": 1}, {"type": "B", "ts": 4}, {"type": "D", "ts": 5}]
    ran = cli("query", PAIRS, "--input", trace(*records), "--barrier", "hold:1us", "--quiet")
    assert ran.code == 0
    assert ran.err.startswith("warning: the input has no arrival times, line numbers stand for th")
    assert "barrier hold keeps each match for 1,000 lines" in ran.err
    assert "such as bounded:1s" in ran.err
    timed = [{**record, "arrival": 10 + row} for row, record in enumerate(records)]
    for given, barrier in ((timed, "hold:1us"), (records, "bounded:1us")):
        ran = cli("query", PAIRS, "--input", trace(*given), "--barrier", barrier, "--quiet")
        assert (ran.code, ran.err) == (0, "")
