"""The plans of queries: what the grammar makes and Python code may build directly."""

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
    """When windows emit results; the net results at the end are the same."""

    CLOSE = "close"
    """When the window closes."""
    EARLY = "early"
    """Also at every multiple of ``WindowPlan.early_ns`` of reference time until then, as far as it
    has changed."""
    CHANGE = "change"
    """At every event that changes it."""


# Names of aggregates, and the order of groups by them.


AGGREGATES: Final = (
    "count", "sum", "avg", "min", "max", "stddev", "var", "median", "quantile", "first", "last",
    "min_by", "max_by",
)  # fmt: skip
TAKES_TEXT: Final = frozenset({"count", "count_distinct", "first", "last", "min_by", "max_by"})
"""Aggregates whose argument may be text; what ``min_by`` and ``max_by`` go by may not."""
COMPUTED: Final = "computed"
"""In place of a function: arithmetic of aggregates, as in ``max(v) - min(v)``."""


class Ranking(Struct, frozen=True):
    """``ORDER BY label [DESC], ... LIMIT limit``: of each window the results of the first
    ``limit`` groups, by the aggregates of these ``labels``, the largest first where
    ``descending``. Null comes last; of equal ones the group with the smaller key comes first.
    """

    labels: tuple[str, ...]
    descending: tuple[bool, ...]
    limit: int


# Rules on a query's results, checked before they go out (Z10 5.1, 5.2).


DOUBTFUL: Final = "doubtful"
"""Field of a result that disagrees: the names of the rules."""
HISTORY: Final = "$history"
"""Alias of what is looked up: ``$history.0`` is the first of ``Checks.lookups``."""
RESULT: Final = "$result"
"""Alias of what is known of a result itself: the fields in ``RESULT_FIELDS``."""
APART: Final = frozenset({HISTORY, RESULT})
"""Aliases that are no steps."""
RESULT_FIELDS: Final = {
    "matches": ("probability",),
    "windows": ("missing", "certain", "ambiguous"),
}
"""By kind of results (``engine.output.result_kinds``)."""
PAST_COUNT, NEAR_COUNT, SINCE_LAST = "past_count", "near_count", "since_last"
LOOKUPS: Final = (PAST_COUNT, NEAR_COUNT, SINCE_LAST)


class Lookup(Struct, frozen=True):
    """What the history says of results of ``query`` (None: of the same one) with the same key.

    ``past_count``: how many were known in the ``within_ns`` before this one. ``near_count``: those,
    and what has become known since, while this one is held. ``since_last``: how long before this
    one the last of them was known [ns]; null if none was in the ``within_ns`` before.
    """

    function: str
    query: str | None
    within_ns: int


class ResultRule(Struct, frozen=True):
    """``CHECK name (condition) HOLD hold_ns DROP``: ``condition`` holds of a result that agrees
    with what is known.
    """

    name: str
    condition: Predicate
    hold_ns: int
    drop: bool


class EmitLimit(Struct, frozen=True):
    """``EMIT AT MOST most EVERY every_ns BY key``: of the results with the same values of ``key``
    that end in any ``every_ns``, so many are shown. Empty: of all of the query.
    """

    most: int
    every_ns: int
    key: tuple[Expression, ...] = ()


