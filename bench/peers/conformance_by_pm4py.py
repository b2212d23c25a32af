"""The flow of ``bench.constraint`` checked event by event by pm4py, in a Python that has it.

Standard input: a line ``trace type`` per event, in order. Standard output: a line of JSON per way,
``{"way": ..., "seconds": ..., "events": ..., "traces": ..., "broken": [traces]}``; the seconds are
processor time of the checks alone. pm4py has two streaming checks that take such a flow:
footprints, which ask whether a type may follow the one before it, and token-based replay, which
asks whether a Petri net can go on with it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import pm4py
from pm4py.objects.process_tree.obj import Operator, ProcessTree
from pm4py.streaming.algo.conformance.footprints import algorithm as by_footprints
from pm4py.streaming.algo.conformance.tbr import algorithm as by_replay

CASE, TYPE = "case:concept:name", "concept:name"
REPLAYED = 20_000
"""Events of token-based replay, which reads each marking from a text."""
Said = Callable[[], set[str]]


def tree(operator: Operator, *children: ProcessTree | str | None) -> ProcessTree:
    """A node; a text is a type, None a step that nobody sees."""
    node = ProcessTree(operator=operator)
    for child in children:
        kid = child if isinstance(child, ProcessTree) else ProcessTree(label=child)
        kid.parent = node
        node.children.append(kid)
    return node


def flow() -> ProcessTree:
    """That of ``bench.constraint``, whose ``,`` binds before its ``&``, by hand."""
    packed = tree(Operator.SEQUENCE, "ORDER", tree(Operator.LOOP, "PICK", None), "PACK")
    ended = tree(Operator.XOR, "DAMAGE", "REFUND", None)
    shipped = tree(Operator.SEQUENCE, tree(Operator.XOR, "PAY", None), "SHIP", ended)
    return tree(Operator.LOOP, tree(Operator.PARALLEL, packed, shipped), None)


def run(way: str, check: Any, said: Said, events: list[dict[str, str]]) -> None:
    """Hands each event to ``check`` and prints what came of it."""
    begun = time.process_time()
    for event in events:
        check.receive(event)
    seconds = time.process_time() - begun
    traces = {event[CASE] for event in events}
    answer = {"way": way, "seconds": seconds, "events": len(events), "traces": len(traces),
              "broken": sorted(said())}  # fmt: skip
    sys.stdout.write(json.dumps(answer) + "\n")


def main() -> None:
    """Both ways over standard input."""
    logging.disable()  # both warn of each event that breaks the flow
    events = [dict(zip((CASE, TYPE), line.split(), strict=True)) for line in sys.stdin]
    net = pm4py.convert_to_petri_net(flow())
    prints = by_footprints.apply(pm4py.discover_footprints(flow()))
    run("footprints", prints, lambda: {case for case, n in prints.dev_dict.items() if int(n)},
        events)  # fmt: skip
    few = events[:REPLAYED]
    replay = by_replay.apply(*net)
    run("token-based replay", replay, lambda: {c for c, n in replay.missing.items() if int(n)}, few)


if __name__ == "__main__":
    main()
