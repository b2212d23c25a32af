"""The wire: round trip, any cut of the bytes, and nothing a peer sends raises but WireError."""

from __future__ import annotations

import contextlib
from array import array
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as limits
from slackwater.edge_agent import wire
from slackwater.edge_agent.errors import WireError
from slackwater.edge_agent.packing import Codes, MaskedColumn, data_message, packed

SEQS = st.integers(0, 2**62 - 1)
TIMES = st.integers(-limits.TIME_MAX_NS, limits.TIME_MAX_NS)
NAMES = st.text(min_size=1, max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def data_messages(draw: st.DrawFn) -> m.Data:
    rows = draw(st.integers(1, 5))

    def binary(size: int) -> st.SearchStrategy[bytes]:
        return st.binary(min_size=size * rows, max_size=size * rows)

    def texts(shortest: int) -> st.SearchStrategy[m.Texts]:
        names = st.lists(st.text(min_size=shortest, max_size=9), min_size=1, max_size=4)
        return st.builds(m.Texts, names, st.none() | binary(4))

    values = st.builds(m.Values, binary(8) | binary(1), st.none() | binary(1))
    return m.Data(
        draw(st.integers(0, m.STREAMS_MAX - 1)),
        draw(st.integers(0, 2**61)),
        rows,
        draw(binary(8)),
        draw(st.none() | binary(8)),
        draw(st.none() | binary(8)),
        draw(st.none() | texts(1)),
        tuple(draw(st.lists(st.none() | values | texts(0), max_size=4))),
        draw(st.none() | texts(1)),
    )


SCHEMAS = st.builds(
    m.StreamSchema, NAMES, st.dictionaries(NAMES, st.sampled_from(m.ATTR_TYPES), max_size=4)
)
HELLO_STREAMS = st.builds(
    lambda schema, a, b: m.HelloStream(schema, min(a, b), max(a, b)), SCHEMAS, SEQS, SEQS
)
INTERVALS = st.lists(st.tuples(st.integers(0, 63), INT64), max_size=4).map(tuple)
PAIRS = st.dictionaries(st.integers(0, 63), SEQS, min_size=1, max_size=5)
MESSAGES: st.SearchStrategy[Any] = st.one_of(
    data_messages(),
    st.builds(
        m.Hello, NAMES, NAMES, st.text(max_size=9), SEQS, st.booleans(), SEQS,
        st.lists(HELLO_STREAMS, min_size=1, max_size=3, unique_by=lambda s: s.schema.name)
        .map(tuple), st.integers(0, 2**64 - 1), st.lists(NAMES, max_size=2).map(tuple),
    ),
    st.builds(m.IntervalsRequest, INTERVALS),
    st.builds(m.MissingIntervals, INTERVALS, INTERVALS),
    st.builds(m.Promise, SEQS, TIMES, st.none() | NAMES, PAIRS.map(lambda d: tuple(d.items()))),
    st.builds(m.Begin, SEQS, st.integers(0, 63), TIMES, INT64, NAMES, st.none() | NAMES),
    st.builds(
        m.Sync, SEQS, st.integers(-limits.OFFSET_MAX_NS, limits.OFFSET_MAX_NS),
        st.integers(0, limits.DELAY_MAX_NS), TIMES,
        st.integers(0, 10**9), st.integers(0, 10**9), st.none() | NAMES,
    ),
    st.builds(m.Sync, SEQS, st.none(), st.none(), TIMES, st.just(1), st.just(0)),
    st.builds(m.Eos, SEQS, TIMES, st.lists(SEQS, max_size=4).map(tuple)),
    st.builds(
        m.Welcome, SEQS, st.lists(SEQS, max_size=4).map(tuple),
        st.lists(NAMES, max_size=2).map(tuple),
    ),
    st.builds(m.Ack, SEQS, st.lists(SEQS, max_size=4).map(tuple)),
    st.builds(
        m.ErrorMessage, NAMES, st.text(max_size=99), st.booleans(), st.none() | SEQS
    ),
)  # fmt: skip


@given(st.lists(MESSAGES, max_size=5), st.randoms(use_true_random=False))
def test_messages_come_back_however_the_bytes_are_cut(sent: list[m.Message], rng: Any) -> None:
    stream = b"".join(wire.encode(each) for each in sent)
    decoder = wire.Decoder()
    got: list[m.Message] = []
    at = 0
    while at < len(stream):
        end = at + rng.randint(1, 40)
        got += decoder.feed(stream[at:end])
        at = end
    assert got == sent


@settings(max_examples=60)
@given(MESSAGES, st.data())
def test_damaged_messages_raise_only_wire_errors(message: m.Message, data: st.DataObject) -> None:
    body = bytearray(wire.encode(message)[wire.PREFIX_BYTES :])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        again = wire.decode(bytes(body))
        # What is accepted is a message that could have been sent.
        assert wire.decode(wire.encode(again)[wire.PREFIX_BYTES :]) == again


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=9)
    | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=50)
