"""``EMIT AT MOST n EVERY d BY key``: the selection of a query's results for the output.

The results of one key are in order of time: of their ends, then of their starts, then of their
texts. A result is in the output if fewer than n earlier ones are, with ends in the d before its
end. Retracted results do not count. A late result, or a retraction, repeats the selection from its
place on: results that leave the output are retracted, and results that enter it are emitted.

Changes apply once the arrival clock is beyond their instant; all changes of one instant together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.barrier.base import Listener
from slackwater.engine.core.operator import (
    Operator,
    Restorable,
    Result,
    ResultColumns,
    ResultPieces,
)
from slackwater.engine.core.released import Released
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MIN, NONE, joined, take_rows
from slackwater.engine.operators.check.history import keys_of
from slackwater.engine.output.result_kinds import (
    contents,
    identities,
    partners,
    result_times,
)
from slackwater.engine.output.schema import EMISSION
from slackwater.engine.query.plan import EmitLimit, Expression

_LONG_AGO: Final = -(2**62)
_CONTENT: Final = (*EMISSION, "known_at")
"""Fields that do not count in the order of results with equal times."""


class HoldableResults(Protocol):
    """Results that can be kept, and saved in a snapshot."""

    kind: str

    def __len__(self) -> int: ...

    def taken(self, rows: np.ndarray, plus: np.ndarray, at: np.ndarray) -> Self:
        """The results ``rows``, inserted (``plus``) or retracted at instants ``at``."""

    def kept(self, rows: np.ndarray) -> Self:
        """The results ``rows`` without data of the others."""

    def history_keys(self, key: Sequence[Expression]) -> pa.Array:
        """Per result a text; two are equal if their values of ``key`` are."""

    def codes(self) -> np.ndarray:
        """Codes of the texts in them."""

    def packed(self) -> dict[str, Any]:
        """Plain data; the operator's ``unpacked`` restores the results."""


class HoldsResults(Operator, Protocol):
    """An operator that restores saved results."""

    def unpacked(self, state: dict[str, Any]) -> HoldableResults:
        """Results from the data of ``packed``."""


class LimitRows(NamedTuple):
    """Results, or changes of them, in columns.

    ``key``: int64, equal where results are counted together. ``end``, ``start``: of the result
    [ns]. ``identity``, ``identity2``: 128 bits. ``group``, ``row``: where the content is. ``at``:
    of the change [ns]. ``plus``: an insertion. ``in_output``: the result is in the output.
    """

    key: np.ndarray
    end: np.ndarray
    start: np.ndarray
    identity: np.ndarray
    identity2: np.ndarray
    group: np.ndarray
    row: np.ndarray
    at: np.ndarray
    plus: np.ndarray
    in_output: np.ndarray


_FLAGS: Final = frozenset({"plus", "in_output"})
_NO_ROWS: Final = LimitRows(
    *(np.zeros(0, np.bool_ if name in _FLAGS else np.int64) for name in LimitRows._fields)
)