class Checks(Struct, frozen=True):
    """All rules on one query's results, and how many of them are shown at most.

    ``key``: results with the same values have one history; empty: all of the query, or, of windows,
    all of a group. ``limit``: None: all are shown.
    """

    rules: tuple[ResultRule, ...] = ()
    key: tuple[Expression, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    limit: EmitLimit | None = None


def checks_of(plan: Any) -> Checks | None:
    """The rules on the results of ``plan``; a plan of a user's own class may have none."""
    found: Checks | None = getattr(plan, "checks", None)
    return found if found is not None and (found.rules or found.key) else None


def lookups_of(plan: Any) -> tuple[TableLookup, ...]:
    """What ``plan`` looks up in tables; one that is no query, as a dataflow, has nothing."""
    found: tuple[TableLookup, ...] = getattr(plan, "lookups", ())
    return found


# The plan of a statement that reads the results of others.


class DerivedPlan(Struct, frozen=True):
    """``plan`` asked of the results of ``sources``, which ``CREATE STREAM`` has named.

    Of the log it reads nothing itself: no stream, no type, no attribute. A source is another plan
    of the same pass, perhaps a derived one, too.
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
        """Of the statement."""
        return self.plan.name

    @property
    def text(self) -> str:
        """As it was written."""
        return self.plan.text

    @property
    def checks(self) -> Checks | None:
        """As of the plan that it asks."""
        return getattr(self.plan, "checks", None)

    @property
    def lookups(self) -> tuple[TableLookup, ...]:
        """As of its sources: of results nothing is looked up."""
        return tuple(each for source in self.sources for each in lookups_of(source))

    @property
    def result_kind(self) -> str:
        """As of the plan that it asks."""
        return self.plan.result_kind


def statement_plan(plan: Plan) -> StatementPlan:
    """The plan of the statement itself, without its sources."""
    return plan.plan if isinstance(plan, DerivedPlan) else plan


def of_log(plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """Those of ``plans`` that read the log itself."""
    return tuple(plan for plan in plans if not isinstance(plan, DerivedPlan))


# The plan of a query: what the grammar makes and Python code may build directly.
#
# Plain frozen data without behaviour; operators read it, ``engine.query.expression`` evaluates
# its predicates on columns. Durations are int64 ns.


@dataclass(frozen=True, slots=True)
class Attribute:
    """``alias.name`` or, in a SELECT, ``name``. Record fields (``ts``, ``source`` ...) are names
    too and win over an event's own attribute of that name; ``attrs.ts`` means the attribute.
    """

    name: str
    alias: str | None = None
    at: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    """Where a query's text names it, for messages; None: in a plan from Python."""


class Constant(Struct, frozen=True):
    """A literal: int, float, str, bool. Durations such as ``5 s`` are ints of ns."""

    value: int | float | str | bool


class Arithmetic(Struct, frozen=True):
    """``op`` is one of ``+ - * / %`` (``/`` is true division; ``%`` has the sign of ``left``)."""

    op: str
    left: Expression
    right: Expression


class FunctionCall(Struct, frozen=True):
    """``function(arguments)``, of ``engine.query.values.FUNCTIONS``."""

    function: str
    arguments: tuple[Expression, ...]


class Case(Struct, frozen=True):
    """The value of the first of ``whens`` that is true, else ``otherwise``; None: null."""

    whens: tuple[tuple[Predicate, Expression | None], ...]
    otherwise: Expression | None

    @property
    def values(self) -> tuple[Expression, ...]:
        """Those that are not null."""
        each = (*(then for _, then in self.whens), self.otherwise)
        return tuple(value for value in each if value is not None)


OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""By comparison, the one that is true where it is false."""
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""By comparison, the one that says the same with its sides exchanged."""


class Comparison(Struct, frozen=True):
    """``op`` is one of ``= != < <= > >=``; unknown when a side is null."""

    op: str
    left: Expression
    right: Expression


class InWorkdays(Comparison, frozen=True):
    """That the time ``left`` is so many workdays after the time ``right`` at most."""

    left: Attribute
    right: Attribute
    period: Period


class InOneWindow(Comparison, frozen=True):
    """That some window of ``size_ns`` holds the times ``left`` and ``right``; one begins at each
    multiple of ``every_ns``.
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
    """``op`` is ``and`` | ``or`` (two or more terms) | ``not`` (one term), of three values."""

    op: str
    terms: tuple[Predicate, ...]


Expression = Attribute | Constant | Arithmetic | FunctionCall | Case
Predicate = Comparison | Membership | Presence | Likeness | Logic


def combined(op: str, terms: Sequence[Predicate]) -> Predicate:
    """``terms``, of which there is one at least, joined by ``and`` or ``or``."""
    return terms[0] if len(terms) == 1 else Logic(op, tuple(terms))


def conjunction(terms: Sequence[Predicate]) -> Predicate | None:
    """All of ``terms``; None if there are none."""
    return combined("and", terms) if terms else None


class Step(Struct, frozen=True):
    """One step of a SEQ: an event of ``type`` named ``alias``; ``where`` uses this alias alone.
    ``type`` may be ``engine.core.timeline.ANY_TYPE``. ``streams``: those that it may be of; empty:
    any. ``types``: the types that it may be of, if ``type`` says none (``OR(A, B) x``); empty: any.
    """

    alias: str
    type: str
    negated: bool = False
    where: Predicate | None = None
    streams: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The streams or the types that it names; none: every event."""
        return self.streams or self.types or ((self.type,) if self.type != ANY_TYPE else ())


def streams_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Those that ``steps`` must be of, in order."""
    return tuple(dict.fromkeys(name for step in steps for name in step.streams))


class Group(Struct, frozen=True):
    """``op`` SEQ: all of one part before all of the next; AND: its parts in any order.

    A part is a place in the plan's ``steps`` or a group. No group has one part alone or a part of
    its own ``op``. A negated step is a part of a SEQ; at an end only of the outermost. ``op`` OR
    (one of the parts) stands in ``OrPlan.pattern`` alone.
    """

    op: str
    parts: tuple[Part, ...]


Part = int | Group


class Computed(Struct, frozen=True):
    """One value that RETURN asks of a match: ``label`` is its AS name, or the text."""

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
    """Where the negated ``step`` must not begin, in a plan that says so itself.

    Strictly after the first of ``after`` begins (none: from the last event - WITHIN on) and
    strictly before all of ``before`` begin (none: up to the first event + WITHIN, and strictly
    after all of ``after``); neither: at any time. All are places in ``SeqPlan.steps``.
    """

    step: int
    after: tuple[int, ...]
    before: tuple[int, ...]


class SeqPlan(Struct, frozen=True):
    """``EVENT SEQ(...) WHERE ... WITHIN w``: strictly increasing event time, last - first <= w.

    ``workdays``: what ``w`` is if it counts them; ``within_ns`` is then the most that they last.

    ``equalities``: groups of attributes that must be equal, one tuple per group, each naming at
    most one attribute per step (they partition the state). ``others``: the remaining conjuncts
    that join several steps. ``within_ns`` None: no bound. ``returns`` and ``computed``: attributes
    and expressions selected by RETURN; both empty = everything, and so is ``everything`` (``*``).
    ``pattern``: how the steps, which stand in written order, are ordered in time; None = one SEQ of
    them all (``engine.query.shape`` says what follows of it). ``relations``: must hold besides.
    ``scopes``: of the negated steps; then ``pattern`` has the others alone. ``starts``, ``ends``:
    aliases of steps for which half an interval is enough, its start or its end. ``joins``: in which
    order steps are found (``engine.query.joins``); empty: neighbours first.
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
        """Those that its steps must be of; none: all."""
        return streams_of(self.steps)

    @property
    def alone(self) -> bool:
        """Whether each event is a match by itself, whatever else happens."""
        return len(self.steps) == 1

    @property
    def needed_types(self) -> set[str]:
        """Without an event of each there is no match."""
        return {step.type for step in self.steps if not step.negated}

    @property
    def branches(self) -> tuple[SeqPlan, ...]:
        """As of a plan with OR."""
        return (self,)


class OrPlan(Struct, frozen=True):
    """A pattern with OR: its matches are those of all ``branches``.

    A branch takes one alternative of each OR; it has the whole query's name and text, and those
    conjuncts of the WHERE and entries of RETURN whose steps it has. A step of several branches is
    the same ``Step`` in each. ``steps``: of all branches, in written order; ``pattern`` places
    them, with OR; ``conjuncts``, ``returns`` and ``computed`` are the whole query's.
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
        """As of a plan without OR."""
        return streams_of([step for branch in self.branches for step in branch.steps])


class IntervalLink(Struct, frozen=True):
    """Between two parts of a tree: ``word`` is ``,`` or a relation of Z10; ``counts``: how many
    events on its left [contain, are finished by, meet, overlap, are started by] the one on its
    right (Z10 Eq 1); None: not said.
    """

    word: str
    counts: tuple[int, int, int, int, int] | None = None


class Tree(Struct, frozen=True):
    """A part of a pattern of intervals (Z10): ``op`` is SEQ | PAL | AND | OR, ``links[i]`` stands
    between ``parts[i]`` and ``parts[i + 1]``. A part is a place among the steps, or a tree.
    """

    op: str
    parts: tuple[TreePart, ...]
    links: tuple[IntervalLink, ...]


TreePart = int | Tree


class TreePlan(OrPlan, frozen=True):
    """A pattern of intervals, ``tree`` as written. Each of its ``branches`` takes one alternative
    of each OR, and says in relations, conditions and scopes what the tree means.
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
    """What borders of windows go by."""

    TIME = "time"
    """The clock: they lie at multiples of the slide."""
    SESSION = "session"
    """Silence of a group."""
    ROWS = "rows"
    """The number of a group's events."""


class Aggregate(Struct, frozen=True):
    """``function`` is count | count_distinct | sum | avg | min | max | stddev | var | median |
    quantile | first | last | min_by | max_by; of ``argument``, which is None for ``count(*)``;
    or ``COMPUTED``: ``argument`` is made of aggregates, named by their calls.
    ``label`` is the field's name in results: the AS name, or the text, e.g. ``avg(v)``,
    ``count(*)``, ``quantile(v, 0.9)``. ``parameter`` is quantile's q, ``by`` what ``min_by`` and
    ``max_by`` look for the least and largest of.
    """

    function: str
    argument: Expression | None
    label: str
    parameter: float | None = None
    by: Expression | None = None


class WindowPlan(Struct, frozen=True):
    """``SELECT ... FROM streams WHERE ... GROUP BY ... WINDOW TUMBLING size [DRIFT ...]``, or
    ``WINDOW SLIDING size EVERY every [DRIFT ...]``: windows [k * step, k * step + size).

    ``streams`` empty = every stream. ``every_ns`` None: tumbling. ``having``: names aggregates by
    their labels; a result whose ``value`` does not satisfy it is not shown. ``ranking``: which of
    a window's groups are shown.

    ``period``: of a calendar's windows; ``size_ns`` is the longest one's length.

    ``kind`` SESSION: ``WINDOW SESSION size``, a group's events less than ``size_ns`` apart, and the
    silence behind them. ROWS: ``WINDOW ROWS rows [EVERY every_rows]``, a group's events in order of
    time, from number k * every_rows on; ``size_ns`` is 0.

    ``emit``: when results are emitted; ``early_ns``: period of ``EARLY``.

    ``hidden``: aggregates that are not in results, labelled by their calls: others are ``COMPUTED``
    of them, or ``having`` and ``ranking`` name them.

    ``moved``: columns of the results that are read whose values clocks' errors move. ``varying``:
    those whose values may be others where clocks err: windows with ``ambiguous`` events have no
    bounds of what is made of them. ``lacks``: nor of anything, as results may be hidden.
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
        """The same of single aggregates, those that are hidden too: what operators work out."""
        if not self.hidden and all(one.function != COMPUTED for one in self.aggregates):
            return self
        plain = tuple(one for one in self.aggregates if one.function != COMPUTED)
        return replace(self, aggregates=(*plain, *self.hidden), hidden=())

    @property
    def step_ns(self) -> int:
        """From one window's start to the next one's; of a calendar's windows the least."""
        if self.period is not None:
            return period_lengths(self.period)[0]
        return self.size_ns if self.every_ns is None else self.every_ns

    @property
    def windows(self) -> tuple[WindowPlan, ...]:
        """The windows of a plan: itself."""
        return (self,)


StatementPlan = SeqPlan | OrPlan | WindowPlan | MonitorPlan
"""What one statement asks, whatever it reads."""
Plan = StatementPlan | DerivedPlan
"""A query; only the language and the registry of operators look at its class:
``result_kind`` (``engine.output.result_kinds``), ``windows`` (none of a pattern), ``branches`` and
``steps`` (none of a window), ``streams`` (none: all)."""


# The plan of a join: a pattern with an alternative for what has no partner.


_UNSAID: Final = SeqPlan("", "", ())


class JoinKind(StrEnum):
    """Which events of a join's two sides give a row though they have no partner."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    ANTI = "anti"
    """Those of the left side, and they alone."""


class JoinPlan(OrPlan, frozen=True):
    """``SELECT ... FROM a LEFT JOIN b ON a.id = b.id WITHIN d``: two streams' events whose times
    are at most ``d`` apart, or (``window_ns``) that some window of that length holds; one begins at
    each multiple of ``every_ns`` (None: of its length).

    Of its ``branches`` one has the pairs, and one for each side that is kept has its events without
    a partner: there the partner is a negated step. ``pair``: the branch of the pairs, which ANTI
    does not ask for; its steps are the two sides. ``on`` is the condition, ``conjuncts`` what WHERE
    asks besides.
    """

    kind: JoinKind = JoinKind.INNER
    pair: SeqPlan = _UNSAID
    on: tuple[Predicate, ...] = ()
    window_ns: int | None = None
    every_ns: int | None = None
