"""CHECK: rules on results, which hold, mark or drop those that violate them (Z10 5.2).

A result that violates a rule is held for a while, and then emitted with a mark, or dropped. One
that is retracted while it is held is never emitted. ``Judging`` runs after the operators of a
chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Restorable, Result, ResultColumns, ResultPieces
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.records import INT_MAX, joined, take_rows
from slackwater.engine.operators.check.history import (
    History,
    HistoryLookups,
    NewResults,
    read_results,
    taken_values,
)
from slackwater.engine.output.result_kinds import KINDS, partners
from slackwater.engine.output.schema import MORE
from slackwater.engine.query.expression import View, view_mask
from slackwater.engine.query.fields import attributes_in, with_attributes
from slackwater.engine.query.language.mistakes import closest, listed
from slackwater.engine.query.plan import (
    DOUBTFUL,
    HISTORY,
    Attribute,
    Checks,
    Logic,
    Plan,
    Predicate,
    checks_of,
)
from slackwater.engine.query.values import Value

# The rules that results violate, by their own values and by the history.


_OF_RESULT, _OF_HISTORY = "value", "history"


class Rules:
    """The rules of one query, evaluated on columns of values.

    Args:
        checks: the query's.
        query: the query's number in the history.
        numbers: the numbers of other queries, by name.
    """

    def __init__(self, checks: Checks, query: int, numbers: dict[str, int]) -> None:
        self.names = [rule.name for rule in checks.rules]
        self.lookups = checks.lookups
        self.drops = np.array([rule.drop for rule in checks.rules], np.bool_)
        self.holds = np.array([rule.hold_ns for rule in checks.rules], np.int64)
        self.longest_hold = int(self.holds.max(initial=0))
        self._query, self._numbers = query, numbers
        named = [a for rule in checks.rules for a in attributes_in(rule.condition)]
        self.attributes = [a for a in dict.fromkeys(named) if a.alias != HISTORY]
        """The attributes of results that the rules read."""
        self._broken: list[Predicate] = [
            Logic("not", (with_attributes(rule.condition, self._plain),)) for rule in checks.rules
        ]

    def _plain(self, attribute: Attribute) -> Attribute:
        if attribute.alias == HISTORY:
            return Attribute(f"{ATTR_PREFIX}{_OF_HISTORY}{attribute.name}")
        return Attribute(f"{ATTR_PREFIX}{_OF_RESULT}{self.attributes.index(attribute)}")

    def broken(
        self, values: Sequence[Value], lookups: HistoryLookups, history: History, strings: Strings
    ) -> np.ndarray:
        """uint64 per result: bit i: rule i is false; as in SQL, unknown is no violation.

        Args:
            values: of ``self.attributes``, equally long.
            lookups: the results' places in the history.
            history: of all queries.
            strings: the table of texts.
        """
        n = len(lookups.at)
        found = np.zeros(n, np.uint64)
        if not n:
            return found
        columns = {f"{_OF_RESULT}{place}": value for place, value in enumerate(values)}
        for place, lookup in enumerate(self.lookups):
            query = self._query if lookup.query is None else self._numbers[lookup.query]
            numbers, known = history.look_up(lookup, query, lookups, own_query=lookup.query is None)
            columns[f"{_OF_HISTORY}{place}"] = Value("int", numbers, known)
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
        """How long a result with these broken rules is held [ns]: the longest time of its rules."""
        found = np.zeros(len(broken), np.int64)
        for number, hold_ns in enumerate(self.holds.tolist()):
            is_broken = (broken >> np.uint64(number) & np.uint64(1)).astype(np.bool_)
            found = np.maximum(found, np.where(is_broken, hold_ns, 0))
        return found

    def dropped(self, broken: np.ndarray) -> np.ndarray:
        """Whether a broken rule of each result says DROP."""
        mask = sum(1 << number for number in np.flatnonzero(self.drops).tolist())
        return np.asarray((broken & np.uint64(mask)) != 0)


# Held results: their deadlines and contents.


class HeldResults(NamedTuple):
    """Columns of int64; ``group`` and ``row``: the place of the content."""

    identity: np.ndarray
    at: np.ndarray
    deadline: np.ndarray
    place: np.ndarray
    key: np.ndarray
    group: np.ndarray
    row: np.ndarray


class HeldContent(NamedTuple):
    """The contents of results that are held from the same call on."""

    table: pa.Table
    values: list[Value]


class WaitingResults:
    """The held results of one query."""

    def __init__(self) -> None:
        self.rows = HeldResults(*(np.zeros(0, np.int64) for _ in HeldResults._fields))
        self._contents: dict[int, HeldContent] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self.rows.at)

    def add(self, new: NewResults, rows: np.ndarray, hold: np.ndarray) -> None:
        """Hold the ``rows`` of ``new``, each for its ``hold`` [ns]."""
        for table, start, end in zip(new.tables, new.starts, new.starts[1:], strict=False):
            of_table = (rows >= start) & (rows < end)
            mine = rows[of_table]
            if not len(mine):
                continue
            at = new.at[mine]
            added = HeldResults(
                new.identity[mine], at, at + np.minimum(hold[of_table], INT_MAX - at),
                new.place[mine], new.key[mine], np.full(len(mine), self._next),
                np.arange(len(mine)),
            )  # fmt: skip
            self.rows = joined(self.rows, added)
            content = table.take(pa.array(mine - start))
            self._contents[self._next] = HeldContent(content, taken_values(new.values, mine))
            self._next += 1

    def contents(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, HeldContent, np.ndarray]]:
        """Per content: (the ``rows`` with that content, the content, their rows in it)."""
        group = self.rows.group[rows]
        for number in np.unique(group).tolist():
            mine = rows[group == number]
            yield mine, self._contents[number], self.rows.row[mine]

    def keep(self, rows: np.ndarray) -> None:
        """Keep only the results at ``rows``, and the contents that these refer to."""
        if len(rows) == len(self.rows.at):
            return
        self.rows = take_rows(self.rows, rows)
        left = set(self.rows.group.tolist())
        self._contents = {n: each for n, each in self._contents.items() if n in left}

    def codes(self) -> list[np.ndarray]:
        """Codes of texts among the values."""
        contents = self._contents.values()
        return [v.data for each in contents for v in each.values if v.kind == "str"]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        contents = {
            number: (each.table, [(v.kind, v.data, v.valid) for v in each.values])
            for number, each in self._contents.items()
        }
        return {"held": tuple(self.rows), "contents": contents, "next": self._next}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        self.rows = HeldResults(*state["held"])
        self._next = state["next"]
        self._contents = {
            number: HeldContent(table, [Value(*value) for value in values])
            for number, (table, values) in state["contents"].items()
        }


# Results that are held or marked, as columns of their kind.


class JudgedResults(ResultColumns):
    """Results of one query and site as a table of their kind's schema."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @classmethod
    def tables(cls, pieces: Sequence[Self]) -> Iterator[pa.Table]:
        return (piece.table for piece in pieces)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Result]:
        for lines in KINDS[self.kind].lines(self.table, 1):
            yield from map(json.loads, lines.to_pylist())


