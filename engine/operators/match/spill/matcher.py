"""Patterns over windows larger than memory: old events move to chunks by time (L09 VIII)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import numpy as np
from msgspec.structs import astuple, replace

from slackwater.engine.barrier.base import ORDER, Changes, MatcherOutput
from slackwater.engine.core.clocks.stream_clocks import StreamClocks
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Progress, Promises, Refuted, Released
from slackwater.engine.core.timeline import Ahead, Moved
from slackwater.engine.operators.match.certainty.matches import Judge, all_of, difference
from slackwater.engine.operators.match.interval.trees import TreeMatcher
from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.operators.match.spill.bounds import (
    KEY,
    KeyFilter,
    Keys,
    SpillSettings,
    keys_of,
    spill_bounds,
)
from slackwater.engine.operators.match.spill.chunks import (
    ChunkStore,
    Cold,
    Columns,
    FileChunks,
    MemoryChunks,
    folder_of,
    joined,
    places_by,
)
from slackwater.engine.operators.match.store import (
    EXPIRES,
    HORIZON,
    MEMBER,
    REF_END,
    Store,
    Widening,
)
from slackwater.engine.query.pattern_settings import Rule

# Turns: the moments at which postponed events are matched (L09 VIII's activation thresholds).
# Batches are cut there.


_Steps = TypeVar("_Steps", Progress, Promises)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the postponed events of a chunk or group.

    ``row``: it comes before this row of the batch. ``at``: its instant. ``waited``: the waiting
    time caused it; then all records of that instant come before.
    """

    row: int
    at: int
    chunk: int
    waited: bool


class LateEvents(Restorable):
    """Counts postponed events per chunk, and determines turns.

    Args:
        pending: number of events of a chunk that makes its turn due.
        wait_ns: waiting time of the first event that makes the turn due [ns].
    """

    state_fields = ("_chunks",)

    def __init__(self, pending: int, wait_ns: int) -> None:
        self._pending = pending
        self._wait_ns = wait_ns
        self._chunks: dict[int, tuple[int, int]] = {}
        """By chunk: (arrival of the first, number), in order of their deadlines."""

    def add(
        self, rows: np.ndarray, chunks: np.ndarray, release: np.ndarray, now: int
    ) -> list[Turn]:
        """Add postponed events; return the turns within the batch.

        Args:
            rows: the postponed rows of the batch, ascending.
            chunks: the chunk of each row.
            release: the release times of the batch.
            now: the arrival clock after the batch.
        """
        turns: list[tuple[int, int, bool, int, Turn]] = []
        waits: list[tuple[int, int, int, int]] = []
        before = len(self._chunks)
        old = {chunk: place - before for place, chunk in enumerate(self._chunks)}
        late = places_by(chunks)
        for chunk in old.keys() | late.keys():
            mine = rows[late[chunk]] if chunk in late else rows[:0]
            at_of, i = release[mine], 0
            # At equal instants the chunk that waits longest is first, then the first to arrive.
            since, n, rank = *self._chunks.get(chunk, (0, 0)), old.get(chunk, 0)
            while n or i < len(mine):
                if not n:
                    since, rank = int(at_of[i]), int(mine[i])
                over = since + self._wait_ns
                stop = max(int(np.searchsorted(at_of, over, side="right")), i)
                full = i + self._pending - n
                if full <= stop:
                    row, at = int(mine[full - 1]) + 1, int(at_of[full - 1])
                    turns.append((row, at, False, rank, Turn(row, at, chunk, waited=False)))
                    i, n = full, 0
                elif over < now:
                    row = int(np.searchsorted(release, over, side="right"))
                    turns.append((row, over, True, rank, Turn(row, over, chunk, waited=True)))
                    i, n = stop, 0
                else:
                    waits.append((since, rank, chunk, n + stop - i))
                    break
        self._chunks = {chunk: (since, n) for since, _, chunk, n in sorted(waits)}
        return [turn for *_, turn in sorted(turns, key=lambda each: each[:4])]

    def until(self, now: int) -> list[Turn]:
        """Return the turns whose deadlines are before ``now`` on the arrival clock."""
        none = np.empty(0, np.int64)
        return self.add(none, none, none, now)

    def rest(self, at: int) -> list[Turn]:
        """Return the turns of all waiting chunks, at the end of the input."""
        turns = [Turn(0, at, chunk, waited=True) for chunk in self._chunks]
        self._chunks.clear()
        return turns


