"""Lines of a trace from a few words, and what a chain answers to them, cut anywhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings, parse_purge

Line = dict[str, Any]


def sync(source: str, unc: int, arrival: int = 0, **more: Any) -> Line:
    return {"kind": "sync", "source": source, "offset": 0, "delay": 2 * unc, "ts": 0,
            "arrival": arrival, **more}  # fmt: skip


def event(kind: str, ts: int, source: str, arrival: int | None = None) -> Line:
    return {"type": kind, "ts": ts, "source": source, "arrival": ts if arrival is None else arrival}


def pog(kind: str | None, ts: int, source: str | None, arrival: int) -> Line:
    line: Line = {"kind": "pog", "ts": ts, "arrival": arrival, "source": source, "type": kind}
    return {name: value for name, value in line.items() if value is not None}


def results_of(
    folder: Path, text: str, lines: Sequence[Line], barrier: str = "immediate",
    purge: str = "late", order: str = "none", cuts: Sequence[int] = (), certainty: str = "pairwise",
) -> tuple[list[dict[str, Any]], dict[str, int]]:  # fmt: skip
    """All results, and the query's counters; at every cut the chain goes through its snapshot."""
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (frame,) = TraceRead(path)
    plan = query(text)
    pattern = PatternSettings(**parse_purge(purge).of_pattern())
    made = ChainSettings(
        parse_order(order), (plan,), parse_barrier(barrier), certainty=certainty,
        guards=Guards(None), pattern=pattern,
    )  # fmt: skip
    chain, found = Chain(made, frame.site), []
    borders = [0, *sorted({cut for cut in cuts if 0 < cut < len(lines)}), len(lines)]
    for start, stop in itertools.pairwise(borders):
        if start:
            chain = Chain.restored(made, frame.site, chain.to_bytes())
        found += list(chain.process([frame.slice(start, stop - start)]).results[0])
    found += list(chain.finish().results[0])
    return found, chain.counters()["queries"][plan.name]


def answered(
    folder: Path, text: str, lines: Sequence[Line], *more: Any, **named: Any
) -> tuple[list[str], dict[str, int]]:
    """``+0,28 uncertain @28`` for each result, and the query's counters; see ``results_of``."""
    found, counts = results_of(folder, text, lines, *more, **named)
    return [
        f"{r['op']}{','.join(str(e['ref']) for e in r['events'])} {r['certainty']} @{r['at']}"
        for r in found
    ], counts
