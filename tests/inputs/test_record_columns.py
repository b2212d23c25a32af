"""Many records at once give what each of them gives by itself, whatever is in them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent.inputs.pipes import JsonLines
from slackwater.edge_agent.inputs.record_columns import _plain, events
from slackwater.edge_agent.inputs.record_fields import (
    JsonBatch,
    ParsedRecords,
    RecordFields,
    TableBatch,
)
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import BadRecord, Row
from tests.inputs.outlet import NOW_NS, KeptOutlet

SCHEMAS = {
    "events": StreamSchema("events", {"i": "int", "f": "float", "b": "bool", "s": "str"}),
    "bare": StreamSchema("bare"),
}
WHOLE = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 2**63, 2**1023, 2**1023 - 1, 10**400]),
)
VALUES = st.one_of(
    st.none(), st.booleans(), WHOLE, st.floats(),
    st.sampled_from(["", "a", "é", "x" * 5000, "1.5", "\ud800"]),
    st.lists(st.integers(), max_size=1),
)  # fmt: skip
KEYS = ("stream", "ts", "te", "id", "type", "i", "f", "b", "s", "attrs")
PLAIN = {
    "stream": st.sampled_from(["events", "events", "bare", None, ""]),
    "ts": st.integers(0, 9), "te": st.integers(9, 12),
    "id": st.integers(0, 3), "type": st.sampled_from(["A", "B", None]), "i": st.integers(-9, 9),
    "f": st.floats(-1, 1), "b": st.booleans(), "s": st.sampled_from(["", "x", "y", None]),
}  # fmt: skip


def one_by_one(
    fields: RecordFields, batch: ParsedRecords
) -> tuple[list[tuple[str, Row]], list[int]]:
    found, bad = [], []
    for place in range(len(batch)):
        try:
            found.append(fields.event(batch.record(place), NOW_NS))
        except BadRecord:
            bad.append(place)
    return found, bad


def at_once(fields: RecordFields, batch: ParsedRecords, *, apart: bool) -> tuple[Any, list[int]]:
    bad_places: list[int] = []

    def bad(_what: str, place: int) -> None:
        bad_places.append(place)

    found = [
        (stream, row)
        for stream, rows in events(fields, batch, NOW_NS, bad, apart=apart)
        for row in rows
    ]
    return found, bad_places


def agree(fields: RecordFields, batch: ParsedRecords) -> None:
    wanted, bad = one_by_one(fields, batch)
    # As texts: NaN is no equal of itself.
    assert repr(at_once(fields, batch, apart=False)) == repr((wanted, bad))
    found, bad_places = at_once(fields, batch, apart=True)
    assert sorted(bad_places) == bad
    for name in SCHEMAS:
        assert repr([row for stream, row in found if stream == name]) == repr(
            [row for stream, row in wanted if stream == name]
        )


@st.composite
def records(draw: Any) -> list[dict[str, Any]]:
    """Mostly plain, of the same keys; one or two have something strange."""
    keys = draw(st.lists(st.sampled_from(list(PLAIN)), unique=True))
    inner = draw(st.booleans())
    made = []
    for _ in range(draw(st.integers(0, 6))):
        record = {key: draw(PLAIN[key]) for key in keys}
        if inner:
            attrs = {key: record.pop(key) for key in ("i", "f", "b", "s") if key in record}
            record["attrs"] = attrs
        made.append(record)
    for _ in range(draw(st.integers(0, 2))):
        if made:
            strange = draw(st.sampled_from(made))
            strange[draw(st.sampled_from(KEYS))] = draw(VALUES)
    return made


@given(records(), st.sampled_from(["ns", "s", "d"]))
def test_objects(made: list[dict[str, Any]], unit: str) -> None:
    fields = RecordFields(schemas=SCHEMAS, stream="events", time_unit=unit, map={"i": "s"})
    agree(fields, JsonBatch([json.dumps(record) for record in made]))


@pytest.mark.parametrize("name", ["type", "clock", "s"])
@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc00\ud800é"])
def test_half_of_a_surrogate_pair_is_no_text(name: str, text: str) -> None:
    """Nothing writes it as UTF-8: not the outbox, nor an interval that it would name."""
    fields = RecordFields(schemas=SCHEMAS, stream="events", devices=True)
    lines = [json.dumps({"ts": 1, name: each}) for each in (text, "é\U0001f600")]
    found, bad = at_once(fields, JsonBatch(lines), apart=False)
    assert (len(found), bad) == (1, [0])
    with pytest.raises(BadRecord, match=f"{name}.* holds half of a surrogate pair"):
        fields.event(json.loads(lines[0]), NOW_NS)


CELLS = st.one_of(
    st.sampled_from(["", "1", "0005", "-3", "1.5", "2_0", " 7", "nan", "inf", "x", "events", "true",
                     "٣", "9" * 18, "9" * 25, "1" * 400]),
    st.integers(0, 99).map(str),
)  # fmt: skip


@given(st.data())
def test_cells(data: Any) -> None:
    names = data.draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1))
    plain = data.draw(st.booleans())
    one = st.integers(10, 99).map(str) if plain else CELLS
    rows = data.draw(st.lists(st.tuples(*[one] * len(names)), max_size=5))
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    batch = TableBatch(columns, len(rows), lambda place: dict(zip(names, rows[place], strict=True)))
    for unit in ("ns", "h"):
        fields = RecordFields(schemas=SCHEMAS, stream="events", time_unit=unit, texts=True)
        agree(fields, batch)


def test_what_is_plain_is_read_as_columns() -> None:
    """Else the others would compare one way with itself."""
    fields = RecordFields(schemas=SCHEMAS, stream="events")
    line = json.dumps({"ts": 1, "type": "A", "attrs": {"i": 1, "f": 2, "b": True, "s": "x"}})
    stream, rows = _plain(fields, JsonBatch([line] * 3), NOW_NS)
    assert (stream, rows) == ("events", [Row(1, 1, None, "A", (1, 2.0, True, "x"))] * 3)
    texts = RecordFields(schemas=SCHEMAS, stream="events", texts=True)
    cells = {"ts": ("1", "2"), "i": ("", "3"), "f": ("1", "nan"), "s": ("", "x")}
    _, read = _plain(texts, TableBatch(cells, 2, lambda _: {}), NOW_NS)
    assert [row.attrs[0] for row in read] == [None, 3]


@given(st.lists(st.sampled_from([b'{"ts": 1}', b"{", b"[]", b"", b" ", b'{"ts": 1} ', b"\xff",
                                 b'{"ts": 1},{"ts": 2}', b' {"ts": 3}\r', b"7"]), max_size=8),
       st.integers(1, 9))  # fmt: skip
def test_lines_are_reported_by_their_numbers_however_they_are_cut(
    lines: list[bytes], cut: int
) -> None:
    content = b"".join(line + b"\n" for line in lines)
    outlet = KeptOutlet()
    reader = JsonLines(RecordFields(schemas=SCHEMAS, stream="bare"), "pipe")

    async def fed() -> None:
        for first in range(0, len(content), cut):
            await reader.feed(content[first : first + cut], NOW_NS, outlet)
        await reader.end(NOW_NS, outlet)

    asyncio.run(fed())
    good = [line.strip() for line in lines if line.strip() in (b'{"ts": 1}', b'{"ts": 3}')]
    assert [row.ts for _, row in outlet.rows] == [int(line[7:8]) for line in good]
    bad = [n for n, line in enumerate(lines, 1) if line.strip() and line.strip() not in good]
    assert [bad_places.split(":")[1] for bad_places in outlet.faults] == [f" line {n}" for n in bad]


def test_streams_that_take_turns_are_read_apart() -> None:
    fields = RecordFields(schemas=SCHEMAS, stream="events")
    named = ("events", "bare", None, "bare", "", "bare")
    lines = [json.dumps({"stream": named[n % 6], "ts": n}) for n in range(10)]
    batch = JsonBatch([*lines, "no record"])
    bad_places: list[int] = []
    found = list(
        events(fields, batch, NOW_NS, lambda _, place: bad_places.append(place), apart=True)
    )
    assert [(stream, [row.ts for row in rows]) for stream, rows in found] == [
        ("events", [0, 2, 4, 6, 8]), ("bare", [1, 3, 5, 7, 9]),
    ]  # fmt: skip
    assert bad_places == [10]
