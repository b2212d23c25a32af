"""Which rules results disagree with, by their own values and by what the history says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.check.history import Asked, History
from engine.query.check_plan import HISTORY, Checks
from engine.query.expression import View, view_mask
from engine.query.fields import attributes_in, with_attributes
from engine.query.plan import Attribute, Logic, Predicate
from engine.query.values import Value
from engine.stream.frame import ATTR_PREFIX
from engine.stream.released import Strings

_OF_RESULT, _OF_HISTORY = "value", "history"


class Rules:
    """The rules of one query, for values that come as columns.

    Args:
        checks: of the query.
        own: the query's number in the history.
        numbers: of other queries, by name.
    """

    def __init__(self, checks: Checks, own: int, numbers: dict[str, int]) -> None:
        self.names = [rule.name for rule in checks.rules]
        self.lookups = checks.lookups
        self.drops = np.array([rule.drop for rule in checks.rules], np.bool_)
        self.holds = np.array([rule.hold_ns for rule in checks.rules], np.int64)
        self.longest_hold = int(self.holds.max(initial=0))
        self._own, self._numbers = own, numbers
        named = [a for rule in checks.rules for a in attributes_in(rule.condition)]
        self.asked = [a for a in dict.fromkeys(named) if a.alias != HISTORY]
        """What of a result's values they read."""
        self._broken: list[Predicate] = [
            Logic("not", (with_attributes(rule.condition, self._plain),)) for rule in checks.rules
        ]

    def _plain(self, attribute: Attribute) -> Attribute:
        if attribute.alias == HISTORY:
            return Attribute(f"{ATTR_PREFIX}{_OF_HISTORY}{attribute.name}")
        return Attribute(f"{ATTR_PREFIX}{_OF_RESULT}{self.asked.index(attribute)}")

    def broken(
        self, values: Sequence[Value], asked: Asked, history: History, strings: Strings
    ) -> np.ndarray:
        """uint64 per result: bit i where rule i is false; as in SQL, unknown is no disagreement.

        Args:
            values: of ``self.asked``, equally long.
            asked: the results' places in the history.
            history: of all queries.
            strings: what codes of texts mean.
        """
        n = len(asked.at)
        found = np.zeros(n, np.uint64)
        if not n:
            return found
        columns = {f"{_OF_RESULT}{place}": value for place, value in enumerate(values)}
        for place, lookup in enumerate(self.lookups):
            query = self._own if lookup.query is None else self._numbers[lookup.query]
            told, known = history.look_up(lookup, query, asked, own=lookup.query is None)
            columns[f"{_OF_HISTORY}{place}"] = Value("int", told, known)
        columns = {name: value for name, value in columns.items() if value.kind != "null"}
        view = View(
            {ATTR_PREFIX + name: value.data for name, value in columns.items()},
            lambda name: columns[name].valid if name in columns else None,
            {name: value.kind for name, value in columns.items()},
            strings,
        )
        for number, predicate in enumerate(self._broken):
            disagrees = view_mask(predicate, view, n)
            found |= disagrees.astype(np.uint64) << np.uint64(number)
        return found

    def hold(self, broken: np.ndarray) -> np.ndarray:
        """For how long a result with these broken rules is held [ns]: the longest."""
        found = np.zeros(len(broken), np.int64)
        for number, hold_ns in enumerate(self.holds.tolist()):
            is_broken = (broken >> np.uint64(number) & np.uint64(1)).astype(np.bool_)
            found = np.maximum(found, np.where(is_broken, hold_ns, 0))
        return found

    def dropped(self, broken: np.ndarray) -> np.ndarray:
        """Where a rule that is broken says DROP."""
        mask = sum(1 << number for number in np.flatnonzero(self.drops).tolist())
        return np.asarray((broken & np.uint64(mask)) != 0)
