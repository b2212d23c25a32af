"""Frames that a DataFrame brings are held to the rules of a log's: hostile ones are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.order.registry import parse_order
from engine.query import query
from engine.spark.frame_input import frames_of
from engine.stream.frame import Frame

TEXT = pa.dictionary(pa.int32(), pa.string())
INT_MAX = 2**63 - 1
GOOD: dict[str, pa.Array] = {
    "source": pa.array(["s", "t", "s"]).cast(TEXT),
    "seq": pa.array([0, 0, 1]),
    "type": pa.array(["A", "B", "A"]).cast(TEXT),
    "ts": pa.array([10, 20, 30]),
    "arrival": pa.array([11, 21, 31]),
    "attrs.v": pa.array([0.5, None, 1.5]),
    "attrs.tag": pa.array(["x", "y", None]).cast(TEXT),
}
TYPES = {"v": "float", "tag": "str"}


def payload(columns: dict[str, pa.Array]) -> bytes:
    return Frame("main", pa.RecordBatch.from_pydict(columns)).to_bytes()


def row(content: bytes, first: int | None = 11) -> Row:
    return Row(site="main", payload=content, first_arrival=first, file="", place=0)


def answers(frames: list[Frame]) -> list[dict[str, Any]]:
    plans = (query("EVENT SEQ(A a, B b) WHERE a.v < 9"), query("SELECT avg(v) WINDOW TUMBLING 5"))
    chain = Chain(ChainSettings(parse_order("sequence"), plans), "main")
    outputs = [chain.process(frames), chain.finish()]
    return [result for output in outputs for of in output.results for result in of]


def hidden_null(*texts: str | None) -> pa.Array:
    """Codes that are all there, of a table that has a null."""
    return pa.DictionaryArray.from_arrays(pa.array(range(len(texts)), pa.int32()), pa.array(texts))


def lying(codes: list[int]) -> pa.Array:
    """Codes beyond their table of texts."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(["s"]), safe=False)


HOSTILE: dict[str, tuple[dict[str, pa.Array], str]] = {
    "null ts": ({"ts": pa.array([10, None, 30])}, "kind event without ts"),
    "null arrival": ({"arrival": pa.array([11, 21, None])}, "without arrival"),
    "null source": ({"source": pa.array(["s", None, "s"]).cast(TEXT)}, "without source"),
    "hidden null": ({"source": hidden_null("s", None, "t")}, "without source"),
    "codes beyond": ({"source": lying([0, 9, 0])}, "out of bounds"),
    "infinity": ({"attrs.v": pa.array([0.5, float("inf"), 1.0])}, "infinite in record 1"),
    "ts as text": ({"ts": pa.array(["10", "20", "30"])}, "ts is string, not int64"),
    "ts as float": ({"ts": pa.array([10.0, 20.0, 30.0])}, "ts is double, not int64"),
    "source as number": ({"source": pa.array([1, 2, 3])}, "source is int64, not text"),
    "list": ({"attrs.w": pa.array([[1], [2], [3]])}, "a value of type list"),
    "unknown column": ({"v": pa.array([1, 2, 3])}, "unknown column 'v'"),
    "unknown kind": ({"kind": pa.array([0, 99, 0], pa.int8())}, "kind 99"),
    "ts out of range": ({"ts": pa.array([10, INT_MAX, 30])}, '"ts" is beyond'),
    "negative number": ({"seq": pa.array([0, -7, 1])}, "seq"),
    "arrival going back": ({"arrival": pa.array([11, 9, 31])}, "record 1 arrived at 9, after 11"),
    "end before begin": ({"te": pa.array([10, 19, 30])}, "record 1 ends before it begins"),
    "no rows": ({name: column[:0] for name, column in GOOD.items()}, "it has no rows"),
    "another begin": ({"arrival": pa.array([12, 21, 31])}, "it begins at arrival 12"),
    "text for a number": ({"attrs.v": GOOD["attrs.tag"]}, "'v' is str, attributes= says float"),
    "number for a text": ({"attrs.tag": pa.array([1, 2, 3])}, "'tag' is int, attributes= says str"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_frame_is_named(name: str) -> None:
    changes, said = HOSTILE[name]
    with pytest.raises(UserError) as raised:
        frames_of("main", [row(payload(GOOD | changes))], TYPES)
    told = str(raised.value)
    assert told.startswith("site 'main': the frame of first_arrival 11 cannot be: ")
    assert said in told
    assert told.endswith("; mend it, or leave it out")


@pytest.mark.parametrize(
    "spoiled", [lambda b: b[:40], lambda b: b"x" * 99, lambda b: b[:-60], lambda b: b[::-1]]
)
def test_a_payload_that_is_no_frame_is_named(spoiled: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UserError, match=r"first_arrival 11 cannot be: .*leave it out"):
        frames_of("main", [row(spoiled(payload(GOOD)))], None)
    with pytest.raises(UserError, match="without payload or first_arrival"):
        frames_of("main", [row(payload(GOOD), None)], None)


def test_flipped_bytes_are_named_or_answered() -> None:
    """Never a traceback of Arrow's, never a crash in a kernel."""
    whole = payload(GOOD)
    refused = 0
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 0xFF
        try:
            frames = frames_of("main", [row(bytes(spoiled))], TYPES)
        except UserError:
            refused += 1
        else:
            answers(frames)
    assert 0 < refused < len(whole)


def test_a_nan_is_no_value() -> None:
    nan = GOOD | {"attrs.v": pa.array([0.5, float("nan"), 1.5])}
    assert answers(frames_of("main", [row(payload(nan))], TYPES)) == answers(
        frames_of("main", [row(payload(GOOD))], TYPES)
    )


def test_whole_numbers_may_stand_for_fractions() -> None:
    whole = GOOD | {"attrs.v": pa.array([1, 2, 3])}
    (frame,) = frames_of("main", [row(payload(whole))], TYPES)
    assert frame.rows == 3
