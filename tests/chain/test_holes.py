"""What no default stands for: an event without source, time or arrival is refused by its row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from edge_agent.records import Kind
from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.stream.frame import Frame

ORDERS = ("none", "kslack:3ns", "mp-kslack", "sequence")
PLAN = query("EVENT SEQ(A a, B b) WITHIN 5 ns", name="q")


def frame(**changes: Any) -> Frame:
    """Six events of two sources; ``changes``: columns as lists."""
    columns: dict[str, Any] = {
        "source": ["a", "b"] * 3, "seq": [0, 0, 1, 1, 2, 2], "type": ["A", "B"] * 3,
        "ts": list(range(6)), "arrival": list(range(10, 16)), **changes,
    }  # fmt: skip
    arrays = {name: pa.array(values) for name, values in columns.items()}
    for name in ("source", "type"):
        arrays[name] = arrays[name].cast(pa.string()).dictionary_encode()
    if "kind" in arrays:
        arrays["kind"] = arrays["kind"].cast(pa.int8())
    return Frame("main", pa.RecordBatch.from_pydict(arrays))


def chain(order: str) -> Chain:
    return Chain(ChainSettings(parse_order(order), (PLAN,), guards=Guards(None)), "main")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["source", "ts", "arrival"])
def test_an_event_that_lacks_what_it_needs_is_named(name: str, order: str) -> None:
    values: list[Any] = {"source": ["a", "b"] * 3, "ts": [*range(6)], "arrival": [*range(10, 16)]}[
        name
    ]
    values[3] = None
    with pytest.raises(UserError, match=f"site 'main': row 3 of a frame has no {name}: .*'seq': 1"):
        chain(order).process([frame(**{name: values})])


def test_a_source_that_is_a_null_of_the_dictionary_is_none_either() -> None:
    codes = pa.array([0, 1, 0, 1, 0, 0], pa.int32())
    source = pa.DictionaryArray.from_arrays(codes, pa.array(["a", None]))
    batch = frame().batch.set_column(0, "source", source)
    assert batch.column("source").null_count == 0
    with pytest.raises(UserError, match="row 1 of a frame has no source"):
        chain("none").process([Frame("main", batch)])


@pytest.mark.parametrize("order", ORDERS)
def test_records_that_speak_for_all_sources_need_none(order: str) -> None:
    kinds = [Kind.EVENT, Kind.EVENT, Kind.EVENT, Kind.EVENT, Kind.POG, Kind.TICK]
    made = frame(
        kind=kinds, source=["a", "b", "a", "b", None, None], ts=[0, 1, 2, 3, 4, None],
        seq=[0, 0, 1, 1, None, None],
    )  # fmt: skip
    live = chain(order)
    found = [*live.process([made]).results[0], *live.finish().results[0]]
    assert len(found) == 3
