"""How a log is cut and encoded changes nothing: columns that frames leave out, and nulls, are their
defaults; and what no default stands for is refused by its row. How texts and numbers are encoded:
``tests/order/test_order_cuts``.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.columns import decode
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.core.released import Strings
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.chain.chain_text import chain_text
from tests.order.conftest import frame

Record = dict[str, Any]
QUERIES = (
    "SELECT count(*), sum(v) FROM events WINDOW TUMBLING 8 ns",
    "SELECT count(*) FROM other GROUP BY flag WINDOW TUMBLING 5 ns",
    "EVENT SEQ(A a, B b) WITHIN 9 ns",
)
ORDERS = ("none", "sequence:timeout=fixed:3", "sequence:timeout=r19,late=pass", "kslack:4",
          "sequence:timeout=quantile:0.5,latency=9ns", "mp-kslack:late=drop", "kslack-chain:2,9",
          "ldop:0.5..2,window=3", "aq-kslack:error=0.4,window=3,slide=1",
          "aq-kslack:error=0.4,window=5,agg=sum,attr=v")  # fmt: skip
DEFAULTS: dict[str, Any] = {"kind": 0, "stream": "events", "incarnation": 0}


def settings_of(order: str) -> ChainSettings:
    plans = tuple(
        query(text, name=f"q{n}")
        for n, text in enumerate(QUERIES)
        if text.startswith("SELECT") or not order.startswith("aq-kslack")  # it takes no pattern
    )
    return ChainSettings(
        parse_order(order), plans, guards=Guards(None), ordered="full", aside="full"
    )


def bare(whole: Frame, left_out: set[str], nulls: set[str]) -> Frame:
    """``whole`` without those of the columns that say nothing; ``nulls``: defaults become nulls."""
    batch, kept = whole.batch, {}
    for name in batch.schema.names:
        column = batch.column(name)
        if name == "te":
            plain = pc.equal(column, batch.column("ts"))
        elif name in DEFAULTS:
            plain = (
                pc.equal(pc.cast(column, column.type.value_type), DEFAULTS[name])
                if (pa.types.is_dictionary(column.type))
                else pc.equal(column, DEFAULTS[name])
            )
        else:
            plain = column.is_null()
        plain = pc.fill_null(plain, True)  # a null says no more than the default
        if name in left_out and pc.all(plain).as_py() and name not in ("source", "seq"):
            continue
        if name in nulls and name in (*DEFAULTS, "te"):
            says = pc.if_else(plain, None, pa.array(range(len(column))))
            column = column.take(says)
        kept[name] = column
    return Frame(whole.site, pa.RecordBatch.from_pydict(kept))


@st.composite
def traces(draw: st.DrawFn) -> list[Record]:
    """Records of two streams with each optional field given or not, often for a while."""
    records: list[Record] = []
    counts: dict[tuple[str, str], int] = {}
    for now in range(draw(st.integers(2, 16))):
        source, stream = draw(st.sampled_from("ab")), draw(st.sampled_from(["events", "other"]))
        what = draw(st.integers(0, 9))
        record: Record = {"source": source, "stream": stream, "ts": now, "te": now, "arrival": now,
                          "type": None, "id": None, "attrs": {"v": None, "flag": None}}  # fmt: skip
        records.append(record)
        if what == 0:
            record |= {"kind": "pog", "ts": max(0, now - 3)}
            continue
        if what == 1:
            record |= {"kind": "tick", "source": None}
            continue
        seq = counts.get((source, stream), 0)
        counts[source, stream] = seq + 1
        record["seq"] = max(0, seq - draw(st.sampled_from([0, 0, 0, 1])))
        record["ts"] = max(0, now - draw(st.integers(0, 4)))
        record["te"] = record["ts"] + draw(st.sampled_from([0, 0, 2]))
        record["type"] = draw(st.sampled_from([None, "A", "B"]))
        record["id"] = draw(st.sampled_from([None, None, 7]))
        v, flag = draw(st.none() | st.integers(0, 3)), draw(st.sampled_from([None, "x", "y"]))
        record["attrs"] = {"v": v, "flag": flag}
    records.append({"source": "a", "stream": "other", "seq": 90, "ts": 20, "te": 23, "id": 1,
                    "arrival": 30, "type": "B", "attrs": {"v": 1, "flag": "x"}})  # fmt: skip
    return records


COLUMNS = ("kind", "stream", "incarnation", "te", "id", "type", "attrs.v", "attrs.flag")
SETS = st.lists(
    st.tuples(st.sets(st.sampled_from(COLUMNS)), st.sets(st.sampled_from(COLUMNS))), min_size=1
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(
    trace=traces(),
    order=st.sampled_from(ORDERS),
    cuts=st.lists(st.integers(1, 16), max_size=5).map(sorted),
    together=st.integers(1, 4),
    sets=SETS,
)
@example([{"source": "a", "seq": n, "ts": n, "te": n, "arrival": n, "type": "A", "id": None,
           "stream": "events" if n < 6 else "other", "attrs": {"v": 1, "flag": "x"}}
          for n in range(9)], "none", [6], 2, [(set(COLUMNS), set())])  # fmt: skip
def test_left_out_columns_and_nulls_mean_defaults_in_every_cut(
    trace: list[Record],
    order: str,
    cuts: list[int],
    together: int,
    sets: list[tuple[set[str], set[str]]],
) -> None:
    whole = frame(trace)
    edges = [0, *(c for c in cuts if c < whole.rows), whole.rows]
    pieces = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges) if b > a]
    told_of = itertools.cycle(sets)
    frames = [bare(piece, *next(told_of)) for piece in pieces]
    batches = [frames[at : at + together] for at in range(0, len(frames), together)]
    chosen = settings_of(order)
    assert chain_text(batches, chosen) == chain_text([[whole]], chosen)


@pytest.mark.parametrize("order", ["none", "sequence", "kslack:1"])
def test_events_keep_their_stream_when_another_frame_of_the_call_names_one(order: str) -> None:
    records = [{"source": "a", "seq": n, "ts": n, "arrival": n, "attrs": {"v": n}}
               for n in range(6)]  # fmt: skip
    plain = frame(records)
    plain = Frame("main", plain.batch.drop_columns(["stream"]))
    named = frame([{"source": "b", "stream": "other", "seq": 0, "ts": 9, "arrival": 9}])
    chain = Chain(settings_of(order), "main")
    results = [chain.process([plain, named]), chain.finish()]
    found = [result for output in results for result in output.results[0]]
    assert [result["value"]["count(*)"] for result in found] == [6]
    streams = [s for o in results for e in o.ordered for s in e.columns["stream"].tolist()]
    assert [chain.strings.text(code) for code in streams] == ["events"] * 6 + ["other"]


@pytest.mark.parametrize("nulls", [set(), {"te", "kind", "incarnation"}])
def test_kernels_get_numbers_of_one_type_of_array_whatever_is_null(nulls: set[str]) -> None:
    """Else each is compiled again: what Arrow lends is read-only, a null filled in is not."""
    whole = frame([{"source": "a", "seq": n, "ts": n, "te": n, "arrival": n, "kind": "event",
                    "incarnation": 0, "attrs": {"v": n}} for n in range(9)])  # fmt: skip
    columns, _ = decode(bare(whole.slice(2, 6), set(), nulls), Strings(["events"]), None)
    kinds = {
        name: (str(column.dtype), column.flags.c_contiguous, column.flags.writeable)
        for name, column in columns.items()
        if name not in ("stream", "source")
    }
    whole_numbers = ("int64", True, True)
    assert kinds.pop("kind") == ("int8", True, True)
    assert set(kinds) == {"seq", "ts", "te", "arrival", "incarnation", "attrs.v"}
    assert set(kinds.values()) == {whole_numbers}


@pytest.mark.parametrize("order", ORDERS)
def test_an_event_without_id_beside_others_with_one_has_none(order: str) -> None:
    def of(number: int, **more: Any) -> Frame:
        return frame([{"source": "a", "seq": number, "ts": number, "arrival": number, **more}])

    frames = [of(0, id=5), of(1, id=6), of(2), of(3, id=8)]
    assert chain_text([frames[:2], frames[2:]], settings_of(order)) == chain_text(
        [frames], settings_of(order)
    )
    rows = json.loads(chain_text([frames], settings_of(order)))[0]
    assert [row.get("id") for row in rows] == [5, 6, None, 8]


def test_a_column_of_untyped_nulls_is_one_that_is_left_out() -> None:
    plain = frame([{"source": "a", "seq": 0, "ts": 1, "arrival": 1, "type": "A"}])
    nulls = {
        name: pa.nulls(1)
        for name in ("stream", "kind", "te", "incarnation", "id", "attrs.v", "attrs.w")
    }
    batch = pa.RecordBatch.from_pydict(
        {name: plain.batch.column(name) for name in ("source", "seq", "ts", "arrival", "type")}
        | nulls
    )
    assert chain_text([[Frame("main", batch)]], settings_of("none")) == chain_text(
        [[plain]], settings_of("none")
    )


@pytest.mark.parametrize("order", ORDERS)
def test_an_event_without_what_it_needs_is_refused_before_a_kernel_reads_it(order: str) -> None:
    plain = {"source": "a", "seq": 0, "ts": 1, "arrival": 1, "type": "A"}
    for name in ("source", "ts", "arrival"):
        chain = Chain(settings_of(order), "main")
        with pytest.raises(UserError, match=f"site 'main': row 1 of a frame has no {name}"):
            chain.process([frame([plain, plain | {name: None}, plain])])
    chain = Chain(settings_of(order), "main")
    assert chain.process([frame([plain, plain | {"seq": None}, {"kind": "tick", "arrival": 2}])])


def test_a_source_that_is_a_null_of_the_dictionary_is_none_either() -> None:
    made = frame([{"source": "a", "seq": n, "ts": n, "arrival": n} for n in range(2)])
    source = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a", None]))
    place = made.batch.schema.get_field_index("source")
    batch = made.batch.set_column(place, "source", source)
    with pytest.raises(UserError, match="row 1 of a frame has no source"):
        Chain(settings_of("none"), "main").process([Frame("main", batch)])