@given(st.integers(0, 13) | PLAIN, st.lists(PLAIN, max_size=9))
def test_any_msgpack_raises_only_wire_errors(kind: Any, rest: list[Any]) -> None:
    with contextlib.suppress(WireError):
        wire.decode(msgpack.packb([kind, *rest]))


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_any_bytes_raise_only_wire_errors(pieces: list[bytes]) -> None:
    decoder = wire.Decoder(limit=50)
    broken = False
    for piece in pieces:
        if broken:
            with pytest.raises(WireError, match="broken"):
                list(decoder.feed(piece))
            continue
        try:
            list(decoder.feed(piece))
        except WireError:
            broken = True
        assert len(decoder._rest) <= 50 + wire.PREFIX_BYTES + len(piece)


GOOD = m.Data(0, 0, 2, bytes(16), None, None, None, ())


def fields(message: m.Message = GOOD) -> list[Any]:
    unpacked: list[Any] = msgpack.unpackb(wire.encode(message)[wire.PREFIX_BYTES :])
    return unpacked


def changed(place: int, value: object, message: m.Message = GOOD) -> list[Any]:
    made = fields(message)
    made[place] = value
    return made


HELLO = m.Hello("s", "d", "", 1, True, 0, (m.HelloStream(m.StreamSchema("e", {"v": "int"}), 0, 0),))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([], "kind"),
        ([99], "kind"),
        ([True], "kind"),
        ([wire.DATA], "length"),
        (changed(1, 64), "range"),
        (changed(1, False), "type"),
        (changed(2, 2**62 - 2), "range"),
        (changed(2, 1.0), "type"),
        (changed(3, m.ROWS_MAX + 1), "range"),
        (changed(3, 3), "length"),
        (changed(4, "x" * 16), "type"),
        (changed(5, bytes(15)), "length"),
        (changed(7, [[], None]), "length"),
        (changed(7, [["a" * 201], None]), "length"),
        (changed(7, [["a"], bytes(7)]), "length"),
        (changed(8, [[bytes(16), bytes(1)]]), "length"),
        (changed(8, [7]), "type"),
        (changed(1, 1, HELLO), "version"),
        (changed(2, "", HELLO), "length"),
        (changed(5, 2**62, HELLO), "range"),
        (changed(8, [], HELLO), "length"),
        (changed(8, [["e", 0, 0, {}]] * 2, HELLO), "stream"),
        (changed(8, [["e", 0, 0, {"v": "complex"}]], HELLO), "attr_type"),
        (changed(8, [["e", 0, 0, {"v": ["int"]}]], HELLO), "attr_type"),
        (changed(8, [["e", 5, 4, {}]], HELLO), "range"),
        ([wire.SYNC, 0, 1, None, 0, 0, 0], "type"),
        ([wire.SYNC, 0, 1, -1, 0, 0, 0], "range"),
        ([wire.PROMISE, 0, 2**62, None, [[0, 0]]], "range"),
        ([wire.PROMISE, 0, 0, None, [[0, 0], [0, 1]]], "stream"),
        (msgpack.ExtType(5, b"x"), "type"),
        (msgpack.Timestamp(1), "kind"),
    ],
)
def test_each_broken_rule_has_its_reason(sent: object, reason: str) -> None:
    with pytest.raises(WireError) as error:
        wire.decode(msgpack.packb(sent))
    assert error.value.reason == reason


def test_announcing_much_costs_no_memory() -> None:
    # 1000 nested arrays that announce 2**32 - 1 elements each.
    for body in (b"\xdd\xff\xff\xff\xff" * 1000, b"\x91" * 5000, b"\xc6\xff\xff\xff\xff"):
        with pytest.raises(WireError) as error:
            wire.decode(body)
        assert error.value.reason == "msgpack"


