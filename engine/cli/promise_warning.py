"""Says before a run which queries could only wait for the end of the input, and what helps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.barrier.registry import BarrierSettings
from engine.cli.visible import tell
from engine.order.registry import OrderSettings
from engine.query.plan import Plan
from engine.unpromised import never_promised


def warn_unpromised(
    log: Path,
    plans: Iterable[Plan],
    order: OrderSettings,
    barrier: BarrierSettings | None,
    where: str = "",
) -> None:
    """A line on standard error for each such query; ``where`` begins it."""
    for name, types in never_promised(log, plans, order, barrier).items():
        tell(
            f"warning: {where}{name}: nothing in the input promises {' or '.join(types)} (kind "
            "pog), so matches wait until its sources end or the input does; take an order such as "
            "sequence, or a barrier such as bounded:1s or hold:1s\n"
        )
