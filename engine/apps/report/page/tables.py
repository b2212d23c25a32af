"""Tables of a run's page with measures, shortened for very many sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from slackwater.engine.apps.report.measure.events import how_it_ended
from slackwater.engine.apps.report.measure.results import LISTED
from slackwater.engine.apps.report.numbers import BEFORE, PASS, BalanceTerm, Cell, Report, TimeLine
from slackwater.engine.apps.report.page.figures import CLOCKS_SHOWN, display_names, missing_of
from slackwater.engine.apps.report.page.result_figures import match_anchor
from slackwater.engine.core.units import duration, number, percent
from slackwater.engine.scenario import Table

# The part of a report with many sources that the page shows; ``report.json`` has all of it.
#
# Thousands of rows are useless to readers and slow in browsers, so the page shows the worst
# sources.


ROWS_MAX: Final = 100
"""Sources shown: each has a row in four tables."""
ITEMS_MAX: Final = 20
"""Items shown of a list in the settings, such as the devices, which are mostly alike."""
_GONE: Final = (
    "refused_by_agent", "forgotten", "not_polled", "refused_by_gateway", "unheard", "never_logged",
    "late_dropped", "residual_dropped", "quarantined_future", "quarantined_jump", "missing",
)  # fmt: skip
"""Counts of events that no query saw."""
_DISTURBED: Final = (
    "lost", "cut", "queue_dropped", "closed", "under_way", "residual", "late_passed",
    "missing_total",
)  # fmt: skip
Counts = Mapping[str, Any]


def by_loss(sources: Mapping[str, Counts]) -> Mapping[str, Counts]:
    """Counts by source; if too many, the worst: most lost events, then most lost messages or late
    events.
    """
    return _worst(sources, lambda counts: (_sum(counts, _GONE), _sum(counts, _DISTURBED)))


def by_clock_error(sources: Mapping[str, Counts]) -> Mapping[str, Counts]:
    """Clocks by source; if too many, the worst: most errors beyond their bound, then the largest
    error, or bound if no error is known.
    """

    def error(clock: Counts) -> tuple[int, int]:
        beyond = clock.get("with_truth", 0) - clock.get("inside", 0)
        known = clock.get("error_ns") or clock["bound_ns"]
        return beyond, known["max"] or 0

    return _worst(sources, error)


def shortened(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report with the worst of its sources; unchanged if they are few.

    ``left_out``: the number of sources, if some are omitted.
    """
    before, clocks = report["conservation"]["before"], report["clock_error"]
    passes = report["conservation"]["passes"]
    run = report["run"]
    found = {
        **report,
        "run": run | {
            "settings": _few(run["settings"]),
            "query_counters": dict(list(run["query_counters"].items())[:ROWS_MAX]),
        },
        "conservation": report["conservation"] | {
            "before": before | {"sources": dict(by_loss(before["sources"]))},
            "passes": {
                label: each | {"sources": dict(by_loss(each["sources"]))}
                for label, each in passes.items()
            },
        },
        "clock_error": clocks | {"sources": _clocks(clocks["sources"])},
        "sources": report["sources"][:ROWS_MAX],
    }  # fmt: skip
    many = max(
        len(report["sources"]), len(clocks["sources"]), len(before["sources"]),
        len(run["query_counters"]), *(len(each["sources"]) for each in passes.values()),
    )  # fmt: skip
    return found | {"left_out": many} if many > ROWS_MAX else found


def how_many_sources(sources: int, worst: str = "") -> str:
    """Part of a heading: ``each of 3 sources``, or which of too many are shown."""
    if sources > ROWS_MAX:
        return f"{ROWS_MAX} of {sources:,} sources{worst}"
    return "the one source" if sources == 1 else f"each of {sources} sources"


def _worst(sources: Mapping[str, Counts], badness: Callable[[Counts], Any]) -> Mapping[str, Counts]:
    if len(sources) <= ROWS_MAX:
        return sources
    order = sorted(sources, key=lambda name: badness(sources[name]), reverse=True)
    return {name: sources[name] for name in order[:ROWS_MAX]}


def _clocks(sources: Mapping[str, Counts]) -> dict[str, Counts]:
    """The worst clocks; if too many, without time lines for those without a figure."""
    found = dict(by_clock_error(sources))
    if len(sources) > ROWS_MAX:
        for name in list(found)[CLOCKS_SHOWN:]:
            found[name] = {key: each for key, each in found[name].items() if key != "series"}
    return found


