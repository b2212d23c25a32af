"""The tables, tiles and texts of a validation, for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slackwater.engine.apps.report.numbers import Cell, Kpi, places_of, plain, with_anchors
from slackwater.engine.apps.validate.quality import Setup, SourceQuality
from slackwater.engine.apps.validate.two_logs import TwoLogs
from slackwater.engine.apps.validate.verdict import (
    CARE,
    Fitness,
    Measured,
    QueryVerdict,
    ResultRequirements,
    duration,
    judge,
    nearest,
    overall,
    percent,
    requirements_of,
)
from slackwater.engine.core.units import number
from slackwater.engine.query.plan import Plan
from slackwater.engine.scenario import Claim, Table

# A validation as a whole: input, quality, and the verdict of each query.


Answered = Callable[[str], Measured | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """``looked_at``: name of the input, as ``agent.toml``; ``kind``: ``device`` or ``log``."""

    looked_at: str
    kind: str
    setup: Setup
    requirements: ResultRequirements
    verdicts: tuple[QueryVerdict, ...]

    @property
    def fitness(self) -> Fitness:
        """Fitness of all queries and concerns together."""
        return overall(self.verdicts, self.setup)


def validation(
    looked_at: str, kind: str, setup: Setup, plans: Sequence[Plan],
    requirements: ResultRequirements, measured: Answered = lambda _name: None,
) -> Validation:  # fmt: skip
    """Judge all queries; ``measured``: maps a query's name to a log's own results."""
    verdicts = tuple(
        judge(requirements_of(each), setup, requirements, measured(each.name)) for each in plans
    )
    return Validation(
        looked_at=looked_at, kind=kind, setup=setup, requirements=requirements, verdicts=verdicts
    )


def checks_of(found: Validation) -> list[Claim]:
    """A check per query and concern, for CI; without any, one for the whole."""
    checks = [
        Claim(
            f"{each.query.name} can be decided",
            each.fitness is not Fitness.NOT_FIT,
            "; ".join([each.fitness.words, *each.reasons, each.change_first]).rstrip("; "),
        )
        for each in found.verdicts
    ]
    checks += [Claim(text, not forbids) for text, forbids in found.setup.concerns]
    fit = found.fitness is not Fitness.NOT_FIT
    return checks or [Claim("the clocks and links are fit", fit, found.fitness.words)]


def as_plain(found: Validation, made_with: dict[str, Any]) -> dict[str, Any]:
    """The content of ``validate.json``; durations in ns, frequencies in ppb, shares from 0 to 1."""
    setup = found.setup
    made: dict[str, Any] = plain(
        {
            "kind": found.kind, "looked_at": found.looked_at,
            "verdict": found.fitness.words,
            "wanted": found.requirements,
            "queries": [_query(each) for each in found.verdicts],
            "t_a_ns": setup.t_a_ns, "pair_uncertainty_ns": setup.pair_ns,
            "alike": setup.alike,
            "sources": [_source(each) for each in setup.sources],
            "lateness_ns": None if setup.lateness_ns is None else dict(
                zip(("p50", "p99", "p999", "max"), setup.lateness_ns, strict=True)
            ),
            "concerns": [{"text": text, "forbids": forbids} for text, forbids in setup.concerns],
            "facts": setup.facts,
            "made_with": made_with,
        }
    )  # fmt: skip
    return made


def _query(each: QueryVerdict) -> dict[str, Any]:
    return {
        "name": each.query.name, "query": each.query.text, "kind": each.query.kind,
        "verdict": each.fitness.words, "order_gap_ns": each.order_gap_ns,
        "smallest_ns": each.smallest_ns, "within_ns": each.query.within_ns,
        "window_ns": each.query.window_ns, "uncertain_expected": each.expected,
        "uncertain_measured": None if each.measured is None else each.measured.share,
        "results": None if each.measured is None else each.measured.results,
        "timeout_ns": each.timeout_ns, "hold_ns": each.hold_ns,
        "detection_p95_ns": each.detection_p95_ns, "reasons": each.reasons,
        "change_first": each.change_first,
    }  # fmt: skip


def _source(each: SourceQuality) -> dict[str, Any]:
    clock = each.clock
    return {
        "site": each.site, "name": each.name, "events": each.events,
        "clock": {
            **plain(clock), "fresh_ns": clock.fresh_ns, "held_ns": clock.held_ns,
            "bound_ns": clock.bound_ns(),
        } if clock.offset_ns is not None else plain(clock),
        "link": None if each.link is None else {
            **plain(each.link), "loss": each.link.loss, "loss_bounds": each.link.loss_bounds,
        },
    }  # fmt: skip


# The terms of a validation's page, for readers who do not know the papers; headings link here.


_WORDS: Final = (
    ("verdict", "fit; fit with care: it works, and something should be mended; not fit", ""),
    (
        "order gap",
        "two events further apart than this are surely in order: how wrong both clocks may be",
        "time",
    ),
    (
        "smallest",
        "from this WITHIN on a match can be certain; of this window few events lie near a border",
        "time",
    ),
    (
        "uncertain",
        "results that other times within the clocks' bounds would change; of a window, its events",
        "%",
    ),
    ("timeout", "how long to wait for a missing number: 999 of 1,000 come in time", "time"),
    ("hold", "how long the events of one source must wait for those of the others", "time"),
    ("time to result p95", "95 of 100 events are answered within it: the way and the hold", "time"),
    ("offset", "what must be added to the source's times; positive: its clock is slow", "time"),
    ("bound there", "by how much the offset may be wrong right where it was measured", "time"),
    ("delay", "how long question and answer of the time sync took together", "time"),
    ("between syncs", "the longest time that the clock is left alone", "time"),
    (
        "wrong by at most",
        "a clock: until its next sync, after correction; a way: as far as its clock is known",
        "time",
    ),
    ("skew", "how much too fast the clock runs; 1 ppm is 86 ms a day", "ppm"),
    ("jitter", "how much single readings of the offset scatter", "time"),
    ("steps", "how often somebody, or something, set the clock meanwhile", ""),
    ("least", "the fastest event; a clock that is wrong makes it wrong, even negative", "time"),
    ("p50, p95, p99.9", "so many of 100 events take at most this long", "time"),
    ("lost", "numbers that never came, of all up to the last", "events"),
    ("95 % between", "where the share that is lost lies, judging by so many events (Wilson)", "%"),
    ("reordered", "events that came after a later one of their source", "events"),
    ("Allan deviation", "how much the frequency differs from one stretch to the next", "ppb"),
)  # fmt: skip
GLOSSARY: Final = with_anchors(
    {"term": term, "definition": definition, "unit": unit} for term, definition, unit in _WORDS
)
_PLACES: Final = places_of(GLOSSARY)
_QUANTILES: Final = "p50, p95, p99.9"
TERMS: Final = _PLACES | dict.fromkeys(_QUANTILES.split(", "), _PLACES[_QUANTILES])
"""Term -> anchor and definition."""


# The key numbers of a validation: tiles of its page.


_UNBROKEN = "\N{NO-BREAK SPACE}"


def key_numbers(found: Validation) -> tuple[list[dict[str, Any]], list[str]]:
    """Tiles, and the names of those that are neither good nor bad."""
    made = list(_tiles(found))
    return plain([kpi for kpi, _ in made]), [kpi.name for kpi, is_care in made if is_care]


def _tiles(found: Validation) -> Iterator[tuple[Kpi, bool]]:
    """Each tile, with whether it needs care."""
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
    measured_links = [pair for pair in linked if pair[1].trials]
    if measured_links:
        name, lossy = max(measured_links, key=lambda pair: pair[1].loss)
        low, high = (percent(share).replace(" ", _UNBROKEN) for share in lossy.loss_bounds)
        note = f"95{_UNBROKEN}%: {low} to {high}" + (f"; {name}" if len(measured_links) > 1 else "")
        yield Kpi("lost on the way", lossy.loss, "share", percent(lossy.loss), note, "less",
                  "lost"), False  # fmt: skip
    if found.verdicts:
        delay = max(each.detection_p95_ns for each in found.verdicts)
        note = "as far as order and link decide it"
        yield Kpi("time to result p95", delay, "ns", duration(delay), note, "less",
                  "time to result p95"), False  # fmt: skip


def _uncertain(found: Validation, worst: QueryVerdict) -> tuple[Kpi, bool]:
    share_max = found.requirements.uncertain
    is_measured = worst.measured is not None and worst.measured.share is not None
    note = f"{worst.query.name}: {'as answered' if is_measured else 'expected'}"
    is_care = share_max < worst.share <= CARE * share_max and worst.share < 1
    tile = Kpi(
        "uncertain", worst.share, "share", percent(worst.share), note, "less", "uncertain",
        bound=f"<= {percent(share_max)}", holds=None if is_care else worst.share <= share_max,
    )  # fmt: skip
    return tile, is_care


# The tables of a validation, for a terminal and for the page: headings and rows of cells.


def ppm(ppb: float | None) -> str:
    """A frequency error as text."""
    return "\N{EN DASH}" if ppb is None else f"{number(ppb / 1000)} ppm"


def query_table(found: Validation) -> Table:
    """A row per query: the verdict and its numbers."""
    headings = (
        "query", "verdict", "order gap", "WITHIN or window", "smallest", "uncertain", "timeout",
        "hold", "time to result p95",
    )  # fmt: skip
    rows = []
    for each in found.verdicts:
        bound_ns = (
            each.query.window_ns if each.query.window_ns is not None else each.query.within_ns
        )
        source = "" if each.measured is None or each.measured.share is None else " (measured)"
        rows.append(
            (
                each.query.name, each.fitness.words, duration(each.order_gap_ns or None),
                duration(bound_ns),
                duration(each.smallest_ns if found.setup.synced else None),
                f"{percent(each.share)}{source}",
                duration(each.timeout_ns), duration(each.hold_ns),
                duration(each.detection_p95_ns),
            )
        )  # fmt: skip
    return Table("", headings, tuple(rows))


def clock_table(found: Validation) -> Table:
    """A row per source about its clock, the least known first."""
    headings = (
        "source", "offset", "bound there", "delay", "between syncs", "wrong by at most", "skew",
        "jitter", "steps",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    unknown = [each for each in found.setup.sources if each.clock.offset_ns is None]
    for each in (*unknown, *found.setup.worst()):
        clock = each.clock
        if clock.offset_ns is None:
            rows.append((each.name, "never synchronised", *[None] * 7))
            continue
        skew = ppm(clock.skew_ppb)
        if clock.skew_bound_ppb is not None and clock.skew_ppb is not None:
            skew += f" ± {number(clock.skew_bound_ppb / 1000)}"
        rows.append(
            (
                each.name, nearest(clock.offset_ns), duration(clock.offset_bound_ns),
                duration(clock.delay_ns), duration(clock.age_ns), duration(clock.bound_ns()),
                skew, duration(clock.jitter_ns), len(clock.steps),
            )
        )  # fmt: skip
    return Table("", headings, tuple(rows))


def link_table(found: Validation) -> Table:
    """A row per source about its path to the gateway, the longest tail first."""
    headings = (
        "source", "least", "p50", "p95", "p99.9", "wrong by at most", "lost", "95 % between",
        "reordered", "events",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    by_tail = sorted(found.setup.sources, key=lambda each: -each.link.p999_ns if each.link else 0)
    for each in by_tail:
        link = each.link
        if link is None:
            rows.append((each.name, "not measured", *[None] * 8))
            continue
        low, high = link.loss_bounds
        rows.append(
            (
                each.name, duration(link.least_ns), duration(link.p50_ns), duration(link.p95_ns),
                duration(link.p999_ns), duration(link.transit_error_ns),
                f"{number(link.lost)} of {number(link.trials)}" if link.trials else None,
                f"{percent(low)} .. {percent(high)}" if link.trials else None,
                link.reordered, each.events or None,
            )
        )  # fmt: skip
    return Table("", headings, tuple(rows))


def deviation_table(found: Validation) -> Table:
    """Allan deviation of a device's clock."""
    rows = [
        (duration(tau), f"{number(ppb)} ppb")
        for each in found.setup.sources
        for tau, ppb in each.clock.deviations
    ]
    return Table("", ("over", "Allan deviation"), tuple(rows))


