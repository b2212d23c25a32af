"""Passes of the three ways over one supply chain: time, events buffered, when it is known."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.query import query
from slackwater.engine.query.automata import Automata, automata_of
from slackwater.engine.query.fields import bare
from slackwater.engine.query.monitor_plan import MonitorPlan
from slackwater.engine.query.plan import Comparison, Constant, SeqPlan
from slackwater.paper import PaperRun
from slackwater.scenarios.papers.l10.ch3.basic import basic_of, not_basic
from slackwater.scenarios.papers.l10.ch3.strategies import (
    BASIC,
    LIGHT,
    NAIVE,
    CheckedAutomaton,
    StackColumns,
    search,
)
from slackwater.scenarios.papers.l10.ch3.workflow import EARLY, WorkflowTraces, items

WAYS: Final = {"without constraints": NAIVE, "basic": BASIC, "light": LIGHT}
"""L10 Algorithms 4, 5 with 1, and 5 with 2."""
PLAIN, WITH_BASIC, WITH_LIGHT = WAYS
TURNS: Final = 25
ITEMS: Final = 100_000
_FEWEST: Final = 500


@dataclass(frozen=True, slots=True)
class WayCost:
    """The cost of one way of answering one query.

    Attributes:
        seconds: CPU time, the least of several passes.
        until_known: CPU time of a pass that leaves each trace once it is known whether it matches.
        buffer_size: mean number of events buffered, over all events.
        matches: number of matches made; no trace is left before it is known to have none.
        share: share of the traces that match [%].
    """

    seconds: float
    until_known: float
    buffer_size: float
    matches: int
    share: float


def costs(run: PaperRun, text: str, where: str = EARLY, fewer: int = 1) -> dict[str, WayCost]:
    """The cost of each way of answering a query; their passes take turns.

    ``where``: a key of ``FLOWS``. ``fewer``: divides the number of items, and of passes.

    Raises:
        RuntimeError: two ways gave different matches: a bug.
    """
    return run.once(("l10 ch3", text, fewer), lambda: _costs(run, text, where, fewer))


def _costs(run: PaperRun, text: str, where: str, fewer: int) -> dict[str, WayCost]:
    count = max(round(ITEMS * run.scale / fewer), _FEWEST)
    made = run.once(("l10 ch3 items", where, count), lambda: items(count, run.seed, where))
    with run.watched(f"{count:,} items") as advanced:
        found = compared(made, text, max(TURNS // fewer, 1))
        advanced(len(made.types))
    return found


def compared(made: WorkflowTraces, text: str, turns: int) -> dict[str, WayCost]:
    """The ways side by side, over the same items.

    Raises:
        RuntimeError: two ways gave different matches: a bug.
    """
    plan = query(text)
    assert isinstance(plan, MonitorPlan)
    automata = automata_of(plan)
    passes = {name: _Pass(way, plan, automata, made) for name, way in WAYS.items()}
    for turn in range(1 + turns):  # the first may compile
        for each in passes.values():
            each.turn(counts=turn > 0)
    found = {name: each.cost() for name, each in passes.items()}
    if len({(each.matches, each.share) for each in found.values()}) > 1:
        raise RuntimeError(f"{text}: ways differ in their matches")
    return found


def symbols_of(automata: Automata, made: WorkflowTraces) -> np.ndarray:
    """The symbol of each event; its grade decides where there is a condition on it."""
    names, found = automata.alphabet.names, np.empty(len(made.types), np.int64)
    for number, name in enumerate(made.names):
        rows = made.types == number
        if name in names:
            found[rows] = names.index(name)
            continue
        (guard,) = automata.alphabet.guards[name]
        assert isinstance(guard, Comparison)
        assert isinstance(guard.right, Constant)
        true = made.grade[rows] < guard.right.value
        found[rows] = np.where(true, names.index(f"{name}[1]"), names.index(f"{name}[not 1]"))
    return found


class _Pass:
    def __init__(
        self, way: int, plan: MonitorPlan, automata: Automata, made: WorkflowTraces
    ) -> None:
        assert isinstance(plan.pattern, SeqPlan)
        alphabet, both = automata.alphabet, automata.encoded
        self._way, self._symbols = way, symbols_of(automata, made)
        steps = plan.pattern.steps
        self._takes = np.array([
            [bool(taken >> symbol & 1) for symbol in range(alphabet.size)]
            for taken in _taken(automata, plan.pattern)
        ])  # fmt: skip
        basic = basic_of(automata.constraint, both) if way == BASIC else not_basic()
        self._checked = CheckedAutomaton(both.table, both.verdict, basic)
        longest = int(np.diff(made.starts).max())
        self._stacks = StackColumns(
            np.zeros((len(steps), longest + 1), np.int64), np.zeros(len(steps), np.int64),
            np.zeros(len(steps), np.int64),
        )  # fmt: skip
        self._starts, self._ends = made.starts[:-1], made.starts[1:]
        self._known, self._said = (
            np.zeros(len(self._starts), np.int64),
            np.zeros(len(self._starts), np.bool_),
        )
        self._seconds: list[float] = []
        self._until: list[float] = []
        self._buffer = self._matches = 0

    def turn(self, *, counts: bool) -> None:
        """One pass over all, and one that leaves each trace when it is known."""
        whole, self._buffer, self._matches = self._timed(self._ends)
        share = self._said.copy()
        until, _, _ = self._timed(self._known.copy())
        self._said = share
        if counts:
            self._seconds.append(whole)
            self._until.append(until)

    def _timed(self, ends: np.ndarray) -> tuple[float, int, int]:
        began = time.process_time()
        buffer_sizes, matches = search(
            self._way, self._symbols, self._starts, ends, self._takes, self._checked,
            self._stacks, self._known, self._said,
        )  # fmt: skip
        return time.process_time() - began, buffer_sizes, matches

    def cost(self) -> WayCost:
        return WayCost(
            min(self._seconds), min(self._until), self._buffer / len(self._symbols), self._matches,
            round(100 * float(self._said.mean()), 2),
        )  # fmt: skip


def _taken(automata: Automata, pattern: SeqPlan) -> list[int]:
    """For each step the symbols that it takes, as one bit each."""
    return [automata.alphabet.symbols(step.type, bare(step.where)) for step in pattern.steps]
