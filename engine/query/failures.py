"""Failures of a chain's queries: a failed query is set aside, and the others continue.

A pass over a log ends with the first failure. A live engine must not, as the data of one device
would end the answers about all others. There a failed query of a site gives no more results until
the query or the program changes, or the user asks for a retry (``engine.output.run_writer``).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, structs

from slackwater.engine.core.errors import Interrupted, SlackwaterError
from slackwater.engine.core.operator import Operator, Restorable, Result
from slackwater.engine.core.released import Released
from slackwater.engine.query.plan import Plan, checks_of
from slackwater.engine.query.results_as_events import sources_of


class QueryFailure(Struct, frozen=True):
    """``trace``: the traceback of a program fault; empty: the events are invalid."""

    query: str
    reason: str
    trace: str = ""


class QueryFailures:
    """The failures of one chain's queries, by number.

    Args:
        plans: plans of all queries.
        operators: their operators; a failed one is replaced, which frees its memory.
        isolate: whether the other queries continue; False: failures are raised.
    """

    def __init__(self, plans: Sequence[Plan], operators: list[Operator], *, isolate: bool) -> None:
        self._plans = plans
        self._operators = operators
        self.isolate = isolate
        self.reasons: dict[int, str] = {}
        """Reason of each failed query, by number."""
        self._new: list[QueryFailure] = []

    def run(self, number: int, call: Callable[[], Sequence[Result] | None]) -> Sequence[Result]:
        """Return the result of ``call``; empty if the query has failed or fails now.

        Raises:
            OSError: a disk error, which is not the query's fault.
        """
        if not self.isolate:
            return call() or ()
        if number in self.reasons:
            return ()
        try:
            return call() or ()
        except (OSError, Interrupted):
            raise
        except Exception as error:
            self.fail(number, error)
            return ()

    def fail(self, number: int, error: Exception) -> None:
        """Mark the query as failed, and those that read its results."""
        if isinstance(error, SlackwaterError):
            self._fail(number, str(error), "")
        else:
            reason = f"a fault of the program: {type(error).__name__}: {error}"
            self._fail(number, reason, "".join(traceback.format_exception(error)))

    def fail_all(self, error: Exception) -> None:
        """Mark all queries as failed, as the site's events cannot be read or ordered."""
        for number in range(len(self._plans)):
            self.fail(number, error)

    def take(self) -> list[QueryFailure]:
        """Return the failures since the last call."""
        new, self._new = self._new, []
        return new

    def operator_states(self) -> list[dict[str, Any]]:
        """Return snapshots of all operators; a query fails if its snapshot does."""
        found: list[dict[str, Any]] = []
        for number, operator in enumerate(self._operators):
            try:
                found.append(operator.snapshot())
            except Exception as error:
                if not self.isolate:
                    raise
                self.fail(number, error)
                found.append({})
        return found

    def snapshot(self) -> dict[str, Any]:
        """Return plain data; call ``operator_states`` first."""
        return {"reasons": dict(self.reasons), "new": [structs.asdict(each) for each in self._new]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot, before the operators are restored."""
        self._new = [QueryFailure(**each) for each in state["new"]]
        for number, reason in state["reasons"].items():
            self._replace(number, reason)

    def _replace(self, number: int, reason: str) -> None:
        self.reasons[number] = reason
        self._operators[number] = FailedOperator(self._operators[number])

    def _fail(self, number: int, reason: str, trace: str) -> None:
        if number in self.reasons:
            return
        self._replace(number, reason)
        name = self._plans[number].name
        self._new.append(QueryFailure(name, reason, trace))
        for other, plan in enumerate(self._plans):
            if name in _read_by(plan):
                self._fail(other, f"it reads results of query {name}, which has failed", "")


def _read_by(plan: Plan) -> set[str]:
    """Return the names of the queries whose results affect those of ``plan``."""
    checks = checks_of(plan)
    looked_up = {lookup.query for lookup in checks.lookups} if checks is not None else set()
    return {source.name for source in sources_of(plan)} | {name for name in looked_up if name}


class FailedOperator(Restorable):
    """Replaces a failed operator: reads nothing and gives no results."""

    def __init__(self, former: Operator) -> None:
        self.types = former.types
        """Unchanged, as other operators share the clocks of its stream."""
        self.takes_halves = bool(getattr(former, "takes_halves", False))

    def required_columns(self) -> set[str]:
        return set()

    def process(self, released: Released) -> Sequence[Result]:  # noqa: ARG002 - reads nothing
        return ()

    def advance(self, now: int) -> Sequence[Result]:  # noqa: ARG002 - likewise
        return ()

    def finish(self, at: int) -> Sequence[Result]:  # noqa: ARG002 - likewise
        return ()

    def counters(self) -> dict[str, int]:
        return {}

    def codes(self) -> np.ndarray | None:
        return np.empty(0, np.int64)
