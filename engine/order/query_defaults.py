"""Defaults of ``aq-kslack`` and ``ldop`` that come from the queries which read their order.

``aq-kslack`` measures how much of a window was there in time, and allows an error to its result
(R19 2.3.3): the query says which window and which aggregate. Patterns and joins have neither (R19
Table 2.2), so they are refused. ``ldop`` waits for ``|w|`` (R19 Eq 2.5): a pattern's WITHIN or a
window's size, of several queries the largest. Both judge disorder by the events that the queries
read: of a pattern those of its types, of a window or join those of its streams (R19 2.3.4: "filters
out those event instances whose event types do not appear"). A WHERE is not looked at.

Without queries (``slackwater order``, ``compare``) a window is 1 s, its aggregate is the count, and
every event is measured.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.columns import Columns
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import Strings
from slackwater.engine.query.fields import own_attribute
from slackwater.engine.query.plan import Attribute, Plan, WindowKind

AGGREGATES: Final = {"count": 0, "sum": 1, "avg": 2}
"""Aggregates whose error ``aq-kslack`` can bound, and their numbers in kernels."""
WINDOW_NS: Final = 1_000_000_000
"""The window without queries."""
_EVERY: Final = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Reads:
    """Which events the queries read: those of ``types`` or of ``streams``; None: every one."""

    types: frozenset[str] | None = None
    streams: frozenset[str] | None = None

    def rows(self, columns: Columns, start: int, end: int, strings: Strings) -> np.ndarray:
        """Whether each of the rows [start, end) is read; empty where every one is."""
        if self.types is None or self.streams is None:
            return _EVERY
        found = np.zeros(end - start, np.bool_)
        for names, column, default in (
            (self.types, r.TYPE, None),
            (self.streams, r.STREAM, r.DEFAULT_STREAM),
        ):
            if column in columns:
                codes = [strings.find(name) for name in names]
                found |= np.isin(columns[column][start:end], codes)
            elif default in names:
                found[:] = True
        return found


@dataclass(frozen=True, slots=True)
class Window:
    """The window whose error is bounded: ``agg`` (one of ``AGGREGATES``) of attribute ``attr``."""

    size_ns: int
    agg: str
    attr: str | None


def reads_of(plans: Sequence[Plan]) -> Reads:
    """Which events ``plans`` read."""
    types: set[str] = set()
    streams: set[str] = set()
    for plan in plans:
        if (plan.windows and not plan.streams) or not all(step.reads for step in plan.steps):
            return Reads()
        streams.update(plan.streams)
        types.update(name for step in plan.steps if not step.streams for name in step.reads)
    return Reads(frozenset(types), frozenset(streams)) if plans else Reads()


def longest_window(plans: Sequence[Plan], given_ns: int | None) -> int:
    """``|w|`` of ``ldop`` [ns].

    Args:
        plans: the queries.
        given_ns: the size in the short form; None: it has none.

    Raises:
        UserError: the short form has no size, and a pattern has no WITHIN.
    """
    if given_ns is not None or not plans:
        return WINDOW_NS if given_ns is None else given_ns
    return max(map(_span, plans))


def _span(plan: Plan) -> int:
    spans = [window.size_ns for window in plan.windows if window.kind is not WindowKind.ROWS]
    spans += [each.within_ns for each in plan.branches if each.within_ns is not None]
    spans += [WINDOW_NS for each in plan.branches if each.within_ns is None and each.alone]
    if len(spans) < len(plan.windows) + len(plan.branches):
        what = "the pattern" if plan.branches else "a window of"
        lacks = "it has no WITHIN: give it one, or" if plan.branches else "ROWS have no length:"
        raise UserError(
            f"order ldop waits as long as {what} {plan.name} may last, but {lacks} say "
            "ldop:window=1s"
        )
    return max(spans)


def window_of(
    plans: Sequence[Plan], size_ns: int | None, agg: str | None, attr: str | None
) -> Window:
    """The window that ``aq-kslack`` measures.

    Args:
        plans: the queries.
        size_ns: the size in the short form; None: it has none.
        agg: its aggregate, likewise.
        attr: its attribute, likewise.

    Raises:
        UserError: one of the queries is a pattern; or the short form leaves out what the queries
            do not decide: they have several windows or aggregates, or one without an error model.
    """
    for plan in plans:
        if plan.branches:
            raise UserError(
                f"order aq-kslack allows an error to a window's count, sum or avg, and {plan.name} "
                "is a pattern, which has none: take sequence, kslack:2s or ldop, or ask for the "
                "pattern in a call of its own"
            )
    windows = [window for plan in plans for window in plan.windows]
    not_timed = [
        window.name for window in windows
        if window.kind is not WindowKind.TIME or window.period is not None
    ]  # fmt: skip
    if size_ns is None and not_timed:
        raise UserError(
            f"order aq-kslack measures windows of one size, and those of {not_timed[0]} have none: "
            "say which counts, as in window=10s"
        )
    if agg is None:
        agg, attr = _aggregate(plans)
    sizes = {window.size_ns for plan in plans for window in plan.windows}
    if size_ns is None and len(sizes) > 1:
        raise UserError(
            "order aq-kslack measures windows of one size, and the queries have several: say "
            "which counts, as in window=10s"
        )
    if size_ns is None:
        size_ns = sizes.pop() if sizes else WINDOW_NS
    return Window(size_ns, agg, attr)


def _aggregate(plans: Sequence[Plan]) -> tuple[str, str | None]:
    """The aggregate of the queries; a sum represents its count too, whose error is not larger."""
    windows = [window for plan in plans for window in plan.windows]
    aggregates = [each for window in windows for each in window.worked_out.aggregates]
    found: set[tuple[str, str | None]] = set()
    for each in aggregates:
        of = each.argument
        attribute = own_attribute(of.name) if isinstance(of, Attribute) else None
        if each.function not in AGGREGATES or (of is not None and attribute is None):
            raise _unknown(f"{each.label}, of which no error is known (it is of count, sum and avg "
                           "of attributes)")  # fmt: skip
        found.add((each.function, attribute))
    if any(function == "sum" for function, _ in found):
        found.discard(("count", None))
    if len(found) > 1:
        raise _unknown(_listed(sorted({each.label for each in aggregates})))
    return found.pop() if found else ("count", None)


def _listed(labels: Collection[str]) -> str:
    return "several aggregates (" + ", ".join(labels) + ")"


def _unknown(what: str) -> UserError:
    return UserError(
        f"order aq-kslack: the queries ask for {what}; say whose error counts, as in agg=count or "
        "agg=avg,attr=NAME"
    )


def check_order_attributes(attributes: Mapping[str, bool], known: Mapping[str, str]) -> None:
    """Check the attributes that an ordering operator reads.

    Args:
        attributes: by name whether it must be a number.
        known: the attributes of the log, and their types (``int float bool str``).

    Raises:
        UserError: an attribute is unknown or not a number; the message lists the known ones.
    """
    numbers = sorted(name for name, kind in known.items() if kind in ("int", "float"))
    there = f"those with numbers are {', '.join(numbers)}" if numbers else "none has numbers"
    for name in sorted(attributes):
        if name not in known:
            raise UserError(f"order: no event has an attribute {name!r}; {there}")
        if attributes[name] and name not in numbers:
            raise UserError(f"order: attribute {name!r} is {known[name]}, not a number; {there}")
