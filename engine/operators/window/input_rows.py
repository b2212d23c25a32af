"""Input of the pass: the selected rows of a batch, their keys and their arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.clocks.epochs import CLOCK_STATUS
from slackwater.engine.core.columns import varying
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import LATE, Released
from slackwater.engine.core.timeline import CHANCE, ends_of
from slackwater.engine.operators.window.assign import Rows, widest_of
from slackwater.engine.operators.window.keys import GroupKeys
from slackwater.engine.operators.window.settings import DOUBTED, LIKELY, SURE, UNLIKELY
from slackwater.engine.operators.window.state.accumulate import NUMBERS_ALONE, TEXTS, UNTYPED
from slackwater.engine.operators.window.uncertainty.bounds import SelectedRows, select_rows
from slackwater.engine.operators.window.uncertainty.missing import LateRows
from slackwater.engine.query.expression import View, may_be, released_mask, view_value
from slackwater.engine.query.plan import Expression, Predicate, WindowKind, WindowPlan
from slackwater.engine.query.render import render_expression

FIXED_COLUMNS: Final = frozenset(
    {"ref", "unc", "epoch", "release", "status", "source", "clock", "stream", "seq"}
)


def stream_codes(plan: WindowPlan, released: Released) -> np.ndarray | None:
    """Return the codes of the streams that ``plan`` reads; None: all streams."""
    if not plan.streams:
        return None
    return np.array([released.strings.find(name) for name in plan.streams], np.int32)


def rows_of(
    plan: WindowPlan, keys: GroupKeys, released: Released, codes: np.ndarray | None
) -> Rows:
    """Return the rows of ``released``; ``codes``: see ``stream_codes``."""
    columns = released.columns
    selected = np.empty(0, np.bool_)
    if codes is not None:
        selected = np.isin(columns["stream"], codes)
    perhaps, reach, widest = None, columns["unc"], UNC_MAX_NS
    if plan.kind is WindowKind.TIME:
        widest = widest_of(plan.size_ns, plan.step_ns)
    if plan.where is not None:
        perhaps = select_rows(plan.where, released, widest)
        if CHANCE in columns:
            perhaps = _with_values(plan.where, perhaps, released, widest)
        mine = released_mask(plan.where, released) if perhaps is None else perhaps.taken
        selected = selected & mine if len(selected) else mine
    perhaps = _with_doubts(perhaps, released, widest)
    if perhaps is not None:
        reach = np.where(perhaps.how == SURE, reach, np.maximum(reach, plan.size_ns + 1))
    codes_of_keys, nulls = keys.codes(released)
    # The kernel needs writable arrays; arrays of a frame may be read-only.
    names = ("unc", "epoch", "release", "status", "clock")
    read = {name: np.require(columns[name], None, ["C", "W"]) for name in names}
    read["ref"] = ends_of(released)  # an interval counts at its end
    exact = np.empty(0, np.int64)
    return Rows(
        **read, selected=selected, keys=codes_of_keys, nulls=nulls, reach=reach,
        how=np.empty(0, np.int8) if perhaps is None else perhaps.how,
        low=exact if perhaps is None else perhaps.low,
        high=exact if perhaps is None else perhaps.high,
        clocks=columns.get(CLOCK_STATUS, np.empty(0, np.int8)).astype(np.int8),
    )  # fmt: skip


def late_rows(released: Released) -> LateRows:
    """Return the late rows of ``released``."""
    columns, row = released.columns, np.flatnonzero(released.columns["status"] >= LATE)
    first_start = np.zeros(released.n, np.int64)
    ref, unc = ends_of(released)[row], columns["unc"][row]
    return LateRows(
        row, columns["source"][row], columns["stream"][row],
        columns.get("incarnation", first_start)[row], columns["seq"][row], ref - unc, ref + unc,
    )  # fmt: skip


def _with_values(
    where: Predicate, perhaps: SelectedRows | None, released: Released, unc_max: int
) -> SelectedRows | None:
    """Return ``perhaps``, with results whose values may differ by clock errors as uncertain.

    These may satisfy WHERE or not.
    """
    if not varying(released.columns, released.n).any():
        return perhaps
    view = View.of(released.columns, released.attr_types, released.strings)
    true, false = (may_be(where, view, released.n, truth=truth) for truth in (True, False))
    if perhaps is None:
        perhaps = _all_sure(released, released_mask(where, released), unc_max)
    how = np.where(perhaps.taken, LIKELY, UNLIKELY)
    how = np.where(true & false & (perhaps.how == SURE), how, perhaps.how).astype(np.int8)
    return replace(perhaps, taken=perhaps.taken | true, how=how)


def _all_sure(released: Released, taken: np.ndarray, unc_max: int) -> SelectedRows:
    ref, unc = ends_of(released), np.minimum(released.columns["unc"], unc_max)
    return SelectedRows(taken, np.zeros(released.n, np.int8), ref - unc, ref + unc)


def _with_doubts(
    perhaps: SelectedRows | None, released: Released, unc_max: int
) -> SelectedRows | None:
    """Return ``perhaps``, with uncertain results of other statements as doubted."""
    chance = released.columns.get(CHANCE)
    doubted = None if chance is None else chance != 1
    if doubted is None or not doubted.any():
        return perhaps
    if perhaps is None:
        perhaps = _all_sure(released, np.ones(released.n, np.bool_), unc_max)
    how = np.where(doubted & (perhaps.how == SURE), DOUBTED, perhaps.how).astype(np.int8)
    return replace(perhaps, how=how)


def argument_values(
    plan: WindowPlan, arguments: dict[Expression, bool], of: np.ndarray, released: Released
) -> list[tuple[np.ndarray, np.ndarray | None] | None]:
    """Return (values, valid mask) of each of ``arguments``, with whether they may be text.

    ``of``: see ``Sums``; the types of arguments are stored in it.

    Raises:
        UserError: an argument is text but must not be, or has changed its type.
    """
    view = View.of(released.columns, released.attr_types, released.strings)
    found: list[tuple[np.ndarray, np.ndarray | None] | None] = []
    for m, (argument, may_be_text) in enumerate(arguments.items()):
        value = view_value(argument, view)
        if value.kind == "str" and not may_be_text:
            raise UserError(
                f"query {plan.name!r}: attribute {render_expression(argument)!r} is text, and "
                "count, first, last, min_by and max_by alone take text; leave it out of the others"
            )
        if value.kind != "null":
            typed = TEXTS if value.kind == "str" else NUMBERS_ALONE
            if of["typed"][m] not in (UNTYPED, typed):
                was, now = ("text", "a number") if typed == NUMBERS_ALONE else ("a number", "text")
                raise UserError(
                    f"query {plan.name!r}: attribute {render_expression(argument)!r} was {was} "
                    f"before and is {now} now; send one type, or leave it out"
                )
            of["typed"][m] = typed
        found.append(None if value.kind == "null" else (value.data, value.valid))
    return found


def no_rows(columns: int) -> Rows:
    """Return an empty batch whose keys have ``columns`` columns."""
    none, small = np.empty(0, np.int64), np.empty(0, np.int8)
    return Rows(
        ref=none, unc=none, epoch=none, release=none, status=small, clock=np.empty(0, np.int32),
        selected=np.empty(0, np.bool_),
        keys=np.zeros((0, columns), np.int64), nulls=none, how=small, low=none, high=none,
        reach=none, clocks=small,
    )  # fmt: skip