@cache
def judged_of(kind: str) -> type[JudgedResults]:
    """The class of judged results of a ``kind`` (``engine.output.result_kinds``)."""
    return type(f"Judged{kind.capitalize()}", (JudgedResults,), {"kind": kind})


def marked(
    table: pa.Table, at: np.ndarray, broken: np.ndarray, names: Sequence[str]
) -> pa.Table:  # fmt: skip
    """``table`` with results emitted ``at`` [ns], marked with the rules that they violate.

    Args:
        table: of one kind's schema, which has ``more``.
        at: int64 per result.
        broken: per result, bit i: it violates ``names[i]``.
        names: of the rules.
    """
    table = table.set_column(table.schema.get_field_index("at"), "at", pa.array(at))
    if not broken.any():
        return table
    masks, which = np.unique(broken, return_inverse=True)
    marks = pa.array([_mark(int(mask), names) for mask in masks.tolist()], pa.string())
    texts = marks.take(pa.array(which.reshape(-1)))
    place = table.schema.get_field_index(MORE)
    more = pc.fill_null(table.column(place), "{}").combine_chunks()
    inside = pc.utf8_slice_codeunits(more, 1, -1)
    comma = pc.if_else(pc.greater(pc.binary_length(inside), 0), ", ", "")
    whole = pc.binary_join_element_wise("{", inside, comma, texts, "}", "")
    found = pc.if_else(pa.array(broken != 0), whole, table.column(place).combine_chunks())
    return table.set_column(place, MORE, found)


