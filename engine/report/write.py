"""Reads a run's directory, measures it, and writes ``report.json`` and ``report.html``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from engine.errors import UserError
from engine.log.whole_file import whole_file
from engine.report.glossary import glossary
from engine.report.measure.answers import read_answers
from engine.report.measure.clock_error import measure_clock_error
from engine.report.measure.conservation import measure_conservation
from engine.report.measure.disorder import measure_disorder
from engine.report.measure.holds import measure_holds
from engine.report.measure.match_results import measure_matches
from engine.report.measure.rows import ordered_rows
from engine.report.measure.sources import measure_sources
from engine.report.measure.window_results import measure_windows
from engine.report.page.run_page import page
from engine.report.plain import as_json, plain
from engine.report.verdict import verdict
from engine.report.versions import versions
from engine.scenario import Pass, Score

FORMAT: Final = 1
"""Of report.json; rises when a field changes its meaning."""


def write_report(
    directory: Path,
    scenario_title: str,
    what: str,
    queries: Mapping[str, str],
    passes: Sequence[Pass],
    score: Score,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Measures the run in ``directory`` and writes ``report.json`` and ``report.html`` there.

    Args:
        directory: laid out as in ``engine.scenario``, with every pass done.
        scenario_title: heading of the page.
        what: one or two sentences: what was simulated or replayed.
        queries: name -> text.
        passes: the first is the main one.
        score: claims, tables and facts. ``facts["windows_truth"]`` (query -> ``[{start, key,
            value}]``) and ``facts["true_matches"]`` (``[{at_ref_ns, query?}]``) are drawn
            beside the results.
        options: of the scenario.

    Returns:
        what ``report.json`` holds: all numbers of the page. Times in ns; ``verdict.holds`` says
        whether every claim holds and every sum balances.

    Raises:
        UserError: the run lacks its manifest or a pass's counters.
        ContractViolation: a file of the run is not what its writer promises.
    """
    manifest = _load(directory / "manifest.json")
    truth = directory / "truth"
    places = {each.label: directory / "runs" / each.label for each in passes}
    counters = {label: _load(place / "counters.json") for label, place in places.items()}
    main = places[passes[0].label]
    unordered = next((each.label for each in passes if each.order == "none"), None)
    answers = read_answers(directory / "results.jsonl")
    facts = plain(score.facts)
    report: dict[str, Any] = {
        "format": FORMAT,
        "title": scenario_title,
        "what": what,
        "run": _run(manifest, passes, counters, queries, options) | _span(main),
        "conservation": measure_conservation(
            manifest, truth, {label: (places[label], counters[label]) for label in places}
        ),
        "disorder": measure_disorder(places, unordered),
        "holds": {label: measure_holds(place) for label, place in places.items()},
        "sources": measure_sources(counters[passes[0].label]),
        "clock_error": measure_clock_error(main, truth),
        "windows": measure_windows(answers.windows, facts.get("windows_truth", {})),
        "matches": measure_matches(answers.matches, facts.get("true_matches", [])),
        "tables": plain(score.tables),
        "charts": plain(score.charts),
        "timelines": plain(score.timelines),
        "facts": facts,
    }
    report["glossary"] = glossary(report["conservation"]["before"]["total"])
    report["verdict"] = verdict(score.claims, report)
    report = plain(report)
    _write(directory / "report.json", as_json(report, indent=1) + "\n")
    _write(directory / "report.html", page(report))
    return report


def _load(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: is not there, so there is nothing to report; run the scenario to its end"
        ) from error
    except ValueError as error:
        raise UserError(f"{path}: is damaged ({error}); run the scenario again") from error


def _write(path: Path, text: str) -> None:
    with whole_file(path) as sink:
        sink.write(text.encode())


def _run(
    manifest: Mapping[str, Any],
    passes: Sequence[Pass],
    counters: Mapping[str, Mapping[str, Any]],
    queries: Mapping[str, str],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    done = []
    for each in passes:
        counted = counters[each.label]
        sites = counted["sites"].values()
        done.append(
            {
                "label": each.label,
                "order": each.order,
                "barrier": each.barrier,
                "host": counted.get("host"),
                "seconds": counted.get("seconds"),
                "events": counted.get("events"),
                "t_a_ns": max((site.get("t_a") or 0 for site in sites), default=0),
                "buffered_max": max((site.get("buffered_max") or 0 for site in sites), default=0),
            }
        )
    of_main = counters[passes[0].label]["sites"]
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
        "query_counters": {name: site.get("queries", {}) for name, site in of_main.items()},
        "quarantined": [row for site in of_main.values() for row in site.get("quarantined", ())],
    }


def _span(main: Path) -> dict[str, Any]:
    """First and last arrival of the main pass's events, to which the page's times relate."""
    arrival = ordered_rows(main, ("arrival",))["arrival"]
    if not arrival.size:
        return {"first_arrival_ns": None, "last_arrival_ns": None}
    return {"first_arrival_ns": int(arrival.min()), "last_arrival_ns": int(arrival.max())}
