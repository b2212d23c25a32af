"""How far one event's way is, through functions and files: it may only become shorter."""

from __future__ import annotations

from bench.one_event import from_line_to_line, way_of


def outer() -> int:
    return sum(map(inner, [1, 2, 3]))


def inner(number: int) -> int:
    return [number for _ in range(2)][0]  # noqa: RUF015 - a comprehension, which is no function


def test_what_is_counted() -> None:
    way = way_of(outer)
    assert {name for _, name, _ in way.functions} == {"outer", "inner"}
    assert (way.files, way.changes) == ({"tests/test_one_event.py"}, 0)


def test_the_way_of_one_event_becomes_no_longer() -> None:
    way = from_line_to_line()
    assert "engine/log/log_files.py" not in way.files, "a pass of its own keeps no log"
    assert len(way.functions) <= 353
    assert len(way.files) <= 63
    assert way.changes <= 279
