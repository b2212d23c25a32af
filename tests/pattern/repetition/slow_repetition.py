"""Patterns with repetition by definition: every labelled combination of events, then every event
in every gap of it. Nothing of the engine is asked: ``slow_reader`` reads the query.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tests.query.slow_expression import Predicate, slow
from tests.query.slow_reader import attributes_in, read_query, step_and_role

Match = tuple[tuple[int, int], ...]
"""(step, row) of each event, in order."""
NO, MAY, MUST = 0, 1, 2


class Event(Protocol):
    """What a test's event has."""

    type: str
    ref: int
    unc: int
    source: str
    epoch: int
    long: int
    attrs: dict[str, Any]


class Slow:
    """A query's matches among some rows of ``events``."""

    def __init__(
        self, text: str, events: Sequence[Event], rule: str = "pairwise", t_a: int = 0
    ) -> None:
        self.asked, self.events, self.rule, self.t_a = read_query(text), events, rule, t_a
        self.names, self.steps = list(self.asked.steps), list(self.asked.steps.values())
        self.places = {name: n for n, name in enumerate(self.names)}
        self.negated = [n for n, step in enumerate(self.steps) if step.negated]
        self.counts = [(step.least, step.most or 10**6) for step in self.steps]
        self.of_one: list[list[Predicate]] = [[] for _ in self.steps]
        """What each event of a step is asked by itself."""
        self.others: list[Predicate] = []
        for each in self.asked.conditions:
            named = self.named(each)
            alone = len(named) == 1 and all(role in {"", "i"} for _, role in named)
            (self.of_one[min(named)[0]] if alone else self.others).append(each)

    # ---- what clocks leave open ----------------------------------------------------------------
    def bound(self, x: int, y: int) -> int:
        """b of SPEC 4.3; R19's rule knows no exemption for one clock."""
        one, other = self.events[x], self.events[y]
        if self.rule == "max-delay-r19":
            return self.t_a
        if one.source == other.source and one.epoch == other.epoch != -1:
            return abs(one.unc - other.unc)
        return one.unc + other.unc

    def order(self, x: int, y: int) -> int:
        diff = self.events[y].ref - self.events[x].ref
        b = self.bound(x, y)
        return MUST if diff > b else NO if diff < -b or b == 0 else MAY

    def after(self, x: int, y: int) -> int:
        """Whether ``y`` begins after ``x`` has ended, as events of a match do."""
        diff = self.events[y].ref - self.events[x].ref - self.events[x].long
        b = self.bound(x, y)
        return MUST if diff > b else NO if diff < -b or b == 0 else MAY

    def near(self, x: int, y: int, long: int = 0) -> int:
        within = self.asked.within
        if within is None:
            return MUST
        diff = self.events[y].ref + long - self.events[x].ref
        b = self.bound(x, y)
        return MUST if diff <= within - b else NO if diff > within + b else MAY

    # ---- conditions ----------------------------------------------------------------------------
    def record(self, row: int) -> dict[str, Any]:
        event = self.events[row]
        return {**event.attrs, "type": event.type, "source": event.source, "seq": row}

    def own(self, n: int, row: int) -> bool:
        event, step, within = self.events[row], self.steps[n], self.asked.within
        if event.type not in step.types:
            return False
        if not step.negated and within is not None and event.long > within:
            return False
        return self.alone(n, self.of_one[n], row)

    def alone(self, n: int, conditions: Sequence[Predicate], row: int) -> bool:
        record = self.record(row)
        bound = {self.names[n]: record, f"{self.names[n]} i": record}
        return all(slow(each, bound) for each in conditions)

    def ends(self, n: int, row: int) -> bool:
        step = self.steps[n]
        if step.until is None or self.events[row].type not in step.types:
            return False
        return self.alone(n, [step.until], row)

    def can_be(self, n: int, row: int) -> bool:
        return self.own(n, row) and not self.ends(n, row)

    def of(self, match: Match, n: int) -> list[int]:
        return [row for step, row in match if step == n]

    def named(self, predicate: Predicate) -> set[tuple[int, str]]:
        found = (step_and_role(a.alias) for a in attributes_in(predicate))
        return {(self.places[alias], role) for alias, role in found}

    def bindings(
        self, match: Match, predicate: Predicate, extra: dict[int, int]
    ) -> Iterator[dict[str, Any]]:
        """Each way in which the names of a condition are bound; none: a step is missing."""
        fixed: dict[str, Any] = {}
        each: int | None = None
        second = False
        for n, role in self.named(predicate):
            alias, rows = self.names[n], self.of(match, n)
            key = f"{alias} {role}" if role else alias
            if n in extra:
                fixed[key] = self.record(extra[n])
            elif role == "count":
                fixed[key] = {"count": len(rows)}
            elif not rows:
                return
            elif role in {"i", "i-1"}:
                each, second = n, second or role == "i-1"
            elif role in {"", "first"}:
                fixed[key] = self.record(rows[0])
            elif role == "last":
                fixed[key] = self.record(rows[-1])
            else:
                fixed[key] = self.collected(rows, role)
        if each is None:
            yield fixed
            return
        alias, rows = self.names[each], self.of(match, each)
        for before, row in itertools.zip_longest([None, *rows[:-1]], rows):
            if before is None and second:
                continue
            bound = {f"{alias} i": self.record(row)}
            if before is not None:
                bound[f"{alias} i-1"] = self.record(before)
            yield fixed | bound

    def collected(self, rows: list[int], role: str) -> dict[str, Any]:
        names = {name for row in rows for name in self.events[row].attrs}
        made: dict[str, Any] = {}
        for name in names:
            values = [v for row in rows if (v := self.events[row].attrs.get(name)) is not None]
            if values and not isinstance(values[0], str):
                made[name] = {
                    "sum": sum, "min": min, "max": max, "avg": lambda x: sum(x) / len(x),
                }[role](values)  # fmt: skip
        return made

    def holds(self, match: Match, predicate: Predicate, extra: dict[int, int]) -> bool:
        return all(slow(predicate, bound) for bound in self.bindings(match, predicate, extra))

    def satisfies(self, match: Match) -> bool:
        return all(
            self.holds(match, other, {})
            for other in self.others
            if not any(n in self.negated for n, _ in self.named(other))
        )

    def one_partition(self, rows: Sequence[int]) -> bool:
        for name in self.asked.partition:
            values = {self.events[row].attrs.get(name) for row in rows}
            if len(values) > 1 or None in values:
                return False
        return True

    # ---- gaps ----------------------------------------------------------------------------------
    def could_follow(self, prefix: Match, row: int) -> bool:
        """Whether the events so far could have taken ``row`` next."""
        step, _ = prefix[-1]
        count = len(self.of(prefix, step))
        for n in range(step, len(self.steps)):
            if n in self.negated or not self.can_be(n, row):
                continue
            if n == step and count >= self.counts[n][1]:
                continue
            if n > step:
                least = [self.counts[m][0] for m in range(step + 1, n) if m not in self.negated]
                if count < self.counts[step][0] or any(least):
                    continue
            longer = (*prefix, (n, row))
            asked = [other for other in self.others if self.known_at(other) == n]
            if all(self.holds(longer, other, {}) for other in asked):
                return True
        return False

    def known_at(self, other: Predicate) -> int | None:
        """The step whose events it names, beside events before them but none behind: the last one
        named, unless it is asked what comes last of it or what is made of all its events.
        """
        named = self.named(other)
        if any(n in self.negated for n, _ in named):
            return None
        last = max(n for n, _ in named)
        roles = {role for n, role in named if n == last}
        return last if roles <= {"", "i", "i-1", "first"} else None

    def breaks(self, match: Match, row: int) -> int:
        found = NO
        for g in range(len(match) - 1):
            (step, x), (behind, y) = match[g], match[g + 1]
            lies = min(self.order(x, row), self.order(row, y))
            if lies == NO:
                continue
            wrong = self.asked.contiguity == "STRICT"
            nexts = self.asked.contiguity == "NEXT"
            if nexts and self.could_follow(match[: g + 1], row):
                found = max(found, min(lies, self.after(x, row)))
            wrong |= any(step < n < behind and self.counted(match, n, row) for n in self.negated)
            found = max(found, lies if wrong else NO)
        found = max([found, *(self.cuts(match, n, row) for n in range(len(self.steps)))])
        (first, x), (last, y) = match[0], match[-1]
        for n in self.negated:
            if n < first and self.counted(match, n, row):
                found = max(found, min(self.order(row, x), self.near(row, y)))
            if n > last and self.counted(match, n, row):
                found = max(found, min(self.order(y, row), self.near(x, row)))
        return found

    def cuts(self, match: Match, n: int, row: int) -> int:
        """Whether it ends a repetition behind its first event and before its last."""
        rows = self.of(match, n)
        if len(rows) < 2 or not self.ends(n, row):
            return NO
        begun = max(self.order(x, row) for x in rows[:-1])
        return min(begun, max(self.order(row, y) for y in rows[1:]))

    def counted(self, match: Match, n: int, row: int) -> bool:
        if not self.own(n, row):
            return False
        asked = [other for other in self.others if any(m == n for m, _ in self.named(other))]
        return all(self.holds(match, other, {n: row}) for other in asked)

    # ---- matches -------------------------------------------------------------------------------
    def labelled(self, rows: Sequence[int]) -> Iterator[Match]:
        """Every sequence of distinct events as steps, in a possible order."""
        positive = [n for n in range(len(self.steps)) if n not in self.negated]

        def longer(match: Match, at: int) -> Iterator[Match]:
            if at == len(positive):
                if match:
                    yield match
                return
            n = positive[at]
            least, most = self.counts[n]
            yield from taking(match, at, n, 0, least, most)

        def taking(
            match: Match, at: int, n: int, count: int, least: int, most: int
        ) -> Iterator[Match]:
            if count >= least:
                yield from longer(match, at + 1)
            if count == most:
                return
            for row in rows:
                taken = [r for _, r in match]
                if row in taken or not self.can_be(n, row):
                    continue
                if all(self.after(r, row) != NO for r in taken):
                    yield from taking((*match, (n, row)), at, n, count + 1, least, most)

        yield from longer((), 0)

    def verdict(self, match: Match, rows: Sequence[int]) -> int:
        chosen = [row for _, row in match]
        if not self.one_partition(chosen) or not self.satisfies(match):
            return NO
        found = MUST
        for x, y in itertools.combinations(chosen, 2):
            found = min(found, self.after(x, y))
        for y in chosen[1:]:
            found = min(found, self.near(chosen[0], y, self.events[y].long))
        for row in rows:
            if row not in chosen and self.one_partition([*chosen, row]) and found != NO:
                found = min(found, MUST - self.breaks(match, row))
        return found

    def matches(self, rows: Sequence[int]) -> dict[Match, str]:
        """Of these rows alone, by match its certainty."""
        found = {}
        for match in self.labelled(rows):
            verdict = self.verdict(match, rows)
            if verdict != NO:
                found[match] = "confirmed" if verdict == MUST else "uncertain"
        return self.chosen(found)

    def chosen(self, found: dict[Match, str]) -> dict[Match, str]:
        """Of one match's readings the surest, of these the first; of matches those that SKIP and
        LIMIT ask for. Events of equal ref count in the order in which they came.
        """
        refs = {m: tuple((self.events[row].ref, row) for _, row in m) for m in found}
        steps = {m: tuple(n for n, _ in m) for m in found}
        surest: dict[tuple[int, ...], Match] = {}
        for match in sorted(found, key=lambda m: (found[m] != "confirmed", steps[m])):
            surest.setdefault(tuple(row for _, row in match), match)
        in_order = sorted(surest.values(), key=lambda m: (refs[m][-1], refs[m], steps[m]))
        kept: dict[Match, str] = {}
        ended: dict[Any, int] = {}
        begun: set[int] = set()
        counted: dict[int, int] = {}
        for match in in_order:
            first, last = match[0][1], match[-1][1]
            where = tuple(self.events[first].attrs.get(name) for name in self.asked.partition)
            if self.asked.skip == "PAST LAST" and refs[match][0][0] <= ended.get(where, -(10**18)):
                continue
            if self.asked.skip == "TO NEXT" and first in begun:
                continue
            if self.asked.limit is not None and counted.get(last, 0) >= self.asked.limit:
                continue
            kept[match] = found[match]
            ended[where] = refs[match][-1][0]
            begun.add(first)
            counted[last] = counted.get(last, 0) + 1
        return kept
