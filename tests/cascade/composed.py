"""The reference: each statement evaluated by itself, over the complete net results of the last one.

Results become records of a trace as SPEC's words say, one by one in Python, and go through a chain
of their own that has one query. So nothing of ``engine.operators.cascade`` is used.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.window.settings import parse_window
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.language.statements import statements
from slackwater.engine.query.plan import Plan
from tests.order.conftest import frame

Records = list[dict[str, Any]]


def cascade(
    text: str, records: Records, order: str = "none", cuts: Sequence[int] = (),
    window: str = "horizon=60s", **options: Any,
) -> dict[str, Records]:  # fmt: skip
    """All results by statement; the chain is restored at each cut, and then at the end, too."""
    plans = plans_of(text)
    chosen = ChainSettings(
        parse_order(order), plans, guards=Guards(None), window=parse_window(window), **options
    )
    chain, found = Chain(chosen, "main"), {plan.name: Records() for plan in plans}
    ends = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    for start, end in itertools.pairwise(ends):
        if end > start:
            for plan, results in zip(plans, chain.process([frame(records[start:end])]).results,
                                     strict=True):  # fmt: skip
                found[plan.name] += list(results)
            if cuts:
                chain = Chain.restored(chosen, "main", chain.to_bytes())
    for plan, results in zip(plans, chain.finish().results, strict=True):
        found[plan.name] += list(results)
    return found


@cache
def plans_of(text: str) -> tuple[Plan, ...]:
    """Of statements; worlds by the dozen are asked the same."""
    return read_statements([text])[0]


def single(text: str, records: Records, name: str, order: str = "none") -> Records:
    """The net results of one query."""
    chosen = ChainSettings(
        parse_order(order), (query(text, name=name),), guards=Guards(None),
        window=parse_window("horizon=600s"),
    )  # fmt: skip
    chain = Chain(chosen, "main")
    found = list(chain.process([frame(records)]).results[0]) if records else []
    return net(found + list(chain.finish().results[0]))


def net(results: Records) -> Records:
    """What is given and not taken back; each retraction repeats the content of its insertion.
    Matches of events that are results have these without numbers, so two may be alike.
    """
    counts: Counter[str] = Counter()
    for result in results:
        content = {**result, "op": "+", "at": 0}
        text = json.dumps(content, sort_keys=True)
        counts[text] += 1 if result["op"] == "+" else -1
        assert counts[text] >= 0, result
    return [json.loads(text) for text in counts.elements()]


def composed(text: str, records: Records, columns: Mapping[str, Any]) -> dict[str, Records]:
    """The net results of every statement, each over those of the one before it; ``columns``: by
    stream, from a match's result to the own attributes of its event.
    """
    found: dict[str, Records] = {}
    read = sorted(records, key=lambda record: record["ts"])
    events = [{**record, "arrival": n} for n, record in enumerate(read)]
    made: Records = events
    for number, one in enumerate(statements(text), 1):
        name = one.stream or f"q{number}"
        found[name] = single(one.text, made, name)
        if one.stream is not None:
            closed = "WINDOW ROWS" in one.text
            made = as_events(found[name], name, columns.get(name), closed=closed)
    return found


def as_events(results: Records, name: str, columns: Any, *, closed: bool) -> Records:
    """The records that results are, in the order of their ends; ``closed``: of windows whose end is
    in them.
    """
    made = []
    for result in results:
        if "window" in result:
            start, end = result["window"]["start"], result["window"]["end"] - (not closed)
            attrs = {**result["key"], **result["value"]}
            attrs |= {n: result[n] for n in ("certain", "ambiguous", "missing")}
        else:
            start = min(event["ref"] for event in result["events"])
            end = max(event["ref"] + event["te"] - event["ts"] for event in result["events"])
            attrs = columns(result)
        attrs = {key: value for key, value in attrs.items() if value is not None}
        record = {"type": name, "stream": name, "source": name, "ts": start, "te": end}
        made.append({**record, "attrs": attrs})
    made.sort(key=lambda record: (record["te"], record["ts"]))
    return [{**record, "seq": n, "arrival": n} for n, record in enumerate(made)]


_BESIDE = ("op", "at", "known_at", "query", "seq")


def plain(results: Records) -> list[str]:
    """Contents that can be compared: without instants and numbers of records."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: bare(v) for k, v in value.items() if k not in _BESIDE}
        return [bare(each) for each in value] if isinstance(value, list) else value

    return sorted(json.dumps(bare(result), sort_keys=True) for result in results)
