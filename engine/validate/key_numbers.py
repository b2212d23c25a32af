"""The key numbers of a validation: tiles of its page."""

from __future__ import annotations

from collections.abc import Iterator

from engine.report.kpis import Kpi
from engine.validate.report import Validation
from engine.validate.spoken import duration, nearest, percent
from engine.validate.verdict import CARE, QueryVerdict

_UNBROKEN = "\N{NO-BREAK SPACE}"


def key_numbers(found: Validation) -> tuple[list[Kpi], list[str]]:
    """Tiles, and the names of those that are neither good nor bad."""
    made = list(_tiles(found))
    return [kpi for kpi, _ in made], [kpi.name for kpi, is_care in made if is_care]


def _tiles(found: Validation) -> Iterator[tuple[Kpi, bool]]:
    """Each with whether it is to be taken with care."""
    if found.verdicts:
        yield _uncertain(found, max(found.verdicts, key=lambda each: each.share))
        gap = max(each.order_gap_ns for each in found.verdicts)
        if gap:
            note = "events further apart are surely in order"
            yield Kpi("order gap", gap, "ns", duration(gap), note, "less", "order gap"), False
    setup = found.setup
    if setup.synced:
        worst = setup.worst()[0]
        bound = worst.clock.bound_ns()
        note = worst.name if len(setup.sources) > 1 else f"offset {nearest(worst.clock.offset_ns)}"
        yield Kpi("clock known to ±", bound, "ns", duration(bound), note, "less",
                  "wrong by at most"), False  # fmt: skip
    linked = [(each.name, each.link) for each in setup.sources if each.link is not None]
    if linked:
        name, slowest = max(linked, key=lambda pair: pair[1].p95_ns)
        note = f"half within {duration(slowest.p50_ns)}" + (f"; {name}" if len(linked) > 1 else "")
        way = Kpi("way to the gateway, p95", slowest.p95_ns, "ns", duration(slowest.p95_ns), note,
                  "less", "p50, p95, p99.9")  # fmt: skip
        yield way, False
    counted = [pair for pair in linked if pair[1].asked]
    if counted:
        name, lossy = max(counted, key=lambda pair: pair[1].loss)
        low, high = (percent(share).replace(" ", _UNBROKEN) for share in lossy.loss_bounds)
        note = f"95{_UNBROKEN}%: {low} to {high}" + (f"; {name}" if len(counted) > 1 else "")
        yield Kpi("lost on the way", lossy.loss, "share", percent(lossy.loss), note, "less",
                  "lost"), False  # fmt: skip
    if found.verdicts:
        delay = max(each.detection_p95_ns for each in found.verdicts)
        note = "as far as order and link decide it"
        yield Kpi("told after, p95", delay, "ns", duration(delay), note, "less",
                  "detection p95"), False  # fmt: skip


def _uncertain(found: Validation, worst: QueryVerdict) -> tuple[Kpi, bool]:
    wanted = found.wanted.uncertain
    is_measured = worst.measured is not None and worst.measured.share is not None
    note = f"{worst.asked.name}: {'as answered' if is_measured else 'expected'}"
    is_care = wanted < worst.share <= CARE * wanted and worst.share < 1
    tile = Kpi(
        "uncertain", worst.share, "share", percent(worst.share), note, "less", "uncertain",
        bound=f"<= {percent(wanted)}", holds=None if is_care else worst.share <= wanted,
    )  # fmt: skip
    return tile, is_care
