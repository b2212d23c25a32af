"""Halves of intervals in any order, against what is known after each record (Z10 5.2, 5.3.2)."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.pattern.trees.definition import Record, Run, Tree
from tests.pattern.trees.drawn import Drawn, torn
from tests.pattern.trees.known_halves import Key, standing


def shown(result: dict[str, Any], records: list[Record]) -> tuple[Key, ...]:
    """The intervals of a match; checks that nothing is told that is not known."""
    found = []
    for event in result["events"]:
        record = records[event["seq"]]
        assert event["type"] == record.type
        assert event["attrs"] == {}
        if event["te"] is None:
            assert record.half == "start"
            assert event["ts"] == event["ref"] == record.start
        elif event["ts"] is None:
            assert record.half == "end"
            assert (event["te"], event["ref"]) == (record.end, None)
        else:
            assert (event["ts"], event["te"]) == (record.start, record.end)
        found.append((record.source, record.type, record.id))
    return tuple(found)


TWICE = [Record("A", 1, 0, 3, half) for half in ("start", "start")]


PARALLEL = Tree(("PAL", ["a0", "b1"], [","]), 20)


@example((PARALLEL, [*TWICE, Record("B", 2, 1, 4)]), [])
@example((PARALLEL, [TWICE[0], Record("B", 2, 1, 4), TWICE[1]]), [1, 2])
@given(torn(), st.lists(st.integers(0, 9), max_size=2))
def test_after_each_record_what_is_known_stands(drawn: Drawn, cuts: list[int]) -> None:
    """What has been given and not taken back; in any batches, with restarts between them."""
    tree, records = drawn
    run = Run(tree.text)
    results = run.over(records, cuts)
    now: set[tuple[Key, ...]] = set()
    for number in range(len(records)):
        for result in [each for each in results if each["at"] == number]:
            match = shown(result, records)
            assert (match in now) == (result["op"] == "-"), result
            (now.remove if result["op"] == "-" else now.add)(match)
        assert now == standing(tree, records[: number + 1]), number
    assert results == Run(run.text).over(records)
