"""Plans of queries: the analysis of a text builds them, and Python code may build them directly.

Plans are frozen data without behaviour. Operators read them; ``engine.query.expression`` evaluates
their predicates on columns. Durations are int64 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.core.units import Period, period_lengths
from slackwater.engine.query.monitor_plan import MonitorPlan

if TYPE_CHECKING:
    from slackwater.engine.query.reference_tables import TableLookup


class Emit(StrEnum):
    """When windows emit results; the net results at the end do not differ."""

    CLOSE = "close"
    """When the window closes."""
    EARLY = "early"
    """When it closes, and before at every multiple of ``WindowPlan.early_ns`` of reference time if
    its value has changed."""
    CHANGE = "change"
    """At every event that changes its value."""


# Aggregates, and the ranking of groups by them.


AGGREGATES: Final = (
    "count", "sum", "avg", "min", "max", "stddev", "var", "median", "quantile", "first", "last",
    "min_by", "max_by",
)  # fmt: skip
TAKES_TEXT: Final = frozenset({"count", "count_distinct", "first", "last", "min_by", "max_by"})
"""Aggregates of text or numbers; the second argument of ``min_by`` and ``max_by`` is a number."""
COMPUTED: Final = "computed"
"""In place of a function: arithmetic over aggregates, such as ``max(v) - min(v)``."""


class Ranking(Struct, frozen=True):
    """``ORDER BY label [DESC], ... LIMIT limit``: the first ``limit`` groups of each window.

    ``labels`` are labels of aggregates; ``descending``: largest first. Null sorts last; ties go to
    the group with the smaller key.
    """

    labels: tuple[str, ...]
    descending: tuple[bool, ...]
    limit: int


# Rules on a query's results, checked before emission (Z10 5.1, 5.2).


DOUBTFUL: Final = "doubtful"
"""Field of a result that violates rules: the names of the rules."""
HISTORY: Final = "$history"
"""Alias of history lookups: ``$history.0`` is the first of ``Checks.lookups``."""
RESULT: Final = "$result"
"""Alias of the fields of a result itself, listed in ``RESULT_FIELDS``."""
APART: Final = frozenset({HISTORY, RESULT})
"""Aliases that are not steps."""
RESULT_FIELDS: Final = {
    "matches": ("probability",),
    "windows": ("missing", "certain", "ambiguous"),
}
"""By kind of result (``engine.output.result_kinds``)."""
PAST_COUNT, NEAR_COUNT, SINCE_LAST = "past_count", "near_count", "since_last"
LOOKUPS: Final = (PAST_COUNT, NEAR_COUNT, SINCE_LAST)


class Lookup(Struct, frozen=True):
    """A history lookup: results of ``query`` (None: of the same query) with the same key.

    ``past_count``: the number of results known in the ``within_ns`` before this one.
    ``near_count``: these, and results that become known while this one is held. ``since_last``: the
    time since the last of them [ns]; null if there is none in ``within_ns``.
    """

    function: str
    query: str | None
    within_ns: int


class ResultRule(Struct, frozen=True):
    """``CHECK name (condition) HOLD hold_ns DROP``: results must satisfy ``condition``."""

    name: str
    condition: Predicate
    hold_ns: int
    drop: bool


class EmitLimit(Struct, frozen=True):
    """``EMIT AT MOST most EVERY every_ns BY key``: at most ``most`` results with the same ``key``
    end in any ``every_ns``; an empty key counts all results of the query.
    """

    most: int
    every_ns: int
    key: tuple[Expression, ...] = ()


class Checks(Struct, frozen=True):
    """The rules on one query's results, and the limit of their number.

    ``key``: results with the same values share one history; empty: all results of the query or, for
    windows, of a group. ``limit`` None: no limit.
    """

    rules: tuple[ResultRule, ...] = ()
    key: tuple[Expression, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    limit: EmitLimit | None = None


def checks_of(plan: Any) -> Checks | None:
    """Return the rules on the results of ``plan``; plans of a user's class may have none."""
    found: Checks | None = getattr(plan, "checks", None)
    return found if found is not None and (found.rules or found.key) else None


def lookups_of(plan: Any) -> tuple[TableLookup, ...]:
    """Return the table lookups of ``plan``; other operators, such as dataflows, have none."""
    found: tuple[TableLookup, ...] = getattr(plan, "lookups", ())
    return found


