"""K18's own examples, and what they leave open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.operators.grouping.dataflow import Dataflow, SinkBarrier
from slackwater.engine.operators.grouping.items import regular
from slackwater.engine.operators.grouping.maps import (
    Combine,
    PythonCombine,
    PythonTupleMap,
    TupleMap,
)
from slackwater.engine.operators.grouping.operations import Grouping, Map, Stateful

EVEN = Grouping(3, key=lambda number: number, hash=lambda number: number % 2 == 0)
GOLDEN = [(1,), (2,), (1, 3), (2, 4), (1, 3, 5), (2, 4, 6), (3, 5, 7), (4, 6, 8)]


@pytest.mark.parametrize("together", [False, True])
def test_tuples_of_odd_and_even_numbers(together: bool) -> None:
    """K18 V.B.2, in the order of the text, before any watermark."""
    run = Dataflow((EVEN,)).start(together=together)
    assert run.send(range(1, 9), range(1, 9)).payload.tolist() == GOLDEN
    assert run.overhead == 1
    assert run.watermark(9).payload.tolist() == GOLDEN


def test_a_late_number_takes_back_what_it_makes_wrong() -> None:
    run = Dataflow((EVEN,)).start()
    run.send([1, 3, 7], [1, 3, 7])
    emitted = run.send([5], [5])
    assert list(zip(emitted.tombstone.tolist(), emitted.payload.tolist(), strict=True)) == [
        (True, (1, 3, 7)), (False, (1, 3, 5)), (False, (3, 5, 7)),
    ]  # fmt: skip
    assert run.watermark(100).payload.tolist() == [(1,), (1, 3), (1, 3, 5), (3, 5, 7)]
    assert run.overhead == 6 / 4


def _product(state: np.ndarray | None, matrix: np.ndarray) -> tuple[np.ndarray, list[str]]:
    new = matrix if state is None else state @ matrix
    return new, [str(new.tolist())]


def test_products_of_square_matrices_whatever_their_order() -> None:
    """K18 Fig 7: the key is the dimension; matrices do not commute."""
    a, b, c = (np.array(m) for m in ([[1, 2], [3, 4]], [[0, 1], [1, 0]], [[2, 0], [5, 1]]))
    stateful = Stateful(PythonCombine(_product), key=lambda matrix: matrix.shape)
    run = Dataflow((stateful,)).start()
    run.send([3, 1, 2, 4], [c, a, b, np.eye(3, dtype=int)])
    found = run.watermark(10).payload.tolist()
    assert found == [str(each.tolist()) for each in (a, a @ b, a @ b @ c, np.eye(3, dtype=int))]


def test_equal_times_go_by_the_source_then_by_its_numbers() -> None:
    """K18 V.A: timestamps first, then source id."""
    run = Dataflow((Grouping(4, key=lambda _: 0),)).start()
    run.send([5, 5, 5, 5], "dbca", source=[1, 0, 1, 0], seq=[8, 9, 7, 3])
    assert run.watermark(6).payload.tolist()[-1] == ("a", "b", "c", "d")
    ranked = Dataflow((Grouping(2, key=lambda _: 0),)).start()
    ranked.send([5, 5], "ab", source=[0, 1], rank=np.array([1, 0]))
    assert ranked.watermark(6).payload.tolist() == [("b",), ("b", "a")]


@pytest.mark.parametrize("together", [False, True])
def test_of_events_equal_in_all_the_first_to_arrive_is_first(together: bool) -> None:
    run = Dataflow((Grouping(2, key=lambda text: text[0]),)).start(together=together)
    run.send([5, 5, 4], ["b1", "a1", "a0"])
    assert run.watermark(6).payload.tolist() == [("a0",), ("b1",), ("a0", "a1")]


def test_what_passed_the_barrier_is_not_taken_back() -> None:
    run = Dataflow((EVEN,)).start()
    run.send([1, 5], [1, 5])
    assert run.watermark(5).payload.tolist() == [(1,)]
    assert not len(run.send([3, 4], [3, 4]))
    assert run.late == 2
    run.send([5], [7])  # at the watermark is in time
    assert run.watermark(6).payload.tolist() == [(1, 5), (1, 5, 7)]
    assert not len(run.watermark(2))
    assert run.floor == 6


def test_a_map_may_make_none_and_many() -> None:
    words = Map(str.split, most=5)
    count = Stateful(PythonCombine(lambda n, w: ((n or 0) + 1, [(w, (n or 0) + 1)])), key=str)
    run = Dataflow((words, count)).start()
    run.send([2, 3, 1], ["a b a", "", "b"])
    assert run.watermark(9).payload.tolist() == [("b", 1), ("a", 1), ("b", 2), ("a", 2)]
    with pytest.raises(UserError, match="a map made 6 items of one; its most=5"):
        run.send([9], ["a b c d e f"])


def _mean(group: np.ndarray, out: np.ndarray) -> bool:
    total = 0.0
    for i in range(len(group)):
        total += group[i].v
    out.mean = total / len(group)  # type: ignore[attr-defined]
    return len(group) > 1


def test_a_compiled_map_of_tuples() -> None:
    grouping = Grouping(3, key="sid", map=TupleMap(_mean, {"mean": float}))
    run = Dataflow((grouping,), {"sid": int, "v": float}).start()
    given = np.array([(1, 1.0), (1, 5.0), (2, 7.0), (1, 3.0)], run.item)
    run.send([1, 3, 4, 2], given)
    found = run.watermark(9)
    assert (found.ref.tolist(), found.payload["mean"].tolist()) == ([2, 3], [2.0, 3.0])


def test_what_does_not_fit_is_reported() -> None:
    with pytest.raises(UserError, match="window=0: a tuple has 1 to 1024 items"):
        Grouping(0)
    with pytest.raises(UserError, match="field 'w' of a compiled map is <U4"):
        Combine(_mean, {"n": int}, {"w": "U4"}).remembered(np.dtype([("v", float)]))
    with pytest.raises(UserError, match="items are object: give a structured array"):
        Dataflow((Stateful(Combine(_mean, {"n": int}, {"n": int}), key=len),)).start()
    with pytest.raises(UserError, match="may make 2199023255552 items of one"):
        Dataflow((Map(str.split, most=1 << 40), Map(str.split, most=2))).start()
    many = PythonTupleMap(lambda _: range(5000))
    with pytest.raises(UserError, match="a map made 5000 items of one tuple; at most 4096"):
        Dataflow((Grouping(1, map=many),)).start().send([1], [1])


def test_a_tombstone_of_nothing_is_a_broken_contract() -> None:
    item = regular(np.array([1]), np.array([0]), np.array([0]), np.array(["x"], object))
    stray = replace(item, tombstone=np.array([True]))
    with pytest.raises(ContractViolation, match="not at the barrier"):
        SinkBarrier().insert(stray)


def test_a_key_of_several_values_per_item() -> None:
    rows = np.array([(1, 1), (2, 1), (1, 1), (2, 2)], [("a", "i8"), ("b", "i8")])
    made = []
    for key in (("a", "b"), lambda items: np.stack([items["a"], items["b"]], axis=1)):
        run = Dataflow((Grouping(2, key=key),), item={"a": int, "b": int}).start()
        run.send(range(1, 5), rows)
        made.append(run.watermark(10).payload.tolist())
    assert made[0] == made[1] == [((1, 1),), ((2, 1),), ((1, 1), (1, 1)), ((2, 2),)]
