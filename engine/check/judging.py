"""What a chain does with its queries' results before they go out: each query's rules, one history.

Results of other queries count from the instant after they were known, those of the query itself in
their order; so the answer hangs neither on how the input is cut, nor on the order of the queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.check.history import History, Known
from engine.check.history_file import KnownToRun, PastResults
from engine.check.results import NewResults, keys_of, read_results
from engine.check.rules import QueryJudge, Rules
from engine.errors import UserError
from engine.kernels.records import INT_MAX
from engine.operator import ResultPieces
from engine.query.language.place import closest, listed
from engine.query.plan import Checks, Plan, checks_of
from engine.stream.released import Strings

_SPARE: Final = 16
"""Texts of keys that are kept, as a multiple of what is known."""


class Judging:
    """Of the results of ``plans``, one of which has checks at least.

    Raises:
        UserError: a rule asks for the history of a query that is not among them.
    """

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
        self._told = [0] * len(plans)
        self._names = [plan.name for plan in plans]
        self._look_back = look_back
        self._texts: dict[int, dict[int, str]] | None = None
        """By query: what keys stand for; None: nobody will ask."""

    def begin_with(self, past: Mapping[str, PastResults]) -> None:
        """``past`` is known from before, and ``known`` will be asked for."""
        self._texts = {number: {} for number in self._look_back}
        for number, texts in self._texts.items():
            rows = past.get(self._names[number])
            if rows is None:
                continue
            n, key = len(rows.key), keys_of(pa.array(rows.key, pa.string()))
            self._told[number] = n
            gone_place = np.where(rows.gone < INT_MAX, 0, INT_MAX)  # before any of this run
            self._history.begin(
                number, Known(key, rows.identity, rows.at, np.arange(n), rows.gone, gone_place)
            )
            texts.update(zip(key.tolist(), rows.key, strict=True))

    def known(self) -> dict[str, KnownToRun]:
        """By query: all that rules may still look into."""
        found = {}
        for number, texts in (self._texts or {}).items():
            known = self._history.of(number)
            keys = [texts[key] for key in known.key.tolist()]
            horizon_ns = self._look_back[number] + self._holds
            results = PastResults(keys, known.identity, known.at, known.gone)
            found[self._names[number]] = KnownToRun(results, horizon_ns)
        return found

    def _note_texts(self, number: int, new: NewResults) -> None:
        """Remembers what keys stand for, of those in the history."""
        if self._texts is None or number not in self._texts or not len(new.key):
            return
        texts = self._texts[number]
        first = np.unique(new.key, return_index=True)[1]
        named = pa.concat_arrays(new.key_texts).take(pa.array(first)).to_pylist()
        texts.update(zip(new.key[first].tolist(), named, strict=True))
        held = self._history.of(number).key
        if len(texts) > _SPARE * (len(held) + 1):
            self._texts[number] = {key: texts[key] for key in np.unique(held).tolist()}

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
                results[number].pieces, self._kinds[number], asked, checks.key, self._told[number]
            )
            self._told[number] += len(found.at)
            self._history.add(number, found.key, found.identity, found.at, found.place, found.plus)
            self._note_texts(number, found)
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

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "history": self._history.snapshot(),
            "judges": {number: judge.snapshot() for number, judge in self._judges.items()},
            "told": list(self._told),
            "texts": None if self._texts is None else dict(self._texts),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of equal plans."""
        self._history.restore(state["history"])
        for number, saved in state["judges"].items():
            self._judges[number].restore(saved)
        self._told = list(state["told"])
        self._texts = None if state["texts"] is None else dict(state["texts"])


def _number(query: str, numbers: dict[str, int]) -> int:
    if query not in numbers:
        near = closest(query, numbers)
        hint = f"the queries are {listed(list(numbers))}" + (f"; {near}" if near else "")
        raise UserError(f"a CHECK looks into the history of {query!r}, which is not asked: {hint}")
    return numbers[query]
