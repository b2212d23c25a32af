"""Z10 Figures 19 and 20: execution time and latency of the three methods by the query's length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, number
from slackwater.scenarios.papers.curves import Curves, drawn, growth, tabled
from slackwater.scenarios.papers.verdicts import (
    NotJudged,
    failing,
    judged,
    listed,
    split_judged,
    unless,
)
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    ENGINE,
    K_SLACK,
    REALTIME,
    MethodRun,
    MethodSetup,
    timed,
    too_few,
    too_near,
    written,
)
from slackwater.scenarios.papers.z10.workload import TYPES, WorkloadShape

LENGTHS: Final = (3, 4, 5, 6, 7)
"""Positive steps; Z10 names no number."""
_LENGTHS: Final = f"The lengths, here {LENGTHS[0]} to {LENGTHS[-1]}, are not printed."
_SCOPE: Final = (
    "In the shortest query C is the last step, and Correct must wait until K has passed for a D "
    "before it, as K-Slack does; in longer ones K passes while later steps come."
)
SHAPE: Final = WorkloadShape(10_000, types=len(TYPES))
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
        unless(too_near(passes, min(first[CORRECT], first[K_SLACK]) / first[REALTIME]),
               judged("Of short queries Realtime takes less time than the other two.",
               first[REALTIME] < min(first[CORRECT], first[K_SLACK]), _ends(curves, 0, "us"),
               "less", failing((f"than {name}", first[REALTIME] < first[name],
                                f"{first[REALTIME]:.3g} against {first[name]:.3g} us")
                               for name in (CORRECT, K_SLACK)) + f" {written(passes)}.",
               rests=f"{ENGINE} {_at_more(curves, 0)}")),
        unless(too_near(passes, last[REALTIME] / max(last[CORRECT], last[K_SLACK])),
               judged("Of long queries Realtime takes the most.",
               last[REALTIME] > max(last[CORRECT], last[K_SLACK]), _ends(curves, -1, "us"),
               "the most, as there is much to compensate",
               failing((f"than {name}", last[REALTIME] > last[name],
                        f"{last[REALTIME]:.3g} against {last[name]:.3g} us")
                       for name in (CORRECT, K_SLACK)) + f" {written(passes)}.",
               rests=f"{ENGINE} {_at_more(curves, -1)}")),
        unless(too_near(passes, min(slack)),
               judged("K-Slack always takes longer than Correct.", min(slack) > 1,
               f"{listed(f'{value:.2f}' for value in slack)} times as long", "always",
               failing((f"length {length}", ratio > 1, f"{ratio:.3f} times")
                       for length, ratio in zip(LENGTHS, slack, strict=True))
               + f" {written(passes)}.",
               rests=f"{ENGINE} {_at_more(curves, 0)}")),
        unless(too_near(passes, grows[REALTIME] / max(grows[CORRECT], grows[K_SLACK])),
               judged("The length matters less to Correct and K-Slack than to Realtime.",
               grows[REALTIME] > max(grows[CORRECT], grows[K_SLACK]),
               listed(f"{name}: {value:.2f} times" for name, value in grows.items())
               + f" from {LENGTHS[0]} to {LENGTHS[-1]}", "less",
               failing((name, grows[REALTIME] > grows[name],
                        f"{grows[name]:.2f} times, Realtime {grows[REALTIME]:.2f}")
                       for name in (CORRECT, K_SLACK)) + f" {written(passes)}.",
               rests=f"{ENGINE} {_LENGTHS}")),
    )  # fmt: skip
    return _finding(claims, "fig-19", "Execution time by length of the query", curves,
                    "time of the processor [us]")  # fmt: skip


def latency(run: PaperRun) -> Finding:
    """Figure 20."""
    passes = _passes(run)
    curves = {name: [ran.latency_s for ran in of] for name, of in passes.items()}
    grows = {name: growth(values) for name, values in curves.items()}
    slack = [k / c for k, c in zip(curves[K_SLACK], curves[CORRECT], strict=True)]
    claims = (
        unless(too_few(run, SHAPE),
               judged("The latency of all three methods rises with the query's length.",
               _all_rise(curves), _ends(curves, 0, "s") + "; to " + _ends(curves, -1, "s"),
               "rises",
               failing((name, value > 1, f"{value:.3f} times") for name, value in grows.items())
               + f" {_SCOPE}", rests=_from_second(curves, _all_rise))),
        judged("Realtime's rises faster than the other two's.",
               _realtime_fastest(curves),
               listed(f"{name}: {value:.2f} times" for name, value in grows.items()), "faster",
               failing((f"than {name}", grows[REALTIME] > grows[name],
                        f"{grows[REALTIME]:.3f} against {grows[name]:.3f} times")
                       for name in (CORRECT, K_SLACK)),
               rests=_from_second(curves, _realtime_fastest)),
        judged("The latency of K-Slack is always larger than that of Correct.",
               _slack_slower(curves),
               f"{listed(f'{value:.3f}' for value in slack)} times as large", "always",
               failing((f"length {length}", ratio > 1, f"{ratio:.4f} times")
                       for length, ratio in zip(LENGTHS, slack, strict=True)) + f" {_SCOPE}",
               rests=_from_second(curves, _slack_slower)),
    )  # fmt: skip
    return _finding(claims, "fig-20", "Latency by length of the query", curves, "latency [s]")


def _all_rise(curves: Curves) -> bool:
    return min(map(growth, curves.values())) > 1


def _realtime_fastest(curves: Curves) -> bool:
    grows = {name: growth(values) for name, values in curves.items()}
    return grows[REALTIME] > max(grows[CORRECT], grows[K_SLACK])


def _slack_slower(curves: Curves) -> bool:
    return all(k > c for k, c in zip(curves[K_SLACK], curves[CORRECT], strict=True))


def _from_second(curves: Curves, judge: Callable[[Curves], bool]) -> str:
    """Whether a verdict is the same without the shortest query."""
    longer = judge({name: values[1:] for name, values in curves.items()})
    return (
        f"the lengths, here {LENGTHS[0]} to {LENGTHS[-1]}: it {'holds' if longer else 'fails'} "
        f"from {LENGTHS[1]} on."
    )


def _at_more(curves: Curves, place: int) -> str:
    """What must change for another order of times."""
    least, *_, most = sorted(curves, key=lambda name: curves[name][place])
    apart = curves[most][place] - curves[least][place]
    return f"At this length {least} takes the least, and {most} {apart:.1f} us an event more."


def _passes(run: PaperRun) -> dict[str, list[MethodRun]]:
    setups = {
        name: [MethodSetup(name, SHAPE, _SHARE, length) for length in LENGTHS] for name in _METHODS
    }
    found = timed(run, "lengths", [setup for of in setups.values() for setup in of])
    return {name: [found[setup] for setup in of] for name, of in setups.items()}


def _ends(curves: Curves, place: int, unit: str) -> str:
    return listed(
        f"{name}: {number(float(f'{values[place]:.3g}'))} {unit}" for name, values in curves.items()
    )


def _finding(
    claims: Sequence[Claim | NotJudged], figure: str, title: str, curves: Curves, unit: str
) -> Finding:
    decided, not_judged = split_judged(claims)
    caption = f"Instants of {len(TYPES)} types, {_SHARE:.0%} out of order."
    steps = [str(length) for length in LENGTHS]
    axes = ("positive steps of the query", unit)
    return Finding(
        decided,
        (tabled(f"{title}: {unit}", "method", steps, curves, caption),),
        (drawn(figure, title, caption, curves, LENGTHS, axes),),
        {"lengths": LENGTHS, "values": curves},
        not_judged,
    )
