"""Reads a run's folder, measures it, and writes ``report.json`` and ``report.html``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.against import EVENTS, FORMAT, keep_events
from slackwater.engine.apps.report.measure.conservation import (
    measure_conservation,
    measure_over_time,
)
from slackwater.engine.apps.report.measure.events import (
    measure_clock_error,
    measure_disorder,
    measure_holds,
    measure_sources,
    ordered_rows,
)
from slackwater.engine.apps.report.measure.results import (
    add_events,
    alert_tables,
    measure_matches,
    measure_windows,
    read_answers,
)
from slackwater.engine.apps.report.numbers import as_json, glossary, kpis, plain, versions
from slackwater.engine.apps.report.page.document import check_page_folder, write_text
from slackwater.engine.apps.report.page.run_page import page
from slackwater.engine.apps.report.verdict import verdict
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.options import SEQUENCE, PassRequest
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.ordered_stream import write_event_files
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.scenario import Pass, Score, Table


@dataclass(frozen=True, slots=True)
class Places:
    """Locations of a run's files that differ from ``engine.scenario``.

    ``passes``: folders by label; ``into``: folder of the report; ``manifest``: None: in the run's
    folder. ``arrival_given`` False: arrivals are line numbers, so no times are reported.
    """

    passes: Mapping[str, Path]
    into: Path
    manifest: Mapping[str, Any] | None = None
    arrival_given: bool = True

    @classmethod
    def of(cls, directory: Path, passes: Sequence[Pass]) -> Places:
        """The locations of a scenario's run."""
        return cls({each.label: directory / "runs" / each.label for each in passes}, directory)


def write_report(
    directory: Path,
    scenario_title: str,
    what: str,
    queries: Mapping[str, str],
    passes: Sequence[Pass],
    score: Score,
    options: Mapping[str, Any],
    command: str = "",
    places: Places | None = None,
) -> dict[str, Any]:
    """Measure the run in ``directory`` and write ``report.json`` and ``report.html``.

    Args:
        directory: laid out as in ``engine.scenario``, with all passes done.
        scenario_title: heading of the page.
        what: one or two sentences about what was simulated or replayed.
        queries: name -> text.
        passes: the first is the main one.
        score: claims, tables and facts. ``facts["windows_truth"]`` (query -> ``[{start, key,
            value}]``) and ``facts["true_matches"]`` (``[{at_ref_ns, query?}]``) are drawn next to
            the results.
        options: of the scenario.
        command: command line that repeats the run; empty: none.
        places: of the run's files; None: as for a scenario.

    Returns:
        The content of ``report.json``: all numbers of the page. Times in ns; ``verdict.holds``:
        whether every claim holds and every sum balances.

    Raises:
        UserError: the run lacks its manifest or a pass's counters.
        ContractViolation: a file of the run is not what its writer promises.
    """
    lies = Places.of(directory, passes) if places is None else places
    manifest = _load(directory / "manifest.json") if lies.manifest is None else lies.manifest
    counters = {label: _load(place / "counters.json") for label, place in lies.passes.items()}
    main = lies.passes[passes[0].label]
    facts = plain(score.facts)
    ran = _run(manifest, passes, counters, queries, options) | _span(main, lies.arrival_given)
    report: dict[str, Any] = {
        "format": FORMAT,
        "title": scenario_title,
        "what": what,
        "run": ran | {"command": command, "made_at": _written(main / "counters.json")},
        **_of_events(
            directory / "truth",
            manifest,
            passes,
            lies.passes,
            counters,
            arrival_given=lies.arrival_given,
        ),
        **_of_results(directory / "results.jsonl", facts, score.tables),
        "charts": plain(score.charts),
        "timelines": plain(score.timelines),
        "units": plain(score.units),
        "facts": facts,
    }
    report["glossary"] = glossary(report["conservation"]["before"]["total"])
    report["kpis"] = kpis(report, score.tiles)
    report["verdict"] = verdict(score.claims, report)
    report = plain(report)
    lies.into.mkdir(parents=True, exist_ok=True)
    write_text(lies.into / "report.json", as_json(report, indent=1) + "\n")
    write_text(lies.into / "report.html", page(report))
    return report


def _of_events(
    truth: Path,
    manifest: Mapping[str, Any],
    passes: Sequence[Pass],
    folders: Mapping[str, Path],
    counters: Mapping[str, Mapping[str, Any]],
    *,
    arrival_given: bool,
) -> dict[str, Any]:
    """Measures of the events that arrived, per pass."""
    main = passes[0].label
    unordered = next((each.label for each in passes if each.order == "none"), None)
    return {
        "conservation": measure_conservation(
            manifest, truth, {label: (folders[label], counters[label]) for label in folders}
        ),
        "disorder": measure_disorder(folders, unordered),
        "over_time": measure_over_time(folders[main], truth),
        "holds": {label: measure_holds(place) for label, place in folders.items()},
        "sources": measure_sources(counters[main]),
        "clock_error": measure_clock_error(folders[main], truth, arrival_given=arrival_given),
    }


