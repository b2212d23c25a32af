"""A log's summary for people: ``slackwater log show``."""

from __future__ import annotations

from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from engine.log.describe import QUANTILES, LogSummary
from engine.units import NS_PER, unit_ns

SITES_SHOWN: Final = 20
SOURCES_SHOWN: Final = 4


def readable_duration(ns: int) -> str:
    """``ns`` in the largest unit that leaves a number >= 1, with three decimals at most.

    >>> readable_duration(1_500_000_000), readable_duration(0), readable_duration(7)
    ('1.5 s', '0 ns', '7 ns')
    """
    unit = "ns"  # units stand in ascending order
    for name, length in NS_PER.items():
        unit = name if length <= abs(ns) else unit
    whole, rest = divmod(abs(ns) * 1000 // NS_PER[unit], 1000)
    sign = "-" if ns < 0 else ""
    fraction = f".{rest:03d}".rstrip("0").rstrip(".")
    return f"{sign}{whole:,}{fraction} {unit}"


def summary_tables(name: str, summary: LogSummary, time_unit: str = "ns") -> RenderableType:
    """Two tables: the log as a whole, and its sites.

    Args:
        name: the log.
        summary: what ``describe`` found.
        time_unit: of the instants shown (rounded down); durations choose their own.
    """
    whole = Table(title=escape(name), title_justify="left", show_header=False)
    whole.add_column()
    whole.add_column(justify="right")
    whole.add_row("frames", f"{summary.frames:,}")
    whole.add_row("records", f"{summary.records:,}")
    for kind, count in summary.kinds.most_common():
        whole.add_row(f"  {kind}", f"{count:,}")
    whole.add_row("out of order", _share(summary.out_of_order, summary.kinds["event"]))
    for share in QUANTILES if summary.out_of_order else ():
        label = "most" if share == 1 else f"{100 * share:g} % within"
        whole.add_row(f"  late by, {label}", readable_duration(summary.lateness.quantile(share)))
    whole.add_row("sites", f"{len(summary.sites):,}")
    return Group(whole, _sites(summary, time_unit))


def _sites(summary: LogSummary, time_unit: str) -> Table:
    unit = unit_ns(time_unit)
    table = Table(caption_justify="left")
    for heading in ("site", "sources"):
        table.add_column(heading, overflow="fold")
    for heading in (
        "events",
        "out of order",
        f"first arrival [{time_unit}]",
        "arrivals span",
        f"first ts [{time_unit}]",
        "event times span",
    ):
        table.add_column(escape(heading), justify="right")
    for name, site in sorted(summary.sites.items())[:SITES_SHOWN]:
        names = sorted(site.sources)
        more = f" +{len(names) - SOURCES_SHOWN}" if len(names) > SOURCES_SHOWN else ""
        table.add_row(
            escape(name),
            escape(f"{len(names)}: {', '.join(names[:SOURCES_SHOWN])}{more}"),
            f"{site.events:,}",
            _share(site.out_of_order, site.events),
            *_range(site.first_arrival, site.last_arrival, unit),
            *_range(site.first_ts, site.last_ts, unit),
        )
    if len(summary.sites) > SITES_SHOWN:
        table.caption = f"and {len(summary.sites) - SITES_SHOWN} more sites (--json has them all)"
    return table


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"


def _range(first: int | None, last: int | None, unit: int) -> tuple[str, str]:
    if first is None or last is None:
        return "-", "-"
    return str(first // unit), readable_duration(last - first)
