"""Trees and halves behind orders and barriers, cut anywhere; Z10 5.2's example (Fig 10)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from tests.pattern.chain_lines import Line, results_of
from tests.pattern.trees.definition import Record, Tree
from tests.pattern.trees.drawn import Drawn, torn

FIG_10 = "EVENT SEQ(A OVERLAP B, !D BEFORE C) WITHIN 10"
"""``(A(overlap)B(!D)(before)C) within 10``."""


def half(kind: str, letter: str, ts: int, arrival: int, number: int = 1) -> Line:
    return {"kind": kind, "type": letter, "id": number, "ts": ts, "arrival": arrival}


def emitted(results: list[dict[str, Any]]) -> list[str]:
    """``+ A(3,7) B(6,9) C(11,12) @6``."""
    return [
        f"{r['op']} {' '.join(_span(e) for e in r['events'])} @{r['at']}" for r in results
    ]  # fmt: skip


def _span(event: dict[str, Any]) -> str:
    start, end = ("" if event[name] is None else event[name] for name in ("ts", "te"))
    return f"{event['type']}({start},{end})"


def test_z10_fig_10_an_out_of_order_start_gives_an_insertion(tmp_path: Path) -> None:
    """Z10 5.2: when OS_b(6) is received, {OS_a(3), OS_b(6), OE_a(7), OE_b(9), OS_c(11), OE_c(12)}
    is output as an insertion.
    """
    lines = [
        half("ibp", "A", 3, 1), half("ibe", "A", 7, 2), half("ibe", "B", 9, 3),
        half("ibp", "C", 11, 4), half("ibe", "C", 12, 5), half("ibp", "B", 6, 6),
    ]  # fmt: skip
    results, counts = results_of(tmp_path, FIG_10, lines)
    assert emitted(results) == ["+ A(3,7) B(6,9) C(11,12) @6"]
    assert (counts["halves"], counts["halves_waiting"]) == (6, 0)


@pytest.mark.parametrize("late", ["ibp", "whole"])
def test_z10_fig_10_an_out_of_order_negative_start_gives_a_deletion(
    tmp_path: Path, late: str
) -> None:
    """Z10 5.2: when OS_d(15) is received, {OS_a(13), OS_b(16), OE_a(17), OE_b(20), OS_c(22)}, of
    which the end of c is not known, is taken back.
    """
    lines = [
        half("ibp", "A", 13, 1), half("ibp", "B", 16, 2), half("ibe", "A", 17, 3),
        half("ibe", "B", 20, 4), half("ibp", "C", 22, 5),
    ]  # fmt: skip
    d: Line = half("ibp", "D", 15, 6)
    if late == "whole":
        d = {"type": "D", "ts": 15, "te": 18, "arrival": 6}
    results, _ = results_of(tmp_path, FIG_10, [*lines, d])
    assert emitted(results) == ["+ A(13,17) B(16,20) C(22,) @5", "- A(13,17) B(16,20) C(22,) @6"]


def test_the_other_half_corrects_a_match_or_ends_it(tmp_path: Path) -> None:
    lines = [
        {"type": "A", "ts": 13, "te": 17, "arrival": 1},
        {"type": "B", "ts": 16, "te": 20, "arrival": 2},
        half("ibp", "C", 22, 3),
    ]  # fmt: skip
    c: Line = {"type": "C", "id": 1, "ts": 22, "te": 23, "arrival": 9}
    first = "+ A(13,17) B(16,20) C(22,) @3"
    back, whole = "- A(13,17) B(16,20) C(22,) @9", "+ A(13,17) B(16,20) C(22,23) @9"
    assert emitted(results_of(tmp_path, FIG_10, [*lines, c])[0]) == [first, back, whole]
    # It ends 11 after A began: WITHIN is broken.
    assert emitted(results_of(tmp_path, FIG_10, [*lines, {**c, "te": 24}])[0]) == [first, back]
    # What waits until results are right gives the whole alone, and at the end what never came.
    correct = f"{FIG_10} REALTIME 0"
    barrier = "bounded:1"
    assert emitted(results_of(tmp_path, correct, [*lines, c], barrier)[0]) == [whole]
    assert emitted(results_of(tmp_path, correct, lines, barrier)[0]) == [first]


def test_what_may_be_half_known_for_ever_asks_for_within(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="query 'q1': 'a' may be half known, for ever: add WITHIN"):
        results_of(tmp_path, "EVENT SEQ(A a STARTED BY B b)", [half("ibp", "A", 1, 1)])


def lines_of(records: list[Record], arrivals: list[int]) -> list[Line]:
    """Lines of a trace that arrive one after the other, some at one instant."""
    kinds = {"whole": "event", "start": "ibp", "end": "ibe"}
    found, now = [], 0
    for record, wait in zip(records, arrivals, strict=False):
        now += wait
        line: Line = {
            "kind": kinds[record.half], "type": record.type, "id": record.id, "arrival": now,
            "source": record.source, "ts": record.end if record.half == "end" else record.start,
        }  # fmt: skip
        found.append(line | ({"te": record.end} if record.half == "whole" else {}))
    return found


def net(results: list[dict[str, Any]]) -> Counter[str]:
    """What stands in the end."""
    found: Counter[str] = Counter()
    for result in results:
        events = "".join(f"{e['source']}{_span(e)}" for e in result["events"])
        found[events] += 1 if result["op"] == "+" else -1
    return +found


OVERLAPPING = Tree(("SEQ", [("SEQ", ["a0", "a1"], ["OVERLAP"]), "!a2", "a3"], ["BEFORE", ","]), 20)
JOINED = [Record("A", 1, 0, 0, half) for half in ("end", "start", "start")]
TWICE = Tree(("SEQ", ["d0", "a1", "a2"], ["BEFORE", "BEFORE"]), 3)
TWO_INSTANTS = [
    Record("D", 0, 0, 0), *(Record("A", 2, 0, 0, half) for half in ("start", "end")),
    Record("A", 1, 2, 2),
]  # fmt: skip


@example((OVERLAPPING, [Record("A", 0, 0, 0), *JOINED]), [0] * 30, "none", "punctuation", [3])
@example((TWICE, TWO_INSTANTS), [0, 0, 1, 1], "none", "punctuation", [2])
@given(
    torn(), st.lists(st.integers(0, 2), min_size=30, max_size=30),
    st.sampled_from(["none", "sequence", "kslack:4", "ldop"]),
    st.sampled_from(
        ["punctuation", "bounded:3", "hold:2", "adaptive", "immediate,ordered", "immediate"]
    ),
    st.lists(st.integers(0, 12), max_size=2),
)  # fmt: skip
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_barrier_comes_to_the_same_however_the_log_is_cut(
    tmp_path: Path, drawn: Drawn, arrivals: list[int], order: str, barrier: str, cuts: list[int],
) -> None:  # fmt: skip
    tree, records = drawn
    lines = lines_of(records, arrivals)
    text = tree.text
    whole, counts = results_of(tmp_path, text, lines, barrier, order=order)
    again, same = results_of(tmp_path, text, lines, barrier, order=order, cuts=cuts)
    assert again == whole
    assert {**same, "stack_moves": 0, "looked_at": 0, "buffered_max": 0} == {
        **counts, "stack_moves": 0, "looked_at": 0, "buffered_max": 0,
    }  # fmt: skip
    at_once, _ = results_of(tmp_path, text, lines, "immediate", order=order)
    assert net(whole) == net(at_once)