def _of_results(results: Path, facts: Mapping[str, Any], tables: Sequence[Table]) -> dict[str, Any]:
    """Measures of the queries' results, after the scenario's ``tables``."""
    answers = read_answers(results)
    matches = measure_matches(answers.matches, facts.get("true_matches", []))
    add_events(matches, results)
    windows = measure_windows(answers.windows, facts.get("windows_truth", {}))
    return {
        "windows": windows,
        "matches": matches,
        "tables": plain([*tables, *alert_tables(answers.alerts)]),
    }


def _written(path: Path) -> str:
    """When the pass was done, independent of when the report is made."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _load(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: is not there, so there is nothing to report; run the scenario to its end"
        ) from error
    except ValueError as error:
        raise UserError(f"{path}: is damaged ({error}); run the scenario again") from error


def _run(
    manifest: Mapping[str, Any],
    passes: Sequence[Pass],
    counters: Mapping[str, Mapping[str, Any]],
    queries: Mapping[str, str],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    done = []
    for each in passes:
        pass_counters = counters[each.label]
        sites = pass_counters["sites"].values()
        done.append(
            {
                "label": each.label,
                "order": each.order,
                "barrier": each.barrier,
                "host": pass_counters.get("host"),
                "seconds": pass_counters.get("seconds"),
                "computing": pass_counters.get("computing", pass_counters.get("seconds")),
                "events": pass_counters.get("events"),
                "t_a_ns": max((site.get("t_a") or 0 for site in sites), default=0),
                "buffered_max": max((site.get("buffered_max") or 0 for site in sites), default=0),
            }
        )
    of_main = counters[passes[0].label]["sites"]
    lookup_missed = Counter[str]()
    for site in of_main.values():
        lookup_missed.update(site.get("lookup_missed", {}))
    return {
        "scenario": manifest.get("scenario"),
        "seed": manifest.get("seed"),
        "options": options,
        "log_sha256": manifest.get("log_sha256"),
        "made_with": manifest.get("versions", {}),
        "reported_with": versions(),
        "settings": manifest.get("options"),
        "queries": queries,
        "passes": done,
        "sites": len(of_main),
        "sources": sum(
            len({lane["source"] for lane in site["lanes"]}) for site in of_main.values()
        ),
        "lookup_missed": +lookup_missed,
        "query_counters": {name: site.get("queries", {}) for name, site in of_main.items()},
        "quarantined": [row for site in of_main.values() for row in site.get("quarantined", ())],
    }


def _span(main: Path, arrival_given: bool) -> dict[str, Any]:
    """First and last instant of the main pass's events, the range of the page's times: by arrival,
    or by ref without arrivals.
    """
    of = "arrival" if arrival_given else "ref"
    at = ordered_rows(main, (of,))[of]
    first, last = (int(at.min()), int(at.max())) if at.size else (None, None)
    return {"arrival_given": arrival_given, "first_arrival_ns": first, "last_arrival_ns": last}


# The report of a pass over any data: ``query --report`` and ``order --report``.
#
# The truth, and events lost before the log, are unknown; the rest is as for a scenario's run, with
# the results stored next to it, so that a later run can be compared.


RESULTS: Final = "results.jsonl"
FILES: Final = ("report.html", "report.json", RESULTS, EVENTS, "against.html", "against.json")
"""Files that a folder of ``--report`` may contain."""
_NAMED: Final = 3


def check_report(into: Path) -> None:
    """Check early for errors that would otherwise occur at the end.

    Raises:
        UserError: the folder has other files.
    """
    check_page_folder(into, FILES, "--report")


def write_own_report(
    request: PassRequest, made: PartStore, into: Path, *, arrival_given: bool
) -> Any:
    """Write the report of the pass in ``made`` into the folder ``into``, created if missing.

    Returns:
        The content of ``report.json``.
    """
    into.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (into / name).unlink(missing_ok=True)
    queries = {plan.name: plan.text.strip() for plan in request.plans}
    if queries:
        export_jsonl(made, into / RESULTS, queries=list(queries))
    write_event_files(made.directory)
    keep_events(made.directory / "ordered", into)
    order = request.order or SEQUENCE
    label = order.partition(":")[0]
    name = ", ".join(
        Path(file).name if file != "-" else "standard input" for file in request.files[:_NAMED]
    )
    if len(request.files) > _NAMED:
        name += f" and {len(request.files) - _NAMED} more"
    count = f"{len(queries)} quer{'y' if len(queries) == 1 else 'ies'}" if queries else "Order"
    score = Score((), facts={"excluded": list(request.excluded)} if request.excluded else {})
    return write_report(
        into, f"{count} over {name}", f"What is in {name}, as it came and in order.", queries,
        [Pass(label, order, barrier=request.barrier)], score, {}, request.command,
        Places({label: made.directory}, into, {}, arrival_given),
    )  # fmt: skip
