"""What a gateway makes of messages: frames against one Python row per record, and refusals."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import wire
from slackwater.edge_agent.messages import Data, StreamSchema, Texts, Values
from slackwater.edge_agent.packing import cut
from slackwater.edge_agent.pull_back import BatchSlice, EventBatch, Events, data_of, part_of
from slackwater.edge_agent.records import TIME_MAX_NS, Kind
from slackwater.engine.core.frame import FIXED_TYPES, Frame
from slackwater.engine.gateway import content
from slackwater.engine.gateway.content import ContentRefused, check_data
from slackwater.engine.gateway.frames import FrameBuilder, Part, one_row

SCHEMAS = (
    StreamSchema("events", {"i": "int", "s": "str"}),
    StreamSchema("other", {"s": "str", "f": "float", "b": "bool"}),
    StreamSchema("bare"),
)

FORMATS = {"int": "q", "float": "d", "bool": "B"}

SMALL = st.integers(-5, 5)


def packed(form: str, values: list[Any]) -> bytes:
    return struct.pack(f"<{len(values)}{form}", *values)


@st.composite
def columns(draw: st.DrawFn, kind: str, rows: int) -> Values | Texts | None:
    if draw(st.integers(0, 3)) == 0:
        return None
    if kind == "str":
        names = draw(st.lists(st.sampled_from("xyzw"), max_size=3))
        codes = st.integers(-1, len(names) - 1)
        return Texts(names, packed("i", draw(st.lists(codes, min_size=rows, max_size=rows))))
    element = st.integers(0, 1) if kind == "bool" else SMALL
    values = packed(FORMATS[kind], draw(st.lists(element, min_size=rows, max_size=rows)))
    valid = draw(st.none() | st.binary(min_size=rows, max_size=rows))
    return Values(values, valid)


@st.composite
def events(draw: st.DrawFn, arrival: int) -> Part:
    rows = draw(st.integers(1, 4))
    schema = draw(st.sampled_from(SCHEMAS))
    ts = draw(st.lists(SMALL, min_size=rows, max_size=rows))
    te = [t + draw(st.integers(0, 2)) for t in ts] if draw(st.booleans()) else None
    ids = draw(st.none() | st.just(list(range(rows))))
    some = (None, Texts(["A"], None), Texts(["B", "A"], packed("i", [1] * rows)))
    types = draw(st.sampled_from(some))
    first = draw(st.integers(0, 9))
    clocks = draw(
        st.sampled_from(
            (None, Texts(["m"], None), Texts(["n/1"], packed("i", [-1, 0, 0, 0][:rows])))
        )
    )
    data = Data(
        0, first, rows, packed("q", ts), te and packed("q", te), ids and packed("q", ids), types,
        tuple(draw(columns(kind, rows)) for kind in schema.attrs.values()), clocks,
    )  # fmt: skip
    source = draw(st.sampled_from(["a", "b", "a/m"]))
    return Part(Kind.EVENT, arrival, data, source, schema.name, first, draw(SMALL) % 2, schema)


@st.composite
def records(draw: st.DrawFn, arrival: int) -> Part:
    kind = draw(st.sampled_from([Kind.POG, Kind.IBP, Kind.SYNC, Kind.EOS, Kind.TICK]))
    ts = draw(SMALL)
    match kind:
        case Kind.TICK:
            return Part(kind, arrival, one_row(arrival))
        case Kind.SYNC:
            offset = draw(st.none() | SMALL)
            values = (offset, offset, draw(st.none() | SMALL), 1, 50_000)
            return Part(kind, arrival, one_row(ts), "a", "events", None, 1, sync=values)
        case Kind.IBP:
            return Part(kind, arrival, one_row(ts, "A", draw(SMALL)), "b", "other", None, 0)
        case _:
            row = one_row(ts, draw(st.none() | st.just("A")))
            return Part(kind, arrival, row, "b", "events", draw(st.integers(0, 9)), 0)


@st.composite
def sequences(draw: st.DrawFn) -> list[Part]:
    arrival, parts = 0, []
    for _ in range(draw(st.integers(1, 8))):
        arrival += draw(st.integers(0, 2))
        parts.append(draw(events(arrival) | records(arrival)))
    return parts


def unpacked(form: str, blob: Any) -> list[Any]:
    return list(struct.unpack(f"<{len(blob) // struct.calcsize(form)}{form}", bytes(blob)))


def text(column: Texts | None, row: int) -> str | None:
    if column is None:
        return None
    code = 0 if column.codes is None else unpacked("i", column.codes)[row]
    return None if code < 0 else column.names[code]


def twin(parts: list[Part]) -> list[dict[str, Any]]:
    """The frame's rows, made one by one."""
    rows = []
    for part in parts:
        data = part.data
        for i in range(part.rows):
            ts = unpacked("q", data.ts)[i]
            row: dict[str, Any] = {
                "kind": int(part.kind), "source": part.source, "stream": part.stream,
                "seq": None if part.seq is None else part.seq + i,
                "incarnation": part.incarnation, "type": text(data.types, i), "ts": ts,
                "te": ts if data.te is None else unpacked("q", data.te)[i],
                "id": None if data.ids is None else unpacked("q", data.ids)[i],
                "arrival": part.arrival,
            }  # fmt: skip
            own = None if part.source is None else part.source.replace("/", "%2F")
            named = text(data.clocks, i)
            clock = own if named is None else f"{own}/{named}"
            row["clock"] = None if clock == part.source else clock
            names = ("offset", "delay", "first_seq", "precision", "skew_error_ppb")
            row |= dict(zip(names, part.sync or (None,) * 5, strict=True))
            for (name, kind), column in zip(part.schema.attrs.items(), data.attrs, strict=True):
                if isinstance(column, Values):
                    valid = column.valid is None or column.valid[i] != 0
                    value = unpacked(FORMATS[kind], column.values)[i]
                    value = bool(value) if kind == "bool" else value
                    row[f"attrs.{name}"] = value if valid else None
                else:
                    row[f"attrs.{name}"] = text(column, i)
            rows.append(row)
    return rows