def _sum(counts: Counts, terms: Iterable[str]) -> int:
    return sum(counts.get(term) or 0 for term in terms)


def _few(value: Any) -> Any:
    """Settings with at most ``ITEMS_MAX`` of the items of a list."""
    if isinstance(value, Mapping):
        return {name: _few(each) for name, each in value.items()}
    if isinstance(value, list):
        kept = [_few(each) for each in value[:ITEMS_MAX]]
        more = len(value) - len(kept)
        return [*kept, f"... and {more:,} more: all are in report.json"] if more else kept
    return value


# Tables of a run's page with measures.


_ABOUT_BARS: Final = (
    "Error bars say what the clocks' errors could have done. They do not say what missing events "
    "would have added, so that only windows that miss nothing must have the truth within them."
)


def disorder_table(report: Report) -> Table:
    """Out of order, inversions and lateness before and after each pass."""
    found = report["disorder"]
    lines = [
        ("arrived, by the sources' clocks (ts)", found["arrived_ts"]),
        ("arrived, clocks corrected (ref)", found["arrived_ref"]),
    ]
    lines += [(f"released by “{label}”", each) for label, each in found["released"].items()]
    rows = tuple(
        (
            name,
            each["events"],
            each["out_of_order"],
            percent(each["out_of_order"], each["events"]),
            each.get("late"),
            each.get("residual"),
            each.get("in_time_out_of_order"),
            each["inversions"],
            *(duration(each["lateness_ns"][of]) for of in ("p50", "p95", "p99", "max")),
        )
        for name, each in lines
    )
    headings = (
        "", "events", "out of order", "share", "marked late",
        "marked residual", "out of order, unmarked", "inversions [pairs]",
        "lateness p50", "p95", "p99", "max",
    )  # fmt: skip
    return Table("", headings, rows)


def hold_table(report: Report) -> Table:
    """Hold times per pass."""
    quantiles = ("mean", "p50", "p95", "p99", "p999", "max")
    rows = tuple(
        (
            label,
            each["events"],
            percent(each["at_once"], each["events"]),
            *(duration(each["hold_ns"][of]) for of in quantiles),
        )
        for label, each in report["holds"].items()
    )
    headings = (
        "pass", "released events", "held for 0 ms", "mean", "p50", "p95",
        "p99", "p99.9", "max",
    )  # fmt: skip
    return Table("", headings, rows)


def source_table(report: Report) -> Table:
    """How long each source of the main pass delayed the others, and its progress."""
    found = report["sources"]
    several_sites = len({row["site"] for row in found}) > 1
    several_streams = len({row["stream"] for row in found}) > 1
    rows: list[tuple[Cell, ...]] = []
    for row in found:
        name = [row["source"] or "(none)"]
        name = [row["site"], *name] if several_sites else name
        name = [*name, row["stream"] or "(none)"] if several_streams else name
        rows.append(
            (
                "/".join(name),
                duration(row["blocked_ns"]),
                row["silences"],
                how_it_ended(row),
                duration(row["silent_ns"]),
                duration(row["behind_ns"]),
                duration(row["gap_timeout"]),
                duration(row["idle_timeout"]),
                duration(row["offset"]),
                duration(row["uncertainty"]),
            )
        )
    headings = (
        "source", "held others back", "silences", "at the end", "silent since",
        "behind", "gap timeout", "idle timeout", "offset", "uncertainty",
    )  # fmt: skip
    return Table("", headings, tuple(rows))


def clock_table(report: Report) -> Table:
    """Clock error against its declared bound, or only the bound without truth."""
    found = report["clock_error"]
    headings: tuple[str, ...] = (
        "clock", "events", "declared bound p50", "bound p99", "bound max", "lag at least",
    )  # fmt: skip
    if found["known"]:
        headings += (
            "with known truth", "inside the bound", "error p50", "size of error p50",
            "size of error p99", "size of error max",
        )  # fmt: skip
    names = display_names(found["sources"])
    rows = tuple(
        (names[name], *_clock_row(each, known=found["known"]))
        for name, each in found["sources"].items()
    )
    return Table("", headings, rows)


