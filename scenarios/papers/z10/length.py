"""Z10 Figures 19 and 20: execution time and latency of the three methods by the query's length."""

from __future__ import annotations

from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, number
from slackwater.scenarios.papers.curves import Curves, drawn, growth, tabled
from slackwater.scenarios.papers.verdicts import failing, judged, listed
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    K_SLACK,
    REALTIME,
    Ran,
    Setup,
    timed,
    written,
)
from slackwater.scenarios.papers.z10.workload import TYPES, Shape

LENGTHS: Final = (3, 4, 5, 6, 7)
"""Positive steps; Z10 names no number."""
SHAPE: Final = Shape(10_000, types=len(TYPES))
_SHARE: Final = 0.18
_METHODS: Final = (REALTIME, CORRECT, K_SLACK)


def execution(run: PaperRun) -> Finding:
    """Figure 19."""
    passes = _passes(run)
    curves = {name: [1e6 * ran.event_seconds for ran in of] for name, of in passes.items()}
    first = {name: values[0] for name, values in curves.items()}
    last = {name: values[-1] for name, values in curves.items()}
    slack = [k / c for k, c in zip(curves[K_SLACK], curves[CORRECT], strict=True)]
    grows = {name: growth(values) for name, values in curves.items()}
    claims = (
        judged("Of short queries Realtime takes less time than the other two.",
               first[REALTIME] < min(first[CORRECT], first[K_SLACK]), _ends(curves, 0, "us"),
               "less", failing((f"than {name}", first[REALTIME] < first[name],
                                f"{first[REALTIME]:.3g} against {first[name]:.3g} us")
                               for name in (CORRECT, K_SLACK)) + f" {written(passes)}."),
        judged("Of long queries Realtime takes the most.",
               last[REALTIME] > max(last[CORRECT], last[K_SLACK]), _ends(curves, -1, "us"),
               "the most, as there is much to compensate",
               failing((f"than {name}", last[REALTIME] > last[name],
                        f"{last[REALTIME]:.3g} against {last[name]:.3g} us")
                       for name in (CORRECT, K_SLACK)) + f" {written(passes)}."),
        judged("K-Slack always takes longer than Correct.", min(slack) > 1,
               f"{listed(f'{value:.2f}' for value in slack)} times as long", "always",
               failing((f"length {length}", ratio > 1, f"{ratio:.3f} times")
                       for length, ratio in zip(LENGTHS, slack, strict=True))
               + f" {written(passes)}."),
        judged("The length matters less to Correct and K-Slack than to Realtime.",
               grows[REALTIME] > max(grows[CORRECT], grows[K_SLACK]),
               listed(f"{name}: {value:.2f} times" for name, value in grows.items())
               + f" from {LENGTHS[0]} to {LENGTHS[-1]}", "less",
               failing((name, grows[REALTIME] > grows[name],
                        f"{grows[name]:.2f} times, Realtime {grows[REALTIME]:.2f}")
                       for name in (CORRECT, K_SLACK)) + f" {written(passes)}."),
    )  # fmt: skip
    return _finding(claims, "fig-19", "Execution time by length of the query", curves,
                    "time of the processor [us]")  # fmt: skip


def latency(run: PaperRun) -> Finding:
    """Figure 20."""
    curves = {name: [ran.latency_s for ran in of] for name, of in _passes(run).items()}
    grows = {name: growth(values) for name, values in curves.items()}
    slack = [k / c for k, c in zip(curves[K_SLACK], curves[CORRECT], strict=True)]
    claims = (
        judged("The latency of all three methods rises with the query's length.",
               min(grows.values()) > 1, _ends(curves, 0, "s") + "; to " + _ends(curves, -1, "s"),
               "rises",
               failing((name, value > 1, f"{value:.3f} times") for name, value in grows.items())),
        judged("Realtime's rises faster than the other two's.",
               grows[REALTIME] > max(grows[CORRECT], grows[K_SLACK]),
               listed(f"{name}: {value:.2f} times" for name, value in grows.items()), "faster",
               failing((f"than {name}", grows[REALTIME] > grows[name],
                        f"{grows[REALTIME]:.3f} against {grows[name]:.3f} times")
                       for name in (CORRECT, K_SLACK))),
        judged("The latency of K-Slack is always larger than that of Correct.", min(slack) > 1,
               f"{listed(f'{value:.3f}' for value in slack)} times as large", "always",
               failing((f"length {length}", ratio > 1, f"{ratio:.4f} times")
                       for length, ratio in zip(LENGTHS, slack, strict=True))),
    )  # fmt: skip
    return _finding(claims, "fig-20", "Latency by length of the query", curves, "latency [s]")


def _passes(run: PaperRun) -> dict[str, list[Ran]]:
    setups = {name: [Setup(name, SHAPE, _SHARE, length) for length in LENGTHS] for name in _METHODS}
    found = timed(run, "lengths", [setup for of in setups.values() for setup in of])
    return {name: [found[setup] for setup in of] for name, of in setups.items()}


def _ends(curves: Curves, place: int, unit: str) -> str:
    return listed(
        f"{name}: {number(float(f'{values[place]:.3g}'))} {unit}" for name, values in curves.items()
    )


def _finding(
    claims: tuple[Claim, ...], figure: str, title: str, curves: Curves, unit: str
) -> Finding:
    caption = f"Instants of {len(TYPES)} types, {_SHARE:.0%} out of order."
    steps = [str(length) for length in LENGTHS]
    axes = ("positive steps of the query", unit)
    return Finding(
        claims,
        (tabled(f"{title}: {unit}", "method", steps, curves, caption),),
        (drawn(figure, title, caption, curves, LENGTHS, axes),),
        {"lengths": LENGTHS, "values": curves},
    )
