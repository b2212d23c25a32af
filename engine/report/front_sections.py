"""The report's first sections: the verdict, what was run, and where every event went."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, Final

from engine.report.elements import Cell, code, details, paragraph, section, table, text
from engine.report.terms import BEFORE, PASS, Term
from engine.report.units import TimeLine, amount, milliseconds, number, percent

Report = Mapping[str, Any]
SOURCES_OPEN: Final = 12
"""Up to so many sources the tables by source are open from the start."""
QUARANTINED_SHOWN: Final = 20
_ALWAYS: Final = ("generated", "logged", "arrived", "released", "missing")


def verdict_banner(report: Report) -> str:
    """The first thing to see."""
    verdict = report["verdict"]
    kind, word = ("holds", "PASS") if verdict["holds"] else ("fails", "FAIL")
    claims = "\n".join(
        f'<li class="{"holds" if claim["holds"] else "fails"}">'
        f'<span class="mark">{"✓ holds" if claim["holds"] else "✗ fails"}</span> '
        f"<div>{text(claim['text'])}"
        + (f'<div class="detail">{text(claim["detail"])}</div>' if claim["detail"] else "")
        + "</div></li>"
        for claim in verdict["claims"]
    )
    return (
        f'<section id="verdict" class="{kind}"><p class="word">{word}</p>'
        f'<p class="headline">{text(verdict["headline"])}</p>'
        f"{paragraph(verdict['numbers'])}"
        + (f'<ul class="claims">{claims}</ul>' if claims else "")
        + "</section>"
    )


def run_section(report: Report, time: TimeLine) -> str:
    """Scenario, seed, options, versions, hash, queries, orders, host, seconds."""
    run, counted = report["run"], report["conservation"]["passes"]
    last = run["last_arrival_ns"]
    facts: list[Sequence[Cell]] = [
        ("scenario", run["scenario"]),
        ("seed", "none" if run["seed"] is None else str(run["seed"])),
        ("sites, sources", f"{amount(run['sites'])}, {amount(run['sources'])}"),
        ("arrivals span", "none" if last is None else f"{number(time.place(last))} {time.unit}"),
        ("hash of the log", run["log_sha256"] or "not recorded"),
        *((f"option {name}", str(value)) for name, value in run["options"].items()),
        ("made with", _versions(run["made_with"])),
        ("processed and reported with", _versions(run["reported_with"])),
    ]
    passes = [
        (
            each["label"],
            each["order"],
            each["barrier"],
            each["host"],
            counted[each["label"]]["total"]["arrived"],
            each["seconds"],
            _rate(counted[each["label"]]["total"]["arrived"], each["seconds"]),
            milliseconds(each["t_a_ns"]),
            each["buffered_max"],
        )
        for each in run["passes"]
    ]
    queries = "".join(
        f"<h4>{text(name)}</h4>{code(query)}" for name, query in run["queries"].items()
    )
    return section(
        "run",
        "What was run",
        paragraph(report["what"]),
        table(("", ""), [row for row in facts if row[1] is not None], kind="facts"),
        "<h3>Passes over the log</h3>",
        table(
            (
                "pass", "order", "barrier", "host", "events", "computing [s]", "events per second",
                "T_a [ms]", "most buffered [events]",
            ),
            passes,
            "The first pass is the main one: the queries ran in it, and in those with a barrier. "
            "Computing time includes the host's start and is no part of any result.",
        ),
        f"<h3>Queries</h3>{queries}" if queries else "",
        _operators(run["query_counters"]),
        details("All settings of the log's making", code(json.dumps(run["settings"], indent=1)))
        if run["settings"]
        else "",
    )  # fmt: skip


def _rate(events: int, seconds: float | None) -> Cell:
    return events / seconds if seconds else None


def _versions(versions: Mapping[str, str]) -> str | None:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or None


def _operators(counted: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """What the queries' operators counted, summed over sites; largest values are sums too."""
    total: dict[tuple[str, str], int] = {}
    for of_site in counted.values():
        for query, counters in of_site.items():
            for name, count in counters.items():
                total[query, name] = total.get((query, name), 0) + count
    if not total:
        return ""
    rows = [(query, name, count) for (query, name), count in sorted(total.items())]
    counts = table(("query", "counter", "sum over sites"), rows)
    return details("What the queries' operators counted", counts)


