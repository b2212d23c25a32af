"""Patterns under a constraint: 100,000 open traces, an automaton of some 60 states, one core.

Goal (issue 16): at least 10 M events/s, at most 32 bytes of state per open trace beside its last
event. Beside it, in the same run: one NumPy sort of the same events by their time, and the same
alerts by plain Python, a dict of traces and a dict of states, as one would write it at home.

Seconds are processor time of this process. ``python -m bench.constraint``
"""

from __future__ import annotations

import sys
import time

import numpy as np

from engine.constraint.monitor import MonitorOperator
from engine.constraint.traces import TRACE
from engine.query import query
from engine.query.automata.compiled import automata_of
from engine.query.monitor_plan import MonitorPlan
from engine.stream.released import IN_ORDER, Released, Strings

EVENTS = 10_000_000
BATCH = 262_144
TRACES = 100_000
ROUNDS = 3
GOAL_PER_S = 10_000_000
PLAIN_EVENTS = 1_000_000
"""Of those, for plain Python."""
FLOW = "(ORDER, (PICK+, PACK) & PAY?, SHIP, (DAMAGE | REFUND)?)+"
PATTERN = "EVENT SEQ(ORDER o, PAY p, DAMAGE d, REFUND r)"


def batches(rng: np.random.Generator) -> list[Released]:
    """Events of random traces that keep to the flow, in order, by five sources."""
    plan = query(f"{PATTERN} UNDER CONSTRAINT flow FOR TRACE BY order AS {FLOW}")
    assert isinstance(plan, MonitorPlan)
    found = automata_of(plan)
    table = found.constraint.table
    choices = [np.flatnonzero(row >= 0) for row in table]
    width = max(map(len, choices))
    ways = np.array([np.resize(row, width) if len(row) else np.zeros(width, int)
                     for row in choices])  # fmt: skip
    strings = Strings()
    codes = np.array([strings.code(name) for name in found.alphabet.names], np.int32)
    source = strings.code("s0")
    state = np.zeros(TRACES, np.int64)
    made = []
    for start in range(0, EVENTS, BATCH):
        n = min(BATCH, EVENTS - start)
        symbols, orders = np.empty(n, np.int64), np.empty(n, np.int64)
        for first in range(0, n, TRACES):
            some = rng.permutation(TRACES)[: n - first]
            symbol = ways[state[some], rng.integers(0, width, len(some))]
            state[some] = table[state[some], symbol]
            symbols[first : first + len(some)] = symbol
            orders[first : first + len(some)] = some
        ref = np.arange(start, start + n) * 1_000
        zeros = np.zeros(n, np.int64)
        columns: dict[str, np.ndarray] = {
            "type": codes[symbols], "attrs.order": orders, "ref": ref, "unc": zeros,
            "epoch": zeros, "release": ref, "status": np.full(n, IN_ORDER, np.int8),
            "source": np.full(n, source, np.int32), "seq": np.arange(start, start + n),
        }  # fmt: skip
        made.append(Released(n, columns, {"order": "int"}, strings, 0))
    return made


def plain(plan: MonitorPlan, stream: list[Released]) -> tuple[int, int, float]:
    """(events, alerts, seconds) of plain Python over the first events."""
    found = automata_of(plan)
    both, names = found.encoded, found.alphabet.names
    ways = {
        state: dict(zip(names, row, strict=True)) for state, row in enumerate(both.table.tolist())
    }
    verdict, broken = both.verdict.tolist(), both.broken.tolist()
    events: list[tuple[str | None, int]] = []
    for released in stream:
        types = [released.strings.text(code) for code in released.columns["type"].tolist()]
        events += zip(types, released.columns["attrs.order"].tolist(), strict=True)
        if len(events) >= PLAIN_EVENTS:
            break
    events = events[:PLAIN_EVENTS]
    begun = time.process_time()
    traces: dict[int, int] = {}
    told = []
    for event_type, order in events:
        before = traces.get(order, 0)
        state = ways[before][event_type]  # type: ignore[index]
        if verdict[state] != (verdict[before] if order in traces else 0) or (
            broken[state] and not broken[before]
        ):
            told.append((order, event_type, verdict[state], broken[state]))
        traces[order] = state
    return len(events), len(told), time.process_time() - begun


def main() -> int:
    """Prints the table; 1 if the goal is not met."""
    plan = query(f"{PATTERN} UNDER CONSTRAINT flow FOR TRACE BY order AS {FLOW}")
    assert isinstance(plan, MonitorPlan)
    begun = time.process_time()
    states = len(automata_of(plan).encoded.table)
    built = time.process_time() - begun
    stream = batches(np.random.default_rng(1))
    refs = np.concatenate([released.columns["ref"] for released in stream])
    MonitorOperator(plan, "warm").process(stream[0])
    best, told = float("inf"), 0
    sort = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        np.sort(np.random.default_rng(2).permutation(refs))
        sort = min(sort, time.process_time() - begun)
        operator = MonitorOperator(plan, "main")
        begun = time.process_time()
        told = sum(len(operator.process(released)) for released in stream)
        best = min(best, time.process_time() - begun)
    rate = len(refs) / best
    size = TRACE.itemsize
    sys.stdout.write(
        f"{states} states, made in {built:.3f} s; {operator.counters()['open']:,} open traces of "
        f"{size} bytes, half of them of the last event\n"
        f"{len(refs):,} events, {told:,} results: {best:.2f} s, {rate / 1e6:.1f} M events/s, "
        f"{best / sort:.2f} x a shuffle and a sort (goal {GOAL_PER_S / 1e6:.0f} M events/s)\n"
    )
    n, _, seconds = plain(plan, stream)
    sys.stdout.write(
        f"plain Python: {n:,} events in {seconds:.2f} s, {n / seconds / 1e6:.2f} M events/s: "
        f"{rate * seconds / n:.0f} times as long an event\n"
    )
    return int(rate < GOAL_PER_S)


if __name__ == "__main__":
    sys.exit(main())