def cut(released: Released, turn: Turn, start: int) -> tuple[Released, Released]:
    """Split a batch into the part before a turn and the rest.

    Args:
        released: the batch without its first ``start`` rows.
        turn: where to cut.
        start: number of its first row in the batch.
    """
    row = turn.row - start
    parts = []
    for is_rest in (False, True):
        columns = {
            name: column[row:] if is_rest else column[:row]
            for name, column in released.columns.items()
        }
        progress = _steps_of(released.progress, row, turn, is_rest=is_rest)
        promises = released.promises
        if promises is not None:
            promises = _steps_of(promises, row, turn, is_rest=is_rest)
        n = released.n - row if is_rest else row
        # A turn before the refutation uses the earlier state.
        is_later = turn.at < released.refuted.at
        refuted = released.refuted if is_rest == is_later else Refuted()
        parts.append(replace(
            released, n=n, columns=columns, progress=progress, promises=promises, refuted=refuted,
        ))  # fmt: skip
    return parts[0], parts[1]


def _steps_of(steps: _Steps, row: int, turn: Turn, *, is_rest: bool) -> _Steps:
    """Return the steps before the turn, or (``is_rest``) the others."""
    before = steps.row < row
    if turn.waited:
        before |= (steps.row == row) & (steps.at <= turn.at)
    mine = before != is_rest
    columns = {name: getattr(steps, name)[mine] for name in steps.__struct_fields__}
    if is_rest:
        columns["row"] = columns["row"] - row
    return type(steps)(**columns)


# Storage of the events of a pattern, transparent to its matcher.
#
# *Hot* events, up to ``hot_ns`` before progress, stay in memory; older ones go to chunks. An event
# that may match events in chunks is postponed. When ``pending`` events of one chunk are, or the
# oldest one has waited ``wait_ns`` on the arrival clock, the chunks in their reach are loaded, and
# all changes by them are computed and passed to the same barrier, as of that instant. So results
# may come later, but the net result is the same.
#
# If ``hot_ns`` is at least the look-back of a new event, events in order never wait. If it is less,
# every event waits. Then a turn needs all of WITHIN, but with keys
# (``engine.operators.match.spill.bounds``) only one part at a time.
#
# Turns are due at rows, independent of batches. Results do not depend on which events are in memory
# or in chunks, or on the number of parts.


WIDENED: Final = "widened"
"""The number of refutations by which an event is widened, earlier ones included."""
_LEAST: Final = -(2**61)
"""The least progress."""
_UNCERTAIN: Final = 8
"""The most comparisons, each with the largest error, between two events of a match."""


_SPILLED: Final = (
    "_cold", "_pending", "_waits", "_clocks", "_types", "_cold_until", "_widest_t_a", "_promises",
    "_put_off", "_turns", "_refuted_n",
)  # fmt: skip


