"""On which values of ours a verdict of L10 chapter 5 rests: it is judged again with others.

The paper prints neither how much lengths deviate nor what its queries ask of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from slackwater.paper import PaperRun
from slackwater.scenarios.papers.l10.ch5.runs import (
    IntervalCost,
    JoinSetup,
    costs,
    costs_as_printed,
)
from slackwater.scenarios.papers.verdicts import same_with

Points = Mapping[str, Mapping[str, IntervalCost]]
"""By what is varied, then by way."""
Judge = Callable[[Points], bool]
_SPREADS: Final = {"a tenth": 0.1, "a half": 0.5}
_RISING: Final = (4, 7)
_PART: Final = 4
"""So many times fewer intervals than in the figure."""


def measured(run: PaperRun, setups: Mapping[str, JoinSetup]) -> Points:
    """What each point costs the paper's operator."""
    return {name: costs_as_printed(run, setup) for name, setup in setups.items()}


def of_ours(run: PaperRun, setups: Mapping[str, JoinSetup]) -> Points:
    """What each point costs our matcher."""
    return {name: costs(run, setup) for name, setup in setups.items()}


def rests_on(
    run: PaperRun, setups: Mapping[str, JoinSetup], judge: Judge, *, conditions: bool = True
) -> str:
    """With which other deviations, and ``conditions``, ``judge`` says the same.

    By density the conditions stay: with weaker ones the matches of the densest stream would be
    all that there is to write.
    """
    verdict = judge(measured(run, setups))

    def others(changes: Mapping[str, dict[str, float | int]]) -> str:
        return same_with(verdict, {
            name: judge(measured(run, {
                point: replace(setup, count=setup.count // _PART, **change)  # type: ignore[arg-type]
                for point, setup in setups.items()
            }))
            for name, change in changes.items()
        })  # fmt: skip

    spreads = others({f"{name} of the mean": {"spread": of} for name, of in _SPREADS.items()})
    findings = [f"how much lengths deviate, here a quarter of the mean: {spreads}"]
    if conditions:
        steps = others({f"{steps} steps": {"rising": steps} for steps in _RISING})
        findings.append(f"over how many steps a value must rise, here 5: {steps}")
    return f"{'; '.join(findings)}; judged with a quarter of the intervals."