def fact_table(found: Mapping[str, Any]) -> Table:
    """Other measurements of a device; ``found`` as in ``validate.json``."""
    if found["kind"] != "device":
        return Table("", ("", ""), ())
    facts = found["facts"]
    clock, path, disk, machine = (facts[name] for name in ("clock", "path", "disk", "machine"))
    connects = path["connect_ns"]
    takes = duration(connects[len(connects) // 2] if connects else None)
    steps = ", ".join(duration(each) for each in clock["steps_ns"])
    memory = f"{_size(machine['memory_free_bytes'])} of {_size(machine['memory_bytes'])}"
    rows: list[tuple[Cell, ...]] = [
        ("measured for", f"{facts['seconds']:.1f} s"
         + ("" if facts["is_whole"] else ", interrupted")),
        ("clock reads in steps of", (f"{duration(clock['resolution_ns'])}; monotonic "
         f"{duration(clock['monotonic_resolution_ns'])}")),
        ("steps seen", steps or "none"),
        ("steered by the system", ppm(clock["steered_ppb"])),
        ("gateway", (f"{path['host']} port {path['port']}, NTP {path['ntp_port']}, stratum "
         f"{number(path['stratum'])}")),
        ("connecting takes", path["connect_error"] or takes),
        ("packets on the way", f"MTU {number(path['mtu'])} B, {number(path['mss'])} B of TCP"),
        ("asymmetry, at most", duration(path["asymmetry_bound_ns"])),
        *map(_interface, facts["interfaces"]),
        *map(_server, facts["servers"]),
        _agreement(facts["agreement"]),
        _rate(facts["rate"]),
        *([] if disk is None else [("outbox's disk", disk["error"] or _disk(disk))]),
        ("machine", (f"{machine['cores']} cores, load {number(machine['load'])}; {memory} memory "
         "free")),
        *((f"input {each['name']}", each["said"]) for each in facts["inputs"]),
    ]  # fmt: skip
    return Table("", ("", ""), tuple(rows))


def beside_table(found: TwoLogs) -> Table:
    """A row per source that both logs have."""
    headings = (
        "source", "in both", "missing in A", "missing in B", "out of order in A",
        "out of order in B", "later in B: p5", "p50", "p95", "p99.9",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for each in found.sources:
        later = [duration(each.later_ns.get(name)) for name in ("p5", "p50", "p95", "p999")]
        counts = (each.both, each.missing_a, each.missing_b)
        rows.append((each.name, *counts, each.out_of_order_a, each.out_of_order_b, *later))
    return Table("", headings, tuple(rows))


def _disk(disk: Mapping[str, Any]) -> str:
    waits = f"fsync {duration(disk['fsync_p50_ns'])}, p99 {duration(disk['fsync_p99_ns'])}"
    return f"{waits}; {_size(disk['free_bytes'])} free"


def _interface(each: Mapping[str, Any]) -> tuple[Cell, ...]:
    parts = [each["kind"], *each["addresses"]]
    parts += [f"{each['speed_mbit']} Mbit/s"] if each["speed_mbit"] else []
    parts += [f"{each['signal_dbm']} dBm"] if each["signal_dbm"] is not None else []
    parts += ["the way to the gateway"] if each["is_used"] else []
    return f"interface {each['name']}", ", ".join(parts)


def _server(each: Mapping[str, Any]) -> tuple[Cell, ...]:
    if each["offset_ns"] is None:
        said = "; ".join(f"{reason}: {count}" for reason, count in each["refused"].items())
        return f"time server {each['name']}", said or "not asked"
    apart = "" if each["agrees"] else "; most do not agree with it"
    said = f"offset {duration(each['offset_ns'])} ± {duration(each['bound_ns'])}"
    return f"time server {each['name']}", f"{said}, stratum {each['stratum']}{apart}"


def _agreement(agreed: Mapping[str, Any] | None) -> tuple[Cell, ...]:
    if agreed is None:
        return "time servers agree", "none was asked with success"
    return (
        "time servers agree",
        (
            f"{agreed['count']} of {agreed['of']}: offset {duration(agreed['low_ns'])} .. "
            f"{duration(agreed['high_ns'])}"
        ),
    )


def _rate(rate: Mapping[str, Any]) -> tuple[Cell, ...]:
    packs = f"packs {number(round(rate['packed_per_s']))} events/s of {rate['event_bytes']:.0f} B"
    if rate["events_per_s"] is None:
        return "event rate", f"{packs}; the path's was not tried (--rate)"
    bore = f"the path bore {number(round(rate['packets_per_s']))} packets/s"
    return "event rate", f"{packs}; {bore}: {number(round(rate['events_per_s']))} events/s or more"


def _size(count: int | None) -> str:
    if count is None:
        return "\N{EN DASH}"
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
