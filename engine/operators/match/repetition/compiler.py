"""Compiles a plan with repetition to tables of records for the kernel.

Each role of a step has a place of its own (``ROLES``), so that the programs of patterns read
``a[i].v``, ``a[i - 1].v``, ``first(a.v)`` and ``sum(a.v)`` like attributes of steps. A condition is
checked as soon as its last event is taken. Conditions on the first or the last event of a step, on
an aggregate, or on each event together with a later step are checked on complete matches; earlier
too, on a prefix of the match, if all their events are in the prefix.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.kernels.records import FAR, record
from slackwater.engine.operators.match.compiler.tables import (
    Builder,
    Layout,
    SamePlan,
    exact_and_clocked,
)
from slackwater.engine.operators.match.search.machine import FLOAT, INT, TEXT, Programs
from slackwater.engine.operators.match.search.state import Stacks
from slackwater.engine.query.fields import attributes_in, with_alias, with_attributes
from slackwater.engine.query.plan import Attribute, Predicate, Step, conjunction
from slackwater.engine.query.repeat_plan import (
    BEFORE,
    COLLECTED,
    COUNT,
    EACH,
    FIRST,
    LAST,
    ROLE,
    Contiguity,
    RepeatPlan,
    Skip,
    partitioned,
    step_and_role,
    with_role,
)
from slackwater.engine.query.shape import Shape

# Records that the kernels of repetition read by name; each field is an int64.


ROLES: Final = 5
"""Places of a step in the input of programs: its current event, the one before that, its first and
its last event, and its aggregates. Those of step k begin at ``ROLES * k``."""
CUR: Final = 0
PREV: Final = 1
HEAD: Final = 2
TAIL: Final = 3
ALL_OF: Final = 4

REPEATED: Final = record(
    "least", "most", "negated", "until", "take_from", "take_to", "prefix_from", "prefix_to",
    "later", "counts_from", "counts_to",
)  # fmt: skip
"""A step. ``most``: a large number if unlimited. ``until``: the bit of events that end it, or -1.
``take``: conditions checked when an event is taken as this step. ``prefix``: conditions on it and
on all events of earlier steps; complete matches are checked again. ``later``: bits of the steps
that may follow an event of it, itself too if it repeats. ``counts``: of a negated step, conditions
under which an event counts.
"""
REPEAT_CONDITION: Final = record("predicate", "clocked", "again", "each", "needs", "collects")
"""A condition. ``again``: 1: it names the event before, so the first event is not checked.
``each``: the step of which each event is checked, or -1. ``needs``: bits of the steps that it
names; if one is missing in a match, the condition holds. ``collects``: 1: it names an aggregate.
"""
COLLECTION: Final = record("step", "function", "source", "target")
"""An aggregate over the events of a step: from register ``source`` into ``target``."""
SUM: Final = 0
AVG: Final = 1
LEAST: Final = 2
MOST: Final = 3
NUMBER: Final = 4

SETTING: Final = record(
    # the query's
    "max_delay", "within", "keep", "steps", "contiguity", "rule", "limit", "breakable",
    "trailing", "leading", "finals_from", "finals_to", "keys", "firsts", "lasts", "positive",
    "fewest", "readings",
    # state
    "widest", "widest_t_a", "inserted", "found_n", "path_n", "doubts_n", "looked", "is_open",
    "reach", "doubted", "lacks_path", "again", "until",
    "quiet",
)  # fmt: skip
"""``contiguity``: ANY, NEXT or STRICT; ``rule``: which matches are output. ``breakable``: bits of
events that may break a match between two of its events; ``trailing``, ``leading``: after or before
it. ``firsts``, ``lasts``, ``positive``: bits of the steps that a match may begin and end with, and
of all its steps; ``fewest``: its least number of events. ``readings``: 1: the same events may be
the steps in several ways, one of which is output. ``widest``: the largest uncertainty so far;
``widest_t_a``: the largest T_a in force at an event. ``inserted``: the last row in the stacks.
``found_n``, ``path_n``, ``doubts_n``: rows written. ``is_open``: 1: a later event may continue the
last walk; ``reach``: if not, no event after this time can. ``doubted``: 1: a stored event may not
have happened. ``lacks_path``: 1: the room that lacked was for events of matches. ``quiet``: 1:
events are inserted without a search for matches. ``again``: 1: matches are chosen again, as clock
errors are larger than known before. ``until``: the last progress at which a new event can change
all matches written last.
"""
ANY: Final = 0
NEXT: Final = 1
STRICT: Final = 2
ALL_MATCHES: Final = 0
"""Rules: every match,"""
FIRST_OF_END: Final = 1
"""the first few with one last event,"""
FIRST_OF_START: Final = 2
"""the first with one first event,"""
DISJOINT: Final = 3
"""or those that begin after the end of the previous one."""

LEVEL: Final = record(
    "row", "step", "count", "place", "at", "option", "stop", "ended", "relevant", "fresh"
)
"""A taken event: the ``count``-th of ``step``, at ``place`` of the stack. ``at``, ``option``: the
next candidate, and the step that it is tried as next. ``stop``, ``ended``: times after which no
candidate can follow, and none can as the same step. ``relevant``: 1: the candidate can be taken.
``fresh``: 1: its candidates are not set yet.
"""
READING: Final = record("step", "count")
"""Another reading of an event of a match: as the ``count``-th event of a ``step``."""
MATCH_CHANGE: Final = record(
    "cause", "completing", "new", "sure_before", "sure", "stands", "t_a_before", "t_a_now", "from_",
    "size",
)  # fmt: skip
"""A change of a match; its events are ``size`` of the path from ``from_`` on. Else as
``engine.operators.match.search.construction.FOUND``."""
PATH_EVENT: Final = record("row", "step")

CHOICE: Final = record("flags", "until", "until_now")
"""Of an event: whether the rule chose a match by it. ``until``: the last progress at which another
match may still replace that one, as all relevant events are stored; ``until_now``: the same in the
current sweep.
"""
CHOSEN: Final = 1
"""Bits of ``CHOICE.flags``: it is chosen,"""
CHOSEN_NOW: Final = 2
"""in the current sweep."""
MARK: Final = record(
    "open", "ended", "has_chosen_end", "chosen_end", "partitions", "first_run", "last_run", "seen"
)
"""Of a stack; places count from its first entry. ``open``: all matches that begin below it have
ended, before the time ``ended``. ``chosen_end``: from it on no event is CHOSEN, if
``has_chosen_end``. ``partitions``: whether its events are of one (0: unknown). ``first_run``,
``last_run``: 1 + the first and the last event with an open run; ``seen``: 1 + the last row that all
open runs have processed (``engine.operators.match.repetition.runs``).
"""
RUN_STATE: Final = record(
    "status", "step", "count", "present", "last", "end", "closed", "expires", "seen", "begun",
    "next", "link", "size",
)  # fmt: skip
"""The run that begins with an event. ``step``, ``count``: its last event, the row ``last``, is the
``count``-th of the step and ends at ``end``. ``present``: bits of its steps. ``closed``: 1: the
step takes no more events. ``expires``: the first expiry of an event that it has processed.
``seen``: 1 + the row that it processed last. ``begun``: the time of its first event. ``next``: 1 +
the event whose run is the next open one of the stack. ``link``: the place of its last event among
the links; ``size``: its number of events.
"""
LINK: Final = record("row", "step", "before")
"""An event of a run, and the link of its previous event. Of link 0 ``row`` is the last used link.
"""


class RepeatTables(NamedTuple):
    """The query's tables: REPEATED, REPEAT_CONDITION and COLLECTION records."""

    steps: np.ndarray
    conditions: np.ndarray
    collections: np.ndarray


