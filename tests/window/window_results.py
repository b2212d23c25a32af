"""What windows tell of plain events, asked by a text; and of records, through a whole chain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.settings import WindowSettings, parse_window
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.order.conftest import frame
from tests.window.conftest import Stream, run

Result = dict[str, Any]


def results_of(
    text: str, stream: Stream, cuts: Sequence[int] = (), horizon: int | None = 10**5
) -> list[Result]:
    """Of the operator alone, cut and restored, to its end at 10**6."""
    plan, made = query(text), WindowSettings(correction_horizon_ns=horizon)
    return run(lambda: windows_of(plan, made), stream, cuts, 10**6)  # type: ignore[arg-type, return-value]


def chain_results(
    records: list[Result], text: str, order: str = "none", barrier: str | None = None,
    cuts: Sequence[int] = (), horizon: str = "60s",
) -> list[Result]:  # fmt: skip
    """Of a whole chain, which is restored at each cut."""
    chosen = ChainSettings(
        parse_order(order), (query(text),), guards=Guards(None),
        window=parse_window(f"horizon={horizon}"),
        barrier=None if barrier is None else parse_barrier(barrier),
    )  # fmt: skip
    chain, found = Chain(chosen, "main"), []
    for start, end in itertools.pairwise([0, *sorted({*cuts} - {0, len(records)}), len(records)]):
        found += list(chain.process([frame(records[start:end])]).results[0])
        chain = Chain.restored(chosen, "main", chain.to_bytes())
    return found + list(chain.finish().results[0])


def standing(results: Sequence[Result], upto: float = math.inf) -> list[Result]:
    """What was emitted until then and not taken back; a retraction repeats what it takes back."""
    found: list[Result] = []
    for result in results:
        content = {name: value for name, value in result.items() if name not in {"op", "at"}}
        if result["at"] <= upto:
            (found.append if result["op"] == "+" else found.remove)(content)
    return found


def brief(results: Sequence[Result], *fields: str) -> list[tuple[Any, ...]]:
    return [
        (r["op"], r["at"], r["window"]["start"], r["window"]["end"], *(r[name] for name in fields))
        for r in results
    ]
