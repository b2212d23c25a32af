"""Orders side by side over the log of a recording: measured, and as a table of the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from slackwater.log import LogReader, LogWriter
from slackwater.measures import Measures, in_place, measure_many
from slackwater.scenario import NS_PER, Guards, Table, number, percent

_GUARDS: Final = Guards()
NOTE: Final = (
    "In place: released in order and with no larger time before, of all arrivals without "
    "duplicates. Left: out of order in the released stream. Late: came after their place was "
    "passed, and were released all the same. p50 to max: how long events were held. The slack "
    "orders use numbers only to drop duplicates: they see no gaps, and release an event only when "
    "a later one moves the event clock on."
)
"""Meaning of the headings of ``order_table``."""
_THOUSANDTHS: Final = 1_000
"""Parts of the unit of holds that are shown."""


def measure_sites(
    log: Path, orders: Sequence[str], guards: Guards = _GUARDS
) -> dict[str, list[Measures]]:
    """Measures of each order over each site's part of ``log``, sites in order of their names.

    Args:
        log: an arrival log.
        orders: short forms.
        guards: checks of event times before an order uses them.

    Raises:
        UserError: not a log, or an unknown order.
    """
    with TemporaryDirectory() as folder:
        parts: dict[str, LogWriter] = {}
        for frame in LogReader(log):
            if frame.site not in parts:
                parts[frame.site] = LogWriter(Path(folder) / str(len(parts)))
            parts[frame.site].append(frame)
        for part in parts.values():
            part.close()
        return {
            site: measure_many(parts[site].directory, orders, guards=guards)[1]
            for site in sorted(parts)
        }


def order_table(title: str, measured: Sequence[Measures], unit: str) -> Table:
    """One row per order; all over the same events.

    Args:
        title: of the table.
        measured: at least one.
        unit: of the holds, as ``h`` or ``s``.
    """
    rows = []
    for each in measured:
        hold = each.hold
        held_ns = (hold.p50_ns, hold.p95_ns, hold.p99_ns, hold.max_ns)
        rows.append(
            (each.order, in_place(each), each.disorder_after,
             percent(each.disorder_before - each.disorder_after, each.disorder_before),
             each.late, each.dropped, each.duplicates, each.missing,
             *(_hold_text(each_ns, unit) for each_ns in held_ns))
        )  # fmt: skip
    return Table(
        f"{title}: {on_arrival(measured[0])}",
        ("order", "in place", "left", "disorder removed", "late", "dropped", "duplicates",
         "missing",
         *(f"{name} [{unit}]" for name in ("p50", "p95", "p99", "max"))),
        tuple(rows),
        NOTE,
    )  # fmt: skip


def on_arrival(each: Measures) -> str:
    """How much out of order the events arrived."""
    before = each.disorder_before
    return (
        f"{number(before)} of {number(each.arrived)} events out of order on arrival "
        f"({percent(before, each.arrived)})"
    )


def _hold_text(hold_ns: int, unit: str) -> str:
    return number(round(hold_ns * _THOUSANDTHS / NS_PER[unit]) / _THOUSANDTHS)


def plain(measured: Sequence[Measures]) -> list[dict[str, Any]]:
    """Facts for ``Score``: all but the seconds, which differ from run to run."""
    left_out = ("seconds", "hold", "latency")
    return [
        {name: getattr(each, name) for name in Measures.__slots__ if name not in left_out}
        | {"hold_ns": {name: getattr(each.hold, name) for name in type(each.hold).__slots__}}
        for each in measured
    ]
