"""What a chain does with its queries' results before they go out: each query's rules, one history.

Results of other queries count from the instant after they were known, those of the query itself in
their order; so neither how the input is cut nor the order of the queries changes the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable, ResultPieces
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.operators.check.history import History
from slackwater.engine.operators.check.results import read_results
from slackwater.engine.operators.check.rules import QueryJudge, Rules
from slackwater.engine.query.language.mistakes import closest, listed
from slackwater.engine.query.plan import Checks, Plan, checks_of


class Judging(Restorable):
    """Of the results of ``plans``, one of which has checks at least.

    Raises:
        UserError: a rule asks for the history of a query that is not among them.
    """

    state_fields = ("_history", "_judges", "_seen")

    def __init__(self, plans: Sequence[Plan]) -> None:
        numbers = {plan.name: number for number, plan in enumerate(plans)}
        found = {number: checks_of(plan) for number, plan in enumerate(plans)}
        self._checks = {number: each for number, each in found.items() if each is not None}
        self._kinds = [plan.result_kind for plan in plans]
        look_back: dict[int, int] = {}
        for number, checks in self._checks.items():
            for lookup in checks.lookups:
                of = number if lookup.query is None else _number(lookup.query, numbers)
                look_back[of] = max(look_back.get(of, 0), lookup.within_ns)
        self._read = sorted({*look_back, *self._checks})
        self._history = History(look_back)
        self._judges = {
            number: QueryJudge(Rules(checks, number, numbers), self._kinds[number])
            for number, checks in self._checks.items()
            if checks.rules
        }
        self._holds = max((j.rules.longest_hold for j in self._judges.values()), default=0)
        self._seen = [0] * len(plans)

    def judge(
        self, results: list[ResultPieces], strings: Strings, now: int, *, end: bool = False
    ) -> None:
        """Puts what goes out in place of ``results``, per query; ``now`` [ns]: they are all there
        that were known before. ``end``: and there will be no more.
        """
        due = min((judge.due for judge in self._judges.values()), default=INT_MAX)
        if due > now and not end and not any(len(results[number]) for number in self._read):
            return
        new = {}
        for number in self._read:
            checks = self._checks.get(number, Checks())
            judge = self._judges.get(number)
            asked = judge.rules.asked if judge else []
            found = read_results(
                results[number].pieces, self._kinds[number], asked, checks.key, self._seen[number]
            )
            self._seen[number] += len(found.at)
            self._history.add(number, found.key, found.identity, found.at, found.place, found.plus)
            new[number] = found
        for number, judge in self._judges.items():
            given = judge.settle(new[number], self._history, strings, now, end=end)
            if given is not None:
                results[number] = ResultPieces(list(given))
        self._history.forget(now, self._holds)

    def counters(self, number: int) -> dict[str, int]:
        """What became of results of the query ``number``."""
        judge = self._judges.get(number)
        return {} if judge is None else judge.counts | {"held_by_checks": len(judge.waiting)}

    def codes(self) -> list[np.ndarray]:
        """Codes of texts that held results have."""
        return [codes for judge in self._judges.values() for codes in judge.waiting.codes()]


def _number(query: str, numbers: dict[str, int]) -> int:
    if query not in numbers:
        near = closest(query, numbers)
        hint = f"the queries are {listed(list(numbers))}" + (f"; {near}" if near else "")
        raise UserError(f"a CHECK looks into the history of {query!r}, which is not asked: {hint}")
    return numbers[query]
