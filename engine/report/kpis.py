"""The key numbers of a report, of which the page makes tiles and by which runs are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.report.units import amount, duration, percent
from engine.scenario import Tile

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kpi:
    """One number: ``value`` in ns, as a share or a count; ``better``: ``less``, ``more`` or empty.

    ``name`` stays from run to run; ``shown`` and ``note`` are for people; ``term`` is the word of
    the glossary that says what it is. ``bound`` and ``holds`` as of ``engine.scenario.Tile``.
    """

    name: str
    value: float | None
    unit: str
    shown: str
    note: str = ""
    better: str = ""
    term: str = ""
    bound: str = ""
    holds: bool | None = None


def kpis(report: Report, tiles: Sequence[Tile]) -> list[dict[str, Any]]:
    """Those that the scenario gave, then those that every report has, as far as they are known."""
    found = [
        Kpi(each.name, each.value, _unit(each.name), each.shown, bound=each.bound, holds=each.holds)
        for each in tiles
    ]
    return [asdict(each) for each in (*found, *_of_events(report), *_of_queries(report))]


def _unit(name: str) -> str:
    """Metrics of scenario files say by their names what they are."""
    metric = name.rpartition(": ")[2]
    if "delay" in metric or metric.startswith("hold"):
        return "ns"
    return "count" if metric in ("results", "events") else "share"


def _of_events(report: Report) -> Iterator[Kpi]:
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    sources = report["run"]["sources"]
    yield Kpi(
        "events arrived", counts["arrived"], "count", amount(counts["arrived"]),
        f"of {amount(sources)} source{'' if sources == 1 else 's'}", term="arrived",
    )  # fmt: skip
    yield from _lost(report, counts)
    arrived, left = report["disorder"]["arrived_ref"], report["disorder"]["released"][main]
    if arrived["events"]:
        before = percent(arrived["out_of_order"], arrived["events"])
        rest = left["in_time_out_of_order"]
        marked = left["late"] + left["residual"]
        note = f"{before} on arrival" + (f"; {amount(marked)} marked late" if marked else "")
        yield _share("out of order after ordering", rest, left["events"], note, "out of order")
        if marked:
            yield _share("came too late", marked, left["events"], "and marked so", "late passed")
    dropped = counts["late_dropped"] + counts["residual_dropped"]
    if dropped:
        note = f"{amount(dropped)}: they are in no answer"
        yield _share("dropped as too late", dropped, counts["arrived"], note, "late dropped")
    yield from _clocks(report)
    hold = report["holds"][main]["hold_ns"]
    if hold["p95"] is not None and report["run"]["arrival_given"]:
        note = f"half at most {duration(hold['p50'])}"
        yield Kpi("held, p95", hold["p95"], "ns", duration(hold["p95"]), note, "less", "hold time")


def _share(name: str, part: int, whole: int, note: str, term: str) -> Kpi:
    value = part / whole if whole else None
    return Kpi(name, value, "share", percent(part, whole), note, "less", term)


def _lost(report: Report, counts: Mapping[str, int]) -> Iterator[Kpi]:
    before = report["conservation"]["before"]["total"]
    lost = before.get("never_logged")
    if lost is not None:
        note = f"{amount(lost)} of {amount(before['accepted'])} that were sent"
        yield _share("never arrived", lost, before["accepted"], note, "never logged")
    elif counts["missing_total"] or counts["missing"]:
        known = counts["missing"] + counts["arrived"]
        note = f"{amount(counts['missing'])} number{'s' * (counts['missing'] != 1)} never came"
        yield _share("known to be missing", counts["missing"], known, note, "missing")


def _clocks(report: Report) -> Iterator[Kpi]:
    apart = report["over_time"]["clocks"]
    if apart is None:
        return
    note = f"{duration(apart['spread_ns'])} apart by themselves"
    worst = [each["error_ns"]["max"] for each in report["clock_error"]["sources"].values()
             if each.get("with_truth")]  # fmt: skip
    if worst:
        value = max(worst)
        name, term = "clock error, most", "clock error"
    else:
        value, name, term = apart["bound_ns"]["max"], "clocks known to ±", "declared bound"
    yield Kpi(name, value, "ns", duration(value), note, "less", term)


def _of_queries(report: Report) -> Iterator[Kpi]:
    for query, found in report["matches"].items():
        unknown = found.get("unknown", 0)  # older reports have none
        count = found["confirmed"] + found["uncertain"] + unknown
        note = f"{amount(found['uncertain'])} of them uncertain"
        if unknown:
            note += f"; {amount(unknown)} unknown, as no clock tells"
        if found["taken_back"]:
            note += f"; {amount(found['taken_back'])} taken back"
        yield Kpi(f"{query}: matches", count, "count", amount(count), note,
                  term="confirmed, uncertain")  # fmt: skip
        delay = found["delay_ns"]["p95"]
        if delay is not None and report["run"]["arrival_given"]:
            note = f"half within {duration(found['delay_ns']['p50'])}"
            yield Kpi(f"{query}: told after, p95", delay, "ns", duration(delay), note, "less",
                      "told after")  # fmt: skip
    for query, found in report["windows"].items():
        windows = found["windows"] - found["phantom"]
        note = f"{amount(found['with_missing'])} of them miss events"
        if found["ambiguous"]:
            share = percent(found["ambiguous"], found["certain"] + found["ambiguous"])
            note += f"; {share} of all lie near a border"
        yield Kpi(f"{query}: windows", windows, "count", amount(windows), note,
                  term="missing in a window")  # fmt: skip
