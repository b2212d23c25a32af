"""Two runs compared: key numbers side by side, and which results were lost, are new or changed.

A match is the same in both runs if its events have the same names (stream, source and number, or
time where there is no number); a window, if it has the same borders and key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.errors import UserError
from engine.report.events_against import compared_events
from engine.report.measure.answers import QueryAnswers, read_answers
from engine.report.measure.quantiles import quantiles
from engine.report.units import amount, duration, percent

FORMAT: Final = 2
"""Of report.json; rises when a field changes its meaning. Others cannot be compared."""
LISTED: Final = 100
"""Results of each kind and query that are listed; all are counted."""
_REPORT: Final = "report.json"
_RESULTS: Final = "results.jsonl"
Report = Mapping[str, Any]


def read_report(folder: Path) -> dict[str, Any]:
    """The report of an earlier run.

    Raises:
        UserError: there is none in ``folder``, or one of another version.
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
    """What changed from the run in ``before`` to that in ``now``.

    Returns:
        ``before`` and ``now`` (folder, title, date, command), ``kpis`` (name, both as shown,
        change, better), ``queries`` (name -> ``both lost new changed``, ``sooner_ns``: quantiles
        of by how much results came sooner, ``examples``), ``events`` (the same of the events as the
        order let them go; None: one of the two has none by it), ``notes``, ``headline``.

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
    """What makes the two hard to compare."""
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
    held = [each["holds"] for each in of]
    if len(of) == 2 and held[0] != held[1] and None not in held:
        better = held[1]
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
            size = f"{sign}{amount(round(more))}"
    return f"{size} ({sign}{100 * more / old:.3g} %)" if old and unit != "share" else size


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
    """Standing results by what they have in common in both runs."""
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
    """What a result says, beside what it is about."""
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
    parts = [told(name, each) for name, each in found["queries"].items()]
    if found["events"] is not None:
        parts.insert(0, told("events", found["events"], "events"))
    better = sum(each["better"] is True for each in found["kpis"])
    worse = sum(each["better"] is False for each in found["kpis"])
    parts.append(f"{better} key number{'' if better == 1 else 's'} better, {worse} worse")
    return "; ".join(parts) + "."


def told(name: str, found: Report, what: str = "results") -> str:
    """One query's results, or the events, in words."""
    total = found["both"] + found["lost"]
    changes = {of: found[of] for of in ("lost", "new", "changed") if found[of]}
    if not changes:
        return f"{name}: the same {amount(total)}{'' if name == what else f' {what}'}"
    said = ", ".join(f"{amount(count)} {of}" for of, count in changes.items())
    kept = percent(found["both"], total) if total else "none"
    still = "stand" if what == "results" else "are there"
    return f"{name}: {said}; {kept} of the earlier {what} {still}"