class SearchState(NamedTuple):
    """The state of the kernel.

    ``t``: the query's tables; ``setting``: one SETTING. ``events``: EVENT records. ``raw``, ``ok``:
    (registers, events). ``same``, ``tag``: (registers of keys, events). ``rows``: by place of a
    role, the event there, or -1. ``made_raw``, ``made_ok``: (registers, places), ``made_events``:
    EVENT by place, ``itself``: 0, 1, ...: the input of programs that read aggregates of steps.
    ``runs``: RUN_STATE by event; ``links``: LINK; ``ready``: as ``repetition.runs.advance_runs``
    writes it; ``step_rows``: (events, steps), the last row of a run at each step; ``stack_keys``:
    (stacks, 2 * registers of keys), ``same`` and ``tag`` of a stack. ``levels``: of LEVEL;
    ``reading``: READING by level; ``trial``: EVENT_OF, events taken and a candidate. ``chosen``:
    CHOICE by event; ``ended``: the time at which all matches that begin with an event have ended,
    or FAR; ``marks``: MARK by stack. ``found``: RUN; ``path``: EVENT_OF; ``doubts``: DOUBT, whose
    scope n lies before the event n of the match, counted from 0, or behind the last one.
    """

    t: RepeatTables
    setting: np.ndarray
    events: np.ndarray
    raw: np.ndarray
    ok: np.ndarray
    same: np.ndarray
    tag: np.ndarray
    programs: Programs
    ranks: np.ndarray
    stacks: Stacks
    rows: np.ndarray
    made_raw: np.ndarray
    made_ok: np.ndarray
    made_events: np.ndarray
    itself: np.ndarray
    kinds: np.ndarray
    levels: np.ndarray
    reading: np.ndarray
    trial: np.ndarray
    chosen: np.ndarray
    ended: np.ndarray
    marks: np.ndarray
    runs: np.ndarray
    links: np.ndarray
    ready: np.ndarray
    step_rows: np.ndarray
    stack_keys: np.ndarray
    found: np.ndarray
    path: np.ndarray
    doubts: np.ndarray