def read_back(frame: Frame) -> list[dict[str, Any]]:
    """The frame's rows with the columns that the contract lets it leave out."""
    rows: list[dict[str, Any]] = frame.batch.to_pylist()
    for row in rows:
        row.setdefault("kind", 0)
        row.setdefault("incarnation", 0)
        if "stream" not in row:
            row["stream"] = "events" if row["kind"] != Kind.TICK else None
        row.setdefault("te", row["ts"])
    return rows


ALL = (
    "kind", "source", "clock", "stream", "seq", "incarnation", "type", "ts", "te", "id", "arrival",
    "offset", "delay", "first_seq", "precision", "skew_error_ppb",
    "attrs.i", "attrs.s", "attrs.f", "attrs.b",
)  # fmt: skip


@settings(max_examples=40)
@given(sequences())
def test_a_frame_holds_what_its_parts_say(parts: list[Part]) -> None:
    builder = FrameBuilder("main")
    for part in parts:
        builder.add(part)
    frame = builder.build()
    assert frame.rows == builder.rows
    expected = [{name: row.get(name) for name in ALL} for row in twin(parts)]
    assert [{name: row.get(name) for name in ALL} for row in read_back(frame)] == expected
    for name, kind in FIXED_TYPES.items():
        if name in frame.batch.schema.names:
            assert frame.batch.schema.field(name).type == kind
    again = Frame.from_bytes("main", frame.to_bytes())
    assert again.batch.to_pylist() == frame.batch.to_pylist()


def test_columns_that_say_the_same_for_every_row_are_left_out() -> None:
    builder = FrameBuilder("main")
    data = Data(0, 0, 2, packed("q", [1, 2]), packed("q", [1, 2]), None, None, (None, None))
    builder.add(Part(Kind.EVENT, 9, data, "a", "events", 0, 0, SCHEMAS[0]))
    assert builder.build().batch.schema.names == ["source", "seq", "ts", "arrival"]


def test_types_of_attribute_columns() -> None:
    builder = FrameBuilder("main")
    strings = Texts(["x"], packed("i", [0]))
    values = Values(packed("d", [1.5]), None)
    data = Data(0, 0, 1, packed("q", [1]), None, None, None, (strings, values, Values(b"\1", None)))
    builder.add(Part(Kind.EVENT, 9, data, "a", "other", 0, 0, SCHEMAS[1]))
    schema = builder.build().batch.schema
    assert schema.field("attrs.s").type == pa.dictionary(pa.int32(), pa.string())
    assert schema.field("attrs.f").type == pa.float64()
    assert schema.field("attrs.b").type == pa.bool_()


def test_a_tick_after_a_tick_takes_its_place() -> None:
    builder = FrameBuilder("main")
    builder.tick(1)
    builder.tick(2)
    builder.add(Part(Kind.EOS, 3, one_row(7), "a", "events", 0))
    builder.tick(4)
    assert builder.build().batch.column("arrival").to_pylist() == [2, 3, 4]
    builder.clear()
    assert (builder.rows, builder.bytes) == (0, 0)


@given(events(0), st.data())
def test_cutting_a_message_gives_its_rows(part: Part, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, part.rows - 1))
    end = data.draw(st.integers(start + 1, part.rows))
    assert part.seq is not None
    piece = Part(
        Kind.EVENT, 0, cut(part.data, start, end, start), part.source, part.stream,
        part.seq + start, part.incarnation, part.schema,
    )  # fmt: skip
    assert twin([piece]) == twin([part])[start:end]


NUMBERS = st.sampled_from([0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**61])


