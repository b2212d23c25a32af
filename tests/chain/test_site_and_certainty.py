"""Whole chains over small traces: the name of a site in queries, and certainty from sync records.

The oracle of certainty reads the trace itself: it draws what each clock errs by between its syncs,
and asks ``brute_matches``, which takes all times as exact.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.pattern.slow_patterns import brute_matches

S = 10**9
MS = 10**6


def results(
    frames: list[Frame], text: str, *, order: str = "none", certainty: str = "pairwise"
) -> list[dict[str, Any]]:
    """Of every site; frames one by one, each chain restored from its snapshot in between."""
    chosen = ChainSettings(
        parse_order(order), (query(text),), certainty=certainty,
        guards=Guards(guard_ns=None), pattern=PatternSettings(keep_late_ns=3600 * S),
    )  # fmt: skip
    chains: dict[str, Chain] = {}
    found: list[dict[str, Any]] = []
    for frame in frames:
        chain = chains.get(frame.site) or Chain(chosen, frame.site)
        found += list(chain.process([frame]).results[0])
        chains[frame.site] = Chain.restored(chosen, frame.site, chain.to_bytes())
    for chain in chains.values():
        found += list(chain.finish().results[0])
    return found


def framed(
    records: Sequence[dict[str, Any]], folder: Path, cuts: Sequence[int] = ()
) -> list[Frame]:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    found: list[Frame] = []
    for frame in TraceRead(path, "ns"):
        borders = [0, *sorted({cut for cut in cuts if 0 < cut < frame.rows}), frame.rows]
        found += [
            Frame(frame.site, frame.batch.slice(start, stop - start))
            for start, stop in itertools.pairwise(borders)
        ]
    return found


# ---- the name of a site -------------------------------------------------------------------------
TWO_SITES = [
    {"site": site, "type": kind, "ts": ts * S, "arrival": ts * S}
    for ts in range(1, 5)
    for site, kind in (("north", "AB"[ts % 2]), ("south", "A"))
]


@pytest.mark.parametrize("order", ["none", "sequence", "kslack:1s"])
def test_a_pattern_may_name_the_site(tmp_path: Path, order: str) -> None:
    """``a.site`` was "no event has an attribute 'site'", though the reference lists it."""
    frames = framed(TWO_SITES, tmp_path)
    for where, want in (
        ("a.site = 'north'", {"north": 1}), ("a.site = b.site AND a.site != 'north'", {}),
        ("a.site IN ('south', 'north')", {"north": 1}), ("b.site > 'm'", {"north": 1}),
    ):  # fmt: skip
        text = f"EVENT SEQ(A a, B b) WHERE {where} WITHIN 1 s RETURN a.site AS place, b.ts"
        found = results(frames, text, order=order)
        counts = {site: sum(r["site"] == site for r in found) for site in ("north", "south")}
        assert {site: n for site, n in counts.items() if n} == want
        assert all(result["value"] == {"place": result["site"]} for result in found)


def test_a_window_may_be_grouped_by_the_site(tmp_path: Path) -> None:
    frames = framed(TWO_SITES, tmp_path)
    text = "SELECT count(*), site FROM events GROUP BY site WINDOW TUMBLING 10 s"
    found = results(frames, text, order="sequence")
    assert [(r["key"], r["value"]["count(*)"]) for r in found if r["op"] == "+"] == [
        ({"site": "north"}, 4), ({"site": "south"}, 4),
    ]  # fmt: skip
    (one,) = results(frames, "SELECT count(*) WHERE site = 'south' WINDOW TUMBLING 10 s")
    assert (one["site"], one["value"]) == ("south", {"count(*)": 4})


# ---- certainty ----------------------------------------------------------------------------------
def test_a_3_ms_order_60_s_after_a_sync_that_states_no_skew_error(tmp_path: Path) -> None:
    """It was confirmed; the clocks may be 3 ms off each by then. 0 must be stated."""
    events = [
        {"type": "A", "source": "a", "ts": 60 * S, "arrival": 61 * S},
        {"type": "B", "source": "b", "ts": 60 * S + 3 * MS, "arrival": 61 * S},
    ]
    for stated, want in (({}, "uncertain"), ({"skew_error_ppb": 0}, "confirmed")):
        syncs = [{"kind": "sync", "source": source, "offset": 0, "delay": 2, "ts": 0, "arrival": 1}
                 | stated for source in "ab"]  # fmt: skip
        frames = framed([*syncs, *events], tmp_path)
        (found,) = results(frames, "EVENT SEQ(A a, B b) WITHIN 1 s")
        assert found["certainty"] == want


@dataclass
class Moved:
    """An event where some clocks' errors put it."""

    type: str
    ref: float
    source: str
    long: int
    attrs: dict[str, Any] = field(default_factory=dict)


