"""What a pass over an input met, told on standard error: counts, slips of the pen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from engine.cli.options.host_option import spoken_host
from engine.cli.terminal.visible import tell
from engine.log.held_log import Log
from engine.passes.doubts import of_streams
from engine.passes.pipeline import Host
from engine.passes.unseen import unseen_types
from engine.query.plan import Plan


def tell_summary(counters: dict[str, Any], host: Host) -> None:
    """One line per thing worth knowing, on standard error."""
    lanes = [lane for site in counters["sites"].values() for lane in site["lanes"]]

    def total(*names: str) -> int:
        return sum(int(lane.get(name, 0)) for lane in lanes for name in names)

    told = {
        "late": total("late_passed", "late_dropped"),
        "residual disorder": total("residual", "residual_dropped"),
        "missing": total("missing_total") - total("missing_filled"),
        "duplicates": total("duplicate"),
        "reused numbers": total("reused"),
        "without a number": total("unnumbered"),
        "quarantined": total("quarantined_future", "quarantined_jump"),
        "promises before their events": total("promises_unproven"),
    }
    found = ", ".join(f"{value:,} {name}" for name, value in told.items() if value)
    told_of = f"{total('arrived'):,} events {spoken_host(host)}"
    tell(f"{told_of}{': ' + found if found else ''}\n")
    earlier = total("earlier_start")
    if earlier:
        tell(
            f"{earlier:,} of the late events are of an earlier start of their source: numbers "
            "begin anew with each start, so each needs a larger incarnation than the one before; "
            "orders that do not go by numbers, such as kslack:1s, take them as they are\n"
        )
    for name, value in sorted(_refusals(counters).items()):
        of_results = "matches" in name or "checks" in name or "doubtful" in name
        tell(f"{name}: {value:,}{'' if of_results else ' events'}\n")


def tell_types(log: Path | Log, plans: tuple[Plan, ...], *, quiet: bool) -> None:
    """A type that no event has is most likely a slip of the pen, told before the work."""
    for line in () if quiet else unseen_types(log, plans):
        tell(f"{line}\n")


def tell_streams(plans: tuple[Plan, ...], counters: dict[str, Any]) -> None:
    """A stream of a query that nothing came of is most likely a slip of the pen."""
    for line in of_streams(plans, counters):
        tell(f"{line}\n")


_OF_SIZE: Final = (
    "buffered", "buffered_max", "stack_moves", "looked_at", "spilled", "chunks", "chunk_loads",
    "put_off", "turns", "results_read", "results_kept", "results_corrected",
)  # fmt: skip
"""Counters that tell of work and memory, not of anything that went wrong."""


def _refusals(counters: dict[str, Any]) -> Counter[str]:
    """What the queries' operators could not use, over all sites."""
    found: Counter[str] = Counter()
    for site in counters["sites"].values():
        for query_name, counts in site["queries"].items():
            for what, value in counts.items():
                if value and what not in _OF_SIZE:
                    found[f"{query_name}: {what.replace('_', ' ')}"] += value
    return found