@given(events(0), NUMBERS, st.data())
def test_an_excerpt_is_as_long_as_its_bytes_which_say_its_rows(
    part: Part, first: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, part.rows - 1))
    end = data.draw(st.integers(start + 1, part.rows))
    whole = data_of(part.data)
    excerpt = BatchSlice(EventBatch(whole, "events"), start, end, first)
    assert len(bytes(excerpt)) == len(excerpt)
    (read,) = wire.Decoder().feed(bytes(excerpt))
    assert read == data_of(excerpt) == cut(whole, start, end, first)
    for name in ("stream", "first_seq", "rows", "ts", "ids", "types"):
        assert getattr(excerpt, name) == getattr(read, name)
    assert data_of(part_of(excerpt, 0, 1)) == part_of(read, 0, 1)


@settings(max_examples=40)
@given(sequences(), st.data())
def test_frames_of_excerpts_are_those_of_their_messages(
    parts: list[Part], data: st.DataObject
) -> None:
    wholes = [(part, EventBatch(data_of(part.data), "events")) for part in parts]
    by_excerpt, by_message = FrameBuilder("main"), FrameBuilder("main")
    for _ in range(data.draw(st.integers(1, 8))):
        part, whole = data.draw(st.sampled_from(wholes))
        start = data.draw(st.integers(0, part.rows - 1))
        excerpt = BatchSlice(whole, start, data.draw(st.integers(start + 1, part.rows)), start)
        by_excerpt.add(part._replace(data=excerpt, arrival=9))
        by_message.add(part._replace(data=data_of(excerpt), arrival=9))
        assert by_excerpt.bytes == by_message.bytes
        assert by_excerpt.bytes_with(excerpt, part.schema) == by_message.bytes_with(
            data_of(excerpt), part.schema
        )
    made, expected = by_excerpt.build().batch, by_message.build().batch
    assert made.to_pylist() == expected.to_pylist()
    assert [(each.name, each.type) for each in made.schema] == [
        (each.name, each.type) for each in expected.schema
    ]


@given(st.data())
def test_an_excerpt_is_refused_as_its_message_is(data: st.DataObject) -> None:
    """Of a batch in which some rows are wrong, of either schema: more than once, as it is kept."""
    times = st.sampled_from([0, 5, 2**62, -(2**62), 2**63 - 1])
    ts = data.draw(st.lists(times, min_size=3, max_size=3))
    te = data.draw(st.none() | st.lists(st.sampled_from([5, 9]), min_size=3, max_size=3))
    codes = data.draw(st.lists(st.integers(-2, 2), min_size=3, max_size=3))
    floats = data.draw(st.lists(st.sampled_from([0.5, float("inf")]), min_size=3, max_size=3))
    whole = EventBatch(
        Data(0, 0, 3, packed("q", ts), te and packed("q", te), None, None,
             (Texts(["x", "y"], packed("i", codes)), Values(packed("d", floats), None), None)),
        "events",
    )  # fmt: skip
    for start, end in ((0, 1), (1, 3), (0, 3), (0, 1)):
        for schema in (SCHEMAS[1], SCHEMAS[0], SCHEMAS[2], SCHEMAS[1]):
            excerpt = BatchSlice(whole, start, end, start)
            assert refusal(excerpt, schema) == refusal(data_of(excerpt), schema)


def refusal(events: Events, schema: StreamSchema) -> str | None:
    try:
        check_data(events, schema)
    except ContentRefused as refused:
        return f"{refused.reason}: {refused.detail}"
    return None


SCHEMA = StreamSchema("events", {"v": "float", "tag": "str"})

TIMES = st.sampled_from(
    [0, 1, -1, TIME_MAX_NS, -TIME_MAX_NS, TIME_MAX_NS + 1, -TIME_MAX_NS - 1, 2**63 - 1, -(2**63)]
)

CODES = st.sampled_from([-1, 0, 1, 2, -2, 2**31 - 1, -(2**31)])

FRACTIONS = st.sampled_from([0.0, 1.7e308, -1.7e308, float("inf"), float("-inf"), float("nan")])


@st.composite
def messages(draw: st.DrawFn) -> Data:
    rows = draw(st.integers(1, 6))

    def packed(kind: str, values: st.SearchStrategy[float]) -> bytes:
        return struct.pack(f"<{rows}{kind}", *draw(st.lists(values, min_size=rows, max_size=rows)))

    mostly = st.integers(0, 5).map(bool)
    ts = packed("q", st.just(5) if draw(mostly) else TIMES)
    te = None if draw(mostly) else packed("q", TIMES)
    codes = packed("i", st.just(1) if draw(mostly) else CODES)
    valid = packed("B", st.integers(0, 1)) if draw(st.booleans()) else None
    attrs = (Values(packed("d", FRACTIONS), valid), Texts(["a", "b"], codes))
    return Data(0, 0, rows, ts, te, None, Texts(["X", "Y"], codes), attrs)


def verdict(data: Data, few: int) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_FEW", few)
        try:
            check_data(data, SCHEMA)
        except ContentRefused as refused:
            return f"{refused.reason}: {refused.detail}"
    return "taken"


@settings(max_examples=60)
@given(messages())
def test_both_ways_to_look_agree(data: Data) -> None:
    assert verdict(data, few=32) == verdict(data, few=0)