class LimitedOperator(Restorable):
    """An operator that limits the output of another one.

    Args:
        operator: the query's.
        limit: the most results, the time and the key.
        back_ns: a result whose end is that far before the latest one is final; None: none is.
    """

    state_fields = ("_operator", "_rows", "_pending", "_next", "_latest", "_counts")

    def __init__(self, operator: Operator, limit: EmitLimit, back_ns: int | None) -> None:
        self._operator = cast("HoldsResults", operator)
        self._limit = limit
        self._back = None if back_ns is None else min(back_ns, -_LONG_AGO)
        self.types = operator.types
        self.takes_halves = bool(getattr(operator, "takes_halves", False))
        self._rows, self._pending = _NO_ROWS, _NO_ROWS
        self._pieces: dict[int, HoldableResults] = {}
        self._next = 0
        self._latest = _LONG_AGO
        self._counts = dict.fromkeys(("not_shown_by_limit", "too_late_for_limit"), 0)

    @property
    def found(self) -> int | None:
        """As ``BarrierStage.found``; None: the operator has no barrier."""
        return getattr(self._operator, "found", None)

    def required_columns(self) -> set[str]:
        return self._operator.required_columns()

    def begins(self, begun: dict[str, np.ndarray]) -> None:
        """Pass IBPs on to an operator that listens to them."""
        if isinstance(self._operator, Listener):
            self._operator.begins(begun)

    def process(self, released: Released) -> Sequence[Result]:
        self._take(self._operator.process(released))
        return ()

    def advance(self, now: int) -> Sequence[Result]:
        self._take(self._operator.advance(now))
        return self._emitted(self._pending.at < now)

    def finish(self, at: int) -> Sequence[Result]:
        self._take(self._operator.finish(at))
        return self._emitted(np.ones(len(self._pending.at), np.bool_))

    def counters(self) -> dict[str, int]:
        """The operator's counters; ``kept_by_limit``: results that may still enter the output or
        count against others; ``not_shown_by_limit``: results not in the output;
        ``too_late_for_limit``: changes of final results.
        """
        kept = {"kept_by_limit": len(self._rows.at)}
        return {**self._operator.counters(), **self._counts, **kept}

    def codes(self) -> np.ndarray | None:
        codes = self._operator.codes()
        if codes is None:
            return None
        return np.concatenate([codes, *(piece.codes() for piece in self._pieces.values())])

    # ---- results that come ------------------------------------------------------------------

    def _take(self, results: Sequence[Result]) -> None:
        for piece in results.pieces if isinstance(results, ResultPieces) else (results,):
            if len(piece):
                assert isinstance(piece, ResultColumns)
                self._take_piece(piece)

    def _take_piece(self, piece: ResultColumns) -> None:
        tables = list(type(piece).tables([piece]))
        times = [result_times(piece.kind, table) for table in tables]
        n, key, found = len(piece), self._limit.key, identities(piece.kind, tables)
        results = cast("HoldableResults", piece)
        self._pieces[self._next] = results
        end, start = map(np.concatenate, zip(*times, strict=True))
        new = LimitRows(
            keys_of(results.history_keys(key)) if key else np.zeros(n, np.int64),
            end,
            start,
            found[:, 0], found[:, 1], np.full(n, self._next), np.arange(n),
            np.concatenate([table.column("at").to_numpy() for table in tables]),
            np.concatenate([
                np.asarray(pc.equal(table.column("op").cast(pa.string()), "+")) for table in tables
            ]),
            np.zeros(n, np.bool_),
        )  # fmt: skip
        self._next += 1
        self._pending = joined(self._pending, new)

    # ---- results that go out ----------------------------------------------------------------

    def _emitted(self, due: np.ndarray) -> ResultPieces:
        """Emissions and retractions by the changes that are ``due``."""
        found = ResultPieces()
        if not due.any():
            return found
        new, self._pending = take_rows(self._pending, due), take_rows(self._pending, ~due)
        new = take_rows(new, np.argsort(new.at, kind="stable"))
        begins = np.append(True, new.at[1:] != new.at[:-1])
        instant = np.cumsum(begins) - 1
        is_late = self._are_late(new, np.flatnonzero(begins), instant)
        touched = np.isin(self._rows.key, new.key)
        others = take_rows(self._rows, ~touched)
        rows = joined(take_rows(self._rows, touched), new)
        known = len(rows.at) - len(new.at)
        plus = np.concatenate((np.ones(known, np.bool_), new.plus))
        of = partners(np.column_stack((rows.identity, rows.identity2)), plus)
        of = np.where(new.plus, known + np.arange(len(new.at)), of[known:])
        can = ~is_late & (of >= 0)
        self._counts["too_late_for_limit"] += int((~can).sum())

        rank = self._ranks(rows, np.flatnonzero(plus))
        order = np.lexsort((rank, rows.key))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        there = plus & (np.arange(len(plus)) < known)
        choice = _choice_of(rows.key[order], rows.end[order], there[order], rows.in_output[order])
        changed = _changes(place[of[can]], new.plus[can], instant[can])
        which, is_plus, when = _chosen(choice, changed, self._limit)
        rows.in_output[order], there[order] = choice.in_output, choice.there
        self._counts["not_shown_by_limit"] += int(
            np.where(changed.plus, 1, -1).sum() - np.where(is_plus, 1, -1).sum()
        )
        which = order[which]
        self._emit(rows, which, is_plus, new.at[begins][when], (rank[which], is_plus, when), found)
        self._rows = joined(others, take_rows(rows, there))
        self._forget()
        return found

    def _are_late(self, new: LimitRows, begins: np.ndarray, instant: np.ndarray) -> np.ndarray:
        """Whether each change comes when its result is final."""
        ends = np.maximum.reduceat(np.where(new.plus, new.end, INT_MIN), begins)
        latest = np.maximum.accumulate(np.append(self._latest, ends))
        self._latest = int(latest[-1])
        if self._back is None:
            return np.zeros(len(instant), np.bool_)
        return np.asarray(new.end < (latest[:-1] - self._back)[instant])

    def _ranks(self, rows: LimitRows, some: np.ndarray) -> np.ndarray:
        """The rank of rows ``some`` by end, start and text; 0 for the others."""
        rank, text = (np.zeros(len(rows.at), np.int64) for _ in range(2))
        order = some[np.lexsort((rows.start[some], rows.end[some]))]
        end, start = rows.end[order], rows.start[order]
        same = (end[1:] == end[:-1]) & (start[1:] == start[:-1])
        if same.any():
            tied = order[np.append(same, False) | np.append(False, same)]
            text[tied] = self._text_ranks(take_rows(rows, tied))
            order = some[np.lexsort((text[some], rows.start[some], rows.end[some]))]
        rank[order] = np.arange(len(order))
        return rank

    def _text_ranks(self, rows: LimitRows) -> np.ndarray:
        groups = np.unique(rows.group)
        which = [np.flatnonzero(rows.group == group) for group in groups]
        texts: list[pa.Array] = []
        for group, mine in zip(groups.tolist(), which, strict=True):
            n = len(mine)
            piece = self._pieces[group].taken(
                rows.row[mine], np.ones(n, np.bool_), np.zeros(n, np.int64)
            )
            columns = cast("ResultColumns", piece)
            texts += contents(columns.kind, type(columns).tables([columns]), _CONTENT)
        ranks = np.empty(len(rows.at), np.int64)
        ranks[np.concatenate(which)] = pc.rank(pa.concat_arrays(texts), tiebreaker="dense")
        return ranks

    def _emit(
        self, rows: LimitRows, which: np.ndarray, plus: np.ndarray, at: np.ndarray,
        by: tuple[np.ndarray, ...], found: ResultPieces,
    ) -> None:  # fmt: skip
        order = np.lexsort(by)
        which, plus, at = which[order], plus[order], at[order]
        cuts = np.flatnonzero(np.diff(rows.group[which])) + 1
        for some in np.split(np.arange(len(which)), cuts):
            if len(some):
                piece = self._pieces[int(rows.group[which[some[0]]])]
                taken = piece.taken(rows.row[which[some]], plus[some], at[some])
                found.extend(cast("Sequence[Result]", taken))

    def _forget(self) -> None:
        """Drop final results: those not in the output, and those that no later result counts.

        Only once they are more than half of the rows.
        """
        rows = self._rows
        if self._back is not None:
            final = self._latest - self._back
            counts_until = max(final, INT_MIN + self._limit.every_ns) - self._limit.every_ns
            going = (rows.end < final) & (~rows.in_output | (rows.end < counts_until))
            if going.sum() * 2 > len(going):
                self._rows = take_rows(rows, ~going)
        if 2 * len(self._rows.at) < sum(map(len, self._pieces.values())):
            self._compact()

    def _compact(self) -> None:
        """Reduce the pieces to the results that rows or pending changes refer to."""
        pieces: dict[int, HoldableResults] = {}
        both = joined(self._rows, self._pending)
        for group in np.unique(both.group).tolist():
            mine = both.group == group
            rows = both.row[mine]
            pieces[group] = self._pieces[group].kept(rows)
            both.row[mine] = np.arange(len(rows))
        self._pieces, n = pieces, len(self._rows.at)
        is_row = np.arange(len(both.at)) < n
        self._rows, self._pending = take_rows(both, is_row), take_rows(both, ~is_row)

    # ---- state ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        self._compact()
        pieces = {group: piece.packed() for group, piece in self._pieces.items()}
        return super().snapshot() | {"pieces": pieces}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._pieces = {
            group: self._operator.unpacked(packed) for group, packed in state["pieces"].items()
        }


