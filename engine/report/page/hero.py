"""The first picture of a run's page, as SVG: what was wrong on arrival, and what is left of it.

Clocks apart and corrected, where clocks were synchronised; else late events before and after; else
how many came. Two panels side by side, each on a scale of its own that its heading names in words.
Everything drawn says by a ``<title>`` what it is, without any script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from engine.report.numbers import TimeLine, amount, duration, percent, round_step
from engine.report.page.figures import ARRIVED, BAD, COLOURS, GOOD, NEUTRAL, display_names

WIDTH: Final = 520
HEIGHT: Final = 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 10, 12, 30
_TICKS: Final = 4
_SILENT_SLICES: Final = 4
"""After so many slices of time without an event a band ends."""
_WORTH: Final = 2
"""Clocks are the story if they were so many times further apart than they are known to now."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """A path in ``colour``, as a ``line``, ``band`` or ``solid``; ``title``: what it is."""

    path: str
    colour: str
    title: str
    kind: str = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """One half: ``word`` above it in large, ``said`` in small; places in px, ticks with texts."""

    word: str
    said: str
    shapes: tuple[Stroke, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Hero:
    """The picture: a sentence, its panels, and what one sees."""

    title: str
    panels: tuple[Panel, ...]
    caption: str


def hero(report: Mapping[str, Any], time: TimeLine) -> Hero | None:
    """The one that says most of this run; None if nothing arrived."""
    over = report["over_time"]
    if over["lateness"] is None:
        return None
    clocks = over["clocks"]
    if clocks and clocks["spread_ns"] > _WORTH * _left_of(report):
        return _clocks(report, clocks, time)
    if report["disorder"]["arrived_ref"]["out_of_order"]:
        return _disorder(report, over["lateness"], time)
    return _counts(report, time)


def _left_of(report: Mapping[str, Any]) -> int:
    """How far clocks may still be wrong: the largest error where it is known, else the bound."""
    worst = [
        each["error_ns"]["max"]
        for each in report["clock_error"]["sources"].values()
        if each.get("with_truth")
    ]
    return int(max(worst) if worst else report["over_time"]["clocks"]["bound_ns"]["p99"])


class _Scale:
    """Places of values in a panel."""

    def __init__(self, time: TimeLine, xs: Sequence[int], low: float, high: float) -> None:
        self._time = time
        self._first, self._last = min(xs), max(xs)
        room = (high - low) * 0.06 or 1
        self._low, self._high = low - room, high + room

    def x(self, at_ns: int) -> float:
        share = (at_ns - self._first) / ((self._last - self._first) or 1)
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    def line(self, xs: Sequence[int], ys: Sequence[float]) -> str:
        """A path through the points; of one point, a dot."""
        points = [f"{self.x(x)} {self.y(y)}" for x, y in zip(xs, ys, strict=True)]
        return f"M{' L'.join(points)}" + ("h.1" if len(points) == 1 else "")

    def band(self, xs: Sequence[int], low: Sequence[float], high: Sequence[float]) -> str:
        there = [f"{self.x(x)} {self.y(y)}" for x, y in zip(xs, high, strict=True)]
        back = [f"{self.x(x)} {self.y(y)}" for x, y in zip(xs, low, strict=True)][::-1]
        return f"M{' L'.join([*there, *back])}Z"

    def bars(self, xs: Sequence[int], ys: Sequence[float]) -> str:
        """Bars from 0 up, as wide as the points are apart."""
        width = max((self.x(b) - self.x(a) for a, b in pairwise(xs[:2])), default=8.0)
        base = self.y(0)
        return "".join(
            f"M{self.x(x)} {base}V{self.y(y)}h{max(round(width * 0.9, 1), 1)}V{base}Z"
            for x, y in zip(xs, ys, strict=True) if y
        )  # fmt: skip

    def x_ticks(self) -> tuple[tuple[float, str], ...]:
        ends = (self._first, (self._first + self._last) // 2, self._last)
        span = self._time.place(self._last) - self._time.place(self._first)
        digits = max(2 - len(str(int(span))), 0)
        return tuple(
            (self.x(at), f"{round(self._time.place(at), digits) or 0:g} {self._time.unit}")
            for at in ends
        )

    def y_ticks(self, *, lasts: bool = True) -> tuple[tuple[float, str], ...]:
        """Round values, as durations or counts, 0 among them."""
        span = max(abs(self._low), abs(self._high))
        step: float = 10 ** (len(str(int(span))) - 1)
        step = next(step * part for part in (0.2, 0.5, 1, 2, 5) if span / (step * part) <= _TICKS)
        step = round_step(span / _TICKS) if lasts else step
        count = int(span / step)
        at = [place * step for place in range(-count, count + 1)]
        shown = [each for each in at if self._low <= each <= self._high]
        return tuple(
            (self.y(each), duration(round(each)) if lasts and each else amount(round(each)))
            for each in dict.fromkeys(shown)
        )


def _clocks(report: Mapping[str, Any], clocks: Mapping[str, Any], time: TimeLine) -> Hero:
    sources = clocks["sources"]
    names = display_names(sources)
    xs = [at for each in sources.values() for at in each["at_ns"]]
    apart = [ns for each in sources.values() for ns in each["apart_ns"]]
    before = _Scale(time, xs, min(*apart, 0), max(*apart, 0))
    lines = [
        Stroke(
            before.line(each["at_ns"], each["apart_ns"]), COLOURS[at % len(COLOURS)],
            f"{names[name]}: {_ahead(each['apart_ns'][-1])}",
        )
        for at, (name, each) in enumerate(sources.items())
    ]  # fmt: skip
    zero = Stroke(before.line([min(xs), max(xs)], [0, 0]), NEUTRAL, "the engine's clock")
    left = Panel(
        f"{duration(clocks['spread_ns'])} apart", "the clocks by themselves",
        (zero, *lines), before.x_ticks(), before.y_ticks(),
    )  # fmt: skip
    after, word, said = _corrected(report, clocks, time, xs)
    more = clocks["count"] - len(sources)
    rest = f" Shown: the {len(sources)} that are furthest off." if more > 0 else ""
    known = report["clock_error"]["known"]
    return Hero(
        f"Clocks {duration(clocks['spread_ns'])} apart, corrected to {word}",
        (left, Panel(word, said, *after)),
        "Left: each line is a clock against the engine's (0). Right, on a finer scale: "
        + ("how wrong its times still are after correction, in truth; the band is the widest that "
           "is declared." if known else "how wrong its times may still be after correction.")
        + rest,
    )  # fmt: skip


def _ahead(apart_ns: int) -> str:
    return f"{duration(abs(apart_ns))} {'ahead' if apart_ns > 0 else 'behind'}"


_Drawn = tuple[tuple[Stroke, ...], tuple[tuple[float, str], ...], tuple[tuple[float, str], ...]]


def _corrected(
    report: Mapping[str, Any], clocks: Mapping[str, Any], time: TimeLine, xs: Sequence[int]
) -> tuple[_Drawn, str, str]:
    """The right panel: shapes and ticks, its word and what that is."""
    errors = report["clock_error"]["sources"]
    names = display_names(clocks["sources"])
    widest = clocks["widest"]
    most = max(widest["bound_ns"])
    known = {name: errors[name]["series"] for name in clocks["sources"]
             if errors.get(name, {}).get("with_truth")}  # fmt: skip
    size = max([abs(ns) for one in known.values() for ns in one["error_ns"]] or [most])
    high = max(most, size) if known else most
    scale = _Scale(time, xs, -high, high)
    shapes = [
        Stroke(
            "".join(scale.band(at, [-ns for ns in bound], bound) for at, bound in _runs(widest)),
            NEUTRAL, f"declared \N{PLUS-MINUS SIGN}{duration(most)} at most", "band",
        )
    ]  # fmt: skip
    shapes += [
        Stroke(
            scale.line(one["at_ns"], one["error_ns"]),
            COLOURS[list(clocks["sources"]).index(name) % len(COLOURS)],
            f"{names[name]}: wrong by {duration(errors[name]['error_ns']['max'])} at most",
        )
        for name, one in known.items()
    ]  # fmt: skip
    drawn = (tuple(shapes), scale.x_ticks(), scale.y_ticks())
    if known:
        return drawn, duration(_left_of(report)), "wrong at most, corrected"
    return drawn, f"\N{PLUS-MINUS SIGN}{duration(most)}", "known to, corrected"


def _runs(widest: Mapping[str, Any]) -> Iterator[tuple[list[int], list[int]]]:
    """The band's stretches: where nothing comes for a while, nothing is declared either."""
    place, at, bound = widest["place"], widest["at_ns"], widest["bound_ns"]
    cuts = [n for n, (a, b) in enumerate(pairwise(place), 1) if b - a > _SILENT_SLICES]
    for start, end in pairwise([0, *cuts, len(place)]):
        yield at[start:end], bound[start:end]