def _mark(mask: int, names: Sequence[str]) -> str:
    broken = [name for number, name in enumerate(names) if mask >> number & 1]
    return f'"{DOUBTFUL}": {json.dumps(broken, ensure_ascii=False)}'


# Outcomes of one query's results: emitted, held, marked, dropped, or never emitted (Z10 5.2).
#
# A result that satisfies every rule is emitted as it is. Any other is held as long as its broken
# rules say, and judged again: it may satisfy them by then, by retractions or new results of other
# queries. Else it is emitted with the names of the rules, or dropped. A result that is retracted
# while it is held is never emitted; the retraction of a marked one has the same mark.


REMEMBERED: Final = 1 << 16
"""The most marked or dropped results that are remembered for their retractions; beyond it the
oldest are forgotten and counted: their retractions are emitted without a mark.
"""
NOBODY: Final = -1


class MarkedBefore(NamedTuple):
    """Results that were emitted with a mark, or dropped: (int64, uint64, bool)."""

    identity: np.ndarray
    broken: np.ndarray
    dropped: np.ndarray


class RuleVerdicts(NamedTuple):
    """Per result: the rules that it breaks (uint64), whether it is dropped, or waits."""

    broken: np.ndarray
    dropped: np.ndarray
    waits: np.ndarray


class TakenBack(NamedTuple):
    """Retractions: the ``row`` among the new results, and the place of the retracted result among
    the remembered, waiting or new ones; NOBODY: it is none of these.
    """

    row: np.ndarray
    remembered: np.ndarray
    waiting: np.ndarray
    new: np.ndarray