def test_a_message_longer_than_the_limit_is_refused_by_its_prefix() -> None:
    decoder = wire.Decoder(limit=10)
    with pytest.raises(WireError, match=r"too_long: 11 bytes, 1 to 10 are allowed$"):
        list(decoder.feed(b"\0\0\0\x0b"))
    with pytest.raises(WireError, match=r"too_long: 0 bytes, 1 to 10 are allowed$"):
        list(wire.Decoder(limit=10).feed(b"\0\0\0\0"))
    with pytest.raises(WireError, match=r"this is TLS, which needs \[tls\] on both sides"):
        list(wire.Decoder().feed(b"\x16\x03\x01\x02\0\1"))
    with pytest.raises(WireError, match="too_long"):
        wire.encode(m.Data(0, 0, 1, bytes(m.MESSAGE_MAX), None, None, None, ()))


def test_good_messages_before_a_fault_are_given() -> None:
    stream = wire.encode(m.Ack(1, (2,))) + b"\0\0\0\x01\xc0" + wire.encode(m.Ack(2, (3,)))
    messages = wire.Decoder().feed(stream)
    assert next(messages) == m.Ack(1, (2,))
    with pytest.raises(WireError, match="kind"):
        next(messages)


SCHEMA = m.StreamSchema("e", {"i": "int", "f": "float", "b": "bool", "s": "str"})


def test_columns_of_any_buffer_give_the_same_message() -> None:
    def message(**columns: Any) -> bytes:
        return wire.encode(data_message(0, SCHEMA, **{"te": None, "ids": None, **columns}))

    arrays = message(
        ts=array("q", [1, 2]),
        types="A",
        attrs={
            "i": array("q", [3, 4]),
            "f": array("d", [0.5, 1.5]),
            "b": bytes([1, 0]),
            "s": Codes(["x"], array("i", [0, -1])),
        },
    )
    numpy = message(
        ts=np.array([1, 9, 2, 9])[::2],
        types="A",
        attrs={
            "i": np.array([3, 4]),
            "f": np.array([0.5, 1.5]),
            "b": np.array([True, False]),
            "s": Codes(["x"], np.array([0, -1], np.int32)),
        },
    )
    assert arrays == numpy
    assert wire.decode(arrays[4:]).ts == (1).to_bytes(8, "little") + (2).to_bytes(8, "little")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ts": array("q")}, "1 to 65536 rows at once, not 0"),
        ({"ts": array("d", [1.0])}, "ts: a column of int has 8-byte elements"),
        ({"ts": np.zeros((2, 2), np.int64)}, "in 2"),
        ({"te": array("q", [1])}, "te: 1 elements for 2 rows"),
        ({"te": [1, 2]}, "te: give an array, not list"),
        ({"types": ""}, "types: a string has 1 to 200 characters"),
        ({"types": Codes(["a"], array("q", [0, 0]))}, "types: a column of code has 4-byte"),
        ({"types": Codes(["a"] * 4097, array("i", [0, 0]))}, "4097 different strings"),
        ({"attrs": {"z": array("q", [1, 2])}}, "stream e has no attribute z; it has: i, f, b, s"),
        ({"attrs": {"i": Codes(["a"], array("i", [0, 0]))}}, "attribute i is of type int"),
        ({"attrs": {"s": array("q", [0, 0])}}, "attribute s is of type str"),
        (
            {"attrs": {"i": MaskedColumn(array("q", [0, 0]), b"\1")}},
            r"i \(valid\): 1 elements for 2",
        ),
    ],
)
def test_a_wrong_column_is_named(columns: dict[str, Any], message: str) -> None:
    given_columns: dict[str, Any] = {
        "ts": array("q", [1, 2]), "te": None, "ids": None, "types": None, "attrs": None, **columns,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        data_message(0, SCHEMA, **given_columns)


def test_a_big_endian_host_swaps_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    little = bytes(packed(array("q", [1, 2]), "int", 2, "ts"))
    monkeypatch.setattr("slackwater.edge_agent.packing.sys.byteorder", "big")
    swapped = bytes(packed(array("q", [1, 2]).__class__("q", [1 << 56, 2 << 56]), "int", 2, "ts"))
    assert swapped == little