def _clock_row(source: Mapping[str, Any], *, known: bool) -> Iterator[Cell]:
    yield source["events"]
    for of in ("p50", "p99", "max"):
        yield duration(source["bound_ns"][of])
    yield duration(source.get("lag_ns"))
    if known:
        yield source["with_truth"]
        yield percent(source["inside"], source["with_truth"])
        yield duration(source["error_ns"]["median"])
        for of in ("p50", "p99", "max"):
            yield duration(source["error_ns"][of])


def window_table(report: Report) -> Table:
    """Number of windows per query, and events known to be missing in them."""
    rows = tuple(
        (
            query,
            found["windows"] - found["phantom"],
            found["inserted"],
            found["retracted"],
            found["with_missing"],
            found["missing"],
            percent(found["ambiguous"], found["certain"] + found["ambiguous"]),
        )
        for query, found in report["windows"].items()
    )
    headings = (
        "query", "windows", "inserted", "retracted", "that miss events", "missing [events]",
        "ambiguous events",
    )  # fmt: skip
    phantom = sum(found["phantom"] for found in report["windows"].values())
    left_out = f"{phantom} windows at the ends hold no event for sure and are left out. "
    note = (left_out if phantom else "") + _not_kept(report["windows"])
    return Table("", headings, rows, note)


def window_lists(report: Report, time: TimeLine) -> list[tuple[str, Table]]:
    """Windows that the figures show, by query and aggregate: heading and table."""
    return [
        (
            f"Every window of {query}: {label}" + (f" [{unit['name']}]" if unit else ""),
            _window_list(each, time, 1 if unit is None else unit["factor"]),
        )
        for query, found in report["windows"].items()
        for label, each in found["aggregates"].items()
        for unit in (report["units"].get(label),)
    ]


def _window_list(aggregate: Mapping[str, Any], time: TimeLine, factor: float) -> Table:
    """A table with a column for the key if there is one, and for the truth if it is known."""
    several = any(one["key"] for one in aggregate["series"])
    judged = bool(aggregate["with_truth"])
    rows: list[tuple[Cell, ...]] = []
    for one in aggregate["series"]:
        key = ", ".join(f"{name}={value}" for name, value in one["key"].items())
        for point in one["points"]:
            values = [
                None if point[of] is None else point[of] * factor for of in ("value", "low", "high")
            ]
            row: tuple[Cell, ...] = (time.text(point["start_ns"]), *([key] if several else ()))
            row = (*row, *values, point["missing"])
            if judged:
                true = point["truth"]
                inside = {True: "yes", False: "no", None: None}[point["inside"]]
                row = (*row, None if true is None else true * factor, inside)
            rows.append(row)
    headings = ("from", *(("key",) if several else ()), "value", "at least", "at most", "missing")
    if judged:
        headings = (*headings, "truth", "within")
    return Table("", headings, tuple(rows))


def judged_table(report: Report) -> Table:
    """Windows compared with the truth, if known."""
    rows = tuple(
        (
            f"{query}: {label}",
            each["with_truth"],
            percent(each["inside"], each["with_truth"]),
            each["complete_with_truth"],
            percent(each["complete_inside"], each["complete_with_truth"]),
            found["unanswered"],
        )
        for query, found in report["windows"].items()
        if found["true_windows"]
        for label, each in found["aggregates"].items()
    )
    headings = (
        "query and aggregate", "windows with known truth", "truth within the error bar",
        "of them missing nothing", "truth within the error bar", "true windows without a result",
    )  # fmt: skip
    return Table("Against the truth", headings, rows, _ABOUT_BARS)


def match_table(report: Report) -> Table:
    """Number of matches per query, and their delays as far as known."""
    knows = any(found["true"] for found in report["matches"].values())
    timed = report["run"]["arrival_given"]
    unknown = any(found.get("unknown", 0) for found in report["matches"].values())
    quantiles = ("p50", "p99", "max") if timed else ()
    rows = tuple(
        (
            query,
            found["confirmed"],
            found["uncertain"],
            *((found.get("unknown", 0),) if unknown else ()),
            found["taken_back"],
            *((found["true"] or None,) if knows else ()),
            *(duration(found["delay_ns"][of]) for of in quantiles),
        )
        for query, found in report["matches"].items()
    )
    headings = (
        "query", "confirmed", "uncertain", *(("unknown",) if unknown else ()), "taken back",
        *(("true",) if knows else ()),
        *(("delay p50", "p99", "max") if timed else ()),
    )  # fmt: skip
    return Table("", headings, rows, _not_kept(report["matches"]))


