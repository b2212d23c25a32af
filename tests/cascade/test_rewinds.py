"""Going back in the tail of an operator: the same as reading it from its beginning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cascade import rewinds
from engine.cascade.asked import AskedOperator
from engine.cascade.rewinds import Rewinds
from engine.cascade.rows import DerivedRows
from engine.stream.clock_bound import ClockBound
from engine.stream.released import Progress, Strings


class Reads:
    """An operator whose state is what it has read."""

    types = None

    def __init__(self) -> None:
        self.read: list[int] = []

    def process(self, released):  # type: ignore[no-untyped-def]
        self.read += released.columns["seq"].tolist()
        return []

    def codes(self) -> np.ndarray:
        return np.array(self.read)

    def snapshot(self) -> dict[str, list[int]]:
        return {"read": list(self.read)}

    def restore(self, state: dict[str, list[int]]) -> None:
        self.read = list(state["read"])


def rows(values: list[int]) -> DerivedRows:
    n = len(values)
    if not n:
        return DerivedRows()
    return DerivedRows(n, {"seq": np.array(values), "missing": np.zeros(n, np.int64)})


DO = st.lists(
    st.tuples(st.sampled_from(["append", "change", "let go", "restore"]), st.integers(0, 40)),
    max_size=40,
)


@given(steps=DO, few=st.sampled_from([1, 3]), most=st.sampled_from([2, 4]))
@settings(max_examples=100, deadline=None)
def test_a_copy_has_read_just_what_is_in_front(
    steps: list[tuple[str, int]], few: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewinds, "_FEW", few)
        patch.setattr(rewinds, "_MOST", most)
        found = Rewinds(AskedOperator(Reads, 0))  # type: ignore[arg-type]
        given_to = (Strings(), ClockBound())
        final, tail, number = list[int](), list[int](), 0
        for what, size in steps:
            number += 100
            place = min(size, len(tail))
            if what == "append":
                tail += range(number, number + size)
            elif what == "change":
                copy = found.back_to(rows(tail), place, *given_to)
                assert copy.operator.read == final + tail[:place]  # type: ignore[attr-defined]
                assert len(found.codes()) <= most
                tail = [*tail[:place], number]
                run = copy.copy()
                run.feed(rows(tail[place:]), Progress(), *given_to)
                assert run.operator.read == final + tail  # type: ignore[attr-defined]
            elif what == "let go":
                found.let_go(rows(tail), place, *given_to)
                final, tail = final + tail[:place], tail[place:]
            else:
                state = found.snapshot()
                found = Rewinds(AskedOperator(Reads, 0))  # type: ignore[arg-type]
                found.restore(state)
