"""Matches with repeated steps as results: those of patterns, with as many columns of events as a
step has events in the longest of some matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from slackwater.engine.barrier.base import ReleasedMatches
from slackwater.engine.core.columns import VALID_PREFIX
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.released import Strings
from slackwater.engine.core.timeline import CHANCE
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.operators.match.repetition.asking import HALF, LOW_HALF
from slackwater.engine.operators.match.repetition.compiled import RepeatLayout
from slackwater.engine.operators.match.repetition.matches import MatchTable
from slackwater.engine.operators.match.store import Store
from slackwater.engine.operators.match.verdict.certainty import no_surer_than
from slackwater.engine.query.expression import View, computed_values
from slackwater.engine.query.fields import attributes_in, own_attribute, released_columns
from slackwater.engine.query.plan import Attribute, Computed, Expression, SeqPlan
from slackwater.engine.query.repeat_plan import (
    COLLECTED,
    COUNT,
    FIRST,
    LAST,
    RepeatPlan,
    step_and_role,
)
from slackwater.engine.query.values import NULL, Value

CELLS_MAX = 1 << 22
"""Of the table that some results become at once."""


def shown_runs(
    given: ReleasedMatches, matches: MatchTable, store: Store, layout: RepeatLayout,
    strings: Strings, site: str,
) -> Iterator[RepeatMatches]:  # fmt: skip
    """What a barrier has let go, in pieces of bounded size."""
    number, start, n = given.rows[:, 0], 0, len(given.at)
    steps = len(layout.plan.steps)
    width = max(1, steps * int(matches.size[number].max(initial=1)))
    some = max(1, CELLS_MAX // width)
    while start < n:
        part = slice(start, start + some)
        piece = ReleasedMatches(
            given.rows[part], given.branch[part], given.plus[part], given.at[part],
            given.known_at[part], given.confirmed[part], given.chance[part],
        )  # fmt: skip
        events, ends = matches.events(piece.rows[:, 0])
        rows, step_of = _columns(events, ends, steps)
        piece = replace(piece, rows=rows)
        if CHANCE in store.columns:
            piece = no_surer_than(store.chances(rows), piece)
        yield RepeatMatches(piece, step_of, store, layout, strings, site)
        start += some


def _columns(events: np.ndarray, ends: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(matches, columns): the events of each match, step by step, -1 where it has none; and the
    step of each column.
    """
    n, step = len(ends) - 1, events["step"]
    match = np.repeat(np.arange(n), np.diff(ends))
    group = match * steps + step
    first = np.searchsorted(group, group)  # they stand by match, then by step
    count = np.arange(len(group)) - first
    most = np.zeros(steps, np.int64)
    np.maximum.at(most, step, count + 1)
    begin = np.concatenate(([0], np.cumsum(most)))
    rows = np.full((n, int(begin[-1])), -1)
    rows[match, begin[step] + count] = events["row"]
    return rows, np.repeat(np.arange(steps), most)


