"""How many alerts, cleared traces and violations each monitored pattern told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from engine.scenario import Table

_KINDS = ("alert", "cleared", "violation")


def alert_tables(alerts: Mapping[str, Counter[tuple[str, str]]]) -> tuple[Table, ...]:
    """A table with a row per query; none if no query is under a constraint.

    Args:
        alerts: by query, how many results of each kind and certainty.
    """
    if not alerts:
        return ()
    rows: list[tuple[str | int, ...]] = []
    for query, counts in sorted(alerts.items()):
        each = [counts[kind, "confirmed"] + counts[kind, "uncertain"] for kind in _KINDS]
        rows.append((query, *each, sum(counts[kind, "uncertain"] for kind in _KINDS)))
    return (
        Table(
            "Patterns under a constraint",
            ("query", "alerts", "cleared", "violations", "uncertain"),
            tuple(rows),
            "An alert: every way to go on has a match; cleared: none has; a violation: an event "
            "that the constraint does not allow. Uncertain: those of them that hang on clocks.",
        ),
    )