class QueryJudge(Restorable):
    """Judges the results of one query.

    Args:
        rules: the query's.
        kind: of its results.
    """

    state_fields = ("waiting", "_known", "counts")

    def __init__(self, rules: Rules, kind: str) -> None:
        self.rules, self._kind = rules, kind
        self.waiting = WaitingResults()
        none = np.zeros(0, np.int64)
        self._known = MarkedBefore(none, none.astype(np.uint64), none.astype(np.bool_))
        self.counts = dict.fromkeys(
            ("doubtful", "dropped_by_checks", "spared_by_checks", "forgotten_by_checks"), 0
        )

    @property
    def due(self) -> int:
        """The deadline of the first held result [ns]; INT_MAX: none is held."""
        return int(self.waiting.rows.deadline.min(initial=INT_MAX))

    def settle(
        self, new: NewResults, history: History, strings: Strings, now: int, *, end: bool
    ) -> list[JudgedResults] | None:
        """The results to emit by ``now`` [ns]; None: ``new``, unchanged.

        Args:
            new: results, which ``history`` contains already.
            history: of all queries.
            strings: the table of texts.
            now: the instant up to which ``history`` is complete.
            end: no more results follow: all held ones are judged.
        """
        judged = self._judged(new, history, strings)
        first = len(self.waiting)
        waiting_rows = np.flatnonzero(judged.waits)
        self.waiting.add(new, waiting_rows, self.rules.hold(judged.broken[waiting_rows]))
        back = self._taken_back(new, first, waiting_rows)
        waiting = self.waiting.rows
        is_waiting = back.waiting != NOBODY
        early = is_waiting.copy()
        early[is_waiting] = (
            new.at[back.row[is_waiting]] < waiting.deadline[back.waiting[is_waiting]]
        )
        spared = np.zeros(len(waiting.at), np.bool_)
        spared[back.waiting[early]] = True
        over = ~spared & (np.full(len(waiting.at), end) | (waiting.deadline <= now))
        last = self._judged_again(np.flatnonzero(over), history, strings, now)
        if not (judged.broken.any() or len(waiting.at) or (back.remembered != NOBODY).any()):
            return None
        final = self._follow(judged, back, early, last)
        pieces = self._pieces(new, final, np.flatnonzero(over & ~last.dropped), last, now)
        self._count(new, final, over, spared, last)
        self._remember(new, final, back, over, last)
        self.waiting.keep(np.flatnonzero(~over & ~spared))
        return pieces

    def _judged(self, new: NewResults, history: History, strings: Strings) -> RuleVerdicts:
        """The verdicts of new results, by the history before each; retractions have none yet."""
        plus = np.flatnonzero(new.plus)
        broken = np.zeros(len(new.at), np.uint64)
        lookups = HistoryLookups(new.key[plus], new.at[plus], new.place[plus], new.at[plus])
        values = taken_values(new.values, plus)
        broken[plus] = self.rules.broken(values, lookups, history, strings)
        waits = self.rules.hold(broken) > 0
        return RuleVerdicts(broken, self.rules.dropped(broken) & ~waits, waits)

    def _judged_again(
        self, rows: np.ndarray, history: History, strings: Strings, now: int
    ) -> RuleVerdicts:
        """The verdicts of the held results at ``rows``, by the history at their deadlines."""
        waiting = self.waiting.rows
        broken = np.zeros(len(waiting.at), np.uint64)
        until = np.maximum(np.minimum(waiting.deadline, now), waiting.at + 1)
        for mine, content, inside in self.waiting.contents(rows):
            lookups = HistoryLookups(
                waiting.key[mine], waiting.at[mine], waiting.place[mine], until[mine]
            )
            values = taken_values(content.values, inside)
            broken[mine] = self.rules.broken(values, lookups, history, strings)
        return RuleVerdicts(broken, self.rules.dropped(broken), np.zeros(len(broken), np.bool_))

    def _taken_back(self, new: NewResults, first: int, waiting_rows: np.ndarray) -> TakenBack:
        """The retractions in ``new``. ``first``: the first new one of the held results, which are
        the rows ``waiting_rows``.
        """
        known, old = len(self._known.identity), self.waiting.rows.identity[:first]
        identity = np.concatenate((self._known.identity, old, new.identity))
        before = known + first
        plus = np.concatenate((np.ones(before, np.bool_), new.plus))
        rows = np.flatnonzero(~new.plus)
        of = partners(identity, plus)[before + rows]
        place_waiting = np.where((of >= known) & (of < before), of - known, NOBODY)
        place = np.full(len(new.at), NOBODY)
        place[waiting_rows] = first + np.arange(len(waiting_rows))
        is_new = of >= before
        fresh = np.where(is_new, of - before, 0)
        place_waiting[is_new] = place[fresh[is_new]]
        return TakenBack(
            rows,
            np.where((of >= 0) & (of < known), of, NOBODY),
            place_waiting,
            np.where(is_new & (place_waiting == NOBODY), fresh, NOBODY),
        )

    def _follow(
        self, judged: RuleVerdicts, back: TakenBack, early: np.ndarray, last: RuleVerdicts
    ) -> RuleVerdicts:
        """``judged``, with the verdicts of retractions: those of the retracted results."""
        broken, dropped = judged.broken.copy(), judged.dropped.copy()
        ways = (
            (back.remembered, self._known.broken, self._known.dropped),
            (back.waiting, last.broken, last.dropped),
            (back.new, judged.broken, judged.dropped),
        )
        for of, its_broken, its_dropped in ways:
            there = of != NOBODY
            rows = back.row[there]
            broken[rows], dropped[rows] = its_broken[of[there]], its_dropped[of[there]]
        dropped[back.row[early]] = True
        return RuleVerdicts(broken, dropped, judged.waits)

    def _pieces(
        self,
        new: NewResults,
        final: RuleVerdicts,
        released: np.ndarray,
        last: RuleVerdicts,
        now: int,
    ) -> list[JudgedResults]:
        """The results to emit, in order of time; of one time, due ones first, and those held until
        the end last.
        """
        tables: list[pa.Table] = []
        places: list[np.ndarray] = []
        columns: list[tuple[np.ndarray, ...]] = []
        waiting = self.waiting.rows
        for mine, content, inside in self.waiting.contents(released):
            at = np.minimum(waiting.deadline[mine], now)
            when = np.where(waiting.deadline[mine] <= now, 0, 2)
            columns.append((at, when, waiting.place[mine], last.broken[mine]))
            tables.append(content.table)
            places.append(inside)
        out = ~final.dropped & ~final.waits
        for table, start, end in zip(new.tables, new.starts, new.starts[1:], strict=False):
            mine = np.arange(start, end)[out[start:end]]
            behind = np.ones(len(mine), np.int64)
            columns.append((new.at[mine], behind, new.place[mine], final.broken[mine]))
            tables.append(table)
            places.append(mine - start)
        if not tables:
            return []
        at, behind, number, broken = map(np.concatenate, zip(*columns, strict=True))
        of = np.repeat(np.arange(len(tables)), [len(each) for each in places])
        place = np.concatenate(places)
        order = np.lexsort((number, behind, at))
        cuts = np.flatnonzero(np.diff(of[order])) + 1
        return [
            judged_of(self._kind)(
                marked(
                    tables[int(of[rows[0]])].take(pa.array(place[rows])),
                    at[rows], broken[rows], self.rules.names,
                )
            )
            for rows in np.split(order, cuts)
            if len(rows)
        ]  # fmt: skip

    def _count(
        self,
        new: NewResults,
        final: RuleVerdicts,
        over: np.ndarray,
        spared: np.ndarray,
        last: RuleVerdicts,
    ) -> None:
        """Count the outcomes of results; retractions do not count."""
        doubtful = new.plus & ~final.waits & (final.broken != 0)
        late = over & (last.broken != 0)
        self.counts["doubtful"] += int(
            (doubtful & ~final.dropped).sum() + (late & ~last.dropped).sum()
        )
        dropped = (new.plus & final.dropped).sum() + (over & last.dropped).sum()
        self.counts["dropped_by_checks"] += int(dropped)
        self.counts["spared_by_checks"] += int(spared.sum())

    def _remember(
        self,
        new: NewResults,
        final: RuleVerdicts,
        back: TakenBack,
        over: np.ndarray,
        last: RuleVerdicts,
    ) -> None:
        """Remember results that were marked or dropped, and not retracted since."""
        old = np.ones(len(self._known.identity), np.bool_)
        old[back.remembered[back.remembered != NOBODY]] = False
        late = over & (last.broken != 0)
        late[back.waiting[back.waiting != NOBODY]] = False
        doubtful = new.plus & ~final.waits & (final.broken != 0)
        doubtful[back.new[back.new != NOBODY]] = False
        identity = self.waiting.rows.identity
        found = joined(
            take_rows(self._known, old),
            MarkedBefore(identity[late], last.broken[late], last.dropped[late]),
            MarkedBefore(new.identity[doubtful], final.broken[doubtful], final.dropped[doubtful]),
        )
        beyond = max(len(found.identity) - REMEMBERED, 0)
        self.counts["forgotten_by_checks"] += beyond
        self._known = take_rows(found, np.arange(beyond, len(found.identity)))