_PLACES: Final = {"": CUR, EACH: CUR, BEFORE: PREV, FIRST: HEAD, LAST: TAIL}
_MADE: Final = "made"
"""The role of aggregates, in programs."""
_FUNCTIONS: Final = {"sum": SUM, "avg": AVG, "min": LEAST, "max": MOST, "count": NUMBER}
_CONTIGUITY: Final = {Contiguity.ANY: ANY, Contiguity.NEXT: NEXT, Contiguity.STRICT: STRICT}
_RULES: Final = {Skip.PAST_LAST: DISJOINT, Skip.TO_NEXT: FIRST_OF_START}


@dataclass(slots=True, eq=False)
class RepeatLayout:
    """A compiled plan with repetition.

    ``layout``: for the store and the membership; its steps are the plan's, then events that end a
    repetition, then events of any type for STRICT. ``setting``: the initial SETTING.
    ``partition``: attributes that are equal in all events of a match. ``untils``: by step with
    UNTIL, the bit of events that end it.
    """

    plan: RepeatPlan
    layout: Layout
    tables: RepeatTables
    setting: np.ndarray
    partition: tuple[str, ...]
    untils: dict[int, int]


def repeat_layout(plan: RepeatPlan) -> RepeatLayout:
    """Return the tables of a plan; shared by the sites of a run, and read-only."""
    return _layout_of(SamePlan(plan))


@lru_cache(maxsize=64)
def _layout_of(key: SamePlan[RepeatPlan]) -> RepeatLayout:
    return _Compiling(key.plan).layout()