# The plan of a statement that reads the results of other statements.


class DerivedPlan(Struct, frozen=True):
    """``plan`` reads the results of ``sources``, named by ``CREATE STREAM``, and not the log.

    A source is another plan of the same run; it may be derived too.
    """

    plan: StatementPlan
    sources: tuple[Plan, ...]

    steps: ClassVar[tuple[Step, ...]] = ()
    branches: ClassVar[tuple[SeqPlan, ...]] = ()
    streams: ClassVar[tuple[str, ...]] = ()
    windows: ClassVar[tuple[WindowPlan, ...]] = ()
    realtime: ClassVar[None] = None

    @property
    def name(self) -> str:
        """The name of the statement."""
        return self.plan.name

    @property
    def text(self) -> str:
        """The text of the statement."""
        return self.plan.text

    @property
    def checks(self) -> Checks | None:
        """The checks of the statement."""
        return getattr(self.plan, "checks", None)

    @property
    def lookups(self) -> tuple[TableLookup, ...]:
        """The lookups of the sources; LOOKUP does not apply to results."""
        return tuple(each for source in self.sources for each in lookups_of(source))

    @property
    def result_kind(self) -> str:
        """The kind of the statement's results."""
        return self.plan.result_kind


def statement_plan(plan: Plan) -> StatementPlan:
    """Return the plan of the statement itself, without its sources."""
    return plan.plan if isinstance(plan, DerivedPlan) else plan