# The judgement of a chain's results before their output: each query's rules, one history.
#
# Results of other queries count from the instant after they are known, those of the same query in
# their order; so neither the cut of the input nor the order of the queries changes the answer.


class Judging(Restorable):
    """Judges the results of ``plans``, at least one of which has checks.

    Raises:
        UserError: a rule refers to the history of a query that is not among them.
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
        """Replace ``results``, per query, by those to emit.

        ``now`` [ns]: the results known before it are complete. ``end``: no more follow.
        """
        due = min((judge.due for judge in self._judges.values()), default=INT_MAX)
        if due > now and not end and not any(len(results[number]) for number in self._read):
            return
        new = {}
        for number in self._read:
            checks = self._checks.get(number, Checks())
            judge = self._judges.get(number)
            names = judge.rules.attributes if judge else []
            found = read_results(
                results[number].pieces, self._kinds[number], names, checks.key, self._seen[number]
            )
            self._seen[number] += len(found.at)
            self._history.add(number, found.key, found.identity, found.at, found.place, found.plus)
            new[number] = found
        for number, judge in self._judges.items():
            pieces = judge.settle(new[number], self._history, strings, now, end=end)
            if pieces is not None:
                results[number] = ResultPieces(list(pieces))
        self._history.forget(now, self._holds)

    def counters(self, number: int) -> dict[str, int]:
        """Counts of the outcomes of the results of query ``number``."""
        judge = self._judges.get(number)
        return {} if judge is None else judge.counts | {"held_by_checks": len(judge.waiting)}

    def codes(self) -> list[np.ndarray]:
        """Codes of the texts of held results."""
        return [codes for judge in self._judges.values() for codes in judge.waiting.codes()]


def _number(query: str, numbers: dict[str, int]) -> int:
    if query not in numbers:
        near = closest(query, numbers)
        hint = f"the queries are {listed(list(numbers))}" + (f"; {near}" if near else "")
        raise UserError(f"a CHECK looks into the history of {query!r}, which is not asked: {hint}")
    return numbers[query]
