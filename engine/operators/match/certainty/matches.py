"""Changes of matches in columns, in an order that does not depend on batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from slackwater.engine.barrier.base import ORDER, Changes, Verdicts
from slackwater.engine.core.clocks.epochs import MIXED, STAMPED_BY, UNKNOWN_EPOCH
from slackwater.engine.core.released import LATEST, Strings
from slackwater.engine.core.timeline import LONG_AGO, UNKNOWN
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX, NONE
from slackwater.engine.kernels.tables import numbered
from slackwater.engine.operators.match.certainty.chances import (
    Conditions,
    Doubts,
    EventTimes,
    chances,
)
from slackwater.engine.operators.match.compiler.program import (
    compile_programs,
    text_constants,
    text_ranks,
    uses_text_order,
)
from slackwater.engine.operators.match.compiler.tables import Layout, members_of, relations_in
from slackwater.engine.operators.match.store import REF_END, UNC_END, Store
from slackwater.engine.query.pattern_settings import Rule
from slackwater.engine.query.repeat_plan import compares_others

# The output of the pattern kernel, sorted, in columns.
#
# The kernel outputs matches by the row that causes them. The matches of one row are sorted here:
# older before new ones, by branch, then by the ranks of their events step by step. The ranks of the
# first steps are combined to one number.


class Spread(NamedTuple):
    """Matches as columns. ``rows``: (matches, steps). ``known_at``: the last arrival of its events;
    ``last_ns``: the time of its last event [ns]. Flags are bool; the others are int64, as in FOUND.
    """

    rows: np.ndarray
    branch: np.ndarray
    completing: np.ndarray
    cause: np.ndarray
    known_at: np.ndarray
    last_ns: np.ndarray
    new: np.ndarray
    stands: np.ndarray
    sure: np.ndarray
    sure_before: np.ndarray


@kernel
def ascends(
    cause: np.ndarray, old: np.ndarray, branch: np.ndarray, lead: np.ndarray, events: np.ndarray
) -> bool:
    """Return whether the matches are sorted already, by the events ``lead`` of the first step."""
    for i in range(1, len(cause)):
        if cause[i] != cause[i - 1]:
            continue
        low, high = lead[i - 1], lead[i]
        if old[i] != old[i - 1] or branch[i] != branch[i - 1] or low < 0 or high < 0:
            return False
        if events[high].ref <= events[low].ref:
            return False
    return True


@kernel
def spread(
    facts: np.ndarray, rows: np.ndarray, places: np.ndarray, events: np.ndarray,
    arrival: np.ndarray, lasts: np.ndarray, by_end: bool, made: Spread,
) -> None:  # fmt: skip
    """Write matches in the order of ``places``, as columns.

    Args:
        facts: FOUND records.
        rows: (matches, steps) of them.
        places: their order.
        events: EVENT records of the store.
        arrival: column of the store.
        lasts: (branches, steps): the possible last steps of a match, then -1.
        by_end: the last event is the one that ends last, else the one that begins last.
        made: written.
    """
    steps = rows.shape[1]
    for at in range(len(places)):
        place = places[at]
        fact = facts[place]
        made.branch[at], made.completing[at] = fact.branch, fact.completing
        made.cause[at] = fact.cause
        made.new[at], made.stands[at] = fact.new == 1, fact.stands == 1
        made.sure[at], made.sure_before[at] = fact.sure == 1, fact.sure_before == 1
        known = last = LONG_AGO
        for step in range(steps):
            row = rows[place, step]
            made.rows[at, step] = row
            if row >= 0:
                known = max(known, arrival[row])
        for number in range(steps):
            step = lasts[fact.branch, number]
            if step < 0:
                break
            row = rows[place, step]
            last = max(last, events[row].ref_end if by_end else events[row].ref)
        made.known_at[at], made.last_ns[at] = known, last


_BITS: Final = 62
"""The largest sort key of matches."""


def changed(found: Changes) -> Changes:
    """Return the changes in ``found`` with an effect; unknown chances (NaN) are equal."""
    was, now = found.before, found.after
    chance = (was.chance == now.chance) | (np.isnan(was.chance) & np.isnan(now.chance))
    same = (was.confirmed == now.confirmed) & chance
    seen = np.flatnonzero((was.stands != now.stands) | (was.stands & ~same))
    return found.take(seen) if len(seen) < len(found.cause) else found


def verdicts(
    stands: np.ndarray, sure: np.ndarray, doubts: np.ndarray, unknown: np.ndarray | None,
    kind: np.ndarray, chances: Callable[[np.ndarray], np.ndarray],
) -> Verdicts:  # fmt: skip
    """Return the verdicts of matches.

    Args:
        stands: bool, the match is valid.
        sure: bool, it is certain without its doubts.
        doubts: DOUBT, of these matches.
        unknown: bool, it compares an unknown clock; None: all clocks are exact.
        kind: int; ``chances`` is called for matches of one kind, with or without doubts.
        chances: the probabilities of matches, given by their places.
    """
    doubted = np.zeros(len(stands), np.bool_)
    doubted[doubts["match"]] = True
    confirmed, chance = sure & ~doubted, np.ones(len(stands))
    unsure = stands & ~confirmed
    if unknown is not None:
        confirmed, unsure = confirmed & ~unknown, unsure & ~unknown
        chance[unknown] = UNKNOWN
    for which in (unsure & doubted, unsure & ~doubted):
        for each in np.unique(kind[which]).tolist():
            mine = np.flatnonzero(which & (kind == each))
            chance[mine] = chances(mine)
    return Verdicts(stands, confirmed, chance)


class Judge(Struct):
    """Makes changes from the output of a kernel on ``store``."""

    layout: Layout
    rule: Rule
    store: Store
    strings: Strings

    def changes(self, facts: np.ndarray, rows: np.ndarray, doubts: np.ndarray) -> Changes | None:
        """Return the changes of the kernel's output (FOUND records, the events of each match by
        step, doubts); None: there are none.
        """
        n = len(facts)
        if not n:
            return None
        cause, old = facts["cause"].copy(), facts["new"] == 0
        places = self.in_order(cause, old, facts["branch"].copy(), rows)
        lasts = np.full((len(self.layout.branches), rows.shape[1]), NONE)
        for branch, shape in enumerate(self.layout.shapes):
            # The possible last steps of a match.
            last = [self.layout.places[branch][step] for step in shape.lasts]
            lasts[branch, : len(last)] = last
        made = Spread(
            np.empty_like(rows), *(np.empty(n, np.int64) for _ in range(5)),
            *(np.empty(n, np.bool_) for _ in range(4)),
        )  # fmt: skip
        arrival, by_end = self.store.columns["arrival"], self.layout.by_ends
        spread(facts, rows, places, self.store.events, arrival, lasts, by_end, made)
        if len(doubts):
            number = np.empty(n, np.int64)
            number[places] = np.arange(n)
            doubts = doubts.copy()
            doubts["match"] = number[doubts["match"]]
        t_a = facts["t_a_now"], facts["t_a_before"]
        unknown = self._unknown(made)
        after = self._verdicts(made, made.stands, made.sure, t_a[0], places, doubts, unknown)
        past = doubts[doubts["event"] != made.cause[doubts["match"]]]
        before = self._verdicts(made, ~made.new, made.sure_before, t_a[1], places, past, unknown)
        found = Changes(
            made.rows, made.branch, made.completing, made.cause, before, after,
            self._closes(made), made.known_at, made.last_ns,
        )  # fmt: skip
        return changed(found)

    def move(self, changes: Changes, number: np.ndarray, to: Judge) -> None:  # noqa: ARG002
        """Renumber ``changes`` for the store of judge ``to``: row i becomes ``number[i]``."""
        changes.rows = np.where(changes.rows >= 0, number[changes.rows], NONE)

    def used(self, changes: Changes) -> np.ndarray:
        """Return the rows of all matches that change, ascending."""
        return np.unique(changes.rows[changes.rows >= 0])

    def begins(self, changes: Changes) -> np.ndarray:
        """Return the time of the first event of each match [ns]."""
        ref = self.store.columns["ref"][changes.rows]
        return np.asarray(ref.min(axis=1, where=changes.rows >= 0, initial=INT_MAX))

    def sorted(self, changes: Changes) -> Changes:
        """``changes`` in an order that depends only on the matches."""
        old, branch = changes.before.stands, changes.branch
        return changes.take(self.in_order(changes.cause, old, branch, changes.rows))

    def _verdicts(
        self, made: Spread, stands: np.ndarray, sure: np.ndarray, t_a: np.ndarray,
        places: np.ndarray, doubts: np.ndarray, unknown: np.ndarray | None,
    ) -> Verdicts:  # fmt: skip
        """Return the verdicts of matches.

        ``t_a``: T_a per match in the order of the kernel; ``places``: places of the matches in that
        order. ``unknown``: whether each compares an unknown clock.
        """
        branch = made.branch

        def chances(mine: np.ndarray) -> np.ndarray:
            about = self._about(mine, doubts)
            return self._chances(int(branch[mine[0]]), made.rows[mine], t_a[places[mine]], about)

        return verdicts(stands, sure, doubts, unknown, branch, chances)

    def _unknown(self, made: Spread) -> np.ndarray | None:
        """Return whether each match compares an unknown clock; None: all clocks are exact."""
        if MIXED not in self.store.columns:
            return None
        by_others = np.array([compares_others(plan) for plan in self.layout.branches])
        within = np.array([plan.within_ns or LATEST for plan in self.layout.branches])
        there = made.rows >= 0
        ends = there.sum(axis=1).cumsum()
        return of_unknown_clocks(
            self.store, np.append(0, ends[:-1]), made.rows[there], made.completing,
            by_others[made.branch], within[made.branch],
        )  # fmt: skip

    def _about(self, matches: np.ndarray, doubts: np.ndarray) -> Doubts:
        """Return the doubts of ``matches``, which are renumbered 0, 1, ..."""
        number = np.full(int(doubts["match"].max(initial=-1)) + 1, NONE)
        known = matches < len(number)
        number[matches[known]] = np.flatnonzero(known)
        doubts = doubts[number[doubts["match"]] >= 0]
        match, event = number[doubts["match"]], doubts["event"]
        order = self.store.columns[ORDER][event]
        places = np.lexsort((doubts["scope"], order, match))
        chance = self.store.chances(event[places])
        return Doubts(
            match[places], self.store.clock(event[places]), event[places], order[places],
            doubts["scope"][places], np.where(chance == UNKNOWN, np.nan, chance),
        )  # fmt: skip

    def _chances(
        self, branch: int, rows: np.ndarray, t_a: np.ndarray, doubts: Doubts
    ) -> np.ndarray:
        clocks: EventTimes = self.store.clock(rows[:, members_of(self.layout.tables, branch)])
        return chances(
            self.layout, branch, self.rule, t_a, rows, clocks, doubts, self._conditions(branch)
        )

    def _conditions(self, branch: int) -> Conditions | None:
        """Return the conditions of the branch that depend on clock errors; None: there are none."""
        tables, layout, store = self.layout.tables, self.layout, self.store
        of = tables.branches[branch]
        parts = [of, *tables.scopes[of["scopes_from"] : of["scopes_to"]]]
        clocked = tables.conditions["clocked"]
        if not any(clocked[one["conditions_from"] : one["conditions_to"]].any() for one in parts):
            return None
        programs = compile_programs(
            layout.predicates, layout.place, layout.register, store.kinds, self.strings
        )
        ranks = np.empty(0, np.int64)
        if uses_text_order(programs):
            ranks = text_ranks(self.strings, text_constants(layout.predicates))
        return Conditions(programs, ranks, store.registers.raw, store.registers.ok, store.events)

    def _closes(self, made: Spread) -> np.ndarray:
        """Return the promises that close the scopes of the matches (``Changes.closes``).

        A promise of x closes an open end x, one of x + 1 a closed end; plus the clock errors of the
        match's own events. Promises are reduced by those of other events
        (``engine.core.clocks.stream_clocks``).
        """
        tables, columns, rows = self.layout.tables, self.store.columns, made.rows
        found = np.full((len(rows), len(tables.scopes) + 1), LONG_AGO)
        for branch in range(len(self.layout.branches)):
            mine = np.flatnonzero(made.new & (made.branch == branch))
            if not len(mine):
                continue

            def until(end: np.void, mine: np.ndarray = mine) -> np.ndarray:
                row = rows[mine, end["right"]]
                unc = UNC_END if end["right_end"] else "unc"
                unc_ns = 0 if self.rule.by_delay else columns[unc][row]
                beyond = end["bound"] + 1 - end["strict"]
                time = columns[REF_END if end["right_end"] else "ref"][row]
                return np.asarray(time + unc_ns + beyond)

            of = tables.branches[branch]
            for scope in range(of["scopes_from"], of["scopes_to"]):
                # The scope ends at the least of its upper bounds.
                ends = relations_in(tables, scope)
                above = ends[ends["left"] == tables.scopes["step"][scope]]
                if self.layout.by_ends:
                    # Promises bound ends: a later interval may have begun at any time.
                    above = above[above["left_end"] == 1]
                uppers = [until(end) for end in above]
                if uppers:
                    found[mine, scope] = np.minimum.reduce(uppers)
            found[mine, -1] = made.last_ns[mine]
        return found

    def in_order(
        self, cause: np.ndarray, old: np.ndarray, branch: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Return the order of changes: by cause, older matches (``old``) before new ones, by
        branch, then by (ref, source name, seq) step by step.
        """
        if ascends(cause, old, branch, rows[:, 0], self.store.events):
            return np.arange(len(cause))
        (rank, ranked), branches = self._ranks(rows), len(self.layout.branches)
        bits = ranked.bit_length()
        packed = min((_BITS - (2 * branches).bit_length()) // bits, rows.shape[1])
        key = np.where(old, branch, branches + branch)
        for step in range(packed):
            key = key << bits | (rank[rows[:, step]] + 1)
        others = [rank[step] for step in rows.T[: packed - 1 : -1]]
        caused = np.append(0, np.cumsum(np.diff(cause) != 0))
        return np.lexsort((*others, key, caused))

    def _ranks(self, rows: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the ranks of the events in ``rows`` by ref, source name and seq, indexed by place
        in the store; -1 at place -1, undefined for other events. And the number of these events.
        The cost does not depend on the number of earlier events in the store.
        """
        n = self.store.n
        present = rows[rows >= 0]
        first = int(present.min())
        used = np.zeros(n - first, np.bool_)
        used[present - first] = True
        events = np.flatnonzero(used) + first
        rank = np.empty(n + 1, np.int64)
        rank[-1] = -1
        rank[events[self._by_time(events)]] = np.arange(len(events))
        return rank, len(events)

    def _by_time(self, events: np.ndarray) -> np.ndarray:
        """Return the order of the events by ref, source name and seq."""
        columns = self.store.columns
        ref = columns["ref"][events]
        places = np.argsort(ref, kind="stable")
        sorted_ref = ref[places]
        same = sorted_ref[1:] == sorted_ref[:-1]
        if not same.any():
            return places
        # Few events have equal times: only their names are compared and sorted.
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        among = events[places[tied]]
        codes, which = np.unique(columns["source"][among], return_inverse=True)
        names = [self.strings.text(int(code)) or "" for code in codes]
        name_rank = np.argsort(np.argsort(np.array(names, dtype=str)))[which]
        keys = (columns[ORDER][among], columns["seq"][among], name_rank, sorted_ref[tied])
        places[tied] = places[tied][np.lexsort(keys)]
        return places


# Matches that compare times of an unknown clock (SPEC 2, "Unknown clocks").
#
# A match does if its events are of several clocks, one of them unknown; or of a clock that became
# known between them, as earlier events keep their times; or if a negated step may have events of
# any source, and the stream has unknown clocks.


def of_unknown_clocks(
    store: Store, starts: np.ndarray, events: np.ndarray, completing: np.ndarray,
    by_others: np.ndarray | bool, within_ns: np.ndarray | int,
) -> np.ndarray:  # fmt: skip
    """Return whether each match compares an unknown clock, in a stream with inexact clocks.

    Args:
        store: the events.
        starts: the first place of each match in ``events``, ascending.
        events: places in the store.
        completing: places of the events that completed the matches.
        by_others: per match, ``engine.query.repeat_plan.compares_others`` of its plan.
        within_ns: per match, how long before its first event others may invalidate it [ns].
    """
    until = store.columns[MIXED][completing]
    clock = store.columns.get(STAMPED_BY, store.columns["clock"])[events]
    unknown = store.columns["epoch"][events] == UNKNOWN_EPOCH
    several = np.minimum.reduceat(clock, starts) < np.maximum.reduceat(clock, starts)
    any_unknown = np.logical_or.reduceat(unknown, starts)
    # Events of one clock before and after its first sync.
    across = any_unknown & ~several & ~np.logical_and.reduceat(unknown, starts)
    earliest = (store.columns["ref"] - store.columns["unc"])[events]
    near = np.minimum.reduceat(earliest, starts) - within_ns <= until
    # An event that was released before its clock became known keeps its time.
    return np.asarray(across | (any_unknown & several | by_others & near) & (until > -LATEST))


# The difference to the matches found if late events, or wider bounds, had come in time.
#
# Dropped events are in neither.


_Columns = TypeVar("_Columns", Changes, Verdicts)


def one_of_each(changes: Changes | None) -> Changes | None:
    """One change per match: from the state before its first change to that after its last one."""
    if changes is None or not len(changes):
        return None
    which = _which(changes.rows, changes.branch)
    begins, ends = np.empty((2, int(which.max()) + 1), np.int64)
    places = np.arange(len(which))
    ends[which] = places
    begins[which[::-1]] = places[::-1]
    found = changes.take(begins)
    found.after = changes.after.take(ends)
    return found


def _which(rows: np.ndarray, branch: np.ndarray) -> np.ndarray:
    """Return a number per match, from 0 on in order of appearance; equal for equal matches."""
    return numbered(np.column_stack([branch, rows]))


def difference(before: Changes | None, after: Changes | None) -> Changes | None:
    """Return the changes from the final states of ``before`` to those of ``after``.

    Both have the same initial states; a match that one of them does not change keeps its state.
    """
    parts = [part for part in (before, after) if part is not None and len(part)]
    if not parts:
        return None
    both = all_of(parts)
    which = _which(both.rows, both.branch)
    n, places = int(which.max()) + 1, np.arange(len(which))
    old = len(before) if before is not None else 0
    at_first, was, now = np.empty((3, n), np.int64)
    at_first[which] = places
    was[:] = now[:] = -1
    was[which[:old]] = places[:old]
    now[which[old:]] = places[old:]
    # ``closes`` of a new match is in the part that has it as new.
    new = np.flatnonzero(~both.before.stands)
    at_first[which[new]] = new
    found = both.take(at_first)
    found.cause, found.completing = np.zeros((2, n), np.int64)
    found.before = _either(was, both, at_first)
    found.after = _either(now, both, at_first)
    found = changed(found)
    return found if len(found) else None


def _either(place: np.ndarray, both: Changes, at_first: np.ndarray) -> Verdicts:
    """Verdicts after the changes at ``place``, or (-1) before those at ``at_first``."""
    there = place >= 0
    columns = (
        np.where(there, getattr(both.after, name)[place], getattr(both.before, name)[at_first])
        for name in ("stands", "confirmed", "chance")
    )
    return Verdicts(*columns)


def all_of(parts: Sequence[_Columns]) -> _Columns:
    """Return the concatenated parts."""
    first = parts[0]
    columns: list[Any] = []
    for name in first.__struct_fields__:
        of = [getattr(part, name) for part in parts]
        columns.append(all_of(of) if isinstance(of[0], Verdicts) else np.concatenate(of))
    return type(first)(*columns)
