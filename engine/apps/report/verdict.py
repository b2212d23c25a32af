"""The verdict: claims, balance of sums, and the key numbers as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from slackwater.edge_agent.errors import visible
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import duration, number, percent
from slackwater.engine.hosts.clock_faults import behind_excluded
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.scenario import Claim


def verdict(claims: Sequence[Claim], report: Mapping[str, Any]) -> dict[str, Any]:
    """``holds`` (all claims hold, all sums balance), ``headline``, ``numbers`` and ``claims``.

    Args:
        claims: the scenario's.
        report: the measures, see ``write_report``.
    """
    failed = sum(not claim.holds for claim in claims)
    off = sum(not each["balanced"] for each in report["conservation"]["equations"])
    parts = []
    if failed:
        parts.append(f"{failed} of {len(claims)} claims {'fails' if failed == 1 else 'fail'}")
    elif claims:
        parts.append("The claim holds" if len(claims) == 1 else f"All {len(claims)} claims hold")
    if off:
        parts.append(f"{off} of the sums {'does' if off == 1 else 'do'} not balance")
    else:
        parts.append("every sum balances")
    judgement = (", but " if claims and bool(failed) != bool(off) else " and ").join(parts)
    headline = judgement[0].upper() + judgement[1:] + "."
    return {
        "holds": not failed and not off,
        "headline": behind_excluded(
            report["facts"].get("excluded", ()),
            headline if claims or off else _answered(report),
        ),
        "numbers": _numbers(report),
        "claims": [
            {"text": claim.text, "holds": claim.holds, "detail": claim.detail} for claim in claims
        ],
    }


def _answered(report: Mapping[str, Any]) -> str:
    """Text about the queries' results, for runs without claims."""
    said = []
    for query, found in report["matches"].items():
        unknown = found.get("unknown", 0)  # missing in older reports
        count = found["confirmed"] + found["uncertain"] + unknown
        text = f"{query}: {number(count)} match{'' if count == 1 else 'es'}"
        said.append(text + (f", {number(found['uncertain'])} uncertain" if count else ""))
        said += [f"{number(unknown)} of them unknown"] if unknown else []
    for query, found in report["windows"].items():
        count = found["windows"] - found["phantom"]
        text = f"{query}: {number(count)} window{'' if count == 1 else 's'}"
        said.append(text + (f", {number(found['with_missing'])} miss events" if count else ""))
    silent = [name for name in report["run"]["queries"]
              if name not in report["matches"] and name not in report["windows"]]  # fmt: skip
    said += [f"{name}: no result" for name in silent]
    if said:
        return "; ".join(said) + "."
    main = report["run"]["passes"][0]["label"]
    released = report["disorder"]["released"][main]
    left = released["in_time_out_of_order"]
    return (
        f"{number(released['events'])} events released, "
        f"{number(left) if left else 'none'} out of order."
    )


