"""The events held: what the kernel reads of attributes is their columns, whatever comes when."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.barrier.changes import ORDER
from engine.pattern.search import stacks
from engine.pattern.search.program_machine import FLOAT
from engine.pattern.store import EXPIRES, HORIZON, MEMBER, T_A, Store
from engine.stream.released import Strings
from tests.pattern.conftest import Event, batch

NAMES = ("k", "v", "w", "source")
VALUES = {
    "int": st.integers(-5, 5) | st.sampled_from([2**53 + 1, -(2**62)]),
    "float": st.sampled_from([0.5, 1.0, -3.0, float("nan")]),
    "bool": st.booleans(),
}


@st.composite
def batches(draw: st.DrawFn) -> list[list[Event]]:
    """In each batch an attribute is of one kind, some values null, or it is not there."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        kinds = {name: draw(st.sampled_from(["int", "int", "float", "bool", ""])) for name in "kvw"}
        events = []
        for place in range(draw(st.integers(0, 5))):
            attrs: dict[str, Any] = {
                name: draw(st.none() | VALUES[kind]) for name, kind in kinds.items() if kind
            }
            long = draw(st.sampled_from([0, 3]))
            events.append(Event("A", 10 * number + place, attrs=attrs, long=long))
        found.append(events)
    return found


def filled(store: Store, given: list[list[Event]], drops: list[int]) -> None:
    """Batch by batch; after each a restart, and some events are dropped."""
    strings = Strings()
    for events, drop in zip(given, drops, strict=False):
        released = batch(events, strings, 0, len(events))
        more = {
            name: np.arange(len(events)) for name in (ORDER, EXPIRES, MEMBER, HORIZON, T_A)
        }  # fmt: skip
        store.append(released, np.arange(len(events)), None, more)
        if drop < 5:
            store.keep(np.arange(store.n) % 5 != drop)
        store.restore(pickle.loads(pickle.dumps(store.snapshot())))


@given(batches(), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_what_is_held_once_reads_as_if_held_for_itself(
    given: list[list[Event]], drops: list[int]
) -> None:
    """As conditions and keys read it: equal values are the same, null is equal to nothing."""
    reader, plain = Store(["v", "w"], ["k", "w", "source"]), Store([], [])
    filled(reader, given, drops)
    filled(plain, given, drops)
    rows = np.arange(plain.n)
    wanted, found = (
        store.view(rows, {*plain.columns, "te"}, Strings()).columns for store in (plain, reader)
    )
    assert found.keys() == wanted.keys()
    for name, column in wanted.items():
        assert column.dtype == found[name].dtype
        assert column.tobytes() == found[name].tobytes(), name
    r, n = reader.registers, plain.n
    for number, name in enumerate("vw"):
        if f"valid.{name}" in wanted:
            assert (r.ok[number, :n] == wanted[f"valid.{name}"]).all()
            known, raw = r.ok[number, :n], r.raw[number, :n]
            held = wanted[f"attrs.{name}"]
            values = raw.view(np.float64) if reader.kinds[number] == FLOAT else raw
            same = np.array_equal(
                values[known].astype(float), held[known].astype(float), equal_nan=True
            )
            assert same, name
    for number, name in enumerate("kw"):
        if f"valid.{name}" in wanted:
            held, known = wanted[f"attrs.{name}"], wanted[f"valid.{name}"]
            known = known & ~np.isnan(held.astype(np.float64))
            same, tag = r.same[number, :n], r.tag[number, :n]
            assert ((tag != 0) == known).all()
            equal = (same[:, None] == same) & (tag[:, None] == tag)
            expected = held[:, None] == held
            assert (equal[np.ix_(known, known)] == expected[np.ix_(known, known)]).all()


def test_a_whole_number_that_is_read_is_held_once() -> None:
    events = [Event("A", n, attrs={"k": n, "v": n}) for n in range(10)]
    store = Store(["v"], ["k"])
    filled(store, [events], [9])
    for name, matrix in (("k", store.registers.same), ("v", store.registers.raw)):
        assert np.shares_memory(store.columns[f"attrs.{name}"], matrix)
    masks = store.columns["valid.k"], store.columns["valid.v"]
    assert np.shares_memory(masks[0], store.registers.tag)
    assert np.shares_memory(masks[1], store.registers.ok)


def test_what_a_batch_lacks_of_a_record_is_zero() -> None:
    """Whatever stood in that memory, and whatever type the columns have."""
    store, strings = Store([], []), Strings()
    events = [Event("A", place, long=3) for place in range(5)]
    released = batch(events, strings, 0, len(events))
    more = {name: np.arange(10, 15, dtype=np.int32) for name in (ORDER, EXPIRES, MEMBER, HORIZON)}
    store.append(released, np.arange(5)[::2], None, {name: of[::2] for name, of in more.items()})
    held = store.events[: store.n]
    assert held["order"].tolist() == held["horizon"].tolist() == [10, 12, 14]
    assert held["t_a"].tolist() == held["doubted"].tolist() == [0, 0, 0]
    assert held["ref_end"].tolist() == (held["ref"] + 3).tolist()


def test_a_snapshot_of_stacks_holds_what_is_used() -> None:
    made = stacks.empty_stacks(stacks=1000, pool=100_000)
    for row in range(100):
        stacks.insert(made, row % 3, row, row, stacks.Beside(0, -1, -1, 0, 0, 1))
    state = stacks.packed(made)
    assert sum(used.nbytes for _, used in state) < 40_000
    again = stacks.unpacked(pickle.loads(pickle.dumps(state)))
    assert all((one == other).all() for one, other in zip(made, again, strict=True))
