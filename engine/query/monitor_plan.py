"""The plan of a pattern under a constraint: its regular expression and its settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.engine.core.units import Period
    from slackwater.engine.query.plan import Attribute, OrPlan, Predicate, SeqPlan, Step, WindowPlan
    from slackwater.engine.query.reference_tables import TableLookup


# A constraint on traces: a regular expression over events (L10 3.2.1).


class Occurrence(Struct, frozen=True):
    """One event of ``type`` for which ``where`` is true (None: any)."""

    type: str
    where: Predicate | None = None


class RegularGroup(Struct, frozen=True):
    """``op`` of ``parts``: ``,``: one after the other (no parts: no events); ``|``: one of them;
    ``&``: all of them, with events interleaved in any way that keeps the order within each part.
    """

    op: str
    parts: tuple[Regular, ...]


class Repetition(Struct, frozen=True):
    """``* + ? {m,n}``: ``part`` from ``least`` to ``most`` times (None: unbounded)."""

    part: Regular
    least: int
    most: int | None


Regular = Occurrence | RegularGroup | Repetition


def occurrences(expression: Regular) -> Iterator[Occurrence]:
    """Yield every event that ``expression`` names, in written order."""
    match expression:
        case Occurrence():
            yield expression
        case Repetition(part=part):
            yield from occurrences(part)
        case _:
            for part in expression.parts:
                yield from occurrences(part)


# The plan of a pattern under a constraint.


class MonitorPlan(Struct, frozen=True):
    """``EVENT pattern UNDER CONSTRAINT constraint FOR TRACE BY trace ... AS expression``.

    A trace consists of the events with one value of ``trace``. As every trace satisfies
    ``expression``, it can be known before ``pattern`` is complete that it will match, or never will
    (SPEC 4.6). A trace ends after ``timeout_ns`` or ``workdays`` without events; None: never.
    """

    name: str
    text: str
    pattern: SeqPlan | OrPlan
    constraint: str
    trace: Attribute
    expression: Regular
    timeout_ns: int | None = None
    workdays: Period | None = None
    lookups: tuple[TableLookup, ...] = ()

    result_kind: ClassVar[str] = "alerts"
    steps: ClassVar[tuple[Step, ...]] = ()
    branches: ClassVar[tuple[SeqPlan, ...]] = ()
    streams: ClassVar[tuple[str, ...]] = ()
    windows: ClassVar[tuple[WindowPlan, ...]] = ()
    realtime: ClassVar[None] = None

    @property
    def by_types(self) -> bool:
        """Whether types and conditions on single events decide that there is a match.

        Otherwise they decide only that there is none: WITHIN or a condition between steps may fail.
        """
        return all(
            branch.within_ns is None
            and not branch.others
            and not branch.relations
            and all(
                {each.name for each in group} == {self.trace.name} for group in branch.equalities
            )
            for branch in self.pattern.branches
        )


def monitored_plans(plans: Iterable[object]) -> list[MonitorPlan]:
    """Return the plans of patterns under a constraint."""
    return [plan for plan in plans if isinstance(plan, MonitorPlan)]


# Settings of monitored patterns, and their short form ``horizon=10s``.


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """Settings of traces.

    ``horizon_ns``: events of the last ``horizon_ns`` are kept, so that a late event corrects its
    trace; None: events count in the order of their release.
    """

    horizon_ns: int | None = None


def parse_horizon(text: str, time_unit: str, what: str) -> int:
    """Return the duration of ``horizon=D`` [ns]; ``what``: the name of the setting, for messages.

    Raises:
        UserError: the text has another form.
    """
    name, equals, span = (part.strip() for part in text.partition("="))
    if name != "horizon" or not equals:
        raise UserError(f"{what} {text[:40]!r} is unknown; use horizon=DURATION, as in horizon=10m")
    return parse_span(span, time_unit, f"{what} {text[:40]!r}")


def read_monitor(text: str | None, time_unit: str, plans: Iterable[object]) -> MonitorSettings:
    """Return the settings of ``--monitor``; by default the default settings.

    >>> read_monitor(None, "s", [])
    MonitorSettings(horizon_ns=None)

    Raises:
        UserError: no query is under a constraint; as ``parse_horizon``.
    """
    if text is None:
        return MonitorSettings()
    if not monitored_plans(plans):
        raise UserError("--monitor is for patterns UNDER CONSTRAINT; no query has one")
    return MonitorSettings(parse_horizon(text, time_unit, "monitor"))