def _numbers(report: Mapping[str, Any]) -> str:
    """Summary of the run as text."""
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    disorder, holds = report["disorder"], report["holds"][main]["hold_ns"]
    arrived, released = disorder["arrived_ref"], disorder["released"][main]
    sources = report["run"]["sources"]
    source = "source" if sources == 1 else "sources"
    text = f"{number(counts['arrived'])} events of {number(sources)} {source} arrived"
    clauses = [text]
    if arrived["events"]:
        out_of_order = percent(arrived["out_of_order"], arrived["events"])
        left = released["in_time_out_of_order"]
        rest = percent(left, released["events"]) if left else "none"
        clauses = [
            f"{text}, {out_of_order} of them out of order",
            f"“{main}” left {rest} out of order",
        ]
        marked = released["late"] + released["residual"]
        if marked:
            share = percent(marked, released["events"])
            clauses[-1] += f", apart from {share} that came too late and are marked as late"
    if holds["max"] is not None and report["run"]["arrival_given"]:
        median, most = (duration(holds[name]) for name in ("p50", "p99"))
        clauses.append(
            f"It held half of the events for at most {median}, 99 % for at most {most}"
            if holds["max"]
            else "It held none"
        )
    dropped = counts["late_dropped"] + counts["residual_dropped"]
    if dropped:
        share = percent(dropped, counts["arrived"])
        clauses.append(f"{share} came too late and were dropped")
    lost = report["conservation"]["before"]["total"].get("never_logged")
    if lost is not None:
        numbered = report["conservation"]["before"]["total"]["accepted"]
        never = f"{percent(lost, numbered)} never arrived"
        clauses.append(never if lost else "Every numbered event arrived")
    elif counts["missing"]:
        known = counts["missing"] + counts["arrived"]
        clauses.append(f"{percent(counts['missing'], known)} are declared lost")
    clauses += [
        f"{number(missed)} found no row in the table {alias}"
        for alias, missed in report["run"].get("lookup_missed", {}).items()
    ]
    clock = report["clock_error"]
    if clock["with_truth"]:
        share = percent(clock["inside"], clock["with_truth"])
        clauses.append(f"{share} of the clock errors lie within their declared bound")
    clauses += [
        f"{query}: {number(found['confirmed'] + found['uncertain'] + found['unknown'])} matches, "
        f"{number(found['confirmed'])} confirmed and {number(found['uncertain'])} uncertain, as "
        f"the clocks' errors allow more than one answer (true: {number(found['true'])})"
        for query, found in report["matches"].items()
        if found["true"] and found["uncertain"]
    ]
    return " ".join(f"{each}." for each in clauses)


# The verdict for CI: JUnit XML, which every CI displays, or Markdown.


def check_summaries(files: Iterable[Path]) -> None:
    """Check early for errors that would otherwise occur at the end.

    Raises:
        UserError: a name has another suffix, or its folder does not exist.
    """
    for file in files:
        if file.suffix not in _FORMS:
            raise UserError(f"--summary {file}: name it .xml (JUnit) or .md (Markdown)")
        if file.is_dir() or not file.absolute().parent.is_dir():
            raise UserError(f"--summary {file}: no such folder, or a folder itself; choose another")


def write_summaries(
    files: Iterable[Path], name: str, headline: str, checks: Sequence[Claim]
) -> None:
    """Write each file in the format of its suffix.

    Args:
        files: see ``check_summaries``.
        name: name of what was judged.
        headline: text before the checks; may be empty.
        checks: at least one.
    """
    said = [Claim(visible(each.text), each.holds, visible(each.detail)) for each in checks]
    for file in files:
        with whole_file(file) as sink:
            sink.write(_FORMS[file.suffix](visible(name), visible(headline), said).encode())


def _junit(name: str, headline: str, checks: Sequence[Claim]) -> str:
    failed = str(sum(not each.holds for each in checks))
    counts = {"name": name, "tests": str(len(checks)), "failures": failed, "errors": "0"}
    suites = Element("testsuites", {**counts, "name": "slackwater"})
    suite = SubElement(suites, "testsuite", counts)
    for each in checks:
        case = SubElement(suite, "testcase", {"classname": name, "name": each.text})
        if each.holds:
            SubElement(case, "system-out").text = each.detail
        else:
            SubElement(case, "failure", {"message": each.detail}).text = each.detail
    if headline:
        SubElement(suite, "system-out").text = headline
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _markdown(name: str, headline: str, checks: Sequence[Claim]) -> str:
    failed = sum(not each.holds for each in checks)
    word = f"FAIL ({failed} of {len(checks)})" if failed else "PASS"
    rows = [
        f"| {'✓ holds' if each.holds else '✗ fails'} | {_cell(each.text)} | {_cell(each.detail)} |"
        for each in checks
    ]
    lead = [f"{_cell(headline)}\n"] if headline else []
    heads = ["| | what must hold | measured |", "|---|---|---|"]
    return "\n".join([f"### {word}: {_cell(name)}\n", *lead, *heads, *rows, ""])


def _cell(text: str) -> str:
    """A text on one line with Markdown escaped."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


_FORMS: Final = {".xml": _junit, ".md": _markdown}