class _Compiling:
    """Makes one plan's tables."""

    def __init__(self, plan: RepeatPlan) -> None:
        self.plan = plan
        self.steps = plan.steps
        self.places = {step.alias: number for number, step in enumerate(plan.steps)}
        self.negated = {step.alias for step in plan.steps if step.negated}
        self.partition, self.others = partitioned(plan)
        self.builder = Builder({step.alias: step for step in plan.steps})
        self.conditions: list[tuple[int, ...]] = []
        self.collections: list[tuple[int, ...]] = []

    def layout(self) -> RepeatLayout:
        step_conditions, rows = [], []
        named = [(other, self._named(other)) for other in self.others]
        for number, step in enumerate(self.steps):
            exact, clocked = exact_and_clocked(step)
            step_conditions.append(conjunction(exact))
            takes = self._add(
                [(c, {(step.alias, "")}) for c in clocked] if not step.negated else []
            )
            mine = [each for each in named if self._taken_at(each[1]) == number]
            takes = takes[0], self._add(mine)[1]
            counts = [each for each in named if self._negated(each[1]) == step.alias]
            counts += [(c, {(step.alias, "")}) for c in clocked] if step.negated else []
            rows.append((number, takes, self._add(counts)))
        finals = [
            (predicate, names)
            for predicate, names in named
            if self._taken_at(names) is None and self._negated(names) is None
        ]
        prefixes = [
            self._add([each for each in finals if self._known_at(each[1]) == number])
            for number in range(len(self.steps))
        ]
        rest = self._add([each for each in finals if self._known_at(each[1]) is None])
        final_range = prefixes[0][0], rest[1]
        for name in self.partition:
            self.builder.key(name)
        extra, untils = self._extra_steps()
        steps = np.array(
            [self._step(*row, prefix, untils) for row, prefix in zip(rows, prefixes, strict=True)],
            REPEATED,
        )
        step_conditions += [step.where for step in extra]
        setting = self._setting(steps, final_range, len(self.steps) + len(extra))
        return RepeatLayout(
            self.plan, self._as_of_patterns(tuple(extra), step_conditions),
            RepeatTables(
                steps, np.array(self.conditions, REPEAT_CONDITION),
                np.array(self.collections, COLLECTION),
            ),
            setting, self.partition, untils,
        )  # fmt: skip

    def _as_of_patterns(
        self, extra: tuple[Step, ...], step_conditions: list[Predicate | None]
    ) -> Layout:
        builder, plan = self.builder, self.plan
        place = {
            _alias(step.alias, role): ROLES * number + at
            for number, step in enumerate(self.steps)
            for role, at in [*_PLACES.items(), (_MADE, ALL_OF)]
        }
        reads = list(builder.registers)
        register = {read: number for number, read in enumerate(reads)}
        steps = (*self.steps, *extra)
        bare = replace(plan, steps=steps, others=())
        return Layout(
            builder.tables(), steps, (bare,), [Shape((), frozenset(), (), (), (), ())],
            [tuple(range(len(steps)))], reads, list(builder.keyed), builder.predicates,
            step_conditions, False, place, register,
        )  # fmt: skip

    def _extra_steps(self) -> tuple[list[Step], dict[int, int]]:
        extra, untils = list[Step](), dict[int, int]()
        for number, (step, often) in enumerate(zip(self.steps, self.plan.often, strict=True)):
            if often.until is not None:
                untils[number] = len(self.steps) + len(extra)
                alias = f"{step.alias}{ROLE}until"
                where = with_alias(often.until, alias)
                extra.append(replace(step, alias=alias, where=where, negated=True))
        if self.plan.contiguity is Contiguity.STRICT:
            extra.append(Step(f"{ROLE}any", ANY_TYPE, negated=True))
        return extra, untils

    def _step(
        self, number: int, takes: tuple[int, int], counts: tuple[int, int],
        prefix: tuple[int, int], untils: dict[int, int],
    ) -> tuple[int, ...]:  # fmt: skip
        often = self.plan.often[number]
        later = sum(
            1 << other for other, step in enumerate(self.steps)
            if not step.negated and (other > number or (other == number and often.repeats))
        )  # fmt: skip
        most = FAR if often.most is None else often.most
        negated = int(self.steps[number].negated)
        return often.least, most, negated, untils.get(number, -1), *takes, *prefix, later, *counts

    def _setting(self, steps: np.ndarray, finals: tuple[int, int], bits: int) -> np.ndarray:
        plan, made = self.plan, np.zeros(1, SETTING)
        now = made[0]
        needed = [n for n, step in enumerate(self.steps)
                  if not step.negated and plan.often[n].least]  # fmt: skip
        positive = [n for n, step in enumerate(self.steps) if not step.negated]
        negated = [n for n, step in enumerate(self.steps) if step.negated]
        now["within"] = -1 if plan.within_ns is None else plan.within_ns
        now["steps"], now["keys"] = len(self.steps), len(self.partition)
        now["contiguity"] = _CONTIGUITY[plan.contiguity]
        now["rule"] = _RULES.get(plan.skip, ALL_MATCHES)
        now["limit"] = FAR if plan.limit is None else plan.limit
        if plan.skip is Skip.NONE and plan.limit is not None:
            now["rule"] = FIRST_OF_END
        now["readings"] = plan.ambiguous
        if plan.ambiguous and now["rule"] == ALL_MATCHES:
            now["rule"] = FIRST_OF_END  # any number of them, as one reading may replace another
        now["positive"] = _bits(positive)
        now["firsts"] = _bits(n for n in positive if n <= needed[0])
        now["lasts"] = _bits(n for n in positive if n >= needed[-1])
        now["fewest"] = sum(plan.often[n].least for n in needed)
        now["leading"] = _bits(n for n in negated if n < needed[0])
        now["trailing"] = _bits(n for n in negated if n > needed[-1])
        between = [n for n in negated if positive[0] < n < positive[-1]]
        breakable = _bits(between) | _bits(int(bit) for bit in steps["until"] if bit >= 0)
        if plan.contiguity is Contiguity.NEXT:
            breakable |= _bits(positive)
        if plan.contiguity is Contiguity.STRICT:
            breakable |= 1 << bits - 1
        now["breakable"] = breakable
        now["finals_from"], now["finals_to"] = finals
        now["inserted"] = -1
        return made

    # ---- conditions --------------------------------------------------------------------------
    def _named(self, predicate: Predicate) -> set[tuple[str, str]]:
        return {step_and_role(attribute.alias) for attribute in attributes_in(predicate)}

    def _negated(self, named: set[tuple[str, str]]) -> str | None:
        return next((alias for alias, _ in named if alias in self.negated), None)

    def _taken_at(self, named: set[tuple[str, str]]) -> int | None:
        """Return the step at whose events a condition is checked as they are taken; None: it is
        later.
        """
        if self._negated(named) is not None or any(
            role not in {"", EACH, BEFORE} for _, role in named
        ):
            return None
        last = max(self.places[alias] for alias, _ in named)
        each = {self.places[alias] for alias, role in named if role}
        return last if each <= {last} else None

    def _known_at(self, named: set[tuple[str, str]]) -> int | None:
        """Return the last step in a condition that can be checked on a prefix; else None."""
        if self._negated(named) is not None:
            return None
        last = max(self.places[alias] for alias, _ in named)
        roles = {role for alias, role in named if self.places[alias] == last}
        return last if roles <= {"", EACH, BEFORE, FIRST} else None

    def _add(self, predicates: list[tuple[Predicate, set[tuple[str, str]]]]) -> tuple[int, int]:
        """Append conditions; returns their range."""
        first = len(self.conditions)
        for predicate, named in predicates:
            roles = {role for _, role in named}
            collects = bool(roles & {*COLLECTED})
            number, clocked = self.builder.condition(with_attributes(predicate, self._in_programs))
            each = next((self.places[alias] for alias, role in named if role in {EACH, BEFORE}), -1)
            needs = _bits(self.places[alias] for alias, role in named
                          if role != COUNT and alias not in self.negated)  # fmt: skip
            again = int(BEFORE in roles)
            self.conditions.append((number, clocked, again, each, needs, int(collects)))
        return first, len(self.conditions)

    def _in_programs(self, attribute: Attribute) -> Attribute:
        alias, role = step_and_role(attribute.alias)
        if role not in COLLECTED:
            return dataclasses.replace(attribute, alias=_alias(alias, role))
        made = f"{role}{ROLE}{attribute.name}"
        registers = self.builder.registers
        source = registers.setdefault(attribute.name, len(registers))
        target = registers.setdefault(made, len(registers))
        row = (self.places[alias], _FUNCTIONS[role], source, target)
        if row not in self.collections:
            self.collections.append(row)
        return Attribute(made, with_role(alias, _MADE))


def _alias(alias: str, role: str) -> str:
    """Return the alias in programs, where the event itself and each event are the same."""
    return alias if role in {"", EACH} else with_role(alias, role)


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in {*numbers})


def made_kinds(tables: RepeatTables, kinds: np.ndarray) -> np.ndarray:
    """Return the kinds of registers, those of aggregates included (``match.search.machine``)."""
    found = kinds.copy()
    for each in tables.collections:
        source = int(kinds[each["source"]])
        if each["function"] == NUMBER:
            found[each["target"]] = INT
        elif source != TEXT:
            found[each["target"]] = (
                FLOAT if each["function"] == AVG and source in (INT, FLOAT) else source
            )
    return found
