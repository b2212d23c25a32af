"""Many events in order: windows of every kind say what pandas says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from slackwater.engine.core.released import IN_ORDER, Released, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.query import query

N = 20_000
CALLS = {
    "count(*)": "count", "sum(v)": "sum", "avg(v)": "mean", "min(v)": "min", "max(v)": "max",
    "median(v)": "median", "stddev(v)": lambda v: v.std(ddof=0), "var(v)": lambda v: v.var(ddof=0),
    "count(DISTINCT v)": "nunique", "first(v)": "first", "last(v)": "last",
    "min_by(v, ref)": "first", "max_by(v, 0 - ref)": "first",
}  # fmt: skip


def many(n: int = N) -> tuple[Released, pd.DataFrame]:
    random = np.random.default_rng(3)
    ref = np.cumsum(random.integers(1, 40, n))
    columns = {
        "ref": ref, "unc": np.zeros(n, np.int64), "epoch": np.full(n, -1), "release": ref,
        "status": np.full(n, IN_ORDER, np.int8), "source": np.zeros(n, np.int32),
        "stream": np.zeros(n, np.int32), "seq": np.arange(n),
        "attrs.g": random.integers(0, 20, n), "attrs.v": random.normal(size=n).round(2),
    }  # fmt: skip
    frame = pd.DataFrame({"ref": ref, "g": columns["attrs.g"], "v": columns["attrs.v"]})
    return Released(n, columns, {"g": "int", "v": "float"}, Strings(["events"]), 0), frame


def copies(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The events, once for each window that they are in, with its number ``w`` in their group."""
    name, size, step = (
        kind.split(maxsplit=1)[0],
        int(kind.split()[1]),
        int(kind.rsplit(maxsplit=1)[-1]),
    )
    if name == "SESSION":
        new = frame.groupby("g")["ref"].diff().fillna(size) >= size
        return frame.assign(w=new.groupby(frame["g"]).cumsum())
    at = frame.groupby("g").cumcount() if name == "ROWS" else frame["ref"]
    found = [frame.assign(w=at // step - k, at=at) for k in range(-(-size // step))]
    return pd.concat(each[each["at"] < each["w"] * step + size] for each in found)


@pytest.mark.parametrize(
    "kind",
    ["TUMBLING 4000", "SLIDING 4000 EVERY 1000", "SESSION 500", "ROWS 100", "ROWS 100 EVERY 7"],
)
def test_in_order_it_is_what_pandas_says(kind: str) -> None:
    released, frame = many()
    calls = [*CALLS] if not kind.startswith("SLIDING") else [*CALLS][:6]
    operator = windows_of(query(f"SELECT {', '.join(calls)} GROUP BY g WINDOW {kind}"))
    found = [*operator.process(released), *operator.finish(10**9)]
    groups = copies(frame, kind).sort_values("ref", kind="stable").groupby(["g", "w"])
    expected = groups["v"].agg([CALLS[call] for call in calls])
    if kind.startswith("ROWS"):  # those that are full and begin with an event
        expected = expected[(groups.size() == 100) & (expected.index.get_level_values("w") >= 0)]
    emitted: dict[int, list[Any]] = {}
    for result in found:
        emitted.setdefault(result["key"]["g"], []).append(tuple(result["value"].values()))
    assert len(found) == len(expected) > 150
    for g, of_group in expected.groupby(level="g"):
        assert np.array(emitted[int(g)]) == pytest.approx(of_group.to_numpy(), abs=1e-9)