CONDITIONS = [
    "b.ts - a.ts <= {c}", "NOT b.ref - a.te < {c}", "a.ref > {c}", "a.ts = b.ts OR b.ts > {c}",
    "n.ts - a.ts < {c}", "n.ref >= {c}", "2 * n.ts > a.ts + b.ts",
]  # fmt: skip
TEXTS = [
    "SEQ(A a, B b)", "AND(A a, B b)", "SEQ(A a, !N n, B b)", "SEQ(!N n, A a, B b)",
    "SEQ(A a, B b, !N n)",
]  # fmt: skip
SYNC = st.tuples(st.integers(0, 6), st.integers(-3, 3), st.sampled_from([0, 10**8, None]))
EVENT = st.tuples(
    st.sampled_from("ABNAB"), st.integers(0, 30), st.integers(0, 2), st.sampled_from([0, 0, 4])
)


@settings(max_examples=30, deadline=None)
@example(
    drawn=[("A", 0, 0, 0), ("B", 11, 0, 4)], clocks=([(0, 3, 0), (0, 0, 0)], [], []),
    text="SEQ(A a, B b)", chosen=[], c=0, rule="pairwise", within=12, cuts=[],
)  # fmt: skip
@given(
    drawn=st.lists(EVENT, min_size=2, max_size=8),
    clocks=st.tuples(*[st.lists(SYNC, max_size=2)] * 3),
    text=st.sampled_from(TEXTS), chosen=st.lists(st.sampled_from(CONDITIONS), max_size=2),
    c=st.integers(0, 20), rule=st.sampled_from(["pairwise", "max-delay-r19"]),
    within=st.integers(3, 15), cuts=st.lists(st.integers(1, 14), max_size=3),
)  # fmt: skip
def test_certainty_by_the_trace_alone(
    tmp_path_factory: pytest.TempPathFactory, drawn: Any, clocks: Any, text: str,
    chosen: list[str], c: int, rule: str, within: int, cuts: list[int],
) -> None:  # fmt: skip
    """Two syncs at most, each from half of the time on, so that none is a line or a step."""
    terms = [term.format(c=c) for term in chosen if "n." not in term or "!N" in text]
    where = f" WHERE {' AND '.join(f'({term})' for term in terms)}" if terms else ""
    records: list[dict[str, Any]] = []
    emitted: dict[str, list[tuple[int, int, int, int]]] = {}
    for number, syncs in enumerate(clocks):
        for place, (delay, offset, rate) in enumerate(syncs):
            start = 15 * place
            stated = {} if rate is None else {"skew_error_ppb": rate}
            records.append({"kind": "sync", "source": f"s{number}", "offset": offset,
                            "delay": delay, "ts": start, **stated})  # fmt: skip
            rows = emitted.setdefault(f"s{number}", [])
            rows.append((start, offset, (delay + 1) // 2, rate or 0))
    records += [
        {"type": kind, "source": f"s{source}", "ts": ts, "te": ts + long, "attrs": {"row": row}}
        for row, (kind, ts, source, long) in enumerate(drawn)
    ]
    folder = tmp_path_factory.mktemp("trace")
    asked = f"EVENT {text}{where} WITHIN {within}"
    try:
        query(asked)
    except UserError as error:
        assume("never be true" not in str(error))
        raise
    found = net(results(framed(records, folder), asked, order="none:time=hold", certainty=rule))
    again = framed(records, folder, cuts)
    assert net(results(again, asked, order="none:time=hold", certainty=rule)) == found
    t_a = max((syncs[-1][0] for syncs in clocks if syncs), default=0)
    for moved in assignments(drawn, emitted, rule, t_a):
        true = {tuple(row for _, row in match) for match in brute_matches(asked, moved)}
        assert true <= found.keys()
        assert true >= {rows for rows, certainty in found.items() if certainty == "confirmed"}


def net(found: list[dict[str, Any]]) -> dict[tuple[int, ...], str]:
    """Certainty by the places of a match's events in the trace."""
    standing: dict[tuple[int, ...], str] = {}
    for result in found:
        rows = tuple(event["attrs"]["row"] for event in result["events"])
        if result["op"] == "+":
            standing[rows] = result["certainty"]
        else:
            assert standing.pop(rows) == result["certainty"]
    return standing


def assignments(drawn: Any, emitted: Any, rule: str, t_a: int) -> Any:
    """Events moved by errors; those of one clock by one, which is possible for each of them."""
    clock_of: list[Any] = []
    at: list[tuple[int, int]] = []
    width: dict[Any, float] = {}
    for row, (_, ts, source, long) in enumerate(drawn):
        offset, unc, clock = 0, 0, ("row", row)
        end = ts + long  # both ends of an interval are read by the offset at its end
        for place, (start, by, half, rate) in enumerate(emitted.get(f"s{source}", ())):
            if place == 0 or end >= start:
                offset, clock = by, (f"s{source}", place)
                unc = half + abs(end - start) * rate // S
        if rule == "max-delay-r19":
            clock, unc = ("row", row), t_a / 2
        clock_of.append(clock)
        at.append((ts, offset))
        width[clock] = min(width.get(clock, unc), unc)
    dice = random.Random(len(drawn))
    for number in range(60):
        unit = {
            clock: dice.choice([-64, 64, 0] if number < 20 else range(-64, 65)) for clock in width
        }
        yield [
            Moved(kind, ts + offset + unit[clock] / 64 * width[clock], f"s{source}", long)
            for (kind, _, source, long), (ts, offset), clock in zip(
                drawn, at, clock_of, strict=True
            )
        ]
