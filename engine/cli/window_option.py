"""``--window``: how long windows are corrected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from engine.errors import UserError
from engine.query.plan import Plan, TumblingPlan
from engine.window.settings import WindowSettings, parse_window

WindowText = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="WINDOW",
        help="How long after its end a window is corrected: horizon=10m. Default: 60 s, or its "
        "size if that is longer.",
    ),
]


def read_window(text: str | None, time_unit: str, plans: Iterable[Plan]) -> WindowSettings:
    """The settings of ``--window``; those by default if it is not given.

    Raises:
        UserError: no query has windows; as ``parse_window``.
    """
    if text is None:
        return WindowSettings()
    if not any(isinstance(plan, TumblingPlan) for plan in plans):
        raise UserError("--window is for SELECT ... WINDOW; a pattern's is --purge late:D")
    return parse_window(text, time_unit)
