"""Grids of passes over shares out of order, and the settings in which a verdict holds.

Z10 prints no rate, no K, no length of events and no number of each; so each verdict that does not
depend on the machine is repeated with other settings, and the outcome is printed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.paper import PaperRun
from slackwater.scenarios.papers.z10.methods import (
    MOST,
    MethodRun,
    MethodSetup,
    counted_passes,
    timed,
)
from slackwater.scenarios.papers.z10.workload import WITHIN_NS, WorkloadShape

SHARES: Final = (0.0, 0.09, 0.18, 0.27, 0.36, MOST)
"""Z10 6.2: from 0 to 45 %."""
COUNT: Final = 20_000
POINTS: Final = WorkloadShape(COUNT)
DURABLE: Final = WorkloadShape(COUNT, mean_ns=WITHIN_NS // 20)
_OF_RANGES: Final = 6_000
_FEW: Final = (0.0, 0.18, MOST)
_DELAYS: Final = (20, 4, 2)
_DENSITIES: Final = (20, 40, 80)
_MEANS: Final = (50, 20, 5)
Grid = Mapping[str, Sequence[MethodRun]]
"""By method, a pass for each share."""
Judge = Callable[[PaperRun, WorkloadShape, Sequence[float]], bool]


def grid(
    run: PaperRun,
    shape: WorkloadShape,
    methods: Sequence[str],
    shares: Sequence[float] = SHARES,
    *,
    time_it: bool = False,
    fixed_k: bool = False,
) -> Grid:
    """Passes of ``methods`` over events of ``shape``; ``fixed_k``: see ``MethodSetup``."""
    setups = {
        name: [MethodSetup(name, shape, share, fixed_k=fixed_k) for share in shares]
        for name in methods
    }
    what = f"{'intervals' if shape.mean_ns else 'instants'}, {shape.density} per window"
    passes = timed if time_it else counted_passes
    found = passes(run, what, [setup for of in setups.values() for setup in of])
    return {name: [found[setup] for setup in of] for name, of in setups.items()}


def holds_with(run: PaperRun, judge: Judge, base: WorkloadShape) -> str:
    """In which other settings a verdict holds."""
    base = replace(base, count=_OF_RANGES)
    said = [
        _each(run, judge, "longest delay", "W/", {
            part: replace(base, delay_ns=WITHIN_NS // part) for part in _DELAYS}),
        _each(run, judge, "events per window", "", {
            many: replace(base, density=many) for many in _DENSITIES}),
    ]  # fmt: skip
    if base.mean_ns:
        said.append(_each(run, judge, "mean length", "W/", {
            part: replace(base, mean_ns=WITHIN_NS // part) for part in _MEANS}))  # fmt: skip
    return f"{'; '.join(said)}."


def _each(
    run: PaperRun, judge: Judge, what: str, unit: str, shapes: Mapping[int, WorkloadShape]
) -> str:
    verdicts = {part: judge(run, shape, _FEW) for part, shape in shapes.items()}
    sides = {
        word: ", ".join(f"{unit}{part}" for part, holds in verdicts.items() if holds is side)
        for word, side in (("holds with", True), ("fails with", False))
    }
    return f"{what}: {', '.join(f'{word} {which}' for word, which in sides.items() if which)}"
