"""A log's summary for people: ``slackwater log show``."""

from __future__ import annotations

from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from edge_agent.units import NS_PER
from engine.log.describe import QUANTILES, LogSummary
from engine.units import unit_ns

SITES_SHOWN: Final = 20


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
    unit = unit_ns(time_unit)
    sites = summary.sites.values()
    for heading, instants in (
        ("first arrival", [site.first_arrival for site in sites]),
        ("last arrival", [site.last_arrival for site in sites]),
        ("first event time", [site.first_ts for site in sites]),
        ("last event time", [site.last_ts for site in sites]),
    ):
        known = [instant for instant in instants if instant is not None]
        if known:
            edge = min(known) if heading.startswith("first") else max(known)
            whole.add_row(f"{heading} {escape(f'[{time_unit}]')}", str(edge // unit))
    whole.add_row("sites", f"{len(sites):,}")
    return Group(whole, _sites(summary))


def _sites(summary: LogSummary) -> Table:
    table = Table(caption_justify="left")
    table.add_column("site", overflow="fold")
    for heading in ("sources", "events", "out of order", "arrivals span", "event times span"):
        table.add_column(heading, justify="right")
    for name, site in sorted(summary.sites.items())[:SITES_SHOWN]:
        table.add_row(
            escape(name),
            f"{len(site.sources):,}",
            f"{site.events:,}",
            _share(site.out_of_order, site.events),
            _span(site.first_arrival, site.last_arrival),
            _span(site.first_ts, site.last_ts),
        )
    if len(summary.sites) > SITES_SHOWN:
        table.caption = f"and {len(summary.sites) - SITES_SHOWN} more sites (--json has them all)"
    return table


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"


def _span(first: int | None, last: int | None) -> str:
    return "-" if first is None or last is None else readable_duration(last - first)
