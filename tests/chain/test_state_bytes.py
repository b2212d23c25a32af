"""Attack 1: a state is data. What was put in comes out, and bytes of others are refused."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import ClockBound
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.site_chain import SNAPSHOT_VERSION
from slackwater.engine.hosts.chain.state_bytes import (
    NotPlainError,
    StateDamagedError,
    from_bytes,
    to_bytes,
)
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.operators.grouping.dataflow import Dataflow
from slackwater.engine.operators.grouping.maps import PythonCombine
from slackwater.engine.operators.grouping.operations import GroupingPlan, Stateful
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.planted import Planted

RECORD = np.dtype([("a", "?"), ("b", "i8"), ("c", "f4", (2, 3))], align=True)
NESTED = np.dtype([("n", "i8"), ("each", RECORD, (2,)), ("text", "U3")])
TYPES = ["?", "i1", "u2", "i8", "u8", "f4", "f8", ">i4", "c16", "S3", "U2", RECORD, NESTED]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    made = np.ndarray(shape, dtype, bytearray(draw(st.binary(min_size=size, max_size=size))))
    if dtype.kind in "UV":  # not every four bytes are a character
        made = np.zeros(shape, dtype)
    if draw(st.booleans()):
        made = np.asfortranarray(made)
    return made[::2] if made.ndim and draw(st.booleans()) else made


KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.text(st.characters(categories=["Cs"])) | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
OBJECTS = st.lists(st.tuples(KEYS) | st.lists(KEYS, max_size=2), max_size=4).map(
    lambda values: np.fromiter(values, object, len(values))
)
SCALARS = st.sampled_from(
    [np.int64(-5), np.float32(0.5), np.bool_(True), np.str_("é"), np.uint8(7)]
)
VALUES = st.recursive(
    KEYS | arrays() | OBJECTS | SCALARS | st.sets(KEYS, max_size=3) | st.just(float("nan")),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner)
    | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """The same values of the same types, in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return same(one.tolist(), other.tolist())
        facts = (one.shape, one.dtype, one.dtype.isalignedstruct)
        if facts != (other.shape, other.dtype, other.dtype.isalignedstruct):
            return False
        if one.dtype.names:  # between fields lies what happens to lie there
            return all(same(one[name], other[name]) for name in one.dtype.names)
        return one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other))


@given(VALUES)
def test_what_is_put_in_comes_out(value: Any) -> None:
    assert same(from_bytes(to_bytes(value)), value)


def test_tables_come_out_too() -> None:
    table = pa.table({"n": [1, None], "each": [["a"], []]})
    assert from_bytes(to_bytes({1: (table, 2)})) == {1: (table, 2)}
    with pytest.raises(StateDamagedError):
        from_bytes(to_bytes(table).replace(b"ARROW", b"?")[:-9])


@given(arrays())
def test_arrays_are_the_readers_own(array: np.ndarray) -> None:
    found = from_bytes(to_bytes(array))
    assert found.flags.writeable
    assert found.flags.aligned
    assert found.flags.c_contiguous


class Pair(NamedTuple):
    first: int


@dataclass
class Own:
    first: int


@pytest.mark.parametrize(
    "value",
    [
        Pair(1), Own(1), Counter("a"), os.getcwd, object(), Path("x"), np.array([Own(1)]),
        np.array(["2026-01-01"], "M8[D]"), np.zeros(1, [("a", object)]), {1: [(Own(1),)]},
    ],
)  # fmt: skip
def test_what_is_not_plain_is_refused(value: Any) -> None:
    with pytest.raises(NotPlainError, match="cannot be kept in a state: use None, bool"):
        to_bytes(value)


def test_attack_01_a_pickle_is_not_read(tmp_path: Path) -> None:
    planted = pickle.dumps(Planted(tmp_path / "ran"))
    whole = to_bytes({"version": SNAPSHOT_VERSION})
    for content in (planted, whole[:19] + planted, whole[:27] + planted):
        with pytest.raises(StateDamagedError):
            from_bytes(content)
    assert not (tmp_path / "ran").exists()


PLAIN = {"n": [1, (2, "x")], "rows": np.arange(6).reshape(2, 3), "of": np.zeros(2, NESTED)}