def conservation_section(report: Report) -> str:
    """Events in every state, and the sums."""
    found = report["conservation"]
    off = [each for each in found["equations"] if not each["balanced"]]
    state = (
        f"{len(off)} of {len(found['equations'])} sums do not balance."
        if off
        else f"All {len(found['equations'])} sums balance, in total and for every source."
    )
    before = found["before"]["total"]
    return section(
        "conservation",
        "Where every event went",
        paragraph(state, "fails" if off else "holds"),
        _equations(found["equations"]),
        _flow_before(before) if before else paragraph(
            "Nothing is known of what happened before the arrival log was written."
        ),
        _flow_passes(found["passes"]),
        *_by_source(found),
        _quarantined(report["run"]["quarantined"]),
    )  # fmt: skip


def _equations(equations: Sequence[Mapping[str, Any]]) -> str:
    """Each equation once, with its sums in every pass below it."""
    by_text: dict[str, list[Mapping[str, Any]]] = {}
    for each in equations:
        by_text.setdefault(each["text"], []).append(each)
    return f'<ul class="equations">{"".join(starmap(_equation, by_text.items()))}</ul>'


def _equation(equation: str, found: Sequence[Mapping[str, Any]]) -> str:
    balanced = all(each["balanced"] for each in found)
    kind, mark = ("holds", "✓ balanced") if balanced else ("fails", "✗ not balanced")
    sums = "".join(f'<div class="detail">{text(_sums(each))}</div>' for each in found)
    body = f"<div>{text(equation)}{sums}</div>"
    return f'<li class="{kind}"><span class="mark">{mark}</span> {body}</li>'


def _sums(each: Mapping[str, Any]) -> str:
    where = f"{each['pass']}: " if each["pass"] else ""
    left, right = amount(each["left"]), amount(each["right"])
    if each["balanced"]:
        return f"{where}{left} {'≤' if each['at_most'] else '='} {right}"
    worst = ", ".join(f"{one['source']} by {one['off']:+,}" for one in each["worst"])
    more = f"; at {each['wrong']} of {each['sources']} sources: {worst}" if worst else ""
    return f"{where}{left} against {right}, off by {each['off']:+,}{more}"


def _flow_before(total: Mapping[str, int]) -> str:
    base = total.get("generated") or 0
    rows = [
        (
            term.heading,
            total[term.key],
            percent(total[term.key], base) if base else None,
            term.definition,
        )
        for term in BEFORE
        if term.key in total
    ]
    headings = ("events", "count", "of generated", "meaning")
    return "<h3>From the device to the log</h3>" + table(headings, rows, kind="flow")


def _flow_passes(passes: Mapping[str, Any]) -> str:
    rows = [
        (term.heading, *(each["total"][term.key] for each in passes.values()), term.definition)
        for term in PASS
    ]
    headings = ("events", *(f"by “{label}”" for label in passes), "meaning")
    return "<h3>From the log to the queries</h3>" + table(headings, rows, kind="flow")


def _by_source(found: Mapping[str, Any]) -> Iterator[str]:
    parts: list[tuple[str, tuple[Term, ...], Mapping[str, Any]]] = [
        ("From the device to the log", BEFORE, found["before"]["sources"])
    ]
    parts += [
        (f"From the log to the queries, by “{label}”", PASS, each["sources"])
        for label, each in found["passes"].items()
    ]
    for place, (heading, terms, sources) in enumerate(parts):
        if sources:
            shown = [term for term in terms if _worth_a_column(term, sources.values())]
            rows = [
                (name, *(counts.get(term.key) for term in shown))
                for name, counts in sources.items()
            ]
            note = f"In events, by {found['by']}. Columns that are zero for every one are left out."
            content = table((found["by"], *(term.heading for term in shown)), rows, note)
            is_first = place <= 1 and len(rows) <= SOURCES_OPEN
            yield details(f"{heading}: each of {len(rows)} sources", content, shown=is_first)


def _worth_a_column(term: Term, sources: Any) -> bool:
    counts = [counted.get(term.key) for counted in sources]
    if term.key in _ALWAYS:
        return any(count is not None for count in counts)
    return any(counts)


def _quarantined(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows[:QUARANTINED_SHOWN])
    shown = min(len(rows), QUARANTINED_SHOWN)
    summary = f"Quarantined events: the first {shown} that were kept (times in ns)"
    return details(summary, code(lines))
