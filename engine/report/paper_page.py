"""The reproductions of a paper as one page: the verdicts first, then each table and figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.report.document import DATA_ID, document
from engine.report.elements import details, figure, paragraph, section, table, text
from engine.report.page_folder import write_page_folder
from engine.report.paper import Finding, Paper
from engine.report.plain import as_json, plain
from engine.report.versions import versions
from engine.scenario import Claim

HTML: Final = "paper.html"
JSON: Final = "paper.json"
FORMAT: Final = 1
"""Of paper.json; rises when a field changes its meaning."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What a page shows: a paper's findings by name, and what they were made with."""

    paper: Paper
    findings: Mapping[str, Finding]
    seed: int
    scale: float

    @property
    def claims(self) -> list[tuple[str, Claim]]:
        """Every claim with the name of its table or figure."""
        return [
            (name, claim) for name, finding in self.findings.items() for claim in finding.claims
        ]

    @property
    def headline(self) -> str:
        """How many claims hold."""
        counts = Counter(claim.holds for _, claim in self.claims)
        return (
            f"{counts[True]} of {counts.total()} claims of the paper hold here; "
            f"{counts[False]} {'does' if counts[False] == 1 else 'do'} not."
        )

    @property
    def made(self) -> str:
        """Seed and scale, and what the scale means."""
        said, sizes = f"Seed {self.seed}", self.paper.sizes
        if self.scale == 1:
            return f"{said}, data sets of {sizes}."
        return (
            f"{said}, data sets at {self.scale:g} of {sizes}: a quick look, whose counts are not "
            "the paper's."
        )


def write_reproduced(found: Reproduced, out: Path) -> Path:
    """Writes ``paper.json`` and ``paper.html`` into the folder ``out``, made if absent.

    Returns:
        the page's path.

    Raises:
        UserError: see ``check_page_folder``.
    """
    data = as_plain(found)
    write_page_folder(out, {JSON: as_json(data, indent=1) + "\n", HTML: page(found, data)})
    return out / HTML


def as_plain(found: Reproduced) -> dict[str, Any]:
    """What ``paper.json`` holds."""
    data: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "title": found.paper.title,
            "citation": found.paper.citation,
            "seed": found.seed,
            "scale": found.scale,
            "made_with": versions(),
            "setting": found.paper.setting,
            "headline": found.headline,
            "summary": found.paper.summary(found.findings),
            "reproductions": {
                name: {
                    "title": found.paper.reproductions[name].title,
                    "claims": finding.claims,
                    "tables": finding.tables,
                    "facts": finding.facts,
                }
                for name, finding in found.findings.items()
            },
        }
    )
    return data


def page(found: Reproduced, data: Mapping[str, Any]) -> str:
    """The page; ``data`` is what paper.json holds."""
    figures = [each for finding in found.findings.values() for each in finding.figures]
    sections = [_verdict(found), _setting(found)]
    sections += [_reproduction(found, name) for name in found.findings]
    chapters = {"verdict": "Verdict", "setting": "How to read this"}
    chapters |= {_anchor(name): spoken(name) for name in found.findings}
    version = data["made_with"]["slackwater"]
    footer = (
        f"slackwater {text(version)}. All numbers of this page are inside it as JSON "
        f"(<code>#{DATA_ID}</code>) and in {JSON}."
    )
    return document(found.paper.title, chapters, "\n".join(sections), figures, data, footer)


def spoken(name: str) -> str:
    """``table-5.6`` for people.

    >>> spoken("table-5.6")
    'Table 5.6'
    """
    return name.replace("-", " ").capitalize()


def _anchor(name: str) -> str:
    return name.replace(".", "-")


def _verdict(found: Reproduced) -> str:
    """Every claim; those that do not hold first, as they are what to look at."""
    kind = "holds" if all(claim.holds for _, claim in found.claims) else ""
    lines = [
        (claim, f'<a href="#{_anchor(name)}">{text(spoken(name))}</a>')
        for name, claim in found.claims
    ]
    lists = "".join(
        f"<h3>{heading}</h3>{_claims([line for line in lines if line[0].holds == holds])}"
        for heading, holds in (("Does not hold here", False), ("Holds", True))
        if any(line[0].holds == holds for line in lines)
    )
    summary = found.paper.summary(found.findings)
    return (
        f'<section id="verdict" class="{kind}">'
        f'<p class="word">VERDICT</p><p class="headline">{text(found.headline)}</p>'
        f"{paragraph(summary) if summary else ''}{paragraph(found.made)}{lists}</section>"
    )


def _claims(lines: list[tuple[Claim, str]]) -> str:
    items = "\n".join(
        f'<li class="{"holds" if claim.holds else "fails"}">'
        f'<span class="mark">{"✓ holds" if claim.holds else "✗ fails"}</span> '
        f"<div>{text(claim.text)} {where}"
        + "".join(f'<div class="detail">{text(line)}</div>' for line in claim.detail.splitlines())
        + "</div></li>"
        for claim, where in lines
    )
    return f'<ul class="claims">{items}</ul>'


def _setting(found: Reproduced) -> str:
    return section(
        "setting",
        "How to read this",
        table(
            ("", ""),
            [("paper", found.paper.citation), *found.paper.setting.items()],
            kind="facts",
        ),
    )


def _reproduction(found: Reproduced, name: str) -> str:
    finding = found.findings[name]
    parts = [_claims([(claim, "") for claim in finding.claims])] if finding.claims else []
    parts += [figure(each) for each in finding.figures]
    tables = [
        f"<h3>{text(each.title)}</h3>{table(each.headings, each.rows, each.note)}"
        for each in finding.tables
    ]
    parts += [details("Numbers of this figure", "".join(tables))] if finding.figures else tables
    title = f"{spoken(name)}: {found.paper.reproductions[name].title}"
    return section(_anchor(name), title, *parts)
