"""Intervals and halves of them as released batches, and what the engine answers of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.edge_agent.records import Kind
from slackwater.engine.barrier.registry import BarrierSettings
from slackwater.engine.core.released import IN_ORDER, ClockBound, Progress, Released, Strings
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.match.interval.trees import TreeMatcher
from slackwater.engine.operators.match.seq import Alone
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.pattern.trees.definition import Record

KINDS = {"whole": int(Kind.EVENT), "start": int(Kind.IBP), "end": int(Kind.IBE)}


def batch(
    records: Sequence[Record], strings: Strings, first: int, stop: int, unc: int, t_a: int = 0
) -> Released:
    """Records [first, stop), each at the arrival-clock instant of its number."""
    mine = records[first:stop]
    known = [r.end if r.half == "end" else r.start for r in mine]
    columns: dict[str, np.ndarray] = {
        "ref": np.array(known, np.int64),
        "te": np.array(
            [r.end if r.half == "whole" else k for r, k in zip(mine, known, strict=True)], np.int64
        ),
        "unc": np.array([r.unc for r in mine], np.int64),
        "epoch": np.array([r.epoch for r in mine], np.int64),
        "id": np.array([r.id for r in mine], np.int64),
        "kind": np.array([KINDS[r.half] for r in mine], np.int8),
        "status": np.full(len(mine), IN_ORDER, np.int8),
        "stream": np.full(len(mine), strings.code("events"), np.int32),
    }  # fmt: skip
    for name in "vk":
        values = [getattr(r, name) for r in mine]
        columns["attrs." + name] = np.array([each or 0 for each in values], np.int64)
        columns["valid." + name] = np.array([each is not None for each in values], bool)
    columns["ts"], columns["ref_end"] = columns["ref"].copy(), columns["te"].copy()
    for name in ("release", "arrival", "seq"):
        columns[name] = np.arange(first, stop)
    for name in ("source", "type"):
        columns[name] = np.array([strings.code(getattr(r, name)) for r in mine], np.int32)
    types = {"v": "int", "k": "int", "$id": "int"}
    return Released(
        len(mine), columns, types, strings, t_a, Progress(), bound=ClockBound(unc)
    )  # fmt: skip


@dataclass
class Run:
    """The results of a query, batch by batch."""

    text: str
    barrier: BarrierSettings | None = None
    settings: PatternSettings = field(default_factory=lambda: PatternSettings(keep_late_ns=10**6))
    t_a: int = 0

    def over(self, records: Sequence[Record], cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
        """All results; at every cut the operator is rebuilt from its encoded snapshot."""
        plan = query(self.text)
        make = lambda: Alone(TreeMatcher(plan, self.settings), self.barrier)  # noqa: E731
        operator, strings, results = make(), Strings(), []
        unc = max((record.unc for record in records), default=0)
        borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
        for number, (first, stop) in enumerate(itertools.pairwise(borders)):
            if number:
                state = from_bytes(to_bytes(operator.snapshot()))
                operator = make()
                operator.restore(state)
            results += operator.process(batch(records, strings, first, stop, unc, self.t_a))
        self.counters = operator.counters()
        return [*results, *operator.finish(10**9)]