# The selection: per key a list of the results that exist, in order. A change updates the list from
# its place on until the rest does not depend on it.


class LimitChoice(NamedTuple):
    """Results in order of their keys, then of their ranks; links are places, or NONE.

    ``number``: of the key. ``time``: their ends [ns]. ``there``: not retracted. ``in_output``.
    ``before``, ``behind``: the neighbours of the same key that exist. ``latest``: the last result
    up to this one that is in the output. ``first``, ``last``: by key, of the results that exist.
    """

    number: np.ndarray
    time: np.ndarray
    there: np.ndarray
    in_output: np.ndarray
    before: np.ndarray
    behind: np.ndarray
    latest: np.ndarray
    first: np.ndarray
    last: np.ndarray


class LimitChanges(NamedTuple):
    """Changes in order of instants, then of places. ``place``: of the result; ``plus``: an
    insertion; ``instant``: a number.
    """

    place: np.ndarray
    plus: np.ndarray
    instant: np.ndarray


def _choice_of(
    key: np.ndarray, time: np.ndarray, there: np.ndarray, in_output: np.ndarray
) -> LimitChoice:  # fmt: skip
    n = len(key)
    number = np.cumsum(np.append(False, key[1:] != key[:-1])[:n])
    of_key = [np.full(int(number.max(initial=-1)) + 1, NONE) for _ in range(2)]
    links = [np.full(n, NONE) for _ in range(3)]
    choice = LimitChoice(number, time, there, in_output, *links, *of_key)
    _link_all(choice)
    return choice


