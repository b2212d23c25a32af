"""The reproductions of a paper as one page: the verdicts first, then each table and figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import plain, versions
from slackwater.engine.apps.report.page.document import anchor, spoken, write_page
from slackwater.engine.scenario import Claim, Table
from slackwater.paper import Finding, Paper

HTML: Final = "paper.html"
JSON: Final = "paper.json"
TEMPLATES: Final = Path(__file__).parent / "templates"
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
    def not_judged(self) -> list[tuple[str, str, str]]:
        """Every claim that is not judged: the name of its table or figure, its text, and why."""
        return [
            (name, text, why)
            for name, finding in self.findings.items()
            for text, why in finding.not_judged.items()
        ]

    @property
    def headline(self) -> str:
        """How many claims hold."""
        counts = Counter(claim.holds for _, claim in self.claims)
        if not counts:
            return "No claim of the paper is judged here."
        left = len(self.not_judged)
        more = f" This run cannot judge {left} more." if left else ""
        return (
            f"{counts[True]} of {counts.total()} claims of the paper hold here; "
            f"{counts[False]} {'does' if counts[False] == 1 else 'do'} not.{more}"
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
    chapters = {"verdict": "Verdict", "setting": "How to read this", "choices": "Our choices"}
    chapters |= {anchor(name): spoken(name) for name in found.findings}
    facts = (("paper", found.paper.citation), *found.paper.setting.items())
    choices = tuple(
        (spoken(name), claim.text, "holds" if claim.holds else "does not hold", claim.rests)
        for name, claim in found.claims
        if claim.rests
    )
    return write_page(
        out,
        TEMPLATES / HTML,
        found.paper.title,
        chapters,
        as_plain(found),
        figures=[each.figures for each in found.findings.values()],
        made=found.made,
        claims=found.claims,
        findings=found.findings,
        tables={
            "setting": Table("", ("", ""), facts),
            "choices": Table("", ("figure", "claim", "verdict", "choice, and its range"), choices),
        },
    )


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
                    "not_judged": finding.not_judged,
                }
                for name, finding in found.findings.items()
            },
        }
    )
    return data
