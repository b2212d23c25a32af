"""Patterns under a constraint: 100,000 open traces, an automaton of some 60 states, one core.

Goal (issue 16): at least 10 M events/s, at most 32 bytes of state per open trace beside its
buffered events. Beside it, in the same run: one NumPy sort of the same events by their time; the
same alerts by plain Python, a dict of traces and a dict of states, as one would write it at home;
and pm4py's two streaming checks (``bench.peers.conformance_by_pm4py``), where there is a Python
that has it. These tell of traces that break the flow, as some do there; they know no query, so no
alert and no ``cleared``, and take events as they come. Here footprints see nothing: a SHIP, which
is what is wrong there, may follow any type. Token-based replay takes the first of several ways
through steps that nobody sees, and calls traces broken that are not.

Seconds are processor time. ``python -m bench.constraint [--pm4py PYTHON]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.released import IN_ORDER, Released, Strings
from slackwater.engine.operators.constraint.monitor import MonitorOperator
from slackwater.engine.operators.constraint.traces import OF_LAST_EVENT, TRACE
from slackwater.engine.query import query
from slackwater.engine.query.automata import automata_of
from slackwater.engine.query.monitor_plan import MonitorPlan

EVENTS = 10_000_000
BATCH = 262_144
TRACES = 100_000
ROUNDS = 3
GOAL_PER_S = 10_000_000
PLAIN_EVENTS = 1_000_000
"""Of those, for plain Python."""
PEER_TRACES = 2_000
"""Of those, for pm4py."""
BROKEN_EVERY = 2_003
"""One in so many of pm4py's events is made a SHIP, wherever it may be."""
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
            "type": codes[symbols], "attrs.order": orders, "ref": ref, "ts": ref, "te": ref,
            "unc": zeros, "epoch": zeros, "release": ref, "status": np.full(n, IN_ORDER, np.int8),
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
    emitted = []
    for event_type, order in events:
        before = traces.get(order, 0)
        state = ways[before][event_type]  # type: ignore[index]
        if verdict[state] != (verdict[before] if order in traces else 0) or (
            broken[state] and not broken[before]
        ):
            emitted.append((order, event_type, verdict[state], broken[state]))
        traces[order] = state
    return len(events), len(emitted), time.process_time() - begun


def memory_line(operator: MonitorOperator) -> str:
    """Memory of the operator per open trace."""
    n, memory = operator.counters()["open"], operator.store.memory
    last = sum(TRACE.fields[name][0].itemsize for name in OF_LAST_EVENT)  # type: ignore[index]
    keys = memory.keys / n
    return (
        f"{n:,} open traces of {TRACE.itemsize} bytes, {last} of them of the last event, and "
        f"{keys:.1f} in the table of keys: {TRACE.itemsize - last + keys:.1f} beside buffered "
        f"events (goal 32), {(memory.traces + memory.keys) / n:.1f} with the last event and the "
        "room for more"
    )


def of_some(stream: list[Released]) -> Released:
    """The events of the first traces; some break the flow."""
    columns: dict[str, np.ndarray] = {}
    for name in stream[0].columns:
        columns[name] = np.concatenate([
            released.columns[name][released.columns["attrs.order"] < PEER_TRACES]
            for released in stream
        ])  # fmt: skip
    strings, n = stream[0].strings, len(columns["ref"])
    columns["type"][BROKEN_EVERY - 1 :: BROKEN_EVERY] = strings.code("SHIP")
    return replace(stream[0], n=n, columns=columns)


def pm4py_lines(python: str, plan: MonitorPlan, some: Released, rate: float) -> str:
    """Its ways over ``some``; ``rate``: ours, events/s."""
    if python == sys.executable and find_spec("pm4py") is None:
        return (
            "pm4py: left out, as it is not installed; python -m venv PM && PM/bin/pip install "
            "pm4py, then --pm4py PM/bin/python\n"
        )
    orders, types = some.columns["attrs.order"].tolist(), some.columns["type"].tolist()
    lines = [f"{o} {some.strings.text(t)}\n" for o, t in zip(orders, types, strict=True)]
    script = Path(__file__).with_name("peers") / "conformance_by_pm4py.py"
    said = subprocess.run(
        [python, script], input="".join(lines), capture_output=True, text=True, check=True
    ).stdout
    lines_of_ways = ""
    for answer in (json.loads(line) for line in said.splitlines() if line.startswith("{")):
        n, seconds = answer["events"], answer["seconds"]
        first = replace(some, n=n, columns={k: v[:n] for k, v in some.columns.items()})
        found = MonitorOperator(plan, "beside").process(first)
        mine = {result["trace"] for result in found if result["alert"] == "violation"}
        lines_of_ways += (
            f"pm4py, {answer['way']}: {n:,} events of {answer['traces']:,} traces in "
            f"{seconds:.2f} s, {n / seconds:,.0f} events/s: {rate * seconds / n:,.0f} times as "
            f"long an event; {len(answer['broken']):,} traces break the flow, by ours "
            f"{len(mine):,}; {len(mine.intersection(answer['broken'])):,} are in both\n"
        )
    return lines_of_ways


def main() -> int:
    """Prints the table; 1 if the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pm4py", default=sys.executable, metavar="PYTHON", help="that has pm4py")
    options = parser.parse_args()
    plan = query(f"{PATTERN} UNDER CONSTRAINT flow FOR TRACE BY order AS {FLOW}")
    assert isinstance(plan, MonitorPlan)
    begun = time.process_time()
    states = len(automata_of(plan).encoded.table)
    built = time.process_time() - begun
    stream = batches(np.random.default_rng(1))
    refs = np.concatenate([released.columns["ref"] for released in stream])
    MonitorOperator(plan, "warm").process(stream[0])
    best, emitted = float("inf"), 0
    sort = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        np.sort(np.random.default_rng(2).permutation(refs))
        sort = min(sort, time.process_time() - begun)
        operator = MonitorOperator(plan, "main")
        begun = time.process_time()
        emitted = sum(len(operator.process(released)) for released in stream)
        best = min(best, time.process_time() - begun)
    rate = len(refs) / best
    sys.stdout.write(
        f"{states} states, made in {built:.3f} s; {memory_line(operator)}\n"
        f"{len(refs):,} events, {emitted:,} results: {best:.2f} s, {rate / 1e6:.1f} M events/s, "
        f"{best / sort:.2f} x a shuffle and a sort (goal {GOAL_PER_S / 1e6:.0f} M events/s)\n"
    )
    n, _, seconds = plain(plan, stream)
    sys.stdout.write(
        f"plain Python: {n:,} events in {seconds:.2f} s, {n / seconds / 1e6:.2f} M events/s: "
        f"{rate * seconds / n:.0f} times as long an event\n"
    )
    sys.stdout.write(pm4py_lines(options.pm4py, plan, of_some(stream), rate))
    return int(rate < GOAL_PER_S)


if __name__ == "__main__":
    sys.exit(main())
