"""Matches with repeated steps: their changes in columns, their certainty, and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from slackwater.engine.barrier.base import ORDER, Changes, ReleasedMatches, Verdicts
from slackwater.engine.core.clocks.epochs import MIXED
from slackwater.engine.core.columns import VALID_PREFIX
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import LATEST, Strings
from slackwater.engine.core.timeline import ANY_TYPE, CHANCE, LONG_AGO
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import FAR, numbers_of, record
from slackwater.engine.kernels.tables import mixed, numbered, places_of
from slackwater.engine.operators.match.certainty.chances import (
    Scopes,
    chances_of_order,
    no_surer_than,
)
from slackwater.engine.operators.match.certainty.matches import (
    Judge,
    changed,
    of_unknown_clocks,
    verdicts,
)
from slackwater.engine.operators.match.certainty.probability import SCOPE_END
from slackwater.engine.operators.match.compiler.records import RELATION, SCOPE
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.operators.match.repetition.compiler import PATH_EVENT, RepeatLayout
from slackwater.engine.operators.match.repetition.conditions import HALF, LOW_HALF
from slackwater.engine.operators.match.store import Store
from slackwater.engine.query.expression import View, computed_values
from slackwater.engine.query.fields import attributes_in, own_attribute, released_columns
from slackwater.engine.query.plan import Attribute, Computed, Expression, SeqPlan
from slackwater.engine.query.repeat_plan import (
    COLLECTED,
    COUNT,
    FIRST,
    LAST,
    Contiguity,
    RepeatPlan,
    compares_others,
    step_and_role,
)
from slackwater.engine.query.values import NULL, Value

# The matches of a batch and those that the barrier holds, by number.
#
# A match with repeated steps has any number of events, so the barrier identifies it by its number
# here, and not by the places of its events as for other patterns.


NAME: Final = record("size", "one", "two")
"""The identity of a match: its number of events, and two hashes of them."""


@kernel
def _named(
    start: np.ndarray, size: np.ndarray, path: np.ndarray, order: np.ndarray, by_step: bool,
    name: np.ndarray,
) -> None:  # fmt: skip
    for m in range(len(start)):
        one, two = 1, 2
        for i in range(start[m], start[m] + size[m]):
            step = path[i].step if by_step else 0
            one = mixed(mixed(one, order[path[i].row]), step)
            two = mixed(mixed(two, step + 7), order[path[i].row])
        name[m].size, name[m].one, name[m].two = size[m], one, two


class MatchTable(Restorable):
    """Matches by number.

    ``start``, ``size``: the range of each match's events in ``path`` (PATH_EVENT). ``name``: its
    NAME.

    Args:
        by_step: whether the same events as other steps are another match.
    """

    state_fields = ("start", "size", "name", "path")

    def __init__(self, *, by_step: bool) -> None:
        self._by_step = by_step
        self.start = self.size = np.empty(0, np.int64)
        self.name = np.empty((0, 3), np.int64)
        self.path = np.empty(0, PATH_EVENT)

    def __len__(self) -> int:
        return len(self.start)

    def numbers(
        self, start: np.ndarray, size: np.ndarray, path: np.ndarray, order: np.ndarray
    ) -> np.ndarray:
        """Return the numbers of matches; unknown ones are added.

        Args:
            start: the begin of each match's events in ``path``; matches may repeat.
            size: their numbers of events.
            path: PATH_EVENT.
            order: per row of the store its number in the stream.
        """
        names = np.empty(len(start), NAME)
        _named(start, size, path, order, self._by_step, names)
        name = numbers_of(names)
        which = numbered(name)
        highest = np.maximum.accumulate(which)
        once = np.flatnonzero(np.diff(highest, prepend=-1))
        found = places_of(self.name, name[once])
        new = once[found < 0]
        found[found < 0] = len(self) + np.arange(len(new))
        self.start = np.concatenate((self.start, start[new] + len(self.path)))
        self.size = np.concatenate((self.size, size[new]))
        self.name = np.concatenate((self.name, name[new]))
        self.path = np.concatenate((self.path, path))
        return np.asarray(found[which])

    def events(self, matches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated PATH_EVENT of ``matches``, and the borders between matches."""
        size = self.size[matches]
        ends = np.concatenate(([0], np.cumsum(size)))
        within = np.arange(ends[-1]) - np.repeat(ends[:-1], size)
        return self.path[np.repeat(self.start[matches], size) + within], ends

    def keep(self, rows: np.ndarray) -> np.ndarray:
        """Keep only the matches ``rows``; returns the new number of each match, -1: dropped."""
        kept = np.unique(rows)
        number = np.full(len(self), -1)
        number[kept] = np.arange(len(kept))
        self.path, ends = self.events(kept)
        self.start, self.size, self.name = ends[:-1], self.size[kept], self.name[kept]
        return number

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store becomes row ``number[i]``."""
        self.path["row"] = number[self.path["row"]]


# The probability of matches with repeated steps that depend on the clocks (SPEC 4.3).
#
# Computed by number of events, like those of other matches (``match.certainty.chances``): the order
# of neighbouring events, WITHIN, and the events that may be in a gap. Conditions on times that
# depend on clock errors do not count: they make a match uncertain, and its probability is that of
# its order.


def _relations(size: int, within_ns: int | None) -> np.ndarray:
    """RELATION records: each event before the next one, and all within WITHIN of the first."""
    rows = [(n, 1, 1, n + 1, 0, 0) for n in range(size - 1)]
    if within_ns is not None:
        rows += [(n, 1, 0, 0, 0, within_ns) for n in range(1, size)]
    return np.array(rows, RELATION)


def _gaps(size: int, within_ns: int) -> Scopes:
    """Return the scopes of a match of ``size`` events: before, between and after its events."""
    bounds = [(size - 1, 0, 0, within_ns), (0, 1, 1, 0)]
    for step in range(size - 1):
        bounds += [(step, 0, 1, 0), (step + 1, 1, 1, 0)]
    bounds += [(size - 1, 0, 1, 0), (0, 1, 0, within_ns)]
    ends = np.zeros(len(bounds), SCOPE_END)
    for column, name in enumerate(("step", "above", "strict", "bound")):
        ends[name] = [bound[column] for bound in bounds]
    scopes = np.zeros(size + 1, SCOPE)
    scopes["relations_from"] = 2 * np.arange(size + 1)
    scopes["relations_to"] = scopes["relations_from"] + 2
    return Scopes(scopes, ends, np.arange(size + 1))


# The output of the kernel of repetition as changes in columns (``engine.barrier.base``).


class FoundRuns(NamedTuple):
    """Changes of matches by events: MATCH_CHANGE, PATH_EVENT of all of them, DOUBT."""

    found: np.ndarray
    path: np.ndarray
    doubts: np.ndarray


@dataclass(frozen=True, slots=True)
class GapScope:
    """A scope that a match waits for, until no event of ``type`` can come into it.

    It extends to the end of the scope of the negated step ``negated``, or (None) to the last event
    of the match.
    """

    type: str
    negated: int | None


def scopes_of(plan: RepeatPlan) -> list[GapScope]:
    """Return the scopes in which later events may change a match."""
    found = [GapScope(step.type, n) for n, step in enumerate(plan.steps) if step.negated]
    kinds: list[str] = []
    if plan.contiguity is Contiguity.STRICT:
        kinds = [ANY_TYPE]
    elif plan.chooses or plan.contiguity is Contiguity.NEXT:
        kinds = [step.type for step in plan.steps]
    else:
        kinds = [
            step.type for step, often in zip(plan.steps, plan.often, strict=True) if often.until
        ]
    return found + [GapScope(kind, None) for kind in dict.fromkeys(kinds)]


def _is_chosen(plan: RepeatPlan) -> bool:
    """Return whether another match, or another reading of its events, may replace a match."""
    return plan.chooses or plan.ambiguous


class RepeatJudge(Judge):
    """Converts the output of the kernel of ``plan`` to changes; their rows are numbers of matches.

    ``matches``: numbers the matches.
    """

    plan: RepeatPlan
    matches: MatchTable

    def changes(self, facts: np.ndarray, rows: np.ndarray, doubts: np.ndarray) -> Changes | None:
        """Return the changes of the kernel's output (MATCH_CHANGE, PATH_EVENT of all of them,
        DOUBT).
        """
        if not len(facts):
            return None
        runs, order = FoundRuns(facts, rows, doubts), self.store.columns[ORDER]
        number = self.matches.numbers(facts["from_"], facts["size"], rows, order)
        if _is_chosen(self.plan):
            places, before, after = self._chosen(runs, number)
        else:
            places = np.arange(len(facts))
            new = facts["new"] == 1
            before = self._verdicts_of(runs, ~new, facts["sure_before"], "t_a_before", old=True)
            after = self._verdicts_of(runs, facts["stands"] == 1, facts["sure"], "t_a_now")
        of, mine = facts[places], number[places]
        completing = of["cause"] if _is_chosen(self.plan) else of["completing"]
        found = changed(Changes(
            mine[:, None].copy(), np.zeros(len(mine), np.int64), completing.copy(),
            of["cause"].copy(), before, after, np.empty((len(mine), 0), np.int64), mine, mine,
        ))  # fmt: skip
        if not len(found):
            return None
        found.closes, found.known_at, found.last_ns = self._times(found.rows[:, 0])
        return found

    def move(self, changes: Changes, number: np.ndarray, to: Judge) -> None:
        assert isinstance(to, RepeatJudge)
        events, ends = self.matches.events(changes.rows[:, 0])
        events["row"] = number[events["row"]]
        order = to.store.columns[ORDER]
        moved = to.matches.numbers(ends[:-1], np.diff(ends), events, order)
        changes.rows = moved[:, None].copy()

    def used(self, changes: Changes) -> np.ndarray:
        return np.unique(self.matches.events(changes.rows[:, 0])[0]["row"])

    def begins(self, changes: Changes) -> np.ndarray:
        events, ends = self.matches.events(changes.rows[:, 0])
        return np.asarray(self.store.columns["ref"][events["row"][ends[:-1]]])

    def sorted(self, changes: Changes) -> Changes:
        size, one, two = self.matches.name[changes.rows[:, 0]].T
        keys = (two, one, size, changes.last_ns, self.begins(changes), changes.cause)
        return changes.take(np.lexsort(keys))

    def _chosen(self, runs: FoundRuns, number: np.ndarray) -> tuple[np.ndarray, Verdicts, Verdicts]:
        """Return the differences between the choices without and with an event, one entry per
        match.
        """
        found = runs.found
        every = np.ones(len(found), np.bool_)
        verdicts = self._verdicts_of(runs, every, found["sure"], "t_a_now")
        key = np.column_stack([found["cause"], number])
        old, new = np.flatnonzero(found["new"] == 0), np.flatnonzero(found["new"] == 1)
        its_new = places_of(key[new], key[old])
        fresh = new[places_of(key[old], key[new]) < 0]
        places = np.concatenate((old, fresh))
        stays = np.concatenate((its_new >= 0, np.ones(len(fresh), np.bool_)))
        which = np.concatenate((new[its_new] if len(new) else old, fresh))
        which = np.where(stays, which, places)
        stood = np.arange(len(places)) < len(old)
        order = np.argsort(found["cause"][places], kind="stable")
        before = Verdicts(stood, verdicts.confirmed[places], verdicts.chance[places])
        after = Verdicts(stays, verdicts.confirmed[which], verdicts.chance[which])
        return places[order], before.take(order), after.take(order)

    def _verdicts_of(
        self, runs: FoundRuns, stands: np.ndarray, sure: np.ndarray, t_a: str, *, old: bool = False
    ) -> Verdicts:
        """Return the verdicts of runs; ``old``: without the events that cause the changes."""
        doubts, size, within_ns = runs.doubts, runs.found["size"], self.plan.within_ns
        if old:
            doubts = doubts[doubts["event"] != runs.found["cause"][doubts["match"]]]

        def chances(mine: np.ndarray) -> np.ndarray:
            events = int(size[mine[0]])
            clocks = self.store.clock(
                runs.path["row"][runs.found["from_"][mine][:, None] + np.arange(events)]
            )
            about = self._about(mine, doubts)
            found = chances_of_order(
                _relations(events, within_ns), clocks,
                runs.found[t_a][mine] if self.rule.by_delay else None, about,
                _gaps(events, within_ns or 0),
            )  # fmt: skip
            # It is unknown if the length of an event is inexact.
            lasting = np.asarray(clocks.inexact.any(axis=1))
            lasting[about.match[about.event.inexact]] = True
            found[lasting] = np.nan
            return found

        return verdicts(stands, sure == 1, doubts, self._unknown_runs(runs), size, chances)

    def _unknown_runs(self, runs: FoundRuns) -> np.ndarray | None:
        """Which matches compare an unknown clock; None: all clocks are exact."""
        if MIXED not in self.store.columns:
            return None
        size = runs.found["size"]
        starts = np.cumsum(size) - size
        place = np.repeat(runs.found["from_"] - starts, size) + np.arange(size.sum())
        events = runs.path["row"][place]
        others = compares_others(self.plan), self.plan.within_ns or LATEST
        return of_unknown_clocks(self.store, starts, events, runs.found["completing"], *others)

    def _times(self, matches: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """When the scopes of ``matches`` close, when they are known, and their last events' times.

        A promise of x closes an open end x, one of x + 1 a closed end; plus the clock errors of the
        match's own events.
        """
        events, ends = self.matches.events(matches)
        columns, starts, rows = self.store.columns, ends[:-1], events["row"]
        ref = columns["ref"][rows]
        until = ref if self.rule.by_delay else ref + columns["unc"][rows]
        last = np.maximum.reduceat(ref, starts)
        scopes = scopes_of(self.plan)
        found = np.full((len(matches), len(scopes) + 1), LONG_AGO)
        for place, scope in enumerate(scopes):
            if scope.negated is None:
                # The choice among events of equal times depends on all of them.
                found[:, place] = np.maximum.reduceat(until, starts) + self.plan.chooses
                continue
            behind = np.where(events["step"] > scope.negated, until, FAR)
            closes = np.minimum.reduceat(behind, starts)
            trails = closes == FAR
            found[:, place] = np.where(
                trails, until[starts] + (self.plan.within_ns or 0) + 1, closes
            )
        found[:, -1] = last
        return found, np.maximum.reduceat(columns["arrival"][rows], starts), last


# Results: like results of other patterns, with one column per event of a step in the longest match.


CELLS_MAX = 1 << 22
"""Largest number of cells in a table of results."""


def shown_runs(
    released: ReleasedMatches, matches: MatchTable, store: Store, layout: RepeatLayout,
    strings: Strings, site: str,
) -> Iterator[RepeatMatches]:  # fmt: skip
    """Results of released matches, in pieces of bounded size."""
    number, start, n = released.rows[:, 0], 0, len(released.at)
    steps = len(layout.plan.steps)
    width = max(1, steps * int(matches.size[number].max(initial=1)))
    some = max(1, CELLS_MAX // width)
    while start < n:
        part = slice(start, start + some)
        piece = ReleasedMatches(
            released.rows[part], released.branch[part], released.plus[part], released.at[part],
            released.known_at[part], released.confirmed[part], released.chance[part],
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
    first = np.searchsorted(group, group)  # they are sorted by match, then by step
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
        released: the matches; ``rows`` has a column for each event of the longest steps.
        step_of: the step of each column.
        store: the events.
        layout: the layout of the query.
        strings: the string table of the site.
        site: name of the site.
    """

    def __init__(
        self, released: ReleasedMatches, step_of: np.ndarray, store: Store, layout: RepeatLayout,
        strings: Strings, site: str,
    ) -> None:  # fmt: skip
        super().__init__(released, store, layout.layout, strings, layout.plan.name, site)
        self.place_columns(layout.plan, step_of)

    def place_columns(self, plan: RepeatPlan, step_of: np.ndarray) -> None:
        """Assign the columns of events to steps; before, there is one per step."""
        self.plan, self.step_of = plan, step_of
        by_step = self.output_attributes
        self.output_attributes = [by_step[step] for step in step_of.tolist()]

    def packed(self) -> dict[str, Any]:
        return super().packed() | {"step_of": self.step_of}

    def value_columns(
        self, branches: Sequence[SeqPlan] | None = None
    ) -> Iterator[tuple[np.ndarray, dict[str, Value]]]:
        """Yield matches grouped by the steps that they have, as a missing step has no values."""
        plan = self.plan if branches is None else branches[0]
        if not plan.computed or not len(self):
            return
        bits = np.zeros(len(self), np.int64)
        for step in range(len(self.plan.steps)):
            has = (self.which[:, self.step_of == step] >= 0).any(axis=1)
            bits |= has.astype(np.int64) << step
        for present in np.unique(bits).tolist():
            mine = np.flatnonzero(bits == present)
            yield mine, computed_values(plan, self._views(plan, mine, present), len(mine))

    def _value(self, expression: Expression) -> Value:
        """Return the value for every match; null if it lacks the events."""
        plan = replace(self.plan, computed=(Computed("", expression),))
        kind, known = "null", np.zeros(len(self), np.bool_)
        data = np.zeros(len(self), np.int64)
        for mine, values in self.value_columns([plan]):
            value = values[""]
            if value.kind == "null":
                continue
            kind = value.kind if kind in {"null", value.kind} else "float"
            data = data.astype(np.result_type(data, value.data))
            data[mine] = value.data
            known[mine] = True if value.valid is None else value.valid
        return NULL if kind == "null" else Value(kind, data, known)

    def _views(self, plan: SeqPlan, mine: np.ndarray, present: int) -> dict[str, View]:
        """Return the inputs of the computed columns of ``plan``, by alias and role; results
        ``mine``.
        """
        views: dict[str, View] = {}
        used = [a for one in plan.computed for a in attributes_in(one.expression)]
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
        """Return the aggregates over the events ``its`` (results, events of a step)."""
        columns: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for attribute in named:
            attribute_name = own_attribute(attribute.name)
            column = attribute.name if attribute_name is None else ATTR_PREFIX + attribute_name
            name = attribute.name if attribute_name is None else attribute_name
            kind = "int" if attribute_name is None else self.attr_types.get(attribute_name, "null")
            if column not in self.columns or kind not in {"int", "float", "bool"}:
                continue
            values, there = self.columns[column][its], its >= 0
            if attribute_name is not None:
                there = there & self.columns[VALID_PREFIX + attribute_name][its]
            made, valid = _made(
                values.astype(np.float64 if kind == "float" else np.int64), there, role
            )
            kinds[name] = "float" if role == "avg" or kind == "float" else "int"
            columns[ATTR_PREFIX + name if attribute_name is not None else name] = made
            columns[VALID_PREFIX + name] = valid
        return View.of(columns, kinds, self.strings)


def _made(values: np.ndarray, there: np.ndarray, role: str) -> tuple[np.ndarray, np.ndarray]:
    """(results,): the aggregate of the values that are ``there``, and whether it exists."""
    valid = np.asarray(there.any(axis=1))
    whole, count = values.dtype.kind == "i", np.maximum(there.sum(axis=1), 1)
    if role in {"sum", "avg"} and whole:
        halves = np.where(there, values, 0)
        high, low = (halves >> HALF).sum(axis=1), (halves & LOW_HALF).sum(axis=1)
        high, low = high + (low >> HALF), low & LOW_HALF
        if role == "avg":
            return (high * 2.0**HALF + low) / count, valid
        total = (high << HALF) | low
        return total, valid & (total >> HALF == high)  # null if it overflows
    if role in {"sum", "avg"}:
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values are not output
            total = np.where(there, values, 0).sum(axis=1)
        return (total / count if role == "avg" else total), valid
    low, high = (-(2**63), 2**63 - 1) if whole else (-np.inf, np.inf)
    if role == "min":
        found = np.where(there, values, high).min(axis=1)
    else:
        found = np.where(there, values, low).max(axis=1)
    return np.where(valid, found, 0), valid
