"""The page of a comparison: compare.html and compare.json, and its figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from slackwater.engine.apps.compare.comparison import OrdersCompared, in_place
from slackwater.engine.apps.compare.measure import Arrivals, Durations, Measures
from slackwater.engine.apps.report.numbers import Cell, Kpi, plain, versions
from slackwater.engine.apps.report.page.document import CHAPTER, write_page
from slackwater.engine.apps.report.page.figures import (
    COLOURS,
    NEUTRAL,
    ONE_BOX,
    Figure,
    log_axis,
    short,
)
from slackwater.engine.core.units import duration, number, percent
from slackwater.engine.log.describe import readable_duration
from slackwater.engine.scenario import Table

# The numbers of a comparison by name: fields of compare.json, columns of the tables.


FORMAT: Final = 1
"""Version of compare.json; increases when a field changes its meaning."""
_KB: Final = 1000
_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_RATE_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class Field:
    """A field of each order in compare.json; with a ``heading`` also a column.

    ``unit``: in the JSON; ``{hold}`` in a heading is replaced by the unit in which holds are shown.
    ``cell``: content of the column, from the measures and the ns of that unit.
    """

    key: str
    definition: str
    unit: str
    heading: str = ""
    cell: Callable[[Measures, int], Cell] = lambda _each, _unit_ns: None


def _times(key: str, what: str) -> list[Field]:
    """The fields of a distribution; ``key``: attribute of the measures."""

    def cell(name: str) -> Callable[[Measures, int], Cell]:
        return lambda each, unit_ns: number(getattr(getattr(each, key), name) / unit_ns)

    return [
        Field(
            f"{key}_ns.{name.removesuffix('_ns')}",
            f"{what}: {meaning}",
            "ns",
            f"{key} {name.removesuffix('_ns')} [{{hold}}]" if name == "mean_ns"
            else f"{name.removesuffix('_ns')} [{{hold}}]",
            cell(name),
        )
        for name, meaning in (
            ("mean_ns", "mean"),
            ("p50_ns", "half of the events at most"),
            ("p95_ns", "95 % of the events at most"),
            ("p99_ns", "99 % of the events at most"),
            ("max_ns", "the longest"),
        )
    ]  # fmt: skip


_HOLD: Final = _times("hold", "how long ordering kept an event, release minus arrival")
_LATENCY: Final = _times("latency", "release minus departure from the source")
_NAME: Final = Field("order", "the order, in short form", "", "order", lambda each, _: each.order)
OUTCOME: Final = (
    Field("sites", "sites in the log", "sites"),
    Field("sources", "sources that sent events, those of different sites apart", "sources"),
    Field("arrived", "events read from the log; = released + dropped + quarantined + duplicates",
          "events"),
    Field("released", "events of the ordered stream", "events"),
    Field("in_place", "released as in order, with no larger ref before them", "events"),
    Field("completeness", "share of the arrived events, duplicates aside, released in their place",
          "share", "in place", lambda each, _: in_place(each)),
    Field("disorder_before", "events out of order as they arrived: an earlier one of the site "
          "has a larger time", "events"),
    Field("disorder_after", "events out of order as they were released, late ones included",
          "events", "out of order left", lambda each, _: each.disorder_after),
    Field("accuracy", "share of the disorder that the order removed; dropped events "
          "count as removed", "share", "disorder removed",
          lambda each, _: percent(each.disorder_before - each.disorder_after,
                                  each.disorder_before)),
    Field("missing", "numbers that never came; null: the order waits for no numbers", "events",
          "missing", lambda each, _: each.missing),
    Field("late", "came too late for their place, and were released all the same", "events",
          "late", lambda each, _: each.late),
    Field("dropped", "came too late for their place, and were not released", "events", "dropped",
          lambda each, _: each.dropped),
    Field("quarantined", "set aside: their time lies in the future, or their number too far ahead",
          "events"),
    Field("duplicates", "dropped, as their number had come before", "events"),
    Field("backwards", "events before one of their source with a smaller number, so that numbers "
          "do not tell the order in time; null: the order waits for no numbers", "events"),
    Field("backwards_ns", "by how much at most", "ns"),
)  # fmt: skip
"""Fields about the result of an order."""
COST: Final = (
    *_HOLD,
    *_LATENCY,
    Field("buffered_max", "most events held at once, of the site that held most",
          "events", "most held", lambda each, _: each.buffered_max),
    Field("buffered_max_bytes", "memory that these took", "bytes", "most held [kB]",
          lambda each, _: number(round(each.buffered_max_bytes / _KB, 1))),
    Field("seconds", "computing time in the chain alone; differs from run to run", "s"),
    Field("events_per_second", "arrived events by computing time; differs from run to run", "1/s",
          "events/s", lambda each, _: _rounded(each.events_per_second)),
)  # fmt: skip
"""Fields about the cost of an order."""
_FIELDS: Final = (_NAME, *OUTCOME, *COST)
ARRIVAL_FIELDS: Final = (
    Field("arrivals.events", "events in the log", "events"),
    Field("arrivals.out_of_order", "of them out of order as they arrived, clocks corrected, or "
          "by the attribute of true times", "events"),
    Field("arrivals.lateness_ns", "by how much an earlier ref exceeds an event that is out of "
          "order: p50, p90, p99 and max over these events; null without any", "ns"),
    Field("arrivals.duplicates", "second copies; null: no order waited for numbers", "events"),
    Field("arrivals.missing", "numbers that never came; null: no order waited for numbers",
          "events"),
)  # fmt: skip


def fields() -> list[dict[str, str]]:
    """``field``, ``definition`` and ``unit`` of each number of compare.json."""
    return [
        {"field": each.key, "definition": each.definition, "unit": each.unit}
        for each in (*ARRIVAL_FIELDS, *_FIELDS)
    ]


def order_table(
    comparison: OrdersCompared,
    measured: Sequence[Measures],
    part: Sequence[Field] = (*OUTCOME, *COST),
) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    """Headings and rows for people; durations are in the comparison's unit of holds.

    Args:
        comparison: gives the unit, and which columns are known.
        measured: one per row.
        part: the columns after the order's name.
    """
    unit, unit_ns = comparison.hold_unit
    left_out = () if comparison.settings.reading.departed else _LATENCY
    columns = [_NAME, *(each for each in part if each.heading and each not in left_out)]
    headings = tuple(each.heading.format(hold=unit) for each in columns)
    return headings, tuple(tuple(each.cell(row, unit_ns) for each in columns) for row in measured)


def arrival_facts(comparison: OrdersCompared) -> list[tuple[str, str]]:
    """Facts about the arrivals for people: name and text of each."""
    found, numbered = comparison.arrivals, comparison.numbered
    sources = f"{number(found.sources)} {'source' if found.sources == 1 else 'sources'}"
    sites = f"{number(found.sites)} {'site' if found.sites == 1 else 'sites'}"
    facts = [("events", f"{number(found.events)} of {sources} in {sites}")]
    share = f"{number(found.disorder)} ({percent(found.disorder, found.events)})"
    facts.append(("out of order on arrival", share if found.disorder else "none"))
    if len(found.lateness):
        late = lateness_ns(found)
        quantiles = (f"{name} {readable_duration(late[name])}" for name in _QUANTILES)
        facts.append(("their lateness", ", ".join(quantiles)))
    if numbered is not None:
        facts.append(("duplicates", number(numbered.duplicates)))
        facts.append(("missing numbers", number(numbered.missing)))
    if found.quarantined:
        facts.append(("quarantined", f"{number(found.quarantined)}, whose time lies in the future"))
    return facts


def lateness_ns(found: Arrivals) -> dict[str, int]:
    """Quantiles of the lateness of the events out of order [ns]; empty if there are none."""
    if not len(found.lateness):
        return {}
    return dict(zip(_QUANTILES, found.slacks_for(list(_QUANTILES.values())), strict=True))


def as_plain(comparison: OrdersCompared, source: str, versions: dict[str, str]) -> dict[str, Any]:
    """The content of compare.json as plain data."""
    found, settings, numbered = comparison.arrivals, comparison.settings, comparison.numbered
    choice = comparison.choice
    return {
        "format": FORMAT,
        "input": source,
        "made_with": versions,
        "settings": {
            "complete": settings.complete,
            "truth": settings.reading.truth,
            "departed": settings.reading.departed,
            "guard_ns": settings.guard_ns,
            "time_unit": settings.time_unit,
            "arrival_given": comparison.arrival_given,
        },
        "arrivals": {
            "sites": found.sites,
            "sources": found.sources,
            "events": found.events,
            "quarantined": found.quarantined,
            "out_of_order": found.disorder,
            "lateness_ns": lateness_ns(found) or None,
            "duplicates": None if numbered is None else numbered.duplicates,
            "missing": None if numbered is None else numbered.missing,
        },
        "verdict": {
            "suits": choice.suits,
            "headline": comparison.headline,
            "reason": choice.reason,
            "costs": [
                {"order": each.order, "enough": each.enough, "text": each.text}
                for each in choice.costs
            ],
            "tried": comparison.tried,
        },
        "orders": [_plain(each) for each in comparison.orders],
        "sweep": [_plain(each) for each in comparison.sweep],
        "fields": fields(),
    }


def _plain(each: Measures) -> dict[str, Any]:
    """All fields by key; a key with a dot is a nested field."""
    found: dict[str, Any] = {}
    for field in _FIELDS:
        outer, point, inner = field.key.partition(".")
        if point:
            spread: Durations = getattr(each, outer.removesuffix("_ns"))
            found.setdefault(outer, {})[inner] = getattr(spread, f"{inner}_ns")
        else:
            found[outer] = getattr(each, outer)
    return found


def _rounded(rate: float) -> int:
    """Round to three digits, because further ones are noise."""
    step = int(10 ** max(len(str(round(rate))) - _RATE_DIGITS, 0))
    return round(rate / step) * step


# The figure of a comparison: hold against completeness, with the swept slacks.
#
# Both axes are logarithmic and cannot show 0: orders that put all events in place are at the right
# edge, orders that hold none at the lower edge.


_HEIGHT_PX: Final = 520
_DECADES: Final = 6
"""Decades below the longest hold: shorter holds are at the lower edge, to save room."""
_EDGE: Final = 3
"""Factor between the edge and the least value that is drawn."""
_SIDE: Final = 0.97
"""Factor between equally complete orders, so that they do not hide each other."""
_ENDS: Final = (("mean", "solid", "circle"), ("p99", "dash", "diamond"))
"""Ends of a bar: name, line style of the swept slacks, and symbol."""


class _Scale(NamedTuple):
    """Positions of measures: shares out of place [%], and holds in ``unit``, each with the least
    value drawn.
    """

    least_share: float
    least_hold: float
    unit: str
    unit_ns: int
    is_latency: bool

    def share(self, each: Measures) -> float:
        """Share of the events that were not released in place [%]."""
        return max(100 * (1 - each.completeness), self.least_share)

    def holds(self, each: Measures) -> list[float]:
        """Mean and p99 hold."""
        spread = each.latency if self.is_latency else each.hold
        return [max(ns / self.unit_ns, self.least_hold) for ns in (spread.mean_ns, spread.p99_ns)]


def trade_off_figure(comparison: OrdersCompared) -> Figure | None:
    """The figure; None if no order held any event."""
    measured = (*comparison.orders, *comparison.sweep)
    is_latency = comparison.settings.reading.departed is not None
    exact = _Scale(0, 0, *comparison.hold_unit, is_latency)
    hold_times = [hold for each in measured for hold in exact.holds(each) if hold]
    if not hold_times:
        return None
    missing = [share for each in measured if (share := exact.share(each))]
    least = max(min(hold_times), max(hold_times) / 10**_DECADES) / _EDGE
    scale = exact._replace(least_share=min(missing, default=1) / _EDGE, least_hold=least)
    what = "latency" if is_latency else "hold time"
    swept = " The lines are K-slack with its slack swept." if comparison.sweep else ""
    rightmost = scale.least_share * _SIDE ** len(comparison.orders)
    shares = log_axis("events not released in their place [%]", [rightmost, *missing])
    return Figure(
        "trade-off",
        f"{what.capitalize()} against events out of their place",
        f"Lower is faster, further right is more complete. Each order is on a bar from its "
        f"mean to its p99 {what}.{swept} Both axes are logarithmic: orders that put all events in "
        "their place are at the right edge, next to one another, and what is not held at the lower "
        "one.",
        [*_sweep_lines(comparison, scale), *_order_lines(comparison, scale), *_legend()],
        {
            "xaxis": shares | {"range": shares["range"][::-1]},
            "yaxis": log_axis(f"{what} [{scale.unit}]", [least, *hold_times]),
        },
        height_px=_HEIGHT_PX,
    )


def _order_lines(comparison: OrdersCompared, scale: _Scale) -> list[dict[str, Any]]:
    return [
        {
            "name": short(each.order),
            "x": [scale.share(each) * _SIDE**place] * len(_ENDS),
            "y": scale.holds(each),
            "mode": "lines+markers",
            "line": {"color": COLOURS[place % len(COLOURS)], "width": 3},
            "marker": {
                "symbol": [symbol for _, _, symbol in _ENDS], "size": [9, 11],
                "color": COLOURS[place % len(COLOURS)],
            },
            "text": [_label(each, scale, end) for end in range(len(_ENDS))],
            "hovertemplate": f"%{{text}}{ONE_BOX}",
        }
        for place, each in enumerate(comparison.orders)
    ]  # fmt: skip


def _sweep_lines(comparison: OrdersCompared, scale: _Scale) -> list[dict[str, Any]]:
    swept = sorted(comparison.sweep, key=lambda each: each.completeness)
    return [
        {
            "name": f"slack swept: {name}",
            "x": [scale.share(each) for each in swept],
            "y": [scale.holds(each)[end] for each in swept],
            "mode": "lines+markers",
            "line": {"color": NEUTRAL, "width": 2, "dash": dash},
            "marker": {"symbol": f"{symbol}-open", "size": 6, "color": NEUTRAL},
            "text": [_label(each, scale, end) for each in swept],
            "hovertemplate": f"%{{text}}{ONE_BOX}",
        }
        for end, (name, dash, symbol) in enumerate(_ENDS)
        if swept
    ]


def _legend() -> list[dict[str, Any]]:
    """Legend of the two symbols of an order."""
    return [
        {
            "name": f"an order: {name}",
            "x": [None],
            "y": [None],
            "mode": "markers",
            "marker": {"symbol": symbol, "size": 10, "color": NEUTRAL},
        }
        for name, _, symbol in _ENDS
    ]


def _label(each: Measures, scale: _Scale, end: int) -> str:
    hold = scale._replace(least_hold=0).holds(each)[end]
    said = f"{_ENDS[end][0]} {number(hold)} {scale.unit}"
    return f"{each.order}\n{in_place(each)} in place\n{said}"


# compare.html and compare.json: the whole comparison in one folder.


HTML: Final = "compare.html"
JSON: Final = "compare.json"
_CHAPTERS: Final = {
    "verdict": "Verdict", "input": "Input", "orders": "Orders", "trade-off": "Trade-off",
    "fields": "Glossary", **CHAPTER,
}  # fmt: skip
NO_ARRIVALS: Final = (
    "The input has no arrival times: line numbers replace them, so holds are counted in lines, "
    "and timeouts given in time (sequence's latency) do not mean what they say."
)


def write_comparison(
    comparison: OrdersCompared, source: str, out: Path, command: str
) -> dict[str, Any]:
    """Write ``compare.json`` and ``compare.html`` into the folder ``out``, created if missing.

    Args:
        comparison: what to write.
        source: name of the input, for readers.
        out: see ``engine.apps.report.page.document``.
        command: the command line; empty: none.

    Returns:
        The content of ``compare.json``.

    Raises:
        UserError: see ``check_page_folder``.
    """
    found: dict[str, Any] = plain(as_plain(comparison, source, versions()))
    facts = (("input", str(found["input"])), *arrival_facts(comparison))
    named = tuple(tuple(each.values()) for each in fields())
    tables = {
        "arrivals": Table("", ("", ""), facts),
        "orders": _orders(comparison, comparison.orders),
        "sweep": _orders(comparison, comparison.sweep),
        "fields": Table("", ("field of compare.json", "definition", "unit"), named),
    }
    write_page(
        out, Path(HTML), f"Orders compared: {found['input']}", _CHAPTERS, found, command=command,
        tables=tables, trade_off=trade_off_figure(comparison), no_arrivals=NO_ARRIVALS,
        kpis=plain(_kpis(comparison)), excluded=comparison.arrivals.excluded,
    )  # fmt: skip
    return found


def _kpis(comparison: OrdersCompared) -> list[Kpi]:
    """Key numbers of the arrivals, and of the suitable order."""
    arrived = comparison.arrivals
    sources = f"of {number(arrived.sources)} source{'' if arrived.sources == 1 else 's'}"
    made = [
        Kpi("events arrived", arrived.events, "count", number(arrived.events), sources),
        Kpi("out of order on arrival", arrived.disorder, "count",
            percent(arrived.disorder, arrived.events), number(arrived.disorder), "less"),
    ]  # fmt: skip
    suits = comparison.choice.suits
    best = next((each for each in comparison.orders if each.order == suits), None)
    if best is None:
        most = max(comparison.orders, key=lambda each: each.completeness)
        note = f"of the events; {most.order} is the most complete"
        return [*made, Kpi("in their place", most.completeness, "share", in_place(most), note,
                           "more", holds=False)]  # fmt: skip
    hold = best.hold
    return [
        *made,
        Kpi("recommended", None, "", best.order, holds=True),
        Kpi("in their place", best.completeness, "share", in_place(best), "of the events", "more"),
        Kpi("hold time p99", hold.p99_ns, "ns", _hold_text(comparison, hold.p99_ns),
            f"half at most {_hold_text(comparison, hold.p50_ns)}", "less"),
        Kpi("held at once, most", best.buffered_max, "count", number(best.buffered_max),
            "events of one site", "less"),
    ]  # fmt: skip


def _hold_text(comparison: OrdersCompared, hold_ns: float) -> str:
    """Text of a hold; without arrival times it is a number of lines."""
    return duration(hold_ns) if comparison.arrival_given else f"{number(hold_ns)} lines"


def _orders(comparison: OrdersCompared, measured: Sequence[Measures]) -> list[Table]:
    """Two tables, for results and costs, because one would be too wide."""
    return [
        Table(heading, *order_table(comparison, measured, parts))
        for heading, parts in (("What comes out", OUTCOME), ("What it costs", COST))
    ]