def _not_kept(found: Mapping[str, Any]) -> str:
    lost = {query: each["not_kept"] for query, each in found.items() if each["not_kept"]}
    return "; ".join(
        f"{query}: {count:,} more results were counted as inserted but are too many to be shown"
        for query, count in lost.items()
    )


def match_list(found: Mapping[str, Any], name: str, time: TimeLine) -> list[dict[str, Any]]:
    """Matches that a figure shows, each with ``id``, description and events."""
    return [
        {
            "id": match_anchor(name, kind, place).removeprefix("#"),
            "kind": kind,
            "words": f"at {time.text(each['ref_ns'])}{_later(each, time)}"
            + _chance(each["probability"]),
            "events": [_event(event, time) for event in each["events"]],
        }
        for kind in LISTED
        for place, each in enumerate(found["shown"].get(kind, ()))
        if "events" in each
    ]


def how_many(found: Mapping[str, Any], listed: Sequence[object]) -> str:
    """``100 of 477 matches``, or ``3 matches`` if all are listed."""
    known = sum(found.get(kind, 0) for kind in ("confirmed", "uncertain", "unknown", "taken_back"))
    of = f"{len(listed)} of {number(known)}" if len(listed) < known else number(known)
    return f"{of} match{'es' if known != 1 else ''}"


def _later(match: Mapping[str, Any], time: TimeLine) -> str:
    if time.since != "arrival":  # times are line numbers
        return ""
    return f", known {duration(match['at_ns'] - match['ref_ns'])} later"


def _chance(probability: float | None) -> str:
    return "" if probability in (None, 1) else f", probability {number(probability)}"


def _event(event: Mapping[str, Any], time: TimeLine) -> str:
    lasts = event["te"] is not None and event["te"] > event["ts"]
    parts = [
        time.text(event["ref"]) + (f" + {duration(event['te'] - event['ts'])}" if lasts else ""),
        str(event["source"]),
        str(event["type"] or event["stream"] or ""),
        "" if event["seq"] is None else f"#{event['seq']}",
        ", ".join(f"{name}={value}" for name, value in (event["attrs"] or {}).items()),
    ]
    return " \N{MIDDLE DOT} ".join(part for part in parts if part)


# Tables of a run's page about what was run, and the path of every event.


_ALWAYS: Final = ("generated", "logged", "arrived", "released", "missing")


def facts_table(report: Report, time: TimeLine) -> Table:
    """Scenario, seed, options, versions and hash, as far as known."""
    run = report["run"]
    last = run["last_arrival_ns"]
    facts = (
        ("scenario", run["scenario"]),
        ("done on", run["made_at"]),
        ("seed", None if run["seed"] is None else str(run["seed"])),
        ("sites, sources", f"{number(run['sites'])}, {number(run['sources'])}"),
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
    pass_counts = report["conservation"]["passes"]
    rows = []
    for each in report["run"]["passes"]:
        events, seconds = pass_counts[each["label"]]["total"]["arrived"], each["computing"]
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
    """Counters of the queries' operators, summed over sites (also for maxima)."""
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
    left, right = number(each["left"]), number(each["right"])
    if each["balanced"]:
        return f"{where}{left} {'≤' if each['at_most'] else '='} {right}"
    worst = ", ".join(f"{one['source']} by {one['off']:+,}" for one in each["worst"])
    more = f"; at {each['wrong']} of {each['sources']} sources: {worst}" if worst else ""
    return f"{where}{left} against {right}, off by {each['off']:+,}{more}"


def reconciled_table(report: Report, time: TimeLine) -> Table | None:
    """Events that happened and arrived, per slice; None for an empty run."""
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
    """Counts from the device to the log; None if unknown."""
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
    """Counts from the log to the queries, a column per pass."""
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
            columns = [term for term in terms if _worth_a_column(term, sources.values())]
            rows: tuple[tuple[Cell, ...], ...] = tuple(
                (name, *(counts.get(term.key) for term in columns))
                for name, counts in by_loss(sources).items()
            )
            headings = (found["by"], *(term.heading for term in columns))
            which = how_many_sources(len(sources), ", those that lost most first")
            yield f"{heading}: {which}", Table("", headings, rows, note)


def _worth_a_column(term: BalanceTerm, sources: Any) -> bool:
    counts = [source_counts.get(term.key) for source_counts in sources]
    if term.key in _ALWAYS:
        return any(count is not None for count in counts)
    return any(counts)