def _disorder(report: Mapping[str, Any], late: Mapping[str, Sequence[int]], time: TimeLine) -> Hero:
    main = report["run"]["passes"][0]["label"]
    found, left = report["disorder"]["arrived_ref"], report["disorder"]["released"][main]
    xs = late["at_ns"]
    top = max(late["before_ns"])
    scale = _Scale(time, xs, 0, top)
    share = percent(found["out_of_order"], found["events"])
    rest = percent(left["out_of_order"], left["events"])

    def panel(word: str, said: str, ys: Sequence[int], colour: str) -> Panel:
        shape = Stroke(scale.bars(xs, ys), colour, f"at most {duration(max(ys))} late", "solid")
        return Panel(word, said, (shape,), scale.x_ticks(), scale.y_ticks())

    hold = report["holds"][main]["hold_ns"]["p95"]
    cost = f", held {duration(hold)} (p95)" if hold and report["run"]["arrival_given"] else ""
    return Hero(
        f"{share} out of order on arrival, {rest if left['out_of_order'] else 'none'} afterwards",
        (
            panel(share, "out of order, as they arrived", late["before_ns"], ARRIVED),
            panel(rest, f"out of order, as released{cost}", late["after_ns"],
                  BAD if left["out_of_order"] else GOOD),
        ),
        "Bars: by how much the latest event of each moment lay behind one that had come, or been "
        "released, before it. Both on the same scale.",
    )  # fmt: skip


def _counts(report: Mapping[str, Any], time: TimeLine) -> Hero:
    found = report["over_time"]["reconciled"]
    xs, ys = found["starts_ns"], found["in_place"]
    scale = _Scale(time, xs, 0, max(ys))
    shape = Stroke(scale.bars(xs, ys), COLOURS[0], f"{amount(sum(ys))} events", "solid")
    panel = Panel(
        f"{amount(sum(ys))} events", f"in moments of {duration(found['width_ns'])}", (shape,),
        scale.x_ticks(), scale.y_ticks(lasts=False),
    )  # fmt: skip
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    aside = counts["quarantined_future"] + counts["quarantined_jump"]
    if aside:
        title = f"{amount(aside)} of {amount(counts['arrived'])} events excluded, the rest in order"
        return Hero(title, (panel,), "Excluded events are in no result; the verdict says whose.")
    return Hero("All in order", (panel,), "Nothing was out of order, and no clock was corrected.")
