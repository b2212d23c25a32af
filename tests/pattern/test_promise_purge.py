"""What a purge by promises may drop, and that a broken promise is counted whoever waits for it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.pattern.chain_lines import Line, answered, event, pog

BARRIERS = ["immediate", "punctuation", "bounded:0", "bounded:30", "hold:0", "hold:9", "adaptive"]


@pytest.mark.parametrize("inner", ["AND(B b, D d)", "AND(D d, B b)"])
@pytest.mark.parametrize("purge", ["late", "promises"])
def test_steps_of_and_are_in_no_order(tmp_path: Path, inner: str, purge: str) -> None:
    """No D comes any more, but the one that is there may lie before a B that comes."""
    lines = [event("C", 5, "s", 1), event("D", 6, "s", 2), pog("D", 28, "s", 3),
             event("B", 12, "s", 4)]  # fmt: skip
    found, counts = answered(tmp_path, f"EVENT SEQ(C c, {inner}) WITHIN 8", lines, purge=purge)
    assert [result[0] for result in found] == ["+"]
    assert counts.get("promises_broken", 0) == 0


@pytest.mark.parametrize("purge", ["late", "promises"])
def test_what_has_spoilt_a_match_stays_while_another_may_spoil_it_again(
    tmp_path: Path, purge: str
) -> None:
    """N at the front is up to WITHIN before the match, M at the end up to WITHIN after it."""
    lines = [
        event("N", 0, "s", 1), event("A", 9, "s", 2), event("B", 10, "s", 3),
        pog("A", 99, "s", 4), pog("B", 99, "s", 4), pog("N", 99, "s", 4), pog("M", 15, "s", 4),
        event("M", 18, "s", 5),
    ]  # fmt: skip
    found, _ = answered(tmp_path, "EVENT SEQ(!N n, A a, B b, !M m) WITHIN 10", lines, purge=purge)
    assert found == []


@pytest.mark.parametrize("barrier", [b + o for b in BARRIERS for o in ("", ",ordered")])
def test_a_broken_promise_is_counted_with_every_barrier(tmp_path: Path, barrier: str) -> None:
    lines = [event("B", 19, "s", 1), event("A", 19, "s", 2), pog("A", 19, "s", 3),
             event("A", 18, "s", 4)]  # fmt: skip
    for cuts in ((), (1, 2, 3)):
        _, counts = answered(tmp_path, "EVENT SEQ(A a, B b)", lines, barrier, "promises", cuts=cuts)
        assert counts["promises_broken"] == 1
    kept = [*lines[:3], event("A", 19, "s", 4)]
    _, counts = answered(tmp_path, "EVENT SEQ(A a, B b)", kept, barrier, "promises")
    assert counts["promises_broken"] == 0


def test_a_row_that_breaks_two_promises_is_counted_once(tmp_path: Path) -> None:
    lines = [event("B", 19, "s", 1), pog("A", 19, "s", 3), event("A", 10, "s", 4)]
    _, counts = answered(tmp_path, "EVENT SEQ(A a, B b)", lines, "bounded:1", "promises")
    assert counts["promises_broken"] == 1


@pytest.mark.parametrize("barrier", ["hold:3,ordered", "immediate,ordered"])
def test_one_that_upsets_the_order_of_results_is_counted(tmp_path: Path, barrier: str) -> None:
    lines: list[Line] = [
        event("A", 1, "s", 1), event("B", 9, "s", 2), pog("A", 20, "s", 3), pog("B", 20, "s", 3),
        event("B", 5, "s", 8),
    ]  # fmt: skip
    found, counts = answered(tmp_path, "EVENT SEQ(A a, B b)", lines, barrier)
    assert [result.split()[0] for result in found] == ["+1,9", "+1,5"]
    assert counts["promises_broken"] == 1


def test_who_covers_a_type_is_looked_at_when_an_event_comes(tmp_path: Path) -> None:
    """s2 has said nothing, and holds C back until C is known to come from s1."""
    lines = [
        event("F", 1, "s2", 1), event("A", 1, "s1", 1), event("B", 5, "s1", 2),
        pog(None, 9, "s1", 3), event("C", 9, "s1", 4), event("F", 20, "s2", 20),
    ]  # fmt: skip
    for size in range(1, 6):
        for cuts in itertools.combinations(range(1, 6), size):
            found, _ = answered(
                tmp_path, "EVENT SEQ(A a, !C c, B b)", lines, "punctuation", cuts=cuts
            )
            assert found == ["+1,5 confirmed @4"]