@given(st.data())
def test_a_damaged_state_is_refused_or_is_data(data: st.DataObject) -> None:
    """However it is cut, and whatever bytes stand in it, nothing else is raised."""
    whole = to_bytes(PLAIN)
    end = data.draw(st.integers(0, len(whole)))
    damaged = bytearray(whole[:end])
    for at in data.draw(st.lists(st.integers(0, max(end - 1, 0)), max_size=4 if end else 0)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(StateDamagedError):
        from_bytes(bytes(damaged))


def test_an_array_that_is_aligned_by_a_number_is_refused() -> None:
    whole = to_bytes(PLAIN)
    at = whole.index(b"(\xc3") + 1  # behind the size of the inner record
    with pytest.raises(StateDamagedError, match="aligned or not"):
        from_bytes(whole[:at] + b"\0" + whole[at + 1 :])


def settings_of(*plans: Any, barrier: str = "immediate") -> ChainSettings:
    return ChainSettings(
        parse_order("none"), plans, parse_barrier(barrier), guards=Guards(guard_ns=None)
    )


def fed(chosen: ChainSettings, folder: Path) -> Chain:
    chain = Chain(chosen, "main")
    records = ({"type": each, "ts": at, "attrs": {"v": at}} for at, each in enumerate("ABAB"))
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    chain.process(list(TraceRead(path, "ns")))
    return chain


MATCH = query("EVENT SEQ(A a, B b) WITHIN 10", name="match")
SUMS = query("SELECT sum(v) AS v WINDOW TUMBLING 10", name="sums")


def test_a_state_of_another_version_or_chain_is_refused(tmp_path: Path) -> None:
    both = settings_of(MATCH, SUMS)
    whole = fed(both, tmp_path).to_bytes()
    state = from_bytes(whole)
    for wrong in (
        to_bytes(state | {"version": SNAPSHOT_VERSION - 1}), to_bytes([1]), to_bytes({}),
        to_bytes({"version": SNAPSHOT_VERSION}),
        to_bytes(state | {"operators": state["operators"][::-1]}),
        *(to_bytes(state | {part: None}) for part in ("strings", "clocks", "_order", "_readers")),
    ):  # fmt: skip
        with pytest.raises(StateDamagedError):
            Chain.restored(both, "main", wrong)
    for other in (settings_of(MATCH), settings_of(SUMS, MATCH)):
        with pytest.raises(StateDamagedError, match="is of another chain"):
            Chain.restored(other, "main", whole)
    assert Chain.restored(both, "main", whole).to_bytes() == whole


def test_a_dataflow_that_remembers_what_cannot_be_kept_is_named(tmp_path: Path) -> None:
    remembers = Stateful(PythonCombine(lambda _state, item: (Own(item["v"]), [item["v"]])))
    plan = GroupingPlan("own", Dataflow((remembers,)), ("v",))
    chain = fed(settings_of(MATCH, plan, barrier="bounded:99"), tmp_path)
    with pytest.raises(UserError, match=r"query 'own': .* type Own cannot be kept in a state: use"):
        chain.to_bytes()


class Pair(NamedTuple):
    """Arrays side by side."""

    one: np.ndarray
    other: np.ndarray


class Inner(Restorable):
    """A part of a part."""

    state_fields = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Outer(Restorable):
    """Attributes of every kind that a state has."""

    state_fields = (
        "number", "text", "array", "records", "odd", "pair", "bound", "codes", "tallies", "of",
        "spans", "inner", "parts", "nobody",
    )  # fmt: skip

    def __init__(self, n: int) -> None:
        self.number, self.text = n, str(n)
        self.array = np.arange(n)
        self.records = np.ones(2 * n, [("a", "i8"), ("b", "i8")])[::2]
        self.odd = np.ones(n, [("a", "i8"), ("b", "?")])
        self.pair = Pair(np.arange(n), np.arange(2 * n).reshape(2, n))
        self.bound = ClockBound(n, until=2 * n)
        self.codes = {(each, str(each)) for each in range(n)}
        self.tallies = Counter({"x": n})
        self.of = {each: [(each, np.full(2, each))] for each in range(n)}
        self.spans = (n, [n])
        self.inner, self.parts = Inner(n), {0: Inner(n), 1: Inner(2 * n)}
        self.nobody = None
        self.apart = n


def test_a_part_goes_on_with_the_attributes_that_it_names_and_shares_none_of_them() -> None:
    made, gone_on = Outer(3), Outer(1)
    inner = gone_on.inner
    saved = made.snapshot()
    content = to_bytes(saved)
    gone_on.restore(from_bytes(content))
    assert to_bytes(gone_on.snapshot()) == content
    assert gone_on.inner is inner
    assert gone_on.apart == 1
    for name in Outer.state_fields:
        assert type(getattr(gone_on, name)) is type(getattr(made, name))
    again = Outer(0)
    again.restore(saved)
    for changed in (made, again):  # what changes later changes no snapshot
        for array in (changed.array, changed.records["a"], changed.odd["a"], *changed.pair):
            array[:] = 7
        changed.of[0][0][1][:] = 7
        changed.codes.add((9, "9"))
        changed.tallies["x"] += 1
        changed.inner.count += 1
    assert to_bytes(saved) == content