def of_log(plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """Return the plans that read the log."""
    return tuple(plan for plan in plans if not isinstance(plan, DerivedPlan))


# The plan of a query.


@dataclass(frozen=True, slots=True)
class Attribute:
    """``alias.name`` or, in a SELECT, ``name``. A record field (``ts``, ``source`` ...) takes
    precedence over an event's attribute of that name; ``attrs.ts`` is the attribute.
    """

    name: str
    alias: str | None = None
    at: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    """Position in the query text, for messages; None in a plan built in Python."""


class Constant(Struct, frozen=True):
    """A literal: int, float, str, bool. Durations such as ``5 s`` are ints of ns."""

    value: int | float | str | bool


class Arithmetic(Struct, frozen=True):
    """``op`` is one of ``+ - * / %`` (``/`` is true division; ``%`` has the sign of ``left``)."""

    op: str
    left: Expression
    right: Expression


class FunctionCall(Struct, frozen=True):
    """``function(arguments)``, a function of ``engine.query.values.FUNCTIONS``."""

    function: str
    arguments: tuple[Expression, ...]


class Case(Struct, frozen=True):
    """The value of the first true condition in ``whens``, else ``otherwise``; None is null."""

    whens: tuple[tuple[Predicate, Expression | None], ...]
    otherwise: Expression | None

    @property
    def values(self) -> tuple[Expression, ...]:
        """The values that are not null."""
        each = (*(then for _, then in self.whens), self.otherwise)
        return tuple(value for value in each if value is not None)


OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The negation of each comparison operator."""
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""Each comparison operator with its sides exchanged."""


class Comparison(Struct, frozen=True):
    """``op`` is one of ``= != < <= > >=``; unknown when a side is null."""

    op: str
    left: Expression
    right: Expression


class InWorkdays(Comparison, frozen=True):
    """Whether the time ``left`` is at most ``period`` workdays after the time ``right``."""

    left: Attribute
    right: Attribute
    period: Period


class InOneWindow(Comparison, frozen=True):
    """Whether one window of ``size_ns`` contains the times ``left`` and ``right``; a window begins
    at each multiple of ``every_ns``.
    """

    left: Attribute
    right: Attribute
    size_ns: int
    every_ns: int


class Membership(Struct, frozen=True):
    """``item IN (options)``; unknown when the item is null."""

    item: Expression
    options: tuple[Constant, ...]


class Presence(Struct, frozen=True):
    """``item IS NOT NULL``."""

    item: Expression


class Likeness(Struct, frozen=True):
    """``item LIKE pattern``; ``regular``: ``regexp_like(item, pattern)``. Unknown when the item is
    null.
    """

    item: Expression
    pattern: str
    regular: bool = False


class Logic(Struct, frozen=True):
    """``op`` is ``and`` | ``or`` (two or more terms) | ``not`` (one term); three-valued."""

    op: str
    terms: tuple[Predicate, ...]


Expression = Attribute | Constant | Arithmetic | FunctionCall | Case
Predicate = Comparison | Membership | Presence | Likeness | Logic


def combined(op: str, terms: Sequence[Predicate]) -> Predicate:
    """Join ``terms`` (at least one) by ``and`` or ``or``."""
    return terms[0] if len(terms) == 1 else Logic(op, tuple(terms))


def conjunction(terms: Sequence[Predicate]) -> Predicate | None:
    """Join ``terms`` by ``and``; None if there are none."""
    return combined("and", terms) if terms else None


class Step(Struct, frozen=True):
    """One step of a SEQ: an event of ``type`` named ``alias``.

    ``where`` names this alias only. ``type`` may be ``engine.core.timeline.ANY_TYPE``; ``types``
    then lists the possible types (``OR(A, B) x``). ``streams``: the possible streams. Empty: any.
    """

    alias: str
    type: str
    negated: bool = False
    where: Predicate | None = None
    streams: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The streams or types that the step names; empty: every event."""
        return self.streams or self.types or ((self.type,) if self.type != ANY_TYPE else ())


def streams_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the streams that ``steps`` name, in order."""
    return tuple(dict.fromkeys(name for step in steps for name in step.streams))


class Group(Struct, frozen=True):
    """``op`` SEQ: each part before the next; AND: the parts in any order.

    A part is a place in the plan's ``steps`` or a group. A group has at least two parts and none of
    its own ``op``. A negated step is a part of a SEQ, at either end only of the outermost. ``op``
    OR (any one part) occurs in ``OrPlan.pattern`` only.
    """

    op: str
    parts: tuple[Part, ...]


Part = int | Group


class Computed(Struct, frozen=True):
    """A value that RETURN computes from a match; ``label`` is the AS name or the text."""

    label: str
    expression: Expression


class PointRelation(Struct, frozen=True):
    """``left - right op bound_ns`` of two end points: ``ts`` or ``te`` of positive steps, on the
    engine's clock. ``op`` is one of ``< <= = >= >``.
    """

    left: Attribute
    op: str
    right: Attribute
    bound_ns: int = 0


class Scope(Struct, frozen=True):
    """The scope in which the negated ``step`` must not begin, for plans that list it explicitly.

    It lies strictly after the first of ``after`` begins (empty: from the last event - WITHIN) and
    strictly before all of ``before`` begin (empty: up to the first event + WITHIN, and strictly
    after all of ``after``). Both empty: any time. Entries are places in ``SeqPlan.steps``.
    """

    step: int
    after: tuple[int, ...]
    before: tuple[int, ...]


class SeqPlan(Struct, frozen=True):
    """``EVENT SEQ(...) WHERE ... WITHIN w``: strictly increasing event time, last - first <= w.

    ``workdays``: ``w`` in workdays; ``within_ns`` is then the longest time that they take.

    ``equalities``: groups of attributes that must be equal, at most one attribute per step each
    (they partition the state). ``others``: the other conjuncts over several steps. ``within_ns``
    None: no bound. ``returns`` and ``computed``: attributes and expressions of RETURN; if both are
    empty or ``everything`` (``*``) is set, results have all attributes. ``pattern``: the order of
    the steps in time; None: one SEQ of all (see ``engine.query.shape``). ``relations``: further
    constraints on end points. ``scopes``: of the negated steps; ``pattern`` then has the positive
    ones only. ``starts``, ``ends``: aliases of steps that half an interval can match, by its start
    or its end. ``joins``: the search order (``engine.query.joins``); empty: neighbours first.
    """

    name: str
    text: str
    steps: tuple[Step, ...]
    equalities: tuple[tuple[Attribute, ...], ...] = ()
    others: tuple[Predicate, ...] = ()
    within_ns: int | None = None
    workdays: Period | None = None
    returns: tuple[Attribute, ...] = ()
    realtime: int | None = None
    pattern: Group | None = None
    computed: tuple[Computed, ...] = ()
    relations: tuple[PointRelation, ...] = ()
    scopes: tuple[Scope, ...] = ()
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    joins: str = ""
    everything: bool = False
    checks: Checks | None = None
    lookups: tuple[TableLookup, ...] = ()

    result_kind: ClassVar[str] = "matches"
    windows: ClassVar[tuple[WindowPlan, ...]] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the steps name; empty: all."""
        return streams_of(self.steps)

    @property
    def alone(self) -> bool:
        """Whether each event is a match by itself."""
        return len(self.steps) == 1

    @property
    def needed_types(self) -> set[str]:
        """The types that every match contains."""
        return {step.type for step in self.steps if not step.negated}

    @property
    def branches(self) -> tuple[SeqPlan, ...]:
        """The plan itself, as the only branch."""
        return (self,)


class OrPlan(Struct, frozen=True):
    """A pattern with OR: its matches are those of all ``branches``.

    A branch takes one alternative of each OR. It has the name and text of the query, and the
    conjuncts of WHERE and entries of RETURN whose steps it has. A step of several branches is the
    same ``Step`` in each. ``steps``: the steps of all branches in written order; ``pattern``
    arranges them, with OR; ``conjuncts``, ``returns`` and ``computed`` belong to the whole query.
    """

    name: str
    text: str
    branches: tuple[SeqPlan, ...]
    realtime: int | None
    steps: tuple[Step, ...]
    pattern: Group
    conjuncts: tuple[Predicate, ...] = ()
    returns: tuple[Attribute, ...] = ()
    computed: tuple[Computed, ...] = ()
    checks: Checks | None = None
    lookups: tuple[TableLookup, ...] = ()

    result_kind: ClassVar[str] = "matches"
    windows: ClassVar[tuple[WindowPlan, ...]] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the steps name; empty: all."""
        return streams_of([step for branch in self.branches for step in branch.steps])


class IntervalLink(Struct, frozen=True):
    """The link between two parts of a tree: ``word`` is ``,`` or a relation of Z10.

    ``counts``: how many events on its left [contain, are finished by, meet, overlap, are started
    by] the event on its right (Z10 Eq 1); None: not given.
    """

    word: str
    counts: tuple[int, int, int, int, int] | None = None


class Tree(Struct, frozen=True):
    """A part of a pattern of intervals (Z10): ``op`` is SEQ | PAL | AND | OR; ``links[i]`` is
    between ``parts[i]`` and ``parts[i + 1]``. A part is a place among the steps, or a tree.
    """

    op: str
    parts: tuple[TreePart, ...]
    links: tuple[IntervalLink, ...]


TreePart = int | Tree


class TreePlan(OrPlan, frozen=True):
    """A pattern of intervals; ``tree`` is the pattern as written. Each of ``branches`` takes one
    alternative of each OR and expresses the tree by relations, conditions and scopes.
    """

    tree: Tree = Tree("SEQ", (), ())


class Drift(StrEnum):
    """How R19's three windows are used and emitted."""

    NONE = "none"
    """One plain window: ``value`` is the MIDDLE aggregate (low and high still reported)."""
    EACH = "each"
    """Each of the three is emitted when it closes."""
    TOGETHER = "together"
    """One result with the mean of the three when HIGH closes."""


class WindowKind(StrEnum):
    """What determines the bounds of windows."""

    TIME = "time"
    """Time: bounds are multiples of the slide."""
    SESSION = "session"
    """A gap between the events of a group."""
    ROWS = "rows"
    """The number of events of a group."""


class Aggregate(Struct, frozen=True):
    """``function`` is count | count_distinct | sum | avg | min | max | stddev | var | median |
    quantile | first | last | min_by | max_by, applied to ``argument`` (None: ``count(*)``); or
    ``COMPUTED``: ``argument`` is an expression over aggregates, named by their calls.

    ``label`` is the field's name in results: the AS name, or the text, e.g. ``avg(v)``,
    ``count(*)``, ``quantile(v, 0.9)``. ``parameter``: the q of quantile; ``by``: the value that
    ``min_by`` and ``max_by`` order by.
    """

    function: str
    argument: Expression | None
    label: str
    parameter: float | None = None
    by: Expression | None = None


class WindowPlan(Struct, frozen=True):
    """``SELECT ... FROM streams WHERE ... GROUP BY ... WINDOW TUMBLING size [DRIFT ...]``, or
    ``WINDOW SLIDING size EVERY every [DRIFT ...]``: windows [k * step, k * step + size).

    ``streams`` empty: every stream. ``every_ns`` None: tumbling. ``having``: a condition on the
    labels of aggregates; results whose ``value`` does not satisfy it are not emitted. ``ranking``:
    limits the groups of each window.

    ``period``: the calendar unit of calendar windows; ``size_ns`` is then the longest length.

    ``kind`` SESSION: ``WINDOW SESSION size``, a group's events less than ``size_ns`` apart, and the
    gap after them. ROWS: ``WINDOW ROWS rows [EVERY every_rows]``, a group's events in order of
    time, from number k * every_rows on; ``size_ns`` is 0.

    ``emit``: when results are emitted; ``early_ns``: period of ``EARLY``.

    ``hidden``: aggregates that are computed but not in the results, labelled by their calls;
    ``COMPUTED`` ones, ``having`` or ``ranking`` use them.

    For statements that read results, ``moved``: columns whose values shift with clock errors.
    ``varying``: columns whose values may differ with clock errors; windows with ``ambiguous``
    events have no bounds on aggregates of them. ``lacks``: no bounds on any, as results may be
    missing.
    """

    name: str
    text: str
    aggregates: tuple[Aggregate, ...]
    streams: tuple[str, ...]
    size_ns: int
    where: Predicate | None = None
    group_by: tuple[Attribute, ...] = ()
    drift: Drift = Drift.NONE
    every_ns: int | None = None
    having: Predicate | None = None
    kind: WindowKind = WindowKind.TIME
    rows: int = 0
    every_rows: int = 0
    ranking: Ranking | None = None
    emit: Emit = Emit.CLOSE
    early_ns: int = 0
    checks: Checks | None = None
    hidden: tuple[Aggregate, ...] = ()
    lookups: tuple[TableLookup, ...] = ()
    period: Period | None = None
    moved: frozenset[str] = frozenset()
    varying: frozenset[str] = frozenset()
    lacks: bool = False

    result_kind: ClassVar[str] = "windows"
    steps: ClassVar[tuple[Step, ...]] = ()
    branches: ClassVar[tuple[SeqPlan, ...]] = ()
    realtime: ClassVar[None] = None

    @property
    def worked_out(self) -> WindowPlan:
        """The plan with single aggregates only, including hidden ones, as operators compute
        them.
        """
        if not self.hidden and all(one.function != COMPUTED for one in self.aggregates):
            return self
        plain = tuple(one for one in self.aggregates if one.function != COMPUTED)
        return replace(self, aggregates=(*plain, *self.hidden), hidden=())

    @property
    def step_ns(self) -> int:
        """From one window start to the next [ns]; for calendar windows the shortest distance."""
        if self.period is not None:
            return period_lengths(self.period)[0]
        return self.size_ns if self.every_ns is None else self.every_ns

    @property
    def windows(self) -> tuple[WindowPlan, ...]:
        """The windows of a plan: itself."""
        return (self,)


StatementPlan = SeqPlan | OrPlan | WindowPlan | MonitorPlan
"""The plan of one statement."""
Plan = StatementPlan | DerivedPlan
"""A query. Only the language and the registry of operators check its class; other code uses
``result_kind`` (``engine.output.result_kinds``), ``windows`` (empty for a pattern), ``branches``
and ``steps`` (empty for a window) and ``streams`` (empty: all)."""


# The plan of a join: a pattern with alternatives for events without a partner.


_UNSAID: Final = SeqPlan("", "", ())


class JoinKind(StrEnum):
    """Which events of the two sides give a row without a partner."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    ANTI = "anti"
    """Only rows of left events without a partner."""


class JoinPlan(OrPlan, frozen=True):
    """``SELECT ... FROM a LEFT JOIN b ON a.id = b.id WITHIN d``: events of two streams whose times
    are at most ``d`` apart or, with ``window_ns``, lie in one window of that length; a window
    begins at each multiple of ``every_ns`` (None: of the length).

    One of the ``branches`` has the pairs. Each outer side adds a branch of its events without a
    partner; there the partner is a negated step. ``pair``: the branch of the pairs, also for ANTI,
    whose ``branches`` lack it; its steps are the two sides. ``on``: the condition of ON;
    ``conjuncts``: that of WHERE.
    """

    kind: JoinKind = JoinKind.INNER
    pair: SeqPlan = _UNSAID
    on: tuple[Predicate, ...] = ()
    window_ns: int | None = None
    every_ns: int | None = None
