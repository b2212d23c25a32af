"""The key numbers of a validation: tiles of its page."""

from __future__ import annotations

from collections.abc import Iterator

from engine.report.kpis import Kpi
from engine.report.units import duration
from engine.validate.report import Validation
from engine.validate.verdict import CARE, Fitness, QueryVerdict, percent

_HOLDS = {Fitness.FIT: True, Fitness.CARE: None, Fitness.NOT_FIT: False}


def key_numbers(found: Validation) -> tuple[list[Kpi], list[str]]:
    """Tiles, and the names of those that are neither good nor bad."""
    made = list(_tiles(found))
    return [kpi for kpi, _ in made], [kpi.name for kpi, is_care in made if is_care]


def _tiles(found: Validation) -> Iterator[tuple[Kpi, bool]]:
    """Each with whether it is to be taken with care."""
    fitness = found.fitness
    count = len(found.verdicts)
    note = f"{count} quer{'y' if count == 1 else 'ies'}" if count else "the hardware alone"
    verdict = Kpi("verdict", fitness, "", fitness.words, note, holds=_HOLDS[fitness])
    yield verdict, fitness is Fitness.CARE
    if found.verdicts:
        yield _uncertain(found, max(found.verdicts, key=lambda each: each.share))
        gap = max(each.order_gap_ns for each in found.verdicts)
        if gap:
            note = "events further apart are surely in order"
            yield Kpi("order gap", gap, "ns", duration(gap), note, "less"), False
    setup = found.setup
    if setup.synced:
        worst = setup.worst()[0]
        bound = worst.clock.bound_ns()
        note = worst.name if len(setup.sources) > 1 else f"offset {_signed(worst.clock.offset_ns)}"
        yield Kpi("clock known to ±", bound, "ns", duration(bound), note, "less"), False
    linked = [(each.name, each.link) for each in setup.sources if each.link is not None]
    if linked:
        name, slowest = max(linked, key=lambda pair: pair[1].p95_ns)
        note = f"half within {duration(slowest.p50_ns)}" + (f"; {name}" if len(linked) > 1 else "")
        way = Kpi("way to the gateway, p95", slowest.p95_ns, "ns", duration(slowest.p95_ns), note,
                  "less")  # fmt: skip
        yield way, False
        name, lossy = max(linked, key=lambda pair: pair[1].loss)
        low, high = lossy.loss_bounds
        note = f"95 % between {percent(low)} and {percent(high)}"
        yield Kpi("lost on the way", lossy.loss, "share", percent(lossy.loss), note, "less"), False
    if found.verdicts:
        delay = max(each.detection_p95_ns for each in found.verdicts)
        note = "as far as order and link decide it"
        yield Kpi("told after, p95", delay, "ns", duration(delay), note, "less"), False


def _uncertain(found: Validation, worst: QueryVerdict) -> tuple[Kpi, bool]:
    wanted = found.wanted.uncertain
    is_measured = worst.measured is not None and worst.measured.share is not None
    note = f"{worst.asked.name}: {'as answered' if is_measured else 'expected'}"
    is_care = wanted < worst.share <= CARE * wanted and worst.share < 1
    tile = Kpi(
        "uncertain", worst.share, "share", percent(worst.share), note, "less",
        bound=f"<= {percent(wanted)}", holds=None if is_care else worst.share <= wanted,
    )  # fmt: skip
    return tile, is_care


def _signed(offset_ns: int | None) -> str:
    return (
        "not known" if offset_ns is None else f"{'-' * (offset_ns < 0)}{duration(abs(offset_ns))}"
    )
