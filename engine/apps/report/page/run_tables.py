"""The tables of a run's page that say what was run, and where every event went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slackwater.engine.apps.report.numbers import BEFORE, PASS, BalanceTerm, Cell, TimeLine
from slackwater.engine.apps.report.page.figures import missing_of
from slackwater.engine.apps.report.page.measure_tables import by_loss, how_many_sources
from slackwater.engine.core.units import amount, duration, percent
from slackwater.engine.scenario import Table

Report = Mapping[str, Any]
_ALWAYS: Final = ("generated", "logged", "arrived", "released", "missing")


def facts_table(report: Report, time: TimeLine) -> Table:
    """Scenario, seed, options, versions and hash; what is not known is left out."""
    run = report["run"]
    last = run["last_arrival_ns"]
    facts = (
        ("scenario", run["scenario"]),
        ("done on", run["made_at"]),
        ("seed", None if run["seed"] is None else str(run["seed"])),
        ("sites, sources", f"{amount(run['sites'])}, {amount(run['sources'])}"),
        ("from first to last", "none" if last is None else time.text(last)),
        ("hash of the log", run["log_sha256"]),
        *((f"option {name}", str(value)) for name, value in run["options"].items()),
        ("made with", versions_text(run["made_with"])),
        ("processed and reported with", versions_text(run["reported_with"])),
    )
    return Table("", ("", ""), tuple(row for row in facts if row[1] is not None))


def versions_text(versions: Mapping[str, str]) -> str | None:
    """Names and versions for people; None without any."""
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or None


def pass_table(report: Report) -> Table:
    """Orders, hosts and seconds."""
    counted = report["conservation"]["passes"]
    rows = []
    for each in report["run"]["passes"]:
        events, seconds = counted[each["label"]]["total"]["arrived"], each["computing"]
        rows.append(
            (
                each["label"],
                each["order"],
                each["barrier"],
                each["host"],
                events,
                None if seconds is None else duration(1e9 * seconds),
                round(events / seconds) if seconds else None,
                duration(each["t_a_ns"]),
                each["buffered_max"],
            )
        )
    headings = (
        "pass", "order", "barrier", "host", "events", "computing", "events/s",
        "largest sync delay", "most buffered",
    )  # fmt: skip
    return Table("Passes over the log", headings, tuple(rows))


def counter_table(report: Report) -> Table:
    """What the queries' operators counted, summed over sites; largest values are sums too."""
    total: Counter[tuple[str, str]] = Counter()
    for of_site in report["run"]["query_counters"].values():
        for query, counters in of_site.items():
            total.update({(query, name): count for name, count in counters.items()})
    rows = tuple((query, name, count) for (query, name), count in sorted(total.items()))
    return Table("", ("query", "counter", "sum over sites"), rows)


def equations(report: Report) -> list[dict[str, Any]]:
    """Each equation once: ``text``, ``balanced``, and its ``sums`` in every pass."""
    by_text: dict[str, list[Mapping[str, Any]]] = {}
    for each in report["conservation"]["equations"]:
        by_text.setdefault(each["text"], []).append(each)
    return [
        {
            "text": text,
            "balanced": all(each["balanced"] for each in found),
            "sums": [_sums(each) for each in found],
        }
        for text, found in by_text.items()
    ]


def _sums(each: Mapping[str, Any]) -> str:
    where = f"{each['pass']}: " if each["pass"] else ""
    left, right = amount(each["left"]), amount(each["right"])
    if each["balanced"]:
        return f"{where}{left} {'≤' if each['at_most'] else '='} {right}"
    worst = ", ".join(f"{one['source']} by {one['off']:+,}" for one in each["worst"])
    more = f"; at {each['wrong']} of {each['sources']} sources: {worst}" if worst else ""
    return f"{where}{left} against {right}, off by {each['off']:+,}{more}"


def reconciled_table(report: Report, time: TimeLine) -> Table | None:
    """What happened and what arrived, slice by slice; None of an empty run."""
    found = report["over_time"]["reconciled"]
    if not found or not found["starts_ns"]:
        return None
    knows = found["happened"] is not None
    columns = [found["in_place"], found["late"], found["dropped"]]
    if knows:
        columns = [found["happened"], *columns, missing_of(found)]
    rows = tuple(
        (time.text(at), *(column[place] for column in columns))
        for place, at in enumerate(found["starts_ns"])
    )
    known = ("happened",) if knows else ()
    lost = ("never arrived",) if knows else ()
    headings = ("from", *known, "in its place", "late", "dropped as late", *lost)
    return Table("", headings, rows)


def before_table(report: Report) -> Table | None:
    """From the device to the log; None where nothing is known of it."""
    total = report["conservation"]["before"]["total"]
    base = total.get("generated")
    rows = tuple(
        (
            term.heading,
            total[term.key],
            percent(total[term.key], base) if base else None,
            term.definition,
        )
        for term in BEFORE
        if term.key in total
    )
    headings = ("events", "count", "of generated", "meaning")
    return Table("From the device to the log", headings, rows) if total else None


def flow_table(report: Report) -> Table:
    """From the log to the queries, a column per pass."""
    passes = report["conservation"]["passes"]
    rows = tuple(
        (term.heading, *(each["total"][term.key] for each in passes.values()), term.definition)
        for term in PASS
    )
    headings = ("events", *(f"by “{label}”" for label in passes), "meaning")
    return Table("From the log to the queries", headings, rows)


def source_tables(report: Report) -> Iterator[tuple[str, Table]]:
    """Heading and table of the same counts by source."""
    found = report["conservation"]
    parts: list[tuple[str, tuple[BalanceTerm, ...], Mapping[str, Any]]] = [
        ("From the device to the log", BEFORE, found["before"]["sources"])
    ]
    parts += [
        (f"From the log to the queries, by “{label}”", PASS, each["sources"])
        for label, each in found["passes"].items()
    ]
    note = f"In events, by {found['by']}. Columns that are zero for every one are left out."
    for heading, terms, sources in parts:
        if sources:
            shown = [term for term in terms if _worth_a_column(term, sources.values())]
            rows: tuple[tuple[Cell, ...], ...] = tuple(
                (name, *(counts.get(term.key) for term in shown))
                for name, counts in by_loss(sources).items()
            )
            headings = (found["by"], *(term.heading for term in shown))
            which = how_many_sources(len(sources), ", those that lost most first")
            yield f"{heading}: {which}", Table("", headings, rows, note)


def _worth_a_column(term: BalanceTerm, sources: Any) -> bool:
    counts = [counted.get(term.key) for counted in sources]
    if term.key in _ALWAYS:
        return any(count is not None for count in counts)
    return any(counts)
