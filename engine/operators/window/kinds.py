"""Which operator answers which kind of window: adding one is a folder and a line here."""

from __future__ import annotations

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.core.operator import Operator
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.operators.window.state.aggregate import NEEDS_ALL_VALUES
from slackwater.engine.query.plan import Emit, WindowKind, WindowPlan


def windows_of(
    plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
) -> Operator:
    """The operator of ``plan``. Of windows that slide it has panes if they overlap, no aggregate
    needs all values, and none emits before it closes.
    """
    # ruff: noqa: PLC0415 - a query has one kind, and the others are some fifty modules
    if plan.kind is WindowKind.SESSION:
        from slackwater.engine.operators.window.session.run import SessionWindows

        return SessionWindows(plan, settings, site)
    if plan.kind is WindowKind.ROWS:
        from slackwater.engine.operators.window.row_windows.run import CountedWindows

        return CountedWindows(plan, settings, site)
    alone = plan.every_ns is None or plan.every_ns == plan.size_ns
    early = plan.emit is not Emit.CLOSE  # a window of panes is made when it closes
    if (
        alone
        or early
        or any(one.function in NEEDS_ALL_VALUES for one in plan.worked_out.aggregates)
    ):
        from slackwater.engine.operators.window.time_windows import TimeWindows

        return TimeWindows(plan, settings, site)
    from slackwater.engine.operators.window.time_windows import PaneWindows

    return PaneWindows(plan, settings, site)
