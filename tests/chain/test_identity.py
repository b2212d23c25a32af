"""3.2: equal settings have one text in every process, other settings another."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.chain.identity import identity_of
from slackwater.engine.operators.grouping.dataflow import Dataflow
from slackwater.engine.operators.grouping.maps import PythonCombine, PythonTupleMap
from slackwater.engine.operators.grouping.operations import Grouping, GroupingPlan, Stateful
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.grouping.chain_flows import plans

ROOT = Path(__file__).resolve().parents[2]
QUERIES = (
    "EVENT SEQ(A a, !C c, B+ b[]) WHERE a.id = c.id AND b[i].v IN (1, 2) WITHIN 10 RETURN a.id",
    "SELECT name, sum(v) AS v GROUP BY name HAVING v > 2 WINDOW SLIDING 4 EVERY 2 CHECK x (v > 1)",
)


def chosen(**more: Any) -> ChainSettings:
    texts = tuple(query(text, name=f"q{at}") for at, text in enumerate(QUERIES))
    made = ChainSettings(
        parse_order("sequence"), texts, parse_barrier("immediate"), Guards(guard_ns=5),
        carried=frozenset({"one", "two", "three", "four"}),
    )  # fmt: skip
    return replace(made, **more) if more else made


def flows(*functions: Callable[..., Any]) -> ChainSettings:
    made = tuple(
        GroupingPlan(f"f{at}", Dataflow((Stateful(PythonCombine(function)),)), ("v",))
        for at, function in enumerate(functions)
    )
    return chosen(plans=made, barrier=parse_barrier("bounded:9"))


def keyed(key: Callable[..., Any]) -> ChainSettings:
    flow = Dataflow((Grouping(2, key=key, map=PythonTupleMap(len)),))
    return chosen(plans=(GroupingPlan("k", flow),), barrier=parse_barrier("bounded:9"))


def closing_over(value: Any) -> Callable[..., Any]:
    return lambda state, item: (state, [value, item])


def with_default(state: Any, item: Any, factor: int = 2) -> Any:
    return state, [factor * item]


def of_two(factor: Any, state: Any, item: Any) -> Any:
    return state, [factor, item]


def compiled(factor: int) -> ChainSettings:
    import numba  # noqa: PLC0415 - of this test alone

    def scaled(before: Any, item: Any, after: Any, out: Any) -> bool:
        after.total = out.total = before.total + factor * item.v
        return True

    from slackwater.engine.operators.grouping.maps import Combine  # noqa: PLC0415

    fields = {"total": int}
    flow = Dataflow((Stateful(Combine(numba.njit(scaled), fields, fields)),), {"v": int})
    return chosen(plans=(GroupingPlan("c", flow),), barrier=parse_barrier("bounded:9"))


CASES: dict[str, Callable[[], ChainSettings]] = {
    "queries": chosen,
    "one query": lambda: chosen(plans=chosen().plans[:1]),
    "turned round": lambda: chosen(plans=chosen().plans[::-1]),
    "order": lambda: chosen(order=parse_order("sequence:timeout=fixed:1s")),
    "barrier": lambda: chosen(barrier=parse_barrier("bounded:1s")),
    "guards": lambda: chosen(guards=Guards(guard_ns=6)),
    "carried": lambda: chosen(carried=frozenset({"one", "two"})),
    "flows": lambda: chosen(plans=plans(), barrier=parse_barrier("bounded:9")),
    "flows that wait": lambda: chosen(plans=plans(keep_ns=3), barrier=parse_barrier("immediate")),
    "function": lambda: flows(with_default),
    "twice": lambda: flows(with_default, with_default),
    "lambda": lambda: flows(lambda state, item: (state, [item])),
    "other lambda": lambda: flows(lambda state, item: (item, [state])),
    "other constant": lambda: flows(lambda state, item: (state, [item, 1])),
    "another constant": lambda: flows(lambda state, item: (state, [item, 2])),
    "among": lambda: flows(lambda state, item: (state, [item in {"a", "b", "c"}])),
    "closure": lambda: flows(closing_over(1)),
    "other closure": lambda: flows(closing_over(2)),
    "closure of texts": lambda: flows(closing_over(frozenset({"a", "b", "c"}))),
    "closure of a function": lambda: flows(closing_over(closing_over("x"))),
    "closure of another": lambda: flows(closing_over(closing_over("y"))),
    "closure of an array": lambda: flows(closing_over(np.arange(3))),
    "closure of another array": lambda: flows(closing_over(np.arange(4))),
    "closure of an object": lambda: flows(closing_over(Guards(guard_ns=3))),
    "closure of a path": lambda: flows(closing_over(Path("x"))),
    "partial": lambda: flows(partial(of_two, 1)),
    "other partial": lambda: flows(partial(of_two, 2)),
    "bound": lambda: flows(partial(of_two, "x,y".split)),
    "key": lambda: keyed(operator.itemgetter("v")),
    "other key": lambda: keyed(operator.itemgetter("w")),
    "compiled": lambda: compiled(1),
    "compiled otherwise": lambda: compiled(2),
}
PRINT = """
import sys
junk = [object() for _ in range(int(sys.argv[1]))]
from tests.chain.test_identity import CASES, identity_of
for name, made in CASES.items():
    print(name, repr(identity_of(made())))
"""


def printed(seed: int) -> str:
    return subprocess.run(
        [sys.executable, "-c", PRINT, str(999 * seed)], check=True, capture_output=True, text=True,
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)},
    ).stdout  # fmt: skip


def test_3_2_settings_have_one_text_in_every_process() -> None:
    assert printed(1).splitlines() == printed(2).splitlines()


def test_3_2_other_settings_have_another_text() -> None:
    found = {name: identity_of(made()) for name, made in CASES.items()}
    assert found == {name: identity_of(made()) for name, made in CASES.items()}
    assert len(set(found.values())) == len(found)
    assert not [name for name, text in found.items() if " at 0x" in text]


def test_3_2_what_cannot_be_known_again_is_refused_with_a_word() -> None:
    for value in (threading.Lock(), (each for each in "ab"), [sys]):
        with pytest.raises(UserError, match=r"value of type \w+, which no restart can know again"):
            identity_of(flows(closing_over(value)))
    assert identity_of(flows(closing_over(len))) == identity_of(flows(closing_over(len)))


def test_a_function_that_calls_itself_has_a_text() -> None:
    def countdown(state: Any, item: Any) -> Any:
        return (state, [item]) if not item else countdown(state, item - 1)

    assert identity_of(flows(countdown)) == identity_of(flows(countdown))
