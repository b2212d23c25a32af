"""What a DataFrame may bring, and the types of what it gets: held to the rules of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.spark import chain
from slackwater.engine.hosts.spark.dataframe import TypedOutput
from slackwater.engine.hosts.spark.row_input import RowPlan, frame_of, frames_of
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements

# ---- rows
ROW = {"source": "a", "seq": 3, "ts": 5, "arrival": 7, "type": "A", "v": 1.5, "tag": "x"}
PLAN = RowPlan(
    {"ts": 1000, "arrival": 1000}, {"v": "float", "tag": "str"}, frozenset({"v", "tag"}), True
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ts": None}, "has no ts"), ({"arrival": None}, "has no arrival"),
        ({"source": None}, "has no source"), ({"seq": None}, "has no seq"),
        ({"ts": 2**62}, "is out of range in ts"), ({"arrival": -(2**63)}, "range in arrival"),
        ({"seq": -2}, "is out of range in seq"), ({"v": float("inf")}, "has an infinite v"),
    ],
)  # fmt: skip
def test_a_row_is_named_by_what_it_has(changes: dict[str, Any], message: str) -> None:
    rows = [Row(**ROW), Row(**{**ROW, "seq": 4, "arrival": 9} | changes)]
    with pytest.raises(UserError, match=f"site 'main': a row .*{message}: .*'type': 'A'"):
        frame_of("main", rows, PLAN)


def test_rows_of_one_arrival_have_one_order() -> None:
    rows = [
        Row(**ROW | {"seq": n % 5, "source": "ab"[n // 5], "v": float("nan")}) for n in range(10)
    ]
    frame = frame_of("main", rows, PLAN)
    assert frame_of("main", rows[::-1], PLAN).batch.equals(frame.batch)
    assert frame.batch.column("ts").to_pylist() == [5000] * 10
    assert frame.batch.column("attrs.v").null_count == 10


# ---- frames
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
    whole = Chain(ChainSettings(parse_order("sequence"), plans), "main")
    outputs = [whole.process(frames), whole.finish()]
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
    reported = str(raised.value)
    assert reported.startswith("site 'main': the frame of first_arrival 11 cannot be: ")
    assert said in reported
    assert reported.endswith("; correct it, or leave it out")


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
    for place in range(0, len(whole), 11):
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


# ---- results
WINDOWS = "CREATE STREAM w AS SELECT sum(v) AS s, last(tag) AS name GROUP BY k WINDOW TUMBLING 10"
UP = "CREATE STREAM up AS EVENT SEQ(w a, w b) WHERE a.k = b.k AND b.s > a.s WITHIN 60"
PEAKS = (
    "SELECT count(*) AS n, max(rise) AS most, first(was) AS was FROM steps WINDOW TUMBLING 50; "
    "CREATE STREAM steps AS EVENT SEQ(w a, w b) WHERE b.s > a.s WITHIN 30 "
    "RETURN b.s - a.s AS rise, a.name AS was, b.certain"
)
TEXTS = [f"{WINDOWS}; {UP}", PEAKS]


def test_values_of_one_name_are_of_one_type() -> None:
    plans = [
        query("SELECT sum(v) AS x WINDOW TUMBLING 5", name="q1"),
        query("SELECT avg(v) AS x WINDOW TUMBLING 5", name="q2"),
        query("EVENT SEQ(A a, B b) WITHIN 5 RETURN a.tag AS x", name="q3"),
    ]
    known = {"v": "int", "tag": "str"}
    schema = TypedOutput(plans[:2], known, 1).schema
    assert schema["value"].dataType.simpleString() == "struct<x:double>"
    with pytest.raises(UserError, match="two queries give 'x' as double and as string"):
        TypedOutput(plans, known, 1)


def test_columns_of_results_are_typed_by_what_they_are_made_of() -> None:
    plans, _ = read_statements(TEXTS)
    known = {"v": "int", "tag": "str", "k": "int"}
    types = dict(TypedOutput(plans, known, 1).schema.jsonValue().items())
    fields = {field["name"]: field["type"] for field in types["fields"]}
    value = {field["name"]: field["type"] for field in fields["value"]["fields"]}
    assert value == {
        "s": "long", "name": "string", "n": "long", "most": "double", "was": "string",
        "rise": "double",
    }  # fmt: skip
    (event,) = (f for f in fields["events"]["elementType"]["fields"] if f["name"] == "attrs")
    attrs = {field["name"]: field["type"] for field in event["type"]["fields"]}
    assert attrs == {
        "v": "long", "tag": "string", "k": "long", "s": "long", "name": "string",
        "certain": "long", "ambiguous": "long", "missing": "long", "rise": "double",
        "was": "string", "probability": "double", "certainty": "string",
    }  # fmt: skip
    clash = "CREATE STREAM w AS SELECT count(*) AS tag WINDOW TUMBLING 1; EVENT SEQ(w a, w b)"
    clashing, _ = read_statements([clash])
    with pytest.raises(UserError, match="two queries give 'tag' as"):
        TypedOutput(clashing, known, 1)


def test_a_cascade_stands_beside_no_plan_from_python() -> None:
    plan = read_statements(["EVENT SEQ(A a)"])[0][0]
    with pytest.raises(UserError, match="cannot run beside a plan built in Python"):
        chain(order="none", queries=[TEXTS[0], plan])
    with pytest.raises(UserError, match="EXPLAIN answers nothing"):
        chain(order="none", queries=["EXPLAIN " + TEXTS[0]])


def test_spill_of_a_step_is_in_the_state_store_alone() -> None:
    with pytest.raises(UserError, match="--spill state"):
        chain(queries=["EVENT SEQ(A a, !C c, B b) WITHIN 20"], spill="/tmp/folder")
    with pytest.raises(UserError, match="parts=2 needs one key"):
        chain(queries=["EVENT SEQ(A a, B b) WITHIN 20"], spill="state,parts=2")


def test_times_of_rows_are_whole_numbers_of_the_unit_and_attributes_are_as_they_are() -> None:
    plans = [query("EVENT SEQ(A a, B b) WITHIN 10 s", name="q")]
    event = {"type": "A", "ts": -3_750_000_000, "te": 3 * 10**9, "ref": 2**61 + 1,
             "attrs": {"at": 5 * 10**9}}  # fmt: skip
    result = {"query": "q", "at": 1_250_000_000, "known_at": None, "events": [event]}
    types = TypedOutput(plans, {"at": "int"}, 10**9)
    assert types.schema["at"].dataType.simpleString() == "bigint"
    (row,) = types.rows([result], 0)
    (found,) = row.events
    assert (row["at"], row.known_at) == (1, None)
    assert (found.ts, found.te, found.ref) == (-4, 3, 2_305_843_009)
    assert found.attrs["at"] == 5 * 10**9  # an attribute of that name is no time