class Spilling(SeqMatcher):
    """A matcher with bounded memory after ``spill_to``.

    The query is a SEQ, AND, OR, join or ISEQ with WITHIN.
    """

    state_fields = (*SeqMatcher.state_fields, *_SPILLED)

    def spill_to(self, spill: SpillSettings, chunks: ChunkStore | None = None) -> Self:
        """Enable spilling, before the first event; returns the matcher.

        Args:
            spill: the settings.
            chunks: the store of chunks; None: files below ``spill.folder``.

        Raises:
            UserError: the query has no WITHIN, or its matches replace one another; it has parts
                but its events no key; or another purge is set.
        """
        plan = self.plan
        if self.settings.purge != "late":
            raise UserError(f"query {plan.name!r}: spill goes with purge 'late' alone")
        # A separate state of clocks, as a turn within a batch needs the clocks of its instant.
        self._clocks = StreamClocks(frozenset(self.types), certainty=self._rule.value)
        bounds = self._bounds = spill_bounds(plan, spill)
        if chunks is None:
            chunks = MemoryChunks()
            if bounds.folder is not None:
                root = bounds.folder
                chunks = FileChunks(folder_of(root, self.site, plan.name), root)
        self._cold = Cold(chunks, bounds.chunk_ns, bounds.parts)
        self._keys = Keys(self._layout) if keys_of(self._layout) else None
        self._cold_until = _LEAST
        """Earlier events are in chunks; copies may be in memory for held matches."""
        self._pending = Store(self._layout.reads, self._layout.keyed)
        self._waits = LateEvents(bounds.pending, bounds.wait_ns)
        self._types: dict[str, str] = {}
        self._refuted_n = 0
        """The number of refutations so far."""
        self._refutations = list[tuple[Refuted, int, int, int]]()
        """Each refutation with its number, the time up to which events were in chunks or waited,
        and ``_spread`` at that moment.
        """
        self._spread = 0
        """T_a of ``max-delay`` before the batch [ns]."""
        self._widest_t_a = 0
        self._promises = False
        self._put_off = 0
        self._turns = 0
        return self

    def counters(self) -> dict[str, int]:
        """Adds ``put_off``: postponed events; ``pending``: waiting ones; ``turns``.

        ``buffered_max`` includes waiting events, and those that a turn loads.
        """
        found = super().counters() | self._cold.counters()
        more = {"put_off": self._put_off, "pending": self._pending.n, "turns": self._turns}
        return found | more

    def process(self, released: Released) -> Iterator[MatcherOutput]:
        self._strings = released.strings
        self._types |= released.attr_types
        self._promises = released.promises is not None
        start = 0
        for turn in self._due(released):
            before, released = cut(released, turn, start)
            start = turn.row
            yield from super().process(self._clocked(before))
            yield self._taken(turn)
        yield from super().process(self._clocked(released))

    def _clocked(self, released: Released) -> Released:
        self._spread = self._clocks.widest(released) if self._rule is Rule.MAX_DELAY else 0
        return replace(released, moved=self._clocks.advance(released))

    def advance(self, now: int) -> Iterator[MatcherOutput]:
        return map(self._taken, self._waits.until(now))

    def finish(self, at: int) -> Iterator[MatcherOutput]:
        yield from map(self._taken, [*self._waits.until(at), *self._waits.rest(at)])
        self._cold.close()

    # ---- bounds of clocks that do not hold ------------------------------------------------------

    def _refuted(self, released: Released) -> Changes | None:
        """Return the changes by a refutation, as ``SeqMatcher``, for chunks and hot events.

        It loads as many events at a time as a turn. Chunks are not rewritten: events are widened
        when they are read. Waiting events are in no match.
        """
        of, found = released.refuted, list[Changes]()
        reach = int(self._reach_ns(self._clocks.error, max(self._widest_t_a, released.t_a)))
        t_a = self._spread
        hot = self.table.columns["ref"][: self.table.n][self._is_hot(self.table)]
        length = max(self._bounds.together_ns, reach)
        begins = np.unique(np.concatenate([hot, *self._cold.spans()]) // length) * length
        if not t_a:  # T_a applies to all events
            reached = (begins + length > of.low.min() - reach) & (begins <= of.high.max() + reach)
            begins = begins[reached]
        for begin in begins.tolist():
            for part in range(self._bounds.parts):
                changes = self._doubted(of, (begin, begin + length), reach, part, t_a)
                if changes is not None:
                    found.append(changes)
        waiting = self._pending.columns["ref"][: self._pending.n]
        until = int(waiting.max(initial=self._cold_until - 1)) + 1
        self._refutations.append((of, self._refuted_n, until, t_a))
        self._refuted_n += 1
        self._widen(self.table, self._refutations[-1:])
        self._kernel.renumber(np.arange(self.table.n), self.table)
        return self._judge(self.table).sorted(all_of(found)) if found else None

    def _doubted(
        self, of: Refuted, firsts: tuple[int, int], reach: int, part: int, t_a: int
    ) -> Changes | None:
        """Return the changes of the matches of a part whose first event is between two times.

        ``firsts``: the range [begin, end) of first events [ns].
        """
        begin, end = firsts
        room = self._in_reach({}, begin - reach, end + reach, part)
        self._most = max(self._most, self.table.n + self._pending.n + room.n)
        doubts = room.refuted(of)
        if not (doubts.by.any() or (room.events["t_a"][: room.n] < t_a).any()):
            return None
        judge = self._judge(room)
        before = self._replayed(judge)
        self._widen(room, [(of, self._refuted_n, end, t_a)])
        changes = difference(before, self._replayed(judge))
        if changes is None:
            return None
        ref = judge.begins(changes)
        mine = np.flatnonzero((ref >= begin) & (ref < end))
        if not len(mine):
            return None
        changes = changes.take(mine)
        self._move_here(changes, judge)
        return changes

    def _widen(self, store: Store, refutations: list[tuple[Refuted, int, int, int]]) -> None:
        """Widen events that arrived before a bound of their clock was refuted."""
        if not store.n:
            return
        events, widened = store.events[: store.n], store.columns[WIDENED][: store.n]
        for of, number, _, t_a in refutations:
            mine, doubts = widened <= number, store.refuted(of)
            store.widen(Widening(np.where(mine, doubts.by, 0), doubts.apart & mine))
            events["t_a"][mine] = np.maximum(events["t_a"][mine], t_a)
            widened[mine] = number + 1

    # ---- which events wait, and how long --------------------------------------------------------

    def _due(self, released: Released) -> list[Turn]:
        """Return the turns within the batch."""
        times = [released.progress.at] + ([released.promises.at] if released.promises else [])
        ends = [int(at.max()) for at in times if len(at)]
        if not released.n:
            return self._waits.until(max(ends, default=_LEAST))
        release, ref = released.columns["release"], released.columns["ref"]
        ahead = self._clocks.ahead(released)
        member = self._members(released)
        mine = np.flatnonzero((member != 0) & (self._expiry(released, member) >= ahead.horizon))
        rows = mine[self._reaches_cold(ref[mine], ahead, mine, released.t_a)]
        now = max([int(release[-1]), *ends])
        return self._waits.add(rows, self._groups(ref[rows]), release, now)

    def _groups(self, ref: np.ndarray) -> np.ndarray:
        """Return the group of each event; a group has one turn."""
        return ref // self._bounds.together_ns

    def _reaches_cold(
        self, ref: np.ndarray, ahead: Ahead, rows: np.ndarray, t_a: int
    ) -> np.ndarray:
        low = ref - self._reach_ns(ahead.error[rows], max(t_a, self._widest_t_a))
        return np.asarray(low < self._border(ahead.frontier[rows]))

    def _reach_ns(self, off: np.ndarray | int, t_a: int) -> np.ndarray | int:
        """Return the largest distance between events relevant to one match [ns]."""
        error = np.maximum(2 * off, t_a if self._rule.by_delay else 0)
        return self._bounds.windows * (self._bounds.within_ns + _UNCERTAIN * error)

    def _border(self, frontier: np.ndarray) -> np.ndarray:
        """Return the time below which events are cold [ns]."""
        hot = np.maximum(frontier, _LEAST) - self._bounds.hot_ns
        chunk_ns = self._bounds.chunk_ns
        return np.asarray(hot // chunk_ns * chunk_ns)

    def _at_once(
        self, released: Released, moved: Moved, rows: np.ndarray, more: dict[str, np.ndarray]
    ) -> np.ndarray:
        ref = released.columns["ref"][rows]
        waits = self._reaches_cold(ref, moved.rows, rows, released.t_a)
        self._widest_t_a = max(self._widest_t_a, released.t_a)
        more[WIDENED] = np.full(len(rows), self._refuted_n)
        if self._keys is not None:
            more[KEY] = self._keys.of(released, rows)
        if waits.any():
            late = {name: column[waits] for name, column in more.items()}
            self._pending.append(released, rows[waits], self._attributes, late)
            self._put_off += int(waits.sum())
        now = self.table.n + int((~waits).sum())
        self._most = max(self._most, now + self._pending.n)
        return ~waits

    # ---- a turn ---------------------------------------------------------------------------------

    def _taken(self, turn: Turn) -> MatcherOutput:
        """Match the waiting events of a turn; return the changes, as of the turn's instant."""
        self._turns += 1
        nothing = Released(
            0, {}, {}, self._strings, self._widest_t_a,
            promises=Promises() if self._promises else None, bound=self._clocks.bound,
        )  # fmt: skip
        timeline = self._clocks.advance(nothing).timeline(nothing, self.types)
        self._horizon = self._clocks.horizon
        pending = self._pending
        mine = self._groups(pending.columns["ref"][: pending.n]) == turn.chunk
        rows = np.flatnonzero(mine)
        parts = np.zeros(len(rows), np.int64)
        if self._keys is not None:
            parts = pending.columns[KEY][rows] % self._bounds.parts
        found = []
        for part in np.unique(parts).tolist():
            changes = self._deferred(pending.taken(rows[parts == part]), part)
            if changes is not None:
                found.append(changes)
        pending.keep(~mine)
        changes = self._caused(found, turn) if found else None
        return MatcherOutput(changes, replace(timeline, now=turn.at))

    def _deferred(self, late: Columns, part: int) -> Changes | None:
        """Return the changes by ``late`` events, and store these."""
        reach = self._reach_ns(self._clocks.error, self._widest_t_a)
        low, high = int(late["ref"].min() - reach), int(late[REF_END].max() + reach)
        room = self._in_reach(late, low, high, part)
        self._most = max(self._most, self.table.n + self._pending.n + room.n)
        is_late = np.isin(room.columns[ORDER][: room.n], late[ORDER])
        judge = self._judge(room)
        changes = self._changed_by(judge, is_late)
        self._keep(room.taken(np.flatnonzero(is_late)))
        if changes is not None:
            self._move_here(changes, judge)
            self._most = max(self._most, self.table.n + self._pending.n)
        return changes

    def _changed_by(self, judge: Judge, late: np.ndarray) -> Changes | None:
        """Return the changes by all events marked in ``late``, as rows of the judge's store.

        Postponed events are not the last of the stream at their turn: events released later have
        been matched already. Their effect is defined by the order of release (stored events and
        T_a at that moment), so the events in reach are matched again in that order: with the late
        ones and, if these can retract matches, without them. Events before the first late one have
        been matched with each other.
        """
        first, before = int(np.argmax(late)), None
        member = judge.store.columns[MEMBER][: judge.store.n][late]
        breaks = (member & self._breaking).any()
        if breaks:
            before = self._replayed_without(judge, late, first)
        after = self._replayed(judge, first)
        if after is not None and not breaks:
            mine = (late[after.rows] & (after.rows >= 0)).any(axis=1)
            after = after.take(np.flatnonzero(mine & after.after.stands))
        return difference(before, after)

    def _replayed_without(self, judge: Judge, late: np.ndarray, first: int) -> Changes | None:
        """Return the changes by the events from ``first`` on, without those in ``late``."""
        member = judge.store.columns[MEMBER][: judge.store.n]
        mine = member[late]
        member[late] = 0
        found = self._replayed(judge, first)
        member[late] = mine
        return found

    def _caused(self, found: list[Changes], turn: Turn) -> Changes:
        """Return the changes of all parts in order; their cause is a row for the turn."""
        changes = all_of(found)
        changes.cause[:] = changes.completing[:] = self._moment(self._clocks.rows - 1, turn.at)
        return self._judge(self.table).sorted(changes)

    def _in_reach(self, late: Columns, low: int, high: int, part: int) -> Store:
        """Return a store with the events of chunks, hot and late ones, in release order.

        It is limited to one part, to times in [``low``, ``high``], and to keys of late events.
        """
        stored, n = self.table.columns, self.table.n
        keys = KeyFilter(late.get(KEY))
        mine = (stored["ref"][:n] >= low) & (stored["ref"][:n] <= high)
        mine = self._is_hot(self.table) & (mine | self._lasts(stored, n))
        if n and self._bounds.parts > 1:
            mine &= stored[KEY][:n] % self._bounds.parts == part
        hot = self.table.taken(np.flatnonzero(mine & keys.among(stored, n)))
        columns = joined([self._cold.between(low, high, part, keys), hot, late])
        order = np.argsort(columns[ORDER])
        room = Store(self._layout.reads, self._layout.keyed)
        columns = {name: column[order] for name, column in columns.items()}
        room.add(columns, self._types, self._strings)
        self._widen(room, self._refutations)
        return room

    def _is_hot(self, store: Store) -> np.ndarray:
        """Return the rows of the store that are in no chunk and are not rows for turns."""
        columns, n = store.columns, store.n
        hot = (columns["ref"][:n] >= self._cold_until) | self._lasts(columns, n)
        return np.asarray(hot & (columns[MEMBER][:n] != 0))

    def _lasts(self, columns: Columns, n: int) -> np.ndarray:
        """Return which of the first ``n`` events are longer than WITHIN.

        These stay in memory, as their halves may be far apart.
        """
        return columns[REF_END][:n] - columns["ref"][:n] > self._bounds.within_ns

    def _keep(self, late: Columns) -> None:
        """Store late events for later ones, with their current uncertainty."""
        hot = (late["ref"] >= self._cold_until) | self._lasts(late, len(late["ref"]))
        if hot.any():
            first = self.table.n
            mine = {name: column[hot] for name, column in late.items()}
            self.table.add(mine, self._types, self._strings)
            self._kernel.take_in(self.table, first, self.table.n, self._strings)
        if not hot.all():
            self._cold.spill({name: column[~hot] for name, column in late.items()})

    def _move_here(self, changes: Changes, judge: Judge) -> None:
        """Copy the events of changes from the judge's store to the operator's, for the barrier."""
        room, used = judge.store, judge.used(changes)
        orders = room.columns[ORDER][used]
        n = self.table.n
        known = np.where(self.table.columns[MEMBER][:n] != 0, self.table.columns[ORDER][:n], -1)
        missing = ~np.isin(orders, known)
        self.table.add(room.taken(used[missing]), self._types, self._strings)
        known = np.concatenate([known, orders[missing]])
        by_order = np.argsort(known)
        number = np.full(room.n, -1)
        number[used] = by_order[np.searchsorted(known, orders, sorter=by_order)]
        judge.move(changes, number, self._judge(self.table))

    # ---- purge and spill ------------------------------------------------------------------------

    def purge(self, held_rows: Callable[[], np.ndarray]) -> np.ndarray | None:
        """Spill cold events and drop expired ones, if either are a large part."""
        horizon, n = self._clocks.horizon, self.table.n
        # Waiting events match the events that were stored at their arrival.
        met = self._pending.columns[HORIZON][: self._pending.n]
        horizon = min(horizon, int(met.min(initial=horizon)))
        self._cold.purge(horizon)
        reach = 2 * (self._bounds.within_ns + (self._keep_ns or 0)) + self._clocks.error
        self._refutations = [each for each in self._refutations if each[2] > horizon - reach]
        columns = self.table.columns
        alive = self._is_hot(self.table) & (columns[EXPIRES][:n] >= horizon)
        border = int(self._border(np.array(self._clocks.frontier)))
        cold = alive & (columns["ref"][:n] < border) & ~self._lasts(columns, n)
        if border > self._cold_until and 4 * int(cold.sum()) >= n:
            self._cold.spill(self.table.taken(np.flatnonzero(cold)))
            self._cold_until = border
            alive &= ~cold
        elif 2 * int(alive.sum()) > n:
            return None
        return self._kept(alive, held_rows)

    def codes(self) -> np.ndarray | None:
        return None  # chunks hold codes, too

    def snapshot(self) -> dict[str, Any]:
        refutations = [[list(astuple(of)), *then] for of, *then in self._refutations]
        return super().snapshot() | {"refutations": refutations}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._refutations = [(Refuted(*of), *then) for of, *then in state["refutations"]]


class SpillingTree(TreeMatcher, Spilling):
    """``Spilling`` for a SEQ/PAL tree."""

    state_fields = (*TreeMatcher.state_fields, *_SPILLED)


class SpillingRepetition(RepeatMatcher, Spilling):
    """``Spilling`` for repeated steps."""

    state_fields = (*RepeatMatcher.state_fields, *_SPILLED)

    def _replayed_without(self, judge: Judge, late: np.ndarray, first: int) -> Changes | None:
        """As ``Spilling``, in a store without late events: any event may break contiguity."""
        others = np.flatnonzero(~late)
        without = self._judge(judge.store.part(others, self._strings))
        found = self._replayed(without, first)
        if found is not None:
            without.move(found, others, judge)
        return found
