"""One table as a stream in order and as a table of DuckDB, asked the same."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query.analysis.cascade import read_statements
from tests.order.conftest import frame

Row = dict[str, Any]
COLUMNS = {
    "n": "BIGINT", "ts": "BIGINT", "stream": "VARCHAR", "g": "BIGINT", "h": "VARCHAR",
    "v": "DOUBLE", "w": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "born": "BIGINT",
}  # fmt: skip
TEXTS = ["", "a", "b", "ab", "aB", " a ", "a_b", "a%", "\u00e4", "10", "9", "\U0001f600"]
OUTER = re.compile("(LEFT|RIGHT|FULL|ANTI).* JOIN")


@st.composite
def tables(draw: st.DrawFn, most: int = 40) -> list[Row]:
    """Rows in order of time, of which some are equal; every attribute may be missing."""
    real = st.none() | st.integers(-800, 800).map(lambda number: number / 8)
    # Where DuckDB 2.0 rounds to microseconds, it gives the last of a day the next day's date.
    whole_us = st.integers(0, 20_000 * 86_400_000_000).map(lambda us: us * 1000)
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 5, 9, 30]), min_size=1, max_size=most))
    return [
        {
            "n": n, "ts": ts, "stream": draw(st.sampled_from("ab")),
            "g": draw(st.sampled_from([0, 1, 2, None])),
            "h": draw(st.sampled_from(["p", "q", "", None])),
            "v": draw(real), "w": draw(st.none() | st.integers(-4, 4)), "x": draw(real),
            "s": draw(st.none() | st.sampled_from(TEXTS)),
            "born": draw(st.none() | whole_us),
        }
        for n, ts in enumerate(itertools.accumulate(steps))
    ]  # fmt: skip


def standing(rows: Sequence[Row], texts: Sequence[str]) -> list[list[Row]]:
    """Of each text's last statement what is left of ``+`` by ``-``."""
    records = [
        {
            "source": "s", "seq": row["n"], "ts": row["ts"], "arrival": 10**6 + row["n"],
            "stream": row["stream"], "type": "E",
            "attrs": {
                name: row[name]
                for name in COLUMNS
                if name not in {"ts", "stream"} and row[name] is not None
            },
        }
        for row in rows
    ]  # fmt: skip
    names = [f"asked{place}" for place in range(len(texts))]
    plans, _ = read_statements(texts, names=names)
    chain = Chain(ChainSettings(parse_order("none"), plans, guards=Guards(None)), "main")
    outputs = [chain.process([frame(records)]), chain.finish()]
    found = []
    for place in [[plan.name for plan in plans].index(name) for name in names]:
        left: Counter[str] = Counter()
        for result in itertools.chain(*(output.results[place] for output in outputs)):
            emitted = json.dumps({**result, "op": "+", "at": 0, "known_at": 0})
            left[emitted] += 1 if result["op"] == "+" else -1
            assert left[emitted] >= 0
        found.append([json.loads(emitted) for emitted in left.elements()])
    return found


class DuckDbTable:
    """DuckDB with the rows as its table ``t``. Integers add without end, x / 0 is null."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        for setting in ("error_on_division_by_zero", "ieee_floating_point_ops"):
            self._connection.execute(f"SET {setting}=false")
        declared = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        self._connection.execute(f"CREATE TABLE t ({declared})")
        holes = ", ".join("?" * len(COLUMNS))
        self._connection.executemany(
            f"INSERT INTO t VALUES ({holes})", [[row[name] for name in COLUMNS] for row in rows]
        )

    def __call__(self, text: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(text).fetchall()


def assert_same(
    rows: Sequence[Row], asked: Sequence[tuple[str, str]], shown: Callable[[Row], tuple[Any, ...]]
) -> None:
    """Of each (ours, theirs) the same rows, values equal to 1e-9. ``shown``: of our result."""
    theirs, kept = DuckDbTable(rows), list[tuple[str, str]]()
    for pair in asked:
        if _refused(pair[0]):
            if not OUTER.search(pair[0]):  # these give what has no partner, whatever ON says
                assert not theirs(pair[1]), pair
        else:
            kept.append(pair)
    results_of = standing(rows, [ours for ours, _ in kept]) if kept else []
    for pair, results in zip(kept, results_of, strict=True):
        mine, other = [shown(result) for result in results], theirs(pair[1])
        assert len(mine) == len(other), (pair, mine, other)
        for one, two in zip(sorted(mine, key=_place), sorted(other, key=_place), strict=True):
            numbers = tuple(float(v) if isinstance(v, int | bool) else v for v in two)
            assert one == pytest.approx(numbers, rel=1e-9, abs=1e-9), (pair, one, two)


def _refused(text: str) -> bool:
    """A condition that holds for no event is refused: of no use to anybody."""
    try:
        read_statements([text])
    except UserError as error:
        if "can never be true" not in str(error):
            raise
        return True
    return False


def _place(row: Sequence[Any]) -> list[tuple[bool, str, float]]:
    """Where it stands among rows of the same types."""
    return [
        (value is None, value if isinstance(value, str) else "",
         round(value, 6) if isinstance(value, int | float) else 0.0)
        for value in row
    ]  # fmt: skip
