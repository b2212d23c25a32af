"""Every claim of every paper on one page: what it says, what came out here, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import plain, versions
from slackwater.engine.apps.report.page.document import anchor, spoken, write_page
from slackwater.engine.scenario import Claim, Table
from slackwater.scenarios.papers.page import HTML as PAPER_HTML
from slackwater.scenarios.papers.page import TEMPLATES, Reproduced

HTML: Final = "papers.html"
JSON: Final = "papers.json"
FORMAT: Final = 1
"""Of papers.json; rises when a field changes its meaning."""
_HEADINGS: Final = ("figure", "claim", "verdict", "the paper", "here")


def write_overview(found: Mapping[str, Reproduced], out: Path) -> Path:
    """Writes ``papers.json`` and ``papers.html`` into the folder ``out``, made if absent.

    Args:
        found: by the folder in ``out`` that has the paper's own page.
        out: the folder.

    Returns:
        the page's path.

    Raises:
        UserError: see ``check_page_folder``.
    """
    tables = {
        name: Table(
            "",
            _HEADINGS,
            tuple(
                (
                    spoken(of), claim.text, _verdict(claim),
                    claim.published, claim.ours,
                )
                for of, claim in each.claims
            )
            + tuple(
                (spoken(of), text, "not judged", "", why) for of, text, why in each.not_judged
            ),
        )
        for name, each in found.items()
    }  # fmt: skip
    chapters = {"verdict": "Verdict"} | {anchor(name): name for name in found}
    return write_page(
        out, TEMPLATES / HTML, "What became of the papers' claims", chapters, as_plain(found),
        beside=found, found=found, tables=tables,
    )  # fmt: skip


def headline(found: Mapping[str, Reproduced]) -> str:
    """How many claims of how many papers hold."""
    claims = [claim for each in found.values() for _, claim in each.claims]
    count = sum(claim.holds for claim in claims)
    left = sum(len(each.not_judged) for each in found.values())
    more = f" {left} more are not judged." if left else ""
    return f"{count} of {len(claims)} claims of {len(found)} papers hold here.{more}"


def as_plain(found: Mapping[str, Reproduced]) -> dict[str, Any]:
    """What ``papers.json`` holds."""
    data: dict[str, Any] = plain(
        {
            "format": FORMAT,
            "made_with": versions(),
            "headline": headline(found),
            "papers": {
                name: {
                    "title": each.paper.title,
                    "citation": each.paper.citation,
                    "seed": each.seed,
                    "scale": each.scale,
                    "headline": each.headline,
                    "page": f"{name}/{PAPER_HTML}",
                    "claims": [{"of": of, "claim": claim} for of, claim in each.claims],
                    "not_judged": [
                        {"of": of, "text": text, "why": why} for of, text, why in each.not_judged
                    ],
                }
                for name, each in found.items()
            },
        }
    )
    return data


def _verdict(claim: Claim) -> str:
    """With a mark where it rests on a choice of ours."""
    return ("holds" if claim.holds else "does not hold") + (" *" if claim.rests else "")
