"""Halves of intervals in any order, against what is known after each record (Z10 5.2, 5.3.2)."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.pattern.trees.definition import Key, Node, Record, Run, standing, text_of, torn, trees


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


@example(("PAL", ["a0", "b1"], [","]), [*TWICE, Record("B", 2, 1, 4)], 20, [])
@example(("PAL", ["a0", "b1"], [","]), [TWICE[0], Record("B", 2, 1, 4), TWICE[1]], 20, [1, 2])
@given(trees(), torn(), st.integers(4, 30), st.lists(st.integers(0, 9), max_size=2))
def test_after_each_record_what_is_known_stands(
    node: Node, records: list[Record], within: int, cuts: list[int]
) -> None:
    """What has been given and not taken back; in any batches, with restarts between them."""
    run = Run(f"EVENT {text_of(node)} WITHIN {within}")
    results = run.over(records, cuts)
    now: set[tuple[Key, ...]] = set()
    for number in range(len(records)):
        for result in [each for each in results if each["at"] == number]:
            match = shown(result, records)
            assert (match in now) == (result["op"] == "-"), result
            (now.remove if result["op"] == "-" else now.add)(match)
        assert now == standing(node, within, records[: number + 1]), number
    assert results == Run(run.text).over(records)
