"""Comparison of two runs: key numbers, events and results, as a page, JSON and text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.apps.report.measure.events import RunRows, quantiles, read_rows, together
from slackwater.engine.apps.report.measure.results import QueryAnswers, read_answers
from slackwater.engine.apps.report.numbers import as_json, plain, versions
from slackwater.engine.apps.report.page.document import document, write_text
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import LATE, LATE_DROPPED, RESIDUAL
from slackwater.engine.core.units import duration, number, percent
from slackwater.engine.kernels.records import NONE
from slackwater.engine.kernels.tables import numbered, places_of
from slackwater.engine.log.whole_file import parquet_files, whole_file
from slackwater.engine.scenario import Table

# Comparison of two runs' events: lost, new, in another order, and how much sooner released.
#
# An event is the same in both runs if it has the same site, source, stream, incarnation and number
# (or time without a number); events with the same name are matched in order.


EVENTS: Final = "events.parquet"
"""File next to a report with its released events."""
EVENTS_MAX: Final = 5_000_000
"""Longer runs store no events with the report, so none are compared."""
_NAMES: Final = ("site", "source", "stream")
_COLUMNS: Final = (*_NAMES, "incarnation", "seq", "ts", "ref", "release", "status")
_STATUS: Final = {RESIDUAL: "below what had been let go", LATE: "late", LATE_DROPPED: "dropped"}
_IN_PLACE: Final = "in order"


def keep_events(ordered: Path, into: Path) -> None:
    """Copy the compared columns of the events in ``ordered`` to ``EVENTS`` in ``into``."""
    files = parquet_files(ordered) if ordered.is_dir() else []
    if not files or sum(pq.read_metadata(file).num_rows for file in files) > EVENTS_MAX:
        return
    tables = [pq.read_table(file, columns=list(_COLUMNS)) for file in files]
    with whole_file(into / EVENTS) as sink:
        pq.write_table(pa.concat_tables(tables), sink, compression="zstd")


def compared_events(
    before: tuple[Path, Mapping[str, Any]], now: tuple[Path, Mapping[str, Any]], *,
    timed: bool, listed: int,
) -> dict[str, Any] | None:  # fmt: skip
    """Compare events as results of a query are compared; None: a run has no stored events.

    Args:
        before: folder and report of the earlier run.
        now: folder and report of the later run.
        timed: whether arrivals were given.
        listed: most examples of a kind.
    """
    old, new = _rows(*before), _rows(*now)
    if old is None or new is None:
        return None
    first, second = _paired(old, new)
    both = (first >= 0) & (second >= 0)
    lost, added = first[second < 0], second[first < 0]
    first, second = first[both], second[both]
    unlike = (old["status"][first] != new["status"][second]) | (
        old["ref"][first] != new["ref"][second]
    )
    in_time = (old["status"][first] != LATE_DROPPED) & (new["status"][second] != LATE_DROPPED)
    sooner = old["release"][first[in_time]] - new["release"][second[in_time]]
    changes = zip(first[unlike][:listed].tolist(), second[unlike][:listed].tolist(), strict=True)
    return {
        "both": int(first.size), "lost": int(lost.size), "new": int(added.size),
        "changed": int(unlike.sum()),
        "sooner_ns": quantiles(np.sort(sooner)) if timed else None,
        "examples": {
            "lost": [_event_status(old, row) for row in lost[:listed].tolist()],
            "new": [_event_status(new, row) for row in added[:listed].tolist()],
            "changed": [_event_change(old, row, new, other) for row, other in changes],
        },
    }  # fmt: skip


def _rows(folder: Path, report: Mapping[str, Any]) -> RunRows | None:
    """The events of a run's main pass, from its report's folder or the pass's own."""
    single = folder / EVENTS
    ordered = folder / "runs" / str(report["run"]["passes"][0]["label"]) / "ordered"
    files = [single] if single.is_file() else parquet_files(ordered) if ordered.is_dir() else []
    return read_rows(files, _COLUMNS) if files else None


def _paired(old: RunRows, new: RunRows) -> tuple[np.ndarray, np.ndarray]:
    """Row of each event in both runs, in order of the new run, then of the old; -1: missing."""
    rows = together(old, new)
    nameless = rows["seq"] < 0
    number = np.where(nameless, rows["ts"], rows["seq"])
    name = numbered(np.column_stack([nameless, number, rows.names(("incarnation", *_NAMES))]))
    olds, news = (np.column_stack([of, _nth(of)]) for of in np.split(name, [len(old)]))
    partner = places_of(olds, news)
    lost = np.setdiff1d(np.arange(len(olds)), partner)
    return (
        np.concatenate([partner, lost]),
        np.concatenate([np.arange(len(news)), np.full(len(lost), NONE)]),
    )


