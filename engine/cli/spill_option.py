"""``--spill``: whether old events of patterns leave memory, and where they go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from engine.errors import UserError
from engine.pattern.spill_settings import SpillSettings, parse_spill
from engine.query.plan import Plan, TumblingPlan
from engine.query.purge_settings import PurgeSettings

Spill = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Old events of patterns go to files: "
        "FOLDER[,hot=..,chunk=..,parts=..,pending=..,wait=..]; on Spark state[,..].",
    ),
]


def read_spill(
    text: str | None, time_unit: str, plans: Iterable[Plan], purge: PurgeSettings, *, on_spark: bool
) -> SpillSettings | None:
    """The settings of ``--spill``, if it is given.

    Raises:
        UserError: a folder on Spark, none without it, or one with files in it; a query that cannot
            spill so; as ``parse_spill``.
    """
    if text is None:
        return None
    from engine.pattern.spill_bounds import spill_bounds  # noqa: PLC0415 - for few runs

    spill = parse_spill(text, time_unit)
    if purge.name != "late":
        raise UserError("--spill goes with --purge late[:D] alone; leave out the other")
    if on_spark and spill.folder is not None:
        raise UserError(
            f"{spill.folder}: on Spark the chunks are in its state store; write --spill state, "
            "or leave out --spark"
        )
    if not on_spark and spill.folder is None:
        raise UserError("--spill state is Spark's; name a folder, or add --spark")
    if spill.folder is not None and spill.folder.is_file():
        raise UserError(f"{spill.folder}: is a file; give --spill a folder")
    if spill.folder is not None and any(path.is_file() for path in spill.folder.rglob("*")):
        raise UserError(f"{spill.folder}: has files in it; give --spill an empty or new folder")
    for plan in plans:
        if isinstance(plan, TumblingPlan):
            raise UserError(f"query {plan.name!r}: --spill is for patterns; windows keep no events")
        spill_bounds(plan, spill)
    return spill