def _changes(place: np.ndarray, plus: np.ndarray, instant: np.ndarray) -> LimitChanges:
    order = np.lexsort((place, instant))
    return LimitChanges(place[order], plus[order], instant[order])


def _chosen(
    choice: LimitChoice, changes: LimitChanges, limit: EmitLimit
) -> LimitChanges:  # fmt: skip
    """What becomes shown, or else is no longer."""
    room = 2 * (len(choice.time) + len(changes.place))
    done, found = 0, [LimitChanges(*(np.zeros(0, column.dtype) for column in changes))]
    while done < len(changes.place):
        out = LimitChanges(*(np.empty(room, column.dtype) for column in changes))
        count = np.zeros(1, np.int64)
        done = _choose(choice, changes, done, limit.most, limit.every_ns, out, count)
        found.append(take_rows(out, np.arange(count[0])))
    return joined(*found)


@kernel
def _link_all(of: LimitChoice) -> None:
    for place in range(len(of.time)):
        if of.there[place]:
            _link(of, place, of.last[of.number[place]])
            before = of.before[place]
            if of.in_output[place]:
                of.latest[place] = place
            elif before != NONE:
                of.latest[place] = of.latest[before]


@inline
def _link(of: LimitChoice, place: int, before: int) -> None:
    """Puts ``place`` behind ``before``."""
    number = of.number[place]
    behind = of.first[number] if before == NONE else of.behind[before]
    of.before[place], of.behind[place] = before, behind
    if before == NONE:
        of.first[number] = place
    else:
        of.behind[before] = place
    if behind == NONE:
        of.last[number] = place
    else:
        of.before[behind] = place
    of.there[place] = True


@inline
def _unlink(of: LimitChoice, place: int) -> None:
    number, before, behind = of.number[place], of.before[place], of.behind[place]
    if before == NONE:
        of.first[number] = behind
    else:
        of.behind[before] = behind
    if behind == NONE:
        of.last[number] = before
    else:
        of.before[behind] = before
    of.there[place] = False


@inline
def _counts_at(earlier: int, time: int, every: int) -> bool:
    """Whether a result of time ``earlier`` counts at ``time``, which is not before it."""
    since = time - earlier  # below 0: beyond what an int64 holds
    return 0 <= since < every


@inline
def _output_before(of: LimitChoice, place: int) -> int:
    before = of.before[place]
    return NONE if before == NONE else of.latest[before]


@inline
def _has_room(of: LimitChoice, place: int, most: int, every: int) -> bool:
    count, earlier = 0, _output_before(of, place)
    while earlier != NONE and count < most and _counts_at(of.time[earlier], of.time[place], every):
        count += 1
        earlier = _output_before(of, earlier)
    return count < most


@inline
def _put(out: LimitChanges, count: np.ndarray, place: int, plus: bool, instant: int) -> None:
    out.place[count[0]], out.plus[count[0]], out.instant[count[0]] = place, plus, instant
    count[0] += 1


@kernel
def _choose(
    of: LimitChoice, changes: LimitChanges, start: int, most: int, every: int,
    out: LimitChanges, count: np.ndarray,
) -> int:  # fmt: skip
    """Makes the changes from ``start`` on, as long as there is room in ``out``, and says how far
    it has come; ``count``: of what is in ``out``.
    """
    at = start
    while at < len(changes.place):
        instant, number = changes.instant[at], of.number[changes.place[at]]
        end = at
        while (
            end < len(changes.place)
            and changes.instant[end] == instant
            and of.number[changes.place[end]] == number
        ):
            end += 1
        if count[0] + len(of.time) + (end - at) > len(out.place):
            break
        before = of.last[number]
        while before != NONE and before >= changes.place[at]:
            before = of.before[before]
        differs, different = False, 0
        for change in range(at, end):
            place = changes.place[change]
            if changes.plus[change]:
                neighbour = of.last[number]
                while neighbour != NONE and neighbour > place:
                    neighbour = of.before[neighbour]
                _link(of, place, neighbour)
                continue
            _unlink(of, place)
            if of.in_output[place]:
                of.in_output[place] = False
                _put(out, count, place, False, instant)
                differs, different = True, of.time[place]
        last = changes.place[end - 1]
        place = of.first[number] if before == NONE else of.behind[before]
        while place != NONE:
            has_room = _has_room(of, place, most, every)
            latest = place if has_room else _output_before(of, place)
            same = latest == of.latest[place]
            of.latest[place] = latest
            if has_room != of.in_output[place]:
                of.in_output[place] = has_room
                _put(out, count, place, has_room, instant)
                if not differs or of.time[place] > different:
                    differs, different = True, of.time[place]
            elif (
                place > last
                and same
                and not (differs and _counts_at(different, of.time[place], every))
            ):
                break
            place = of.behind[place]
        at = end
    return at