def _nth(name: np.ndarray) -> np.ndarray:
    """Per element, the number of equal names before it."""
    order = np.argsort(name, kind="stable")
    found = np.empty_like(name)
    found[order] = np.arange(len(name)) - np.searchsorted(name[order], name[order])
    return found


def _event_status(rows: RunRows, row: int) -> str:
    """An event's name, and what happened to it."""
    return f"{_event_name(rows, row)}: {_status(rows, row)}"


def _event_change(old: RunRows, row: int, new: RunRows, other: int) -> str:
    moved = int(new["ref"][other] - old["ref"][row])
    shift = f", its time {duration(abs(moved))} {'later' if moved > 0 else 'earlier'}"
    statuses = dict.fromkeys([_status(old, row), _status(new, other)])
    said = " \N{RIGHTWARDS ARROW} ".join(statuses)
    return f"{_event_name(old, row)}: {said}{shift if moved else ''}"


def _event_name(rows: RunRows, row: int) -> str:
    source, number = rows.text("source", int(rows["source"][row])), int(rows["seq"][row])
    return f"{source} #{number}" if number >= 0 else f"{source} at {rows['ts'][row]:,} ns"


def _status(rows: RunRows, row: int) -> str:
    return _STATUS.get(int(rows["status"][row]), _IN_PLACE)


# Comparison of two runs: key numbers, and which results were lost, are new or changed.
#
# A match is the same in both runs if its events have the same names (stream, source and number, or
# time without a number); a window, if it has the same borders and key.


FORMAT: Final = 2
"""Version of report.json; increases when a field changes its meaning. Only equal versions can be
compared."""
LISTED: Final = 100
"""Most listed results per kind and query; all are counted."""
_REPORT: Final = "report.json"
_RESULTS: Final = "results.jsonl"
Report = Mapping[str, Any]


def read_report(folder: Path) -> dict[str, Any]:
    """Read the report of an earlier run.

    Raises:
        UserError: ``folder`` has none, or one of another version.
    """
    path = folder / _REPORT
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"--against {folder}: no {_REPORT} there; name the folder of a run, or of --report"
        ) from error
    except ValueError as error:
        raise UserError(f"--against {path}: is damaged ({error}); make it again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(
            f"--against {path}: was made by another version of slackwater; make it again"
        )
    return found


def compared(before: Path, now: Path) -> dict[str, Any]:
    """Changes from the run in ``before`` to that in ``now``.

    Returns:
        ``before`` and ``now`` (folder, title, date, command), ``kpis`` (name, both as shown,
        change, better), ``queries`` (name -> ``both lost new changed``, ``sooner_ns``: quantiles of
        by how much results came sooner, ``examples``), ``events`` (the same for events as the order
        released them; None: a run has no stored events), ``notes``, ``headline``.

    Raises:
        UserError: see ``read_report``.
    """
    reports = {"before": read_report(before), "now": read_report(now)}
    folders = {"before": before, "now": now}
    answers = {of: read_answers(folder / _RESULTS) for of, folder in folders.items()}
    of_before, of_now = ({**answers[of].windows, **answers[of].matches} for of in ("before", "now"))
    timed = all(each["run"]["arrival_given"] for each in reports.values())
    queries = {
        name: _results(
            of_before.get(name, QueryAnswers()), of_now.get(name, QueryAnswers()), timed=timed
        )
        for name in sorted({*of_before, *of_now})
    }
    found: dict[str, Any] = {
        **{of: _named(reports[of], folders[of]) for of in folders},
        "kpis": _kpis(reports["before"], reports["now"]),
        "events": compared_events(
            (before, reports["before"]), (now, reports["now"]), timed=timed, listed=LISTED
        ),
        "queries": queries,
        "notes": _notes(reports["before"], reports["now"]),
    }
    found["headline"] = _headline(found)
    return found


def _named(report: Report, folder: Path) -> dict[str, Any]:
    run = report["run"]
    return {
        "folder": str(folder), "title": report["title"], "made_at": run["made_at"],
        "command": run["command"],
    }  # fmt: skip


