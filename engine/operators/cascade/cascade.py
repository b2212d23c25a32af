"""Passes results and progress between the statements of a chain that read each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from slackwater.engine.barrier.registry import BarrierSettings
from slackwater.engine.core.operator import Operator, Restorable, ResultPieces
from slackwater.engine.core.released import ClockBound, Released, Strings
from slackwater.engine.operators.cascade.result_reader import (
    ProgressSteps,
    Reach,
    SourceProgress,
    reach_of,
)
from slackwater.engine.operators.cascade.stage import DerivedStage
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.query.failures import QueryFailures
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.results_as_events import facts_of, sources_of


@dataclass(frozen=True, slots=True)
class Reaching:
    """The settings that decide how late a result may come and how long it may change."""

    window: WindowSettings
    pattern: PatternSettings
    barrier: BarrierSettings | None

    def reach(self, plan: Plan) -> Reach:
        """Return how late results of ``plan`` may come, and how long they may change."""
        return reach_of(plan, self.window, self.pattern, self.barrier)


class Cascade(Restorable):
    """Passes results from the operators that emit them to the stages that read them.

    Args:
        plans: the plans of all statements; a plan follows its sources.
        operators: the operator of each plan; a ``DerivedStage`` for a derived plan.
        settings: the settings of the chain.
        failures: the failures of the chain's statements.
    """

    state_fields = ("_bound", "_progress")

    def __init__(
        self, plans: Sequence[Plan], operators: Sequence[Operator], settings: Reaching,
        failures: QueryFailures,
    ) -> None:  # fmt: skip
        self._plans, self._operators, self._failures = plans, operators, failures
        numbers = {plan.name: number for number, plan in enumerate(plans)}
        self._readers: dict[int, list[tuple[int, DerivedStage, int]]] = {}
        self._stages: list[tuple[int, DerivedStage]] = []
        for number, (plan, stage) in enumerate(zip(plans, operators, strict=True)):
            if not isinstance(stage, DerivedStage):
                continue
            self._stages.append((number, stage))
            for place, source in enumerate(sources_of(plan)):
                readers = self._readers.setdefault(numbers[source.name], [])
                readers.append((number, stage, place))
        self._first = len(plans) - len(self._stages)
        """Number of statements that read the log; they come first."""
        self._progress = {
            number: SourceProgress(plans[number], settings.reach(plans[number]))
            for number in self._readers if not sources_of(plans[number])
        }  # fmt: skip
        self._waits = {
            number: settings.reach(plans[number]).waits_ns
            for number in self._readers if sources_of(plans[number])
        }  # fmt: skip
        self._err = [facts_of(plan).times_err for plan in plans]
        self._bound = ClockBound()
        self._read: dict[int, int] = {}

    def begins(self) -> None:
        """Start a pass: the lists of results are empty; failed statements are dropped."""
        self._read = {}
        failed = self._failures.reasons.keys()
        if any(number in failed for number, _ in self._stages):  # frees their memory
            self._stages = [each for each in self._stages if each[0] not in failed]
            self._readers = {
                number: [each for each in readers if each[0] not in failed]
                for number, readers in self._readers.items()
            }

    def saw(self, number: int, released: Released) -> None:
        """Record that statement ``number`` has read a batch of events from the log."""
        self._bound = released.bound
        if number in self._progress:
            self._progress[number].saw(released)

    def advance(self, now: int, strings: Strings, results: Sequence[ResultPieces]) -> None:
        """Advance the arrival clock to ``now`` and pass ``results`` on to their readers.

        ``results`` already holds what the readers of the log emit by ``now``; the results of the
        stages are appended to it.
        """
        self._flow(results, strings, now, finishes=False)

    def finish(self, at: int, strings: Strings, results: Sequence[ResultPieces]) -> None:
        """End the input at ``at``."""
        self._flow(results, strings, at, finishes=True)

    def _flow(
        self, results: Sequence[ResultPieces], strings: Strings, now: int, *, finishes: bool
    ) -> None:
        for number in range(self._first):
            self._tell(number, results, strings)
        for number, stage in self._stages:
            stage.strings = strings
            read = partial(stage.finish if finishes else stage.advance, now)
            results[number].extend(self._failures.run(number, read))
            self._tell(number, results, strings)

    def _tell(self, number: int, results: Sequence[ResultPieces], strings: Strings) -> None:
        """Pass the new results and progress of statement ``number`` to its readers."""
        operator = self._operators[number]
        steps: list[ProgressSteps] = []
        if number in self._progress:
            steps, self._progress[number].steps = self._progress[number].steps, []
        elif isinstance(operator, DerivedStage):
            steps, operator.progress = operator.progress, []
        if number not in self._readers:
            return
        if number in self._waits:
            bound = self._bound if self._err[number] else ClockBound()
            steps = [
                ProgressSteps(step.at, step.value - self._waits[number] - 3 * bound.at(step.value))
                for step in steps
            ]
        pieces = results[number].pieces
        new = pieces[self._read.get(number, 0) :]
        self._read[number] = len(pieces)
        bound = self._bound if self._err[number] else ClockBound()
        errs_from = min(each.errs_from for each in self._progress.values())
        for reader, stage, source in self._readers[number]:
            stage.strings = strings
            self._failures.run(reader, partial(stage.take, source, new, steps, bound, errs_from))