class RepeatMatches(Matches):
    """Results of one query and site.

    Args:
        given: what to show; ``rows`` has a column for each event that a step has at most.
        step_of: of each column.
        store: where its rows are.
        layout: of the query.
        strings: the site's table.
        site: named in results.
    """

    def __init__(
        self, given: ReleasedMatches, step_of: np.ndarray, store: Store, layout: RepeatLayout,
        strings: Strings, site: str,
    ) -> None:  # fmt: skip
        super().__init__(given, store, layout.layout, strings, layout.plan.name, site)
        self.place_columns(layout.plan, step_of)

    def place_columns(self, plan: RepeatPlan, step_of: np.ndarray) -> None:
        """What the columns of events are of; before that, there is one for each step."""
        self.plan, self.step_of = plan, step_of
        by_step = self.shown
        self.shown = [by_step[step] for step in step_of.tolist()]

    def packed(self) -> dict[str, Any]:
        return super().packed() | {"step_of": self.step_of}

    def value_columns(
        self, branches: Sequence[SeqPlan] | None = None
    ) -> Iterator[tuple[np.ndarray, dict[str, Value]]]:
        """By which steps matches have, as one that is missing has no value."""
        asked = self.plan if branches is None else branches[0]
        if not asked.computed or not len(self):
            return
        bits = np.zeros(len(self), np.int64)
        for step in range(len(self.plan.steps)):
            has = (self.which[:, self.step_of == step] >= 0).any(axis=1)
            bits |= has.astype(np.int64) << step
        for present in np.unique(bits).tolist():
            mine = np.flatnonzero(bits == present)
            yield mine, computed_values(asked, self._views(asked, mine, present), len(mine))

    def _value(self, expression: Expression) -> Value:
        """Of every match; null where it has not the events."""
        asked = replace(self.plan, computed=(Computed("", expression),))
        kind, known = "null", np.zeros(len(self), np.bool_)
        data = np.zeros(len(self), np.int64)
        for mine, values in self.value_columns([asked]):
            value = values[""]
            if value.kind == "null":
                continue
            kind = value.kind if kind in {"null", value.kind} else "float"
            data = data.astype(np.result_type(data, value.data))
            data[mine] = value.data
            known[mine] = True if value.valid is None else value.valid
        return NULL if kind == "null" else Value(kind, data, known)

    def _views(self, asked: SeqPlan, mine: np.ndarray, present: int) -> dict[str, View]:
        """By alias and role, what ``asked`` computes from, of the results ``mine``."""
        views: dict[str, View] = {}
        used = [a for one in asked.computed for a in attributes_in(one.expression)]
        places = {step.alias: number for number, step in enumerate(self.plan.steps)}
        for alias in dict.fromkeys(str(attribute.alias) for attribute in used):
            step, role = step_and_role(alias)
            its = self.which[mine][:, self.step_of == places[step]]
            named = [attribute for attribute in used if attribute.alias == alias]
            if role == COUNT:
                views[alias] = View.of({"seq": (its >= 0).sum(axis=1)}, {}, self.strings)
            elif not present >> places[step] & 1:
                views[alias] = View({}, lambda _name: None, {}, self.strings, absent=True)
            elif role in COLLECTED:
                views[alias] = self._collected(its, role, named)
            else:
                last = (its >= 0).sum(axis=1) - 1
                column = last if role == LAST else np.zeros(len(mine), np.int64)
                assert role in {"", FIRST, LAST}
                rows = its[np.arange(len(mine)), column]
                views[alias] = View.of(
                    {name: self.columns[name][rows]
                     for name in released_columns(named) & self.columns.keys()},
                    self.attr_types, self.strings,
                )  # fmt: skip
        return views

    def _collected(self, its: np.ndarray, role: str, named: list[Attribute]) -> View:
        """What is made of the events ``its`` (results, events of a step)."""
        columns: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for attribute in named:
            own = own_attribute(attribute.name)
            column = attribute.name if own is None else ATTR_PREFIX + own
            name = attribute.name if own is None else own
            kind = "int" if own is None else self.attr_types.get(own, "null")
            if column not in self.columns or kind not in {"int", "float", "bool"}:
                continue
            values, there = self.columns[column][its], its >= 0
            if own is not None:
                there = there & self.columns[VALID_PREFIX + own][its]
            made, valid = _made(
                values.astype(np.float64 if kind == "float" else np.int64), there, role
            )
            kinds[name] = "float" if role == "avg" or kind == "float" else "int"
            columns[ATTR_PREFIX + name if own is not None else name] = made
            columns[VALID_PREFIX + name] = valid
        return View.of(columns, kinds, self.strings)


def _made(values: np.ndarray, there: np.ndarray, role: str) -> tuple[np.ndarray, np.ndarray]:
    """(results,): the aggregate of the values that are ``there``, and where there is one."""
    valid = np.asarray(there.any(axis=1))
    whole, count = values.dtype.kind == "i", np.maximum(there.sum(axis=1), 1)
    if role in {"sum", "avg"} and whole:
        halves = np.where(there, values, 0)
        high, low = (halves >> HALF).sum(axis=1), (halves & LOW_HALF).sum(axis=1)
        high, low = high + (low >> HALF), low & LOW_HALF
        if role == "avg":
            return (high * 2.0**HALF + low) / count, valid
        total = (high << HALF) | low
        return total, valid & (total >> HALF == high)  # else it has no room
    if role in {"sum", "avg"}:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not shown
            total = np.where(there, values, 0).sum(axis=1)
        return (total / count if role == "avg" else total), valid
    low, high = (-(2**63), 2**63 - 1) if whole else (-np.inf, np.inf)
    if role == "min":
        found = np.where(there, values, high).min(axis=1)
    else:
        found = np.where(there, values, low).max(axis=1)
    return np.where(valid, found, 0), valid