def _notes(before: Report, now: Report) -> list[str]:
    """Facts that make the two runs hard to compare."""
    texts = before["run"]["queries"], now["run"]["queries"]
    notes = [
        f"{name} is another query now"
        for name in texts[0]
        if name in texts[1] and texts[0][name] != texts[1][name]
    ]
    hashes = {report["run"]["log_sha256"] for report in (before, now)}
    if len(hashes) > 1:
        notes.append("the two runs had different input")
    orders = [report["run"]["passes"][0]["order"] for report in (before, now)]
    if orders[0] != orders[1]:
        notes.append(f"order {orders[0]} before, {orders[1]} now")
    return notes


def _kpis(before: Report, now: Report) -> list[dict[str, Any]]:
    old = {each["name"]: each for each in before["kpis"]}
    new = {each["name"]: each for each in now["kpis"]}
    return [_kpi(name, old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]


def _kpi(name: str, old: Report | None, new: Report | None) -> dict[str, Any]:
    change, better = "", None
    before, after = (None if each is None else each["value"] for each in (old, new))
    if new is not None and before is not None and after is not None and before != after:
        change = _change(before, after, new["unit"])
        if new["better"]:
            better = (after < before) == (new["better"] == "less")
    of = [each for each in (old, new) if each is not None]
    outcomes = [each["holds"] for each in of]
    if len(of) == 2 and outcomes[0] != outcomes[1] and None not in outcomes:
        better = outcomes[1]
    return {
        "name": name,
        "before": old["shown"] if old else None,
        "now": new["shown"] if new else None,
        "change": change,
        "better": better,
        "holds": new["holds"] if new else None,
    }


def _change(old: float, new: float, unit: str) -> str:
    more = new - old
    sign = "+" if more > 0 else ""
    match unit:
        case "ns":
            size = f"{sign}{duration(more)}"
        case "share":
            size = f"{sign}{100 * more:.3g} % points"
        case _:
            size = f"{sign}{number(round(more))}"
    return f"{size} ({sign}{number(100 * more / old)} %)" if old and unit != "share" else size


def _results(old: QueryAnswers, new: QueryAnswers, *, timed: bool) -> dict[str, Any]:
    before, now = _by_name(old), _by_name(new)
    both = [name for name in now if name in before]
    changed = [name for name in both if _content(before[name]) != _content(now[name])]
    lost = [name for name in before if name not in now]
    added = [name for name in now if name not in before]
    sooner = np.array([before[name]["at"] - now[name]["at"] for name in both], np.int64)
    return {
        "both": len(both),
        "lost": len(lost),
        "new": len(added),
        "changed": len(changed),
        "sooner_ns": quantiles(np.sort(sooner)) if timed else None,
        "examples": {
            "lost": [_said(name, before[name]) for name in lost[:LISTED]],
            "new": [_said(name, now[name]) for name in added[:LISTED]],
            "changed": [
                f"{_said(name, before[name])} \N{RIGHTWARDS ARROW} {_content(now[name])}"
                for name in changed[:LISTED]
            ],
        },
    }


def _by_name(found: QueryAnswers) -> dict[Any, Any]:
    """Net results by names that are the same in both runs."""
    named = {}
    for identity, result in found.standing.items():
        name = identity
        if "window" not in result:
            events = ((*event[:2], event[3] if event[2] is None else event[2])
                      for event in identity[1:])  # fmt: skip
            name = (identity[0], *events)
        named[name] = result
    return named


def _content(result: Report) -> str:
    """The content of a result without its identity."""
    if "window" in result:
        values = ", ".join(f"{name} {value}" for name, value in (result["value"] or {}).items())
        missing = result.get("missing") or 0
        return values + (f", {missing} missing" if missing else "")
    return str(result["certainty"])


def _said(name: Any, result: Report) -> str:
    if "window" in result:
        key = ", ".join(f"{of}={value}" for of, value in (result["key"] or {}).items())
        start = result["window"]["start"]
        return f"window at {start:,} ns{' of ' + key if key else ''}: {_content(result)}"
    events = ", ".join(f"{source} #{number}" for _, source, number in name[1:])
    return f"{events}: {_content(result)}"


def _headline(found: Report) -> str:
    parts = [in_words(name, each) for name, each in found["queries"].items()]
    if found["events"] is not None:
        parts.insert(0, in_words("events", found["events"], "events"))
    better = sum(each["better"] is True for each in found["kpis"])
    worse = sum(each["better"] is False for each in found["kpis"])
    parts.insert(0, f"{better} key number{'' if better == 1 else 's'} better, {worse} worse")
    return "; ".join(parts) + "."


def in_words(name: str, found: Report, what: str = "results") -> str:
    """Text about one query's results, or about the events."""
    total = found["both"] + found["lost"]
    changes = {of: found[of] for of in ("lost", "new", "changed") if found[of]}
    if not changes:
        return f"{name}: the same {number(total)}{'' if name == what else f' {what}'}"
    said = ", ".join(f"{number(count)} {of}" for of, count in changes.items())
    kept = percent(found["both"], total) if total else "none"
    still = "stand" if what == "results" else "are there"
    return f"{name}: {said}; {kept} of the earlier {what} {still}"


# Comparison of two runs as a page, a JSON file and lines of text.


HTML: Final = "against.html"
JSON: Final = "against.json"
_CHAPTERS: Final = {"verdict": "What changed", "kpis": "Key numbers", "events": "Events",
                    "results": "Results", "runs": "The two runs"}  # fmt: skip
_COUNT_NAMES: Final = ("in both", "lost", "new", "changed", "sooner, p50", "p95", "max")
_BETTER: Final = {True: "better", False: "worse", None: ""}


def write_against(before: Path, now: Path) -> list[str]:
    """Write ``against.html`` and ``against.json`` into ``now``; return the lines of the summary.

    Raises:
        UserError: ``before`` has no report of this version.
    """
    found: dict[str, Any] = plain(compared(before, now)) | {"made_with": versions()}
    write_text(now / JSON, as_json(found, indent=1) + "\n")
    write_text(now / HTML, page(found))
    return summary(found)


def summary(found: Mapping[str, Any]) -> list[str]:
    """Summary of the changes, for a terminal."""
    lines = [f"against {found['before']['folder']} ({found['before']['made_at']}):"]
    lines += [f"  note: {note}" for note in found["notes"]]
    for each in found["kpis"]:
        if each["change"]:
            better = f"  {_BETTER[each['better']]}" if each["better"] is not None else ""
            pair = f"{each['before']} -> {each['now']}"
            lines.append(f"  {each['name']}: {pair}  {each['change']}{better}")
    if found["events"] is not None:
        sooner = _sooner(found["events"], "let go")
        lines.append(f"  {in_words('events', found['events'], 'events')}{sooner}")
    for name, each in found["queries"].items():
        lines.append(f"  {in_words(name, each)}{_sooner(each, 'emitted')}")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _sooner(found: Mapping[str, Any], done: str) -> str:
    times = found["sooner_ns"]
    if not times or not times["p50"]:
        return ""
    word = "sooner" if times["p50"] > 0 else "later"
    return f"; {done} {duration(abs(times['p50']))} {word} in the middle"


def _row(name: str, found: Mapping[str, Any]) -> tuple[Any, ...]:
    times = found["sooner_ns"] or {}
    counts = (found[of] for of in ("both", "lost", "new", "changed"))
    return (name, *counts, *(duration(times.get(of)) for of in ("p50", "p95", "max")))


def page(found: Mapping[str, Any]) -> str:
    """The page; ``found``: the content of against.json."""
    kpis = tuple(
        (each["name"], each["before"], each["now"], each["change"], _BETTER[each["better"]])
        for each in found["kpis"]
    )
    rows = [_row(name, each) for name, each in found["queries"].items()]
    of_events = () if found["events"] is None else (_row("events", found["events"]),)
    runs = tuple(
        (of.replace("_at", ""), found["before"][of], found["now"][of])
        for of in ("folder", "title", "made_at", "command")
    )
    worse = any(each["better"] is False for each in found["kpis"])
    differences = found["queries"].values() or [found["events"]]
    lost = any(each["lost"] for each in differences if each is not None)
    return document(
        Path(HTML), f"Two runs: {found['now']['title']}", _CHAPTERS, found, JSON,
        state="fails" if worse or lost else "holds",
        tables={
            "kpis": Table("", ("key number", "before", "now", "change", "better or worse"), kpis),
            "events": Table(
                "", ("", *_COUNT_NAMES), of_events,
                "Changed: in order, late or dropped, and not so before; or at another time. "
                "Sooner: by how much the order releases an event sooner now; negative: later.",
            ),
            "results": Table(
                "", ("query", *_COUNT_NAMES), tuple(rows),
                "Sooner: by how much a result is emitted sooner now; negative: later.",
            ),
            "runs": Table("", ("", "before", "now"), runs),
        },
    )  # fmt: skip
